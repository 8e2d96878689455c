"""Reconciles Workers with infrastructure kind: finds or creates their cluster and keeps the bundle of this version in
it.

Drift is corrected by server-side apply as soon as the cluster's watches report it. Objects of an older bundle that this
one does not have are pruned. A new version is rolled out to one Worker after another. A cluster that does not answer is
Unknown, and nothing is done because of that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from shoal import __version__
from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.fleet.bundle import decide
from shoal.fleet.bundle.cluster_resolver import ClusterResolver
from shoal.fleet.bundle.decide import BundleCondition
from shoal.fleet.bundle.objects import (
    NAMESPACE,
    BundleSpec,
    bundle_objects,
    bundle_revision,
    image_of,
    object_id,
)
from shoal.fleet.bundle.remote_cluster import BundleBlocked, Connect, RemoteCluster
from shoal.fleet.bundle.removal import remove_bundle
from shoal.fleet.join.hub_tokens import HubJoinTokens, hub_kubeconfig, needs_token
from shoal.fleet.resources import WORKERS
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import Conflict, Forbidden, StatusError, Unauthorized
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.expectations import WriteExpectations
from shoal.runtime.informer import Informer

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

TOKEN_LABEL = "shoal.dev/bundle"
"""Label of a join token's Secret: the Worker it is for."""
MAX_CONCURRENT_CLUSTERS = 64
"""Clusters reconciled at once: one that does not answer blocks its worker for a while."""
RESYNC_SECONDS = 30.0
"""Between checks of a cluster without events: it may be gone, or its kubeconfig may have changed."""
RETRY_SECONDS, UNREACHABLE_RETRY_SECONDS = 2.0, 10.0
"""The first after something was missing or failed that no watch reports; the second after a cluster did not answer."""
REMOVAL_POLL_SECONDS = 1.0
"""Between checks of objects that are being deleted."""
CLUSTER_TIMEOUT_SECONDS = 30.0
"""Timeout of all requests of one reconcile to a cluster."""
MAX_STATUS_ATTEMPTS = 5
FINALIZER_HINT = f"remove the finalizer {decide.FINALIZER}"
CLUSTER_UNREACHABLE = BundleCondition(
    "Unknown", "ClusterUnreachable", "the API server of the cluster does not answer; its pods may still run"
)


@dataclass(frozen=True, slots=True)
class BundleSettings:
    hub_url: str
    """As the hub advertises itself."""
    hub_ca: str
    image: str = ""
    """Empty: the image of the release."""
    version: str = __version__
    server_name: Callable[[], str] = lambda: ""
    """The name in the hub's certificate that workers ask for; empty: the host of the URL."""


