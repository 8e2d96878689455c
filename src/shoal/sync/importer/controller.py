"""The API importer: reconciles the APIResourceImports of each workload Cluster with the APIs it offers.

It runs when CRDs change in the cluster, and every minute. A cluster that does not respond keeps its imports. They are
deleted with their workload Cluster, which owns them, or when a ready cluster did not list the API in two discoveries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.apiresource import (
    COMPATIBLE,
    SCHEMA_UNKNOWN,
    gvr_of,
    import_name,
    is_negotiated,
    parse_resource,
)
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.errors import AlreadyExists, Invalid, NotFound, ShoalError, StatusError
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer
from shoal.sync.cluster_status import ClusterStatusWriter
from shoal.sync.conditions import SyncCondition
from shoal.sync.discovery import find_native_resource
from shoal.sync.importer.api_discovery import DiscoveredAPIs, ResourcePattern, discover_apis, needs_crd_watch
from shoal.sync.importer.decide import decide
from shoal.sync.importer.schema_store import SchemaStore
from shoal.sync.remote_cluster import ConnectFunc, NoKubeconfig, is_pull_mode
from shoal.sync.remote_watches import RemoteWatches
from shoal.sync.resources import CLUSTERS, CRDS, IMPORTS

Object = dict[str, Any]

WORKERS = 16
DISCOVERY_TIMEOUT = 30.0
RESYNC_SECONDS = 60.0
SWEEP = ""
"""A key that is no cluster: deletes unreferenced schemas."""
CONFIRM_SECONDS = 1.0
"""Until the second discovery of an API that is no longer listed."""


@dataclass(frozen=True, slots=True)
class PendingReport:
    """Condition to report once the cluster's imports are negotiated."""

    imports: frozenset[str]
    message: str


