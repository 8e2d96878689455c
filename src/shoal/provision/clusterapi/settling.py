"""Assigns Machines to NodeClaims: one MachineDeployment at a time, with all its NodeClaims.

Machines are marked before replicas go down and bound after they went up. Every write is a compare-and-swap. A conflict
or an interruption leads to another reconcile. Claimed Machines without a member MachineDeployment are deleted with
their NodeClaim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar, cast

from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.kinds import capi
from shoal.kinds.karpenter import (
    CLAIMED_BY,
    CLAIMED_BY_UID,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_TEMPLATE,
    annotation,
    is_going,
)
from shoal.objects.errors import Conflict, NotFound
from shoal.provision.clusterapi.decide import Settlement, is_claimed_by, is_marked, settle, strays
from shoal.provision.clusterapi.provider import ClusterAPI
from shoal.provision.clusterapi.sellers import full_name
from shoal.provision.clusterapi.stock import AT_HOME, DEPLOYMENTS, MACHINES, deployment_name, home_of
from shoal.provision.homes import Homes
from shoal.provision.view import CLAIMS, View
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]
T = TypeVar("T")

BATCH_SECONDS = 0.02
"""NodeClaims that arrive within this time share one replica write."""
TRIES = 5
AT_ONCE = 32


class Settling:
    """Keys are MachineDeployments as namespace/name; with an empty name, the Machines of the namespace without a
    MachineDeployment.
    """

    def __init__(self, provider: ClusterAPI, homes: Homes, view: View, clock: Clock) -> None:
        self._provider, self._stock = provider, provider.stock
        self._homes, self._view, self._clock = homes, view, clock
        self.loop: Loop[str] = Loop("machine-settling", clock, self.reconcile)
        self.loop.sources += self._stock.sources
        self._due: set[str] = set()
        self._stock.machines.listen(self._machine)
        self._stock.deployments.listen(self._deployment)
        view.claims.listen(self._claim)

    def _deployment(self, key: Key, old: Object | None, new: Object | None) -> None:
        seen = new or old
        cluster = self._homes.cluster(home_of(seen)) if seen is not None else None
        if cluster is None:
            return
        if seen is not None:
            self._soon(full_name(seen))
        if old is None or new is None or _offer(old) != _offer(new):
            self._provider.tell(cluster)

    def _machine(self, key: Key, old: Object | None, new: Object | None) -> None:
        for machine in (old, new):
            if machine is not None and (annotation(machine, CLAIMED_BY) or self._is_of_ours(machine)):
                self._soon(deployment_name(machine))
        seen = new or old
        owner = annotation(seen, CLAIMED_BY) if seen is not None else ""
        if seen is not None and owner:
            cluster = self._homes.cluster(home_of(seen))
            if cluster is not None:
                self._provider.tell(cluster, owner)

    def _claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        for claim in (old, new):
            chosen = annotation(claim, MACHINE_DEPLOYMENT) if claim is not None else ""
            if chosen and (old is None or new is None or _stand(old) != _stand(new)):
                self._soon(chosen)
        home = self._homes.of(key[0])
        if new is None and old is not None and home is not None and annotation(old, MACHINE_TEMPLATE):
            self._soon(f"{home.namespace}/")

    def _is_of_ours(self, machine: Object) -> bool:
        return self._stock.deployment(deployment_name(machine)) is not None

    def _soon(self, deployment: str) -> None:
        if deployment not in self._due:
            self._due.add(deployment)
            self.loop.queue.add_after(deployment, BATCH_SECONDS)

    async def reconcile(self, key: str) -> float | None:
        self._due.discard(key)
        if not self._provider.synced:
            raise Later("not everything has been listed yet")
        deployment = self._stock.deployment(key)
        if deployment is None:
            await self._end_strays(key)
            return None
        if is_going(deployment) or capi.PAUSED in capi.annotations_of(deployment):
            return None
        cluster = self._homes.cluster(home_of(deployment))
        if cluster is None:
            return None
        claims = [each for each in self._view.claims.of(cluster) if annotation(each, MACHINE_DEPLOYMENT) == key]
        machines = self._stock.machines_of(key)
        found = settle(deployment, machines, claims, self._clock.now())
        await self._carry_out(cluster, deployment, found)
        return found.again

    async def _carry_out(self, cluster: str, deployment: Object, found: Settlement) -> None:
        for claim in found.refuse:
            self._provider.refused[claim["metadata"]["uid"]] = f"MachineDeployment {full_name(deployment)} is full"
            self._provider.tell(cluster, claim["metadata"]["name"])
        await _together(lambda machine: self._confirm(cluster, machine), found.orphans)
        mark = {"annotations": {capi.DELETE_MACHINE: rfc3339(self._clock.now())}}
        await _together(lambda machine: self._patch_machine(machine, mark), found.mark)
        if found.replicas is not None:
            await self._scale(deployment, found.replicas)
        await _together(self._delete, found.delete)
        await _together(lambda bind: self._bind(cluster, *bind), found.bind)

    async def _end_strays(self, key: str) -> None:
        of_cluster: dict[str, list[Object]] = {}
        for machine in self._stock.machines_of(key):
            cluster = self._homes.cluster(home_of(machine)) if annotation(machine, CLAIMED_BY) else None
            if cluster is not None:
                of_cluster.setdefault(cluster, []).append(machine)
        marked: list[Object] = []
        gone: list[tuple[str, Object]] = []
        for cluster, machines in of_cluster.items():
            delete, unclaimed = strays(machines, self._view.claims.of(cluster))
            marked += delete
            gone += [(cluster, each) for each in unclaimed]
        await _together(self._delete, marked)
        await _together(lambda each: self._end_unclaimed(*each), gone)

    async def _end_unclaimed(self, cluster: str, machine: Object) -> None:
        await self._confirm(cluster, machine)
        await self._delete(machine)

    async def _delete(self, machine: Object) -> None:
        metadata = machine["metadata"]
        with suppress(NotFound):
            await self._homes.management.delete(
                MACHINES, metadata["name"], metadata["namespace"], uid=metadata["uid"], brief=True
            )

    async def _scale(self, deployment: Object, replicas: int) -> None:
        """Tests only the previous replicas, so concurrent status writes cause no conflict."""
        metadata, path = deployment["metadata"], "/spec/replicas"
        steps = [
            {"op": "test", "path": path, "value": (deployment.get("spec") or {}).get("replicas")},
            {"op": "replace", "path": path, "value": replicas},
        ]
        management = self._homes.management
        where = management.path(DEPLOYMENTS, metadata["name"], metadata["namespace"])
        scaled = await management.call("PATCH", where, body=cast(Any, steps), content="application/json-patch+json")
        self._stock.deployments.learn(AT_HOME, scaled)

    async def _bind(self, cluster: str, machine: Object, claim: Object) -> None:
        name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
        if not is_claimed_by(machine, claim):
            metadata = {
                "labels": {capi.KARPENTER_MEMBER: ""},
                "annotations": {CLAIMED_BY: name, CLAIMED_BY_UID: uid},
            }
            await self._patch_machine(machine, metadata)
        if annotation(claim, MACHINE):
            return
        patch = {"metadata": {"uid": uid, "annotations": {MACHINE: full_name(machine)}}}
        try:
            self._view.claims.learn(cluster, await self._homes.client(cluster).merge(CLAIMS, name, patch))
        except NotFound:
            return  # the NodeClaim was deleted meanwhile: the next reconcile finds the orphaned Machine

    async def _patch_machine(self, machine: Object, metadata: Object) -> None:
        """Retries on conflict, because Cluster API writes Machines often while they start. Gives up if the Machine is
        deleted, marked or claimed by another NodeClaim.
        """
        management, place = self._homes.management, machine["metadata"]
        for _ in range(TRIES):
            patch = {"metadata": {**metadata, "resourceVersion": machine["metadata"]["resourceVersion"]}}
            try:
                written = await management.merge(MACHINES, place["name"], patch, place["namespace"])
            except Conflict:
                machine = await management.get(MACHINES, place["name"], place["namespace"])
                owner = (place.get("annotations") or {}).get(CLAIMED_BY_UID, "")
                if is_going(machine) or is_marked(machine) or annotation(machine, CLAIMED_BY_UID) != owner:
                    break
            else:
                self._stock.learn(written)
                return
        raise Later(f"Machine {full_name(machine)} is not what it was")

    async def _confirm(self, cluster: str, machine: Object) -> None:
        """Confirms with the server, not the cache, that the NodeClaim of a Machine was deleted."""
        try:
            claim = await self._homes.client(cluster).get(CLAIMS, annotation(machine, CLAIMED_BY))
        except NotFound as error:
            if error.kind == CLAIMS.plural:
                return
            raise
        if claim["metadata"]["uid"] == annotation(machine, CLAIMED_BY_UID):
            raise Later(f"NodeClaim {claim['metadata']['name']} of Machine {full_name(machine)} is there")


async def _together(write: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
    """Runs the writes with limited parallelism. All are attempted; then the first failure is raised."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(item: T) -> None:
        async with turns:
            await write(item)

    answers = await asyncio.gather(*map(one, items), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer


def _offer(deployment: Object) -> object:
    """Fields of a MachineDeployment that affect its offering."""
    metadata = deployment["metadata"]
    chosen = (metadata.get("labels"), metadata.get("annotations"), is_going(deployment))
    return chosen, (deployment.get("spec") or {}).get("template")


def _stand(claim: Object) -> object:
    """Fields of a NodeClaim that affect its MachineDeployment."""
    return claim["metadata"]["uid"], annotation(claim, MACHINE), annotation(claim, MACHINE_DEPLOYMENT), is_going(claim)