class BundleReconciler:
    """Keys are Workers."""

    def __init__(self, client: Client, clock: Clock, connect: Connect, settings: BundleSettings) -> None:
        self._client, self._clock, self._settings = client, clock, settings
        self._release = decide.BundleRelease(settings.version, settings.image or image_of(settings.version))
        self.controller: Controller[Key] = Controller("fleet-bundles", clock, self.reconcile, MAX_CONCURRENT_CLUSTERS)
        self._clusters = ClusterResolver(client, clock, connect, self._enqueue)
        self._tokens = HubJoinTokens(client, clock, TOKEN_LABEL, self._enqueue)
        self._workers = Informer(client, WORKERS, clock)
        self._rollout_writes: WriteExpectations[str] = WriteExpectations(self._workers)
        """Expectations: no rollout is decided before the last one that was begun is visible."""
        self._rollout_lock = asyncio.Lock()
        self._waiting_for_rollout: set[Key] = set()
        """Workers that wait for their turn in the rollout."""
        self.controller.watch(self._workers, self._on_worker)
        self.controller.sources += [self._tokens.run, *self._clusters.sources]

    def _bundle_spec(self, worker: Object, kubeconfig: str = "") -> BundleSpec:
        release = decide.release_for(worker, self._release)
        return BundleSpec(worker["metadata"]["name"], release.version, release.image, kubeconfig)

    def _enqueue(self, worker: str) -> None:
        self.controller.queue.add(("", infrav1.NAMESPACE, worker))

    def _on_worker(self, key: Key, old: Object | None, new: Object | None) -> None:
        waiting, self._waiting_for_rollout = self._waiting_for_rollout, set()
        for other in (key, *waiting):
            self.controller.queue.add(other)

    async def reconcile(self, key: Key) -> float | None:
        worker = self._workers.get(key)
        if worker is None or not decide.is_bundle_worker(worker):
            if key[1] == infrav1.NAMESPACE:
                await self._clusters.clusters.drop(key[2])
            return None
        try:
            async with asyncio.timeout(CLUSTER_TIMEOUT_SECONDS):
                return await (
                    self._finalize(worker) if infrav1.is_deleting(worker) else self._reconcile_bundle(key, worker)
                )
        except BundleBlocked as error:
            await self._update_status(worker, error.condition)
            return RETRY_SECONDS
        except (Unreachable, TimeoutError):
            await self._update_status(worker, CLUSTER_UNREACHABLE)
            return UNREACHABLE_RETRY_SECONDS

    async def _reconcile_bundle(self, key: Key, worker: Object) -> float | None:
        rejected = decide.reject_reason(worker)
        if rejected is not None:
            await self._update_status(worker, rejected)
            return None
        if not decide.has_finalizer(worker):
            worker = await self._set_finalizer(worker, True)
        unreachable = decide.hub_unreachable(worker, self._settings.hub_url)
        if unreachable is not None:
            raise BundleBlocked(unreachable)
        cluster_client, cluster_id = await self._clusters.resolve(worker)
        foreign_kinds = await self._foreign_kinds(cluster_client, key[2])
        cluster_client.check_synced()
        async with self._rollout_lock:
            updated = await self._begin_rollout(key, worker, cluster_id)
        if updated is not None:
            await self._apply_bundle(updated, cluster_client, foreign_kinds)
        return RESYNC_SECONDS

    async def _begin_rollout(self, key: Key, worker: Object, cluster_id: str) -> Object | None:
        """Returns the Worker after its status names the bundle that will be applied: no other update begins meanwhile,
        wherever this one is interrupted. Returns None if it is not its turn.
        """
        current, release = decide.release_of(worker), decide.release_for(worker, self._release)
        if current not in (None, release) and not decide.has_own_image(worker):
            if not self._rollout_writes.satisfied(""):
                self._waiting_for_rollout.add(key)
                return None
            rollout = [
                decide.rollout_state(each)
                for each in self._workers.objects.values()
                if decide.is_bundle_worker(each) and not decide.has_own_image(each)
            ]
            blocking_worker = decide.rollout_blocker(key[2], rollout, release)
            if blocking_worker:
                self._waiting_for_rollout.add(key)
                message = f"version {current} is applied; the update to {release} waits for worker {blocking_worker}"
                await self._update_status(worker, BundleCondition("True", "UpdateWaits", message))
                return None
        digest = bundle_revision(bundle_objects(self._bundle_spec(worker)))
        bundle_state = decide.bundle_state(worker, release, digest, cluster_id, self._now())
        if bundle_state != decide.bundle_of(worker):
            condition = BundleCondition("False", "Applying", f"version {release} is being applied")
            worker = await self._update_status(worker, condition, bundle_state)
            self._rollout_writes.expect("", worker)
        return worker

    async def _foreign_kinds(self, cluster_client: RemoteCluster, worker: str) -> frozenset[str]:
        """Returns the Namespace kind if somebody else created the namespace. Raises BundleBlocked if it belongs to
        another Worker.
        """
        namespace = await cluster_client.get("Namespace", NAMESPACE)
        owner_error = decide.owned_by_other(namespace, worker) if namespace is not None else None
        if owner_error is not None:
            raise BundleBlocked(owner_error)
        return frozenset() if namespace is None or decide.is_bundle_namespace(namespace) else frozenset({"Namespace"})

    async def _apply_bundle(self, worker: Object, cluster_client: RemoteCluster, foreign_kinds: frozenset[str]) -> None:
        name = worker["metadata"]["name"]
        token = await self._tokens.ensure(name) if needs_token(worker) else ""
        address = decide.hub_address(worker, self._settings.hub_url)
        kubeconfig = hub_kubeconfig(address, self._settings.hub_ca, token, self._settings.server_name())
        bundle_spec = self._bundle_spec(worker, kubeconfig)
        desired = [obj for obj in bundle_objects(bundle_spec) if obj["kind"] not in foreign_kinds]
        bundle_diff = decide.diff_bundle(desired, cluster_client.bundle_objects, self._release.version)
        for obj, difference in bundle_diff.apply:
            log.info(
                "worker %s: applying %s%s", name, _display_name(obj), f": {difference} differs" if difference else ""
            )
            await _apply_or_raise(obj, cluster_client.apply(obj))
        for obj in bundle_diff.prune:
            log.info("worker %s: pruning %s", name, _display_name(obj))
            await _apply_or_raise(obj, cluster_client.delete(obj))
        if bundle_diff.deleting:
            raise BundleBlocked(
                BundleCondition(
                    "False", "BeingDeleted", f"{_display_name(bundle_diff.deleting[0])} is being deleted in its cluster"
                )
            )
        await self._report_availability(worker, cluster_client, bundle_spec)
        if not token:
            await self._tokens.revoke(name)

    async def _report_availability(
        self, worker: Object, cluster_client: RemoteCluster, bundle_spec: BundleSpec
    ) -> None:
        """Reports the availability of its Deployment, as the cluster reports it."""
        unavailable_reason, bundle_state = (
            decide.unavailable_reason(await cluster_client.get("Deployment", bundle_spec.name, NAMESPACE)),
            decide.bundle_of(worker),
        )
        if unavailable_reason:
            condition = BundleCondition(
                "False", "WorkerNotAvailable", f"Deployment {NAMESPACE}/{bundle_spec.name}: {unavailable_reason}"
            )
        else:
            release = decide.release_for(worker, self._release)
            condition = BundleCondition("True", "Applied", f"version {release} is applied and available")
            bundle_state = {**bundle_state, "availableRevision": bundle_state["revision"]}
        await self._update_status(worker, condition, bundle_state)

    async def _finalize(self, worker: Object) -> float | None:
        """Waits until it hosts nothing, which its other finalizer guards; then removes the bundle, then the cluster
        created for it.
        """
        if not decide.has_finalizer(worker) or infrav1.WORKER_FINALIZER in worker["metadata"]["finalizers"]:
            return None
        name = worker["metadata"]["name"]
        remaining = await self._remove_bundle(worker) or await self._clusters.delete_kind_cluster(worker)
        if remaining:
            await self._update_status(
                worker, BundleCondition("False", "Removing", f"waiting for {remaining} to be deleted")
            )
            return REMOVAL_POLL_SECONDS
        await self._tokens.revoke(name)
        await self._clusters.clusters.drop(name)
        await self._set_finalizer(worker, False)
        return None

    async def _remove_bundle(self, worker: Object) -> str:
        """Returns what is left of the bundle. If the whole cluster is deleted anyway and does not answer, nothing is
        left.
        """
        if not decide.bundle_of(worker):
            return ""
        try:
            async with asyncio.timeout(CLUSTER_TIMEOUT_SECONDS / 2):
                cluster_client, _ = await self._clusters.resolve(worker)
                return await remove_bundle(cluster_client.client, worker["metadata"]["name"])
        except (BundleBlocked, Unreachable, TimeoutError, StatusError) as error:
            if decide.needs_kind_cluster(worker):
                return ""
            if isinstance(error, Unreachable | TimeoutError):
                raise
            message = (
                f"cannot delete the bundle from the cluster: {error}; if the cluster is gone for good, {FINALIZER_HINT}"
            )
            raise BundleBlocked(BundleCondition("False", "RemovalFailed", message)) from None

    async def _set_finalizer(self, worker: Object, present: bool) -> Object:
        metadata = worker["metadata"]
        others = [each for each in metadata.get("finalizers") or () if each != decide.FINALIZER]
        finalizers = [*others, decide.FINALIZER] if present else others
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
        return await self._client.merge_patch(WORKERS, metadata["name"], patch, metadata["namespace"])

    async def _update_status(
        self, worker: Object, condition: BundleCondition, bundle_state: Object | None = None
    ) -> Object:
        """Returns the updated Worker. Others write its status as well, so a conflict is retried on the latest
        object.
        """
        for _ in range(MAX_STATUS_ATTEMPTS):
            status = decide.bundle_status(worker, condition, bundle_state, self._now())
            if status is None:
                return worker
            try:
                return await self._client.update(WORKERS, {**worker, "status": status}, "status")
            except Conflict:
                worker = await self._client.get(WORKERS, worker["metadata"]["name"], worker["metadata"]["namespace"])
        raise RequeueError("too many conflicts while updating the Worker status")

    def _now(self) -> str:
        return rfc3339(self._clock.now())


async def _apply_or_raise(obj: Object, operation: Awaitable[None]) -> None:
    try:
        await operation
    except StatusError as error:
        reason = "AccessRefused" if isinstance(error, Unauthorized | Forbidden) else "ApplyFailed"
        # An error about a Secret may quote its content.
        words = f"rejected with HTTP status {error.status_code}" if obj["kind"] == "Secret" else str(error)
        raise BundleBlocked(BundleCondition("False", reason, f"{_display_name(obj)}: {words}")) from None


def _display_name(obj: Object) -> str:
    kind, namespace, name = object_id(obj)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def new_bundle_controllers(
    client: Client, clock: Clock, connect: Connect, settings: BundleSettings
) -> list[Controller[Key]]:
    """Returns the bundle controllers. `client` is for the hub's root."""
    return [BundleReconciler(client, clock, connect, settings).controller]
