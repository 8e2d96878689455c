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

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.kinds.apiresource import COMPATIBLE, SCHEMA_UNKNOWN, api_of, import_name, is_settled, parse_resource
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.errors import AlreadyExists, Invalid, NotFound, ShoalError, StatusError
from shoal.runtime.loop import Later, Loop
from shoal.sync.conditions import Condition
from shoal.sync.connecting import NoKubeconfig, Reach, dials_in
from shoal.sync.discovery import native
from shoal.sync.following import Following
from shoal.sync.importer.decide import decide
from shoal.sync.importer.pulling import Pulled, Wanted, pull, watches_definitions
from shoal.sync.importer.schemas import Stored
from shoal.sync.reporting import Reporter
from shoal.sync.resources import CLUSTERS, DEFINITIONS, IMPORTS

Object = dict[str, Any]

WORKERS = 16
PULL_SECONDS = 30.0
AGAIN_SECONDS = 60.0
SWEEP = ""
"""A key that is no cluster: deletes unreferenced schemas."""
CONFIRM_SECONDS = 1.0
"""Until the second discovery of an API that is no longer listed."""


@dataclass(frozen=True, slots=True)
class Told:
    """Condition to report once the cluster's imports are negotiated."""

    imports: frozenset[str]
    message: str


class Importer:
    """Keys are names of workload Clusters."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        reach: Reach,
        resources: Sequence[str],
        reporter: Reporter,
        *,
        only: str = "",
        mode: str = workload.PUSH,
    ) -> None:
        """`only`: the single workload Cluster, in its own syncer; else all that the hub can reach."""
        self._client, self._clock, self._reach, self._reporter = client, clock, reach, reporter
        self._only, self._mode = only, mode
        self._wanted: list[Wanted] = [parse_resource(text) for text in resources]
        self.loop: Loop[str] = Loop("importer", clock, self.reconcile, WORKERS)
        fields, labels = (f"metadata.name={only}", f"{workload.ASSIGNED}={only}") if only else ("", "")
        self._clusters = Reflector(client, CLUSTERS, clock, self._cluster, fields=fields)
        self._imports = Reflector(client, IMPORTS, clock, self._import, labels=labels, shared=True)
        self._definitions = Following(
            clock, reach, DEFINITIONS, lambda name, _: None, lambda name, *_: self._again(name), whole=False
        )
        self.loop.sources += [self._clusters.run, self._imports.run, self._definitions.run, self._tick]
        self._follows = watches_definitions(self._wanted)
        self._stored = Stored(client, lambda: self._imports.objects.values(), keeper=not only)
        self._native: dict[Wanted, bool] = {}
        self._asked: dict[str, tuple[str, int]] = {}
        """Uid and generation of workload Clusters whose import was requested."""
        self._done: dict[str, tuple[str, int]] = {}
        """The same, of those already imported."""
        self._due: set[str] = set()
        self._untold: dict[str, Told] = {}
        self._locations: dict[str, tuple[str, str]] = {}
        """Workload Cluster and schema digest of each import."""
        self._doubted: dict[str, float] = {}
        """Imports whose API was not listed, and since when."""

    # --- event handlers ---

    def _cluster(self, key: Key, obj: Object | None) -> None:
        name = key[2]
        if obj is None:
            self._done.pop(name, None)
            self._asked.pop(name, None)
            self._untold.pop(name, None)
            self._definitions.leave(name)
            return
        if _is_dark(obj):
            self._definitions.leave(name)
        elif self._follows and name in self._done:
            self._definitions.follow(obj)
        if self._asked.get(name) != _version(obj):
            self._asked[name] = _version(obj)
            self._again(name)
        elif name in self._due:
            self.loop.queue.add(name)  # it may have been unreachable

    def _import(self, key: Key, obj: Object | None) -> None:
        before = self._locations.pop(key[2], None)
        if obj is None:
            self._doubted.pop(key[2], None)
            if before is not None:
                self._again(before[0])
        else:
            spec = obj["spec"]
            self._locations[key[2]] = spec["location"], spec.get("schemaDigest", "")
            self._check_schema(obj)
            if spec["location"] in self._untold:
                self.loop.queue.add(spec["location"])
        if before is not None and (obj is None or before[1] != obj["spec"].get("schemaDigest", "")):
            self._stored.left(before[1])
            self.loop.queue.add(SWEEP)

    def _check_schema(self, found: Object) -> None:
        """Negotiation did not find the schema of the import: it was deleted."""
        told = get_condition(found, COMPATIBLE) or {}
        if told.get("reason") == SCHEMA_UNKNOWN and self._stored.forget(found["spec"].get("schemaDigest", "")):
            self._again(found["spec"]["location"])

    def _again(self, name: str) -> None:
        self._due.add(name)
        self.loop.queue.add(name)

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(AGAIN_SECONDS)
            for name in list(self._done):
                self._again(name)
            self.loop.queue.add(SWEEP)

    async def reconcile(self, name: str) -> float | None:
        if name == SWEEP:
            if self._imports.synced:
                await self._stored.sweep()
            return None
        cluster = self._clusters.objects.get(("", "", name))
        if cluster is None or (not self._only and dials_in(cluster, self._mode)):
            self._due.discard(name)
            return None
        if name not in self._due:
            await self._tell(cluster)
            return None
        if _is_dark(cluster):
            return None
        if not self._imports.synced:
            raise Later("the imports are not known yet")
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
            async with asyncio.timeout(PULL_SECONDS):
                pulled, ready = await self._pull(cluster)
        except NoKubeconfig as error:
            await self._failed(cluster, "InvalidKubeConfig", error)
        except (Unreachable, TimeoutError) as error:
            await self._failed(cluster, "WorkloadClusterUnreachable", error)
        except StatusError as error:
            await self._failed(cluster, "ErrorStartingAPIImporter", error)
        except (KeyError, TypeError, AttributeError):
            said = ShoalError("what it says about its APIs cannot be read")
            await self._failed(cluster, "ErrorStartingAPIImporter", said)
        try:
            later = await self._write(cluster, pulled, ready)
        except Invalid as error:
            await self._failed(cluster, "ErrorStartingAPIImporter", error)
        self._done[name] = _version(cluster)
        if self._follows:
            self._definitions.follow(cluster)
        self._untold[name] = Told(frozenset(import_name(offer.api, name) for offer in pulled.offers), pulled.message)
        await self._tell(cluster)
        if later is not None:
            self._due.add(name)
        return later

    async def _tell(self, cluster: Object) -> None:
        """Reports once all imports are negotiated: clients that wait for Ready want to know which APIs can be used."""
        name = cluster["metadata"]["name"]
        told = self._untold.get(name)
        if told is None:
            return
        found = [self._imports.objects.get(("", "", each)) for each in told.imports]
        if all(each is not None and is_settled(each) for each in found):
            await self._report(cluster, Condition(workload.IMPORTER_READY, "True", "Imported", told.message))
            self._untold.pop(name, None)

    async def _pull(self, cluster: Object) -> tuple[Pulled, bool]:
        """The APIs the cluster offers, and whether it reports to be ready."""
        reached = await self._reach(cluster)
        try:
            await self._learn_natives([one for one in self._wanted if "*" not in one])
            pulled = await pull(reached.client, self._wanted, self._skipped())
            await self._learn_natives([(offer.api.plural, offer.api.group) for offer in pulled.offers])
            return pulled.without(self._skipped()), await _is_ready(reached.client)
        finally:
            await reached.close()

    def _skipped(self) -> set[Wanted]:
        return {one for one, is_native in self._native.items() if is_native}

    async def _learn_natives(self, wanted: Sequence[Wanted]) -> None:
        """A native resource of the hub stays native; others can only be negotiated."""
        for one in wanted:
            if one not in self._native:
                self._native[one] = await native(self._client, *one) is not None

    async def _write(self, cluster: Object, pulled: Pulled, ready: bool) -> float | None:
        """Returns when to check missing APIs again."""
        mine = [found for found in self._imports.objects.values() if _is_of(found, cluster)]
        decision = decide(cluster, pulled.offers, mine)
        with self._stored.using(offer.digest for offer in pulled.offers):
            for offer in pulled.offers:
                await self._stored.keep(offer)
            for new in decision.create:
                try:
                    await self._client.create(IMPORTS, new)
                except AlreadyExists:
                    raise Later("an import of that name is still there") from None
            for changed in decision.update:
                await self._client.update(IMPORTS, changed)
        gone = [found for found in decision.gone if not pulled.is_unknown(api_of(found))]
        return await self._withdraw(gone, mine, ready)

    async def _withdraw(self, gone: list[Object], mine: list[Object], ready: bool) -> float | None:
        """A single missing discovery may be a server that has just started. One that is not ready is checked again in a
        minute.
        """
        now, names = self._clock.monotonic(), {found["metadata"]["name"] for found in gone}
        for found in mine:
            if found["metadata"]["name"] not in names:
                self._doubted.pop(found["metadata"]["name"], None)
        if not ready:
            return None
        waiting = False
        for found in gone:
            if now - self._doubted.setdefault(found["metadata"]["name"], now) < CONFIRM_SECONDS:
                waiting = True
                continue
            with suppress(NotFound):
                await self._client.delete(IMPORTS, found["metadata"]["name"], uid=found["metadata"]["uid"])
        return CONFIRM_SECONDS if waiting else None

    async def _failed(self, cluster: Object, reason: str, error: Exception) -> NoReturn:
        """A cluster that was imported keeps its condition: its heartbeat reports whether it is reachable now."""
        if not condition_is(cluster, workload.IMPORTER_READY):
            said = str(error) or "no answer in time"
            await self._report(cluster, Condition(workload.IMPORTER_READY, "False", reason, said))
        raise Later(f"{reason}: {error}")

    async def _report(self, cluster: Object, condition: Condition) -> None:
        metadata = cluster["metadata"]
        await self._reporter.cluster(metadata["name"], metadata["uid"], [condition])


async def _is_ready(client: Client) -> bool:
    try:
        await client.read("/readyz")
    except StatusError:
        return False
    return True


def _version(cluster: Object) -> tuple[str, int]:
    metadata = cluster["metadata"]
    return metadata["uid"], metadata.get("generation", 0)


def _is_of(found: Object, cluster: Object) -> bool:
    """Imports of an earlier workload Cluster of the same name do not count: they are deleted with it."""
    return any(owner["uid"] == cluster["metadata"]["uid"] for owner in found["metadata"].get("ownerReferences") or ())


def _is_dark(cluster: Object) -> bool:
    """Its heartbeat is known to be unhealthy; it is enqueued again when that changes."""
    found = get_condition(cluster, workload.HEARTBEAT_HEALTHY)
    return found is not None and found["status"] != "True"
