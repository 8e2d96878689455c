"""The loop that gives every NodeClaim its Machine: one MachineDeployment at a time, all its NodeClaims at once.

Machines are marked before the replicas go down and bound after they went up; every write is a compare-and-swap with
what was looked at. A conflict, or an end in the middle, means another look.
"""

from __future__ import annotations

from typing import Any, cast

from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.kinds import capi
from shoal.kinds.karpenter import CLAIMED_BY, CLAIMED_BY_UID, MACHINE, MACHINE_DEPLOYMENT, annotation, is_going
from shoal.objects.errors import Conflict, NotFound
from shoal.provision.clusterapi.decide import Settlement, is_claimed_by, is_marked, settle
from shoal.provision.clusterapi.offers import full_name
from shoal.provision.clusterapi.provider import (
    AT_HOME,
    DEPLOYMENTS,
    MACHINES,
    ClusterAPI,
    deployment_name,
    home_of,
)
from shoal.provision.homes import Homes
from shoal.provision.view import CLAIMS, View
from shoal.runtime.loop import Later, Loop

Object = dict[str, Any]

BATCH_SECONDS = 0.02
"""NodeClaims that come within this time are settled by one write of the replicas."""
TRIES = 5


class Settling:
    """Keys are MachineDeployments, as namespace/name."""

    def __init__(self, provider: ClusterAPI, homes: Homes, view: View, clock: Clock) -> None:
        self._provider, self._homes, self._view, self._clock = provider, homes, view, clock
        self.loop: Loop[str] = Loop("machine-settling", clock, self.reconcile)
        self.loop.sources += [provider.machines.run, provider.deployments.run]
        self._due: set[str] = set()
        provider.machines.listen(self._machine)
        provider.deployments.listen(self._deployment)
        view.claims.listen(self._claim)

    def _deployment(self, key: Key, old: Object | None, new: Object | None) -> None:
        seen = new or old
        cluster = self._homes.cluster(home_of(seen)) if seen is not None else None
        if cluster is None:
            return
        if new is not None:
            self._soon(full_name(new))
        if old is None or new is None or _offer(old) != _offer(new):
            self._provider.tell(cluster)

    def _machine(self, key: Key, old: Object | None, new: Object | None) -> None:
        for machine in (old, new):
            if machine is not None and capi.labels_of(machine).get(capi.DEPLOYMENT_NAME):
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

    def _soon(self, deployment: str) -> None:
        if deployment not in self._due:
            self._due.add(deployment)
            self.loop.queue.add_after(deployment, BATCH_SECONDS)

    async def reconcile(self, key: str) -> float | None:
        self._due.discard(key)
        namespace, _, name = key.partition("/")
        deployment = self._provider.deployments.get(AT_HOME, name, namespace)
        if deployment is None or is_going(deployment) or capi.PAUSED in capi.annotations_of(deployment):
            return None
        cluster = self._homes.cluster(home_of(deployment))
        if cluster is None:
            return None
        if not self._provider.synced:
            raise Later("not everything has been listed yet")
        claims = [each for each in self._view.claims.of(cluster) if annotation(each, MACHINE_DEPLOYMENT) == key]
        machines = self._provider.machines_of(key)
        found = settle(deployment, machines, claims, self._clock.now())
        await self._carry_out(cluster, deployment, found)
        return found.again

    async def _carry_out(self, cluster: str, deployment: Object, found: Settlement) -> None:
        management = self._homes.management
        for claim in found.refuse:
            self._provider.refused[claim["metadata"]["uid"]] = f"MachineDeployment {full_name(deployment)} is full"
            self._provider.tell(cluster, claim["metadata"]["name"])
        for machine in found.orphans:
            await self._confirm(cluster, machine)
        for machine in found.mark:
            await self._patch_machine(machine, {"annotations": {capi.DELETE_MACHINE: rfc3339(self._clock.now())}})
        if found.replicas is not None:
            await self._scale(deployment, found.replicas)
        for machine in found.delete:
            metadata = machine["metadata"]
            try:
                await management.delete(MACHINES, metadata["name"], metadata["namespace"], uid=metadata["uid"])
            except NotFound:
                continue
        for machine, claim in found.bind:
            await self._bind(cluster, machine, claim)

    async def _scale(self, deployment: Object, replicas: int) -> None:
        """From what was looked at and nothing else: a write of somebody else's status is no obstacle."""
        metadata, path = deployment["metadata"], "/spec/replicas"
        steps = [
            {"op": "test", "path": path, "value": (deployment.get("spec") or {}).get("replicas")},
            {"op": "replace", "path": path, "value": replicas},
        ]
        management = self._homes.management
        where = management.path(DEPLOYMENTS, metadata["name"], metadata["namespace"])
        scaled = await management.call("PATCH", where, body=cast(Any, steps), content="application/json-patch+json")
        self._provider.deployments.learn(AT_HOME, scaled)

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
            return  # it went meanwhile: the Machine is an orphan now, and the next look finds it

    async def _patch_machine(self, machine: Object, metadata: Object) -> None:
        """Cluster API writes its Machines often while they start: what it wrote meanwhile is looked at and passed."""
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
                self._provider.machines.learn(AT_HOME, written)
                return
        raise Later(f"Machine {full_name(machine)} is not what it was")

    async def _confirm(self, cluster: str, machine: Object) -> None:
        """That the NodeClaim of a Machine is no more: told by the server, not concluded from a copy."""
        try:
            claim = await self._homes.client(cluster).get(CLAIMS, annotation(machine, CLAIMED_BY))
        except NotFound as error:
            if error.kind == CLAIMS.plural:
                return
            raise
        if claim["metadata"]["uid"] == annotation(machine, CLAIMED_BY_UID):
            raise Later(f"NodeClaim {claim['metadata']['name']} of Machine {full_name(machine)} is there")


def _offer(deployment: Object) -> object:
    """What of a MachineDeployment matters to those who buy."""
    metadata = deployment["metadata"]
    chosen = (metadata.get("labels"), metadata.get("annotations"), is_going(deployment))
    return chosen, ((deployment.get("spec") or {}).get("template") or {}).get("metadata")


def _stand(claim: Object) -> object:
    """What of a NodeClaim matters to its MachineDeployment."""
    return claim["metadata"]["uid"], annotation(claim, MACHINE), annotation(claim, MACHINE_DEPLOYMENT), is_going(claim)