class ImportReconciler:
    """Keys are names of workload Clusters."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        connect: ConnectFunc,
        resources: Sequence[str],
        status_writer: ClusterStatusWriter,
        *,
        only: str = "",
        mode: str = workloadcluster.PUSH,
    ) -> None:
        """`only`: the single workload Cluster, in its own syncer; else all that the hub can reach."""
        self._client, self._clock, self._connect, self._status_writer = client, clock, connect, status_writer
        self._only, self._mode = only, mode
        self._patterns: list[ResourcePattern] = [parse_resource(text) for text in resources]
        self.controller: Controller[str] = Controller("importer", clock, self.reconcile, WORKERS)
        fields, labels = (f"metadata.name={only}", f"{workloadcluster.CLUSTER_LABEL}={only}") if only else ("", "")
        self._clusters = Informer(client, CLUSTERS, clock, fields=fields)
        self._imports = Informer(client, IMPORTS, clock, labels=labels)
        self.controller.watch(self._clusters, self._on_cluster)
        self.controller.watch(self._imports, self._on_import)
        self._crd_watches = RemoteWatches(
            clock, connect, CRDS, lambda name, _: None, lambda name, *_: self._enqueue(name), list_objects=False
        )
        self.controller.sources += [self._crd_watches.run, self._resync]
        self._watches_crds = needs_crd_watch(self._patterns)
        self._schemas = SchemaStore(client, lambda: self._imports.objects.values(), collects_garbage=not only)
        self._native: dict[ResourcePattern, bool] = {}
        self._imported: set[str] = set()
        """Workload Clusters that were imported."""
        self._due: set[str] = set()
        self._pending_reports: dict[str, PendingReport] = {}
        self._missing_since: dict[str, float] = {}
        """Imports whose API was not listed, and since when."""

    # --- event handlers ---

    def _on_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        name = key[2]
        if new is None:
            self._imported.discard(name)
            self._pending_reports.pop(name, None)
            self._crd_watches.stop(name)
            return
        if _is_unreachable(new):
            self._crd_watches.stop(name)
        elif self._watches_crds and name in self._imported:
            self._crd_watches.start(new)
        if old is None or _version(old) != _version(new):
            self._enqueue(name)
        elif name in self._due:
            self.controller.queue.add(name)  # it may have been unreachable

    def _on_import(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._missing_since.pop(key[2], None)
            if old is not None:
                self._enqueue(old["spec"]["location"])
        else:
            self._check_schema(new)
            if new["spec"]["location"] in self._pending_reports:
                self.controller.queue.add(new["spec"]["location"])
        if old is not None and (new is None or _schema_digest(old) != _schema_digest(new)):
            self._schemas.mark_unreferenced(_schema_digest(old))
            self.controller.queue.add(SWEEP)

    def _check_schema(self, import_: Object) -> None:
        """Negotiation did not find the schema of the import: it was deleted."""
        compatible = get_condition(import_, COMPATIBLE) or {}
        if compatible.get("reason") == SCHEMA_UNKNOWN and self._schemas.forget(_schema_digest(import_)):
            self._enqueue(import_["spec"]["location"])

    def _enqueue(self, name: str) -> None:
        self._due.add(name)
        self.controller.queue.add(name)

    async def _resync(self) -> None:
        while True:
            await self._clock.sleep(RESYNC_SECONDS)
            for name in list(self._imported):
                self._enqueue(name)
            self.controller.queue.add(SWEEP)

    async def reconcile(self, name: str) -> float | None:
        if name == SWEEP:
            if self._imports.has_synced:
                await self._schemas.sweep()
            return None
        cluster = self._clusters.get(("", "", name))
        if cluster is None or (not self._only and is_pull_mode(cluster, self._mode)):
            self._due.discard(name)
            return None
        if name not in self._due:
            await self._report_if_negotiated(cluster)
            return None
        if _is_unreachable(cluster):
            return None
        if not self._imports.has_synced:
            raise RequeueError("informer of APIResourceImports has not synced yet")
        self._due.discard(name)
        try:
            return await self._import_apis(cluster)
        except BaseException:
            self._due.add(name)
            raise

    # --- reconcile ---

    async def _import_apis(self, cluster: Object) -> float | None:
        name = cluster["metadata"]["name"]
        try:
            async with asyncio.timeout(DISCOVERY_TIMEOUT):
                discovered, ready = await self._discover(cluster)
        except NoKubeconfig as error:
            await self._report_failure(cluster, "InvalidKubeConfig", error)
        except (Unreachable, TimeoutError) as error:
            await self._report_failure(cluster, "WorkloadClusterUnreachable", error)
        except StatusError as error:
            await self._report_failure(cluster, "ErrorStartingAPIImporter", error)
        except (KeyError, TypeError, AttributeError):
            error_ = ShoalError("cannot decode the API discovery of the cluster")
            await self._report_failure(cluster, "ErrorStartingAPIImporter", error_)
        try:
            requeue_after = await self._write(cluster, discovered, ready)
        except Invalid as error:
            await self._report_failure(cluster, "ErrorStartingAPIImporter", error)
        self._imported.add(name)
        if self._watches_crds:
            self._crd_watches.start(cluster)
        self._pending_reports[name] = PendingReport(
            frozenset(import_name(offer.api, name) for offer in discovered.offers), discovered.message
        )
        await self._report_if_negotiated(cluster)
        if requeue_after is not None:
            self._due.add(name)
        return requeue_after

    async def _report_if_negotiated(self, cluster: Object) -> None:
        """Reports once all imports are negotiated: clients that wait for Ready want to know which APIs can be used."""
        name = cluster["metadata"]["name"]
        report = self._pending_reports.get(name)
        if report is None:
            return
        imports = [self._imports.get(("", "", each)) for each in report.imports]
        if all(each is not None and is_negotiated(each) for each in imports):
            await self._report(
                cluster, SyncCondition(workloadcluster.IMPORTER_READY, "True", "Imported", report.message)
            )
            self._pending_reports.pop(name, None)

    async def _discover(self, cluster: Object) -> tuple[DiscoveredAPIs, bool]:
        """The APIs the cluster offers, and whether it reports to be ready."""
        remote = await self._connect(cluster)
        try:
            await self._detect_natives([one for one in self._patterns if "*" not in one])
            discovered = await discover_apis(remote.client, self._patterns, self._native_resources())
            await self._detect_natives([(offer.api.plural, offer.api.group) for offer in discovered.offers])
            return discovered.without(self._native_resources()), await _is_ready(remote.client)
        finally:
            await remote.close()

    def _native_resources(self) -> set[ResourcePattern]:
        return {name for name, is_native in self._native.items() if is_native}

    async def _detect_natives(self, names: Sequence[ResourcePattern]) -> None:
        """A native resource of the hub stays native; others can only be negotiated."""
        for name in names:
            if name not in self._native:
                self._native[name] = await find_native_resource(self._client, *name) is not None

    async def _write(self, cluster: Object, discovered: DiscoveredAPIs, ready: bool) -> float | None:
        """Returns when to check missing APIs again."""
        imports = [import_ for import_ in self._imports.objects.values() if _is_owned_by(import_, cluster)]
        decision = decide(cluster, discovered.offers, imports)
        with self._schemas.hold(offer.digest for offer in discovered.offers):
            for offer in discovered.offers:
                await self._schemas.ensure(offer)
            for new in decision.create:
                try:
                    await self._client.create(IMPORTS, new)
                except AlreadyExists:
                    raise RequeueError("an APIResourceImport with this name still exists") from None
            for changed in decision.update:
                await self._client.update(IMPORTS, changed)
        missing = [import_ for import_ in decision.delete if not discovered.is_unknown(gvr_of(import_))]
        return await self._delete_missing(missing, imports, ready)

    async def _delete_missing(self, missing: list[Object], imports: list[Object], ready: bool) -> float | None:
        """A single missing discovery may be a server that has just started. One that is not ready is checked again in a
        minute.
        """
        now, names = self._clock.monotonic(), {import_["metadata"]["name"] for import_ in missing}
        for import_ in imports:
            if import_["metadata"]["name"] not in names:
                self._missing_since.pop(import_["metadata"]["name"], None)
        if not ready:
            return None
        waiting = False
        for import_ in missing:
            if now - self._missing_since.setdefault(import_["metadata"]["name"], now) < CONFIRM_SECONDS:
                waiting = True
                continue
            with suppress(NotFound):
                await self._client.delete(IMPORTS, import_["metadata"]["name"], uid=import_["metadata"]["uid"])
        return CONFIRM_SECONDS if waiting else None

    async def _report_failure(self, cluster: Object, reason: str, error: Exception) -> NoReturn:
        """A cluster that was imported keeps its condition: its heartbeat reports whether it is reachable now."""
        if not condition_is(cluster, workloadcluster.IMPORTER_READY):
            message = str(error) or "no answer in time"
            await self._report(cluster, SyncCondition(workloadcluster.IMPORTER_READY, "False", reason, message))
        raise RequeueError(f"{reason}: {error}")

    async def _report(self, cluster: Object, condition: SyncCondition) -> None:
        metadata = cluster["metadata"]
        await self._status_writer.update(metadata["name"], metadata["uid"], [condition])


async def _is_ready(client: Client) -> bool:
    try:
        await client.get_path("/readyz")
    except StatusError:
        return False
    return True


def _schema_digest(import_: Object) -> str:
    return str(import_["spec"].get("schemaDigest", ""))


def _version(cluster: Object) -> tuple[str, int]:
    metadata = cluster["metadata"]
    return metadata["uid"], metadata.get("generation", 0)


def _is_owned_by(import_: Object, cluster: Object) -> bool:
    """Imports of an earlier workload Cluster of the same name do not count: they are deleted with it."""
    return any(owner["uid"] == cluster["metadata"]["uid"] for owner in import_["metadata"].get("ownerReferences") or ())


def _is_unreachable(cluster: Object) -> bool:
    """Its heartbeat is known to be unhealthy; it is enqueued again when that changes."""
    heartbeat = get_condition(cluster, workloadcluster.HEARTBEAT_HEALTHY)
    return heartbeat is not None and heartbeat["status"] != "True"
