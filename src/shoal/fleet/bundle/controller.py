"""Reconciles Workers with infrastructure kind: finds or creates their cluster and keeps the bundle of this version in
it.

Drift is corrected by server-side apply as soon as the cluster's watches report it. Objects of an older bundle that this
one does not have are pruned. A new version is rolled out to one Worker after another. A cluster that does not answer is
Unknown, and nothing is done because of that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from shoal import __version__
from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.fleet.bundle import decide
from shoal.fleet.bundle.clusters import Clusters
from shoal.fleet.bundle.decide import Said
from shoal.fleet.bundle.objects import NAMESPACE, Plan, bundle, hub_kubeconfig, id_of, image_of, revision
from shoal.fleet.bundle.removal import remove
from shoal.fleet.bundle.site import Connect, Refused, Site
from shoal.fleet.bundle.tokens import Tokens
from shoal.fleet.resources import WORKERS
from shoal.kinds import fleet
from shoal.objects.errors import Conflict, Forbidden, StatusError, Unauthorized
from shoal.runtime.loop import Later, Loop
from shoal.runtime.ownwrites import OwnWrites

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

AT_ONCE = 64
"""Clusters reconciled at once: one that does not answer blocks its worker for a while."""
AGAIN_SECONDS = 30.0
"""Between checks of a cluster without events: it may be gone, or its kubeconfig may have changed."""
SOON_SECONDS, SILENT_SECONDS = 2.0, 10.0
"""The first after something was missing or failed that no watch reports; the second after a cluster did not answer."""
GOING_SECONDS = 1.0
"""Between checks of objects that are being deleted."""
ANSWER_SECONDS = 30.0
"""Timeout of all requests of one reconcile to a cluster."""
TRIES = 5
HINT = f"take off the finalizer {decide.FINALIZER}"
SILENT = Said("Unknown", "ClusterUnreachable", "the API of its cluster does not answer; what runs there may run on")


@dataclass(frozen=True, slots=True)
class BundleSettings:
    hub_url: str
    """As the hub advertises itself."""
    hub_authority: str
    image: str = ""
    """Empty: the image of the release."""
    version: str = __version__


class Bundles:
    """Keys are Workers."""

    def __init__(self, client: Client, clock: Clock, connect: Connect, settings: BundleSettings) -> None:
        self._client, self._clock, self._settings = client, clock, settings
        self._release = decide.Release(settings.version, settings.image or image_of(settings.version))
        self.loop: Loop[Key] = Loop("fleet-bundles", clock, self.reconcile, AT_ONCE)
        self._clusters = Clusters(client, clock, connect, self._look)
        self._tokens = Tokens(client, clock, self._look)
        self._workers = Reflector(client, WORKERS, clock, self._worker_changed, shared=True)
        self._begun: OwnWrites[str] = OwnWrites(self._workers)
        """Expectations: no rollout is decided before the last one that was begun is visible."""
        self._turns = asyncio.Lock()
        self._waiting: set[Key] = set()
        """Workers that wait for their turn in the rollout."""
        self.loop.sources += [self._workers.run, self._tokens.run, *self._clusters.sources]

    def _plan(self, worker: str, kubeconfig: str = "") -> Plan:
        return Plan(worker, self._release.version, self._release.image, kubeconfig)

    def _look(self, worker: str) -> None:
        self.loop.queue.add(("", fleet.NAMESPACE, worker))

    def _worker_changed(self, key: Key, obj: Object | None) -> None:
        waiting, self._waiting = self._waiting, set()
        for other in (key, *waiting):
            self.loop.queue.add(other)

    async def reconcile(self, key: Key) -> float | None:
        worker = self._workers.objects.get(key)
        if worker is None or not decide.is_declared(worker):
            if key[1] == fleet.NAMESPACE:
                await self._clusters.sites.drop(key[2])
            return None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await (self._leave(worker) if fleet.is_deleting(worker) else self._keep(key, worker))
        except Refused as refused:
            await self._tell(worker, refused.said)
            return SOON_SECONDS
        except (Unreachable, TimeoutError):
            await self._tell(worker, SILENT)
            return SILENT_SECONDS

    async def _keep(self, key: Key, worker: Object) -> float | None:
        refused = decide.refusal(worker)
        if refused is not None:
            await self._tell(worker, refused)
            return None
        if not decide.is_held(worker):
            worker = await self._hold(worker, True)
        unreachable = decide.unreachable_hub(worker, self._settings.hub_url)
        if unreachable is not None:
            raise Refused(unreachable)
        site, cluster = await self._clusters.reach(worker)
        skipped = await self._skipped(site, key[2])
        site.check_listed()
        async with self._turns:
            begun = await self._begin(key, worker, cluster)
        if begun is not None:
            await self._put_right(begun, site, skipped)
        return AGAIN_SECONDS

    async def _begin(self, key: Key, worker: Object, cluster: str) -> Object | None:
        """Returns the Worker after its status names the bundle that will be applied: no other update begins meanwhile,
        wherever this one is interrupted. Returns None if it is not its turn.
        """
        before = decide.release_of(worker)
        if before not in (None, self._release):
            if not self._begun.in_sight(""):
                self._waiting.add(key)
                return None
            everybody = [decide.standing(each) for each in self._workers.objects.values() if decide.is_declared(each)]
            first = decide.waits_for(key[2], everybody, self._release)
            if first:
                self._waiting.add(key)
                message = f"version {before} is applied; the update to {self._release} waits for worker {first}"
                await self._tell(worker, Said("True", "UpdateWaits", message))
                return None
        digest = revision(bundle(self._plan(key[2])))
        state = decide.begun(worker, self._release, digest, cluster, self._now())
        if state != decide.bundle_of(worker):
            said = Said("False", "Applying", f"version {self._release} is being applied")
            worker = await self._tell(worker, said, state)
            self._begun.wrote("", worker)
        return worker

    async def _skipped(self, site: Site, worker: str) -> frozenset[str]:
        """Returns the Namespace kind if somebody else created the namespace. Raises BundleBlocked if it belongs to
        another Worker.
        """
        there = await site.get("Namespace", NAMESPACE)
        taken = decide.taken(there, worker) if there is not None else None
        if taken is not None:
            raise Refused(taken)
        return frozenset() if there is None or decide.is_ours(there) else frozenset({"Namespace"})

    async def _put_right(self, worker: Object, site: Site, skipped: frozenset[str]) -> None:
        name = worker["metadata"]["name"]
        token = await self._tokens.ensure(name) if decide.needs_token(worker) else ""
        address = decide.hub_address(worker, self._settings.hub_url)
        kubeconfig = hub_kubeconfig(address, self._settings.hub_authority, token)
        plan = self._plan(name, kubeconfig)
        wanted = [obj for obj in bundle(plan) if obj["kind"] not in skipped]
        changes = decide.changes(wanted, site.found, self._release.version)
        for obj, where in changes.apply:
            log.info("worker %s: %s is applied%s", name, _named(obj), f": {where} differed" if where else "")
            await _ask(obj, site.apply(obj))
        for obj in changes.prune:
            log.info("worker %s: %s is pruned", name, _named(obj))
            await _ask(obj, site.delete(obj))
        if changes.going:
            raise Refused(Said("False", "BeingDeleted", f"{_named(changes.going[0])} is being deleted in its cluster"))
        await self._conclude(worker, site, plan)
        if not token:
            await self._tokens.forget(name)

    async def _conclude(self, worker: Object, site: Site, plan: Plan) -> None:
        """Reports the availability of its Deployment, as the cluster reports it."""
        why, state = decide.unavailable(await site.get("Deployment", plan.name, NAMESPACE)), decide.bundle_of(worker)
        if why:
            said = Said("False", "WorkerNotAvailable", f"Deployment {NAMESPACE}/{plan.name}: {why}")
        else:
            said = Said("True", "Applied", f"version {self._release} is applied and available")
            state = {**state, "availableRevision": state["revision"]}
        await self._tell(worker, said, state)

    async def _leave(self, worker: Object) -> float | None:
        """Waits until it hosts nothing, which its other finalizer guards; then removes the bundle, then the cluster
        created for it.
        """
        if not decide.is_held(worker) or fleet.WORKER_FINALIZER in worker["metadata"]["finalizers"]:
            return None
        name = worker["metadata"]["name"]
        left = await self._take_out(worker) or await self._clusters.remove(worker)
        if left:
            await self._tell(worker, Said("False", "Removing", f"{left} is going"))
            return GOING_SECONDS
        await self._tokens.forget(name)
        await self._clusters.sites.drop(name)
        await self._hold(worker, False)
        return None

    async def _take_out(self, worker: Object) -> str:
        """Returns what is left of the bundle. If the whole cluster is deleted anyway and does not answer, nothing is
        left.
        """
        if not decide.bundle_of(worker):
            return ""
        try:
            async with asyncio.timeout(ANSWER_SECONDS / 2):
                site, _ = await self._clusters.reach(worker)
                return await remove(site.client, worker["metadata"]["name"])
        except (Refused, Unreachable, TimeoutError, StatusError) as error:
            if decide.makes_cluster(worker):
                return ""
            if isinstance(error, Unreachable | TimeoutError):
                raise
            message = f"the bundle cannot be taken out of its cluster: {error}; if that is gone for good, {HINT}"
            raise Refused(Said("False", "RemovalFailed", message)) from None

    async def _hold(self, worker: Object, hold: bool) -> Object:
        metadata = worker["metadata"]
        others = [each for each in metadata.get("finalizers") or () if each != decide.FINALIZER]
        finalizers = [*others, decide.FINALIZER] if hold else others
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
        return await self._client.merge(WORKERS, metadata["name"], patch, metadata["namespace"])

    async def _tell(self, worker: Object, said: Said, state: Object | None = None) -> Object:
        """Returns the updated Worker. Others write its status as well, so a conflict is retried on the latest
        object.
        """
        for _ in range(TRIES):
            status = decide.told(worker, said, state, self._now())
            if status is None:
                return worker
            try:
                return await self._client.update(WORKERS, {**worker, "status": status}, "status")
            except Conflict:
                worker = await self._client.get(WORKERS, worker["metadata"]["name"], worker["metadata"]["namespace"])
        raise Later("the Worker changes too quickly")

    def _now(self) -> str:
        return rfc3339(self._clock.now())


async def _ask(obj: Object, work: Awaitable[None]) -> None:
    try:
        await work
    except StatusError as error:
        reason = "AccessRefused" if isinstance(error, Unauthorized | Forbidden) else "ApplyFailed"
        # An error about a Secret may quote its content.
        words = f"refused with {error.status_code}" if obj["kind"] == "Secret" else str(error)
        raise Refused(Said("False", reason, f"{_named(obj)}: {words}")) from None


def _named(obj: Object) -> str:
    kind, namespace, name = id_of(obj)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def bundle_loops(client: Client, clock: Clock, connect: Connect, settings: BundleSettings) -> list[Loop[Key]]:
    """Returns the bundle controllers. `client` is for the hub's root."""
    return [Bundles(client, clock, connect, settings).loop]
