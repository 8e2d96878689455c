"""Workers with infrastructure kind: their cluster is made or found, and kept as the bundle of this version wants it.

What differs is put right by server-side apply as soon as the cluster's watches tell; what an older bundle had and this
one has not is pruned. A new version goes to one Worker after the other. A cluster that does not answer is Unknown, and
nothing is done because of it.
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
"""Clusters: one that does not answer keeps its place for a while."""
AGAIN_SECONDS = 30.0
"""Between looks at a cluster that tells nothing: it may be gone, or its kubeconfig another."""
SOON_SECONDS, SILENT_SECONDS = 2.0, 10.0
"""After something was missing or failed that no watch tells of; after nobody answered."""
GOING_SECONDS = 1.0
"""Between looks at what is going."""
ANSWER_SECONDS = 30.0
"""For all that is asked of a cluster at a time."""
TRIES = 5
HINT = f"take off the finalizer {decide.FINALIZER}"
SILENT = Said("Unknown", "ClusterUnreachable", "the API of its cluster does not answer; what runs there may run on")


@dataclass(frozen=True, slots=True)
class BundleSettings:
    hub_url: str
    """As the hub advertises itself."""
    hub_authority: str
    image: str = ""
    """Empty: the release's own."""
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
        """Nobody's turn is decided before what was begun last is in sight."""
        self._turns = asyncio.Lock()
        self._waiting: set[Key] = set()
        """Those whose turn it was not."""
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
        """The Worker, with the bundle it is given in its status before it is: no other update begins meanwhile,
        wherever this one is interrupted. None: it is not its turn."""
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
        """The Namespace, where somebody else has made it. Raises Refused where it is another Worker's."""
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
        """What its Deployment has come to, by the cluster's own word."""
        why, state = decide.unavailable(await site.get("Deployment", plan.name, NAMESPACE)), decide.bundle_of(worker)
        if why:
            said = Said("False", "WorkerNotAvailable", f"Deployment {NAMESPACE}/{plan.name}: {why}")
        else:
            said = Said("True", "Applied", f"version {self._release} is applied and available")
            state = {**state, "availableRevision": state["revision"]}
        await self._tell(worker, said, state)

    async def _leave(self, worker: Object) -> float | None:
        """First it hosts nothing, as its other finalizer tells; then the bundle goes, then the cluster made for it."""
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
        """What is left of the bundle; of one in a cluster that goes as a whole and does not answer, nothing is."""
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
        """The Worker with it. Others write its status as well: it is said of the newest there is."""
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
        # An answer about a Secret may quote it.
        words = f"refused with {error.status_code}" if obj["kind"] == "Secret" else str(error)
        raise Refused(Said("False", reason, f"{_named(obj)}: {words}")) from None


def _named(obj: Object) -> str:
    kind, namespace, name = id_of(obj)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def bundle_loops(client: Client, clock: Clock, connect: Connect, settings: BundleSettings) -> list[Loop[Key]]:
    """`client` is of the hub's root."""
    return [Bundles(client, clock, connect, settings).loop]
