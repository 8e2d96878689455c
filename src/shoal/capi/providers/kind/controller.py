"""Reconciles KINDClusters: executes the steps that `decide` returns until none is left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shoal.capi.providers.kind.answers import Problem
from shoal.capi.providers.kind.command import Kind
from shoal.capi.providers.kind.decide import decide
from shoal.capi.providers.kind.identity import marker_of
from shoal.capi.providers.kind.inventory import Inventory
from shoal.capi.providers.kind.kubeconfigs import Access, access_of, is_ours
from shoal.capi.providers.kind.status import CREATED, claim_of
from shoal.capi.providers.kind.steps import (
    Cancel,
    Create,
    DeleteSecret,
    Fetch,
    Fetched,
    Listing,
    Look,
    Mark,
    Marked,
    Patch,
    Pauses,
    Remove,
    Settle,
    Snapshot,
    Step,
    Wait,
    Work,
    Write,
    WriteSecret,
)
from shoal.capi.providers.kind.works import Running, Works
from shoal.capi.resources import CLUSTERS, SECRETS, Changes, Name, name_of
from shoal.capi.views import View
from shoal.client import requests
from shoal.clock import Clock, rfc3339
from shoal.kinds import capi, kindcluster
from shoal.objects.errors import AlreadyExists
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]

KIND_CLUSTERS = requests.Kind(kindcluster.GROUP, kindcluster.VERSION, kindcluster.PLURAL)
WORKERS = 16
"""Some wait for kind while others proceed."""
STEPS = 100
"""More than any object needs: guards against an endless loop."""


@dataclass(slots=True)
class Facts:
    """What was observed since the key was taken from the queue."""

    after: int
    """Lists with a higher number are fresh."""
    fetched: Fetched | None = None
    marked: Marked | None = None
    taken: set[str] = field(default_factory=set)


class KindClusterLoop:
    def __init__(
        self, client: requests.Client, clock: Clock, command: Kind, *, creates: int, resync: float, pauses: Pauses
    ) -> None:
        self._client, self._clock, self._command = client, clock, command
        self._resync_seconds, self._pauses = resync, pauses
        self.objects = View(client, KIND_CLUSTERS, clock, indexes={"name": _names, "uid": _uid})
        self.clusters = View(client, CLUSTERS, clock)
        self.secrets = View(client, SECRETS, clock, labels=kindcluster.OWNER_UID, indexes={"owner": _owner})
        self.loop: Loop[Name] = Loop("capi-kindclusters", clock, self.reconcile, workers=WORKERS)
        self.loop.sources.append(self._resync)
        self.inventory = Inventory(command)
        self.works = Works(command, creates, self._worked)
        self._access: dict[str, Access] = {}
        self._ended: dict[str, int] = {}
        """By uid: how many lists had been started when its job last made progress."""
        self._claiming = asyncio.Lock()
        self._changes = Changes(_of_interest)
        self.objects.listen(self._changed)
        self.clusters.listen(self._cluster)
        self.secrets.listen(lambda obj: self._enqueue_uid(next(iter(_owner(obj)))))

    def _changed(self, obj: Object) -> None:
        """Objects that wait for the same name are enqueued too."""
        self.loop.queue.add(name_of(obj))
        for name in _names(obj):
            for other in self.objects.by("name", name):
                self.loop.queue.add(name_of(other))

    def _cluster(self, obj: Object) -> None:
        reference = (obj.get("spec") or {}).get("infrastructureRef") or {}
        if reference.get("kind") == kindcluster.KIND and self._changes.matter(obj):
            self.loop.queue.add((obj["metadata"]["namespace"], reference["name"]))

    def _worked(self, uid: str) -> None:
        self._ended[uid] = self.inventory.begun
        self._enqueue_uid(uid)

    def _enqueue_uid(self, uid: str) -> None:
        for obj in self.objects.by("uid", uid):
            self.loop.queue.add(name_of(obj))

    async def _resync(self) -> None:
        """Detects clusters that changed outside of Shoal. Without a KINDCluster nothing is listed."""
        while True:
            await self._clock.sleep(self._resync_seconds)
            if self.objects.objects:
                await self.inventory.look(self.inventory.begun)
                for obj in list(self.objects.objects.values()):
                    self.loop.queue.add(name_of(obj))

    async def reconcile(self, key: Name) -> float | None:
        await asyncio.gather(*(view.listed() for view in (self.objects, self.clusters, self.secrets)))
        facts = Facts(self.inventory.begun)
        for _ in range(STEPS):
            obj = self.objects.get(*key)
            if obj is None:
                await self._forget()
                return None
            step = decide(self._look(obj, facts))
            if isinstance(step, Wait):
                return step.seconds
            await self._take(step, obj, facts)
        raise Later(f"more than {STEPS} steps")

    async def _forget(self) -> None:
        """Cancels the jobs of objects that were deleted without our finalizer being removed."""
        for uid in {*self._ended, *self._access, *self.works.uids()}:
            if not self.objects.by("uid", uid):
                self._ended.pop(uid, None)
                self._access.pop(uid, None)
                await self.works.cancel(uid)

    def _look(self, obj: Object, facts: Facts) -> Snapshot:
        metadata = obj["metadata"]
        uid, last, work = metadata["uid"], self.inventory.last, self.works.of(metadata["uid"])
        listing = None
        if last is not None:
            fresh = last.number > max(facts.after, self._ended.get(uid, 0))
            listing = Listing(last.names, last.problem, fresh)
        return Snapshot(
            obj=obj,
            cluster=self.clusters.get(metadata["namespace"], capi.owner_of(obj, capi.CLUSTER)),
            holder=self._holder(obj),
            listing=listing,
            work=Work(work.action, work.done, work.problem, work.progress) if work is not None else None,
            fetched=facts.fetched or self._known(obj, work),
            marked=facts.marked,
            secrets=self.secrets.by("owner", uid),
            taken=frozenset(facts.taken),
            now=rfc3339(self._clock.now()),
            machine=self._command.machine,
            pauses=self._pauses,
        )

    def _known(self, obj: Object, work: Running | None) -> Fetched | None:
        """The kubeconfig that kind returned earlier, as long as it is of the claimed cluster."""
        if work is not None:
            return Fetched(work.access, None, fresh=True) if work.access is not None else None
        access, claim = self._access.get(obj["metadata"]["uid"]), claim_of(obj) or {}
        if access is None or claim.get("state") != CREATED or claim.get("id") != access.id:
            return None
        return Fetched(access, None, fresh=False)

    def _holder(self, obj: Object) -> str:
        """The KINDCluster that has the name: the one that claims it, else the oldest that wants it."""
        name, uid = kindcluster.name_of(obj), obj["metadata"]["uid"]
        if (claim_of(obj) or {}).get("name") == name:
            return ""
        others = [other for other in self.objects.by("name", name) if other["metadata"]["uid"] != uid]
        claimers = [other for other in others if (claim_of(other) or {}).get("name") == name]
        older = [other for other in others if _asks(other) and _age(other) < _age(obj)]
        holder = next(iter([*claimers, *sorted(older, key=_age)]), None)
        return "/".join(name_of(holder)) if holder is not None else ""

    async def _take(self, step: Step, obj: Object, facts: Facts) -> None:
        uid = obj["metadata"]["uid"]
        match step:
            case Patch(body):
                await self.objects.patch(obj, body)
            case Write(new, settles):
                await self._write(obj, new)
                if settles:
                    self._settle(uid, facts)
            case Look():
                await self.inventory.look(max(facts.after, self._ended.get(uid, 0)))
            case Fetch(name):
                facts.fetched = await self._fetch(uid, name)
            case Mark(name):
                facts.marked = Marked(await self._marker(name))
            case Create(name, config):
                self._access.pop(uid, None)
                facts.fetched = facts.marked = None
                self.works.create(uid, name, config)
            case Remove(name):
                self.works.delete(uid, name)
            case Cancel():
                await self.works.cancel(uid)
                self._ended[uid] = self.inventory.begun
            case Settle():
                self._settle(uid, facts)
            case WriteSecret(secret):
                await self._write_secret(secret, facts)
            case DeleteSecret(secret):
                await self.secrets.delete(secret)

    async def _write(self, obj: Object, new: Object) -> None:
        if claim_of(obj) is not None or claim_of(new) is None:
            await self.objects.update_status(new)
            return
        async with self._claiming:
            # Another may have claimed the name while this one waited; then everything is decided again.
            if not self._holder(obj):
                await self.objects.update_status(new)

    def _settle(self, uid: str, facts: Facts) -> None:
        work = self.works.of(uid)
        if work is not None and work.access is not None:
            self._access[uid] = work.access
            facts.fetched = Fetched(work.access, None, fresh=True)
        self.works.settle(uid)

    async def _fetch(self, uid: str, name: str) -> Fetched:
        try:
            access = access_of(await self._command.kubeconfig(name))
        except Problem as problem:
            return Fetched(None, problem, fresh=True)
        self._access[uid] = access
        return Fetched(access, None, fresh=True)

    async def _marker(self, name: str) -> str | None:
        try:
            return await marker_of(await self._command.kubeconfig(name))
        except Problem:
            return None

    async def _write_secret(self, wanted: Object, facts: Facts) -> None:
        namespace, name = name_of(wanted)
        there = self.secrets.get(namespace, name)
        if there is None:
            try:
                await self.secrets.create(wanted)
                return
            except AlreadyExists:
                there = await self._client.get(SECRETS, name, namespace)
            if not is_ours(wanted, there):
                facts.taken.add(name)
                return
        labels = {**capi.labels_of(there), **capi.labels_of(wanted)}
        await self.secrets.update(
            {**there, "metadata": {**there["metadata"], "labels": labels}, "data": wanted["data"]}
        )


def _names(obj: Object) -> Iterable[str]:
    """Names of the kind clusters it wants and claims."""
    claim = claim_of(obj)
    return {kindcluster.name_of(obj), *([claim["name"]] if claim is not None else [])}


def _uid(obj: Object) -> Iterable[str]:
    return [obj["metadata"]["uid"]]


def _owner(secret: Object) -> Iterable[str]:
    return [capi.labels_of(secret).get(kindcluster.OWNER_UID, "")]


def _asks(obj: Object) -> bool:
    """Whether it would create the cluster if the name were free."""
    return not capi.is_deleting(obj) and (claim_of(obj) is None or kindcluster.replaces(obj))


def _age(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["creationTimestamp"], obj["metadata"]["uid"]


def _of_interest(cluster: Object) -> Any:
    return cluster["metadata"]["uid"], capi.is_paused(cluster, cluster)
