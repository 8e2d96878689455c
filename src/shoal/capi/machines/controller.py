"""The Machine loop: joins a Machine to its infrastructure object and its Node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shoal.capi.machines.decide import Decision, Snapshot, decide
from shoal.capi.resources import Changes, Name, Resources, name_of, standing
from shoal.clock import Clock, rfc3339
from shoal.kinds.capi import (
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    NODE_CLUSTER_NAMESPACE,
    NODE_MACHINE,
    annotations_of,
    owner_of,
)
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Loop

Object = dict[str, Any]

WORKERS = 8


class MachineLoop:
    """Keys are Machines."""

    def __init__(self, resources: Resources, clock: Clock) -> None:
        self._resources, self._clock = resources, clock
        self.loop: Loop[Name] = Loop("capi-machines", clock, self.reconcile, WORKERS)
        self._clusters, self._deployments = Changes(standing), Changes(lambda obj: obj["metadata"].get("generation"))
        resources.machines.listen(lambda obj: self.loop.queue.add(name_of(obj)))
        resources.clusters.listen(self._cluster)
        resources.deployments.listen(self._deployment)
        resources.embedded_machines.listen(self._infrastructure)
        resources.nodes.listen(self._node)

    def _cluster(self, obj: Object) -> None:
        if not self._clusters.matter(obj):
            return
        for machine in self._resources.machines.by("cluster", name_of(obj)):
            self.loop.queue.add(name_of(machine))

    def _deployment(self, obj: Object) -> None:
        if not self._deployments.matter(obj):
            return
        for each in self._resources.sets.by("owner", obj["metadata"]["uid"]):
            for machine in self._resources.machines.by("owner", each["metadata"]["uid"]):
                self.loop.queue.add(name_of(machine))

    def _infrastructure(self, obj: Object) -> None:
        namespace, name = name_of(obj)
        for machine in self._resources.machines.by("reference", (obj["kind"], namespace, name)):
            self.loop.queue.add(name_of(machine))

    def _node(self, obj: Object) -> None:
        said = annotations_of(obj)
        if said.get(NODE_MACHINE):
            self.loop.queue.add((said.get(NODE_CLUSTER_NAMESPACE, ""), said[NODE_MACHINE]))

    async def reconcile(self, key: Name) -> float | None:
        await self._resources.listed()
        machine = self._resources.machines.get(*key)
        if machine is None:
            return None
        seen = self._look(machine)
        decision = self._decide(seen)
        if decision.patch is not None:
            machine = await self._resources.machines.patch(machine, decision.patch)
            seen = replace(seen, machine=machine, node=self._resources.node_of(machine))
            decision = self._decide(seen)
        await self._act(seen, decision)
        return decision.again

    def _look(self, machine: Object) -> Snapshot:
        resources, namespace = self._resources, machine["metadata"]["namespace"]
        machine_set = resources.sets.get(namespace, owner_of(machine, MACHINE_SET))
        deployment = None
        if machine_set is not None:
            deployment = resources.deployments.get(namespace, owner_of(machine_set, MACHINE_DEPLOYMENT))
        return Snapshot(
            machine=machine,
            cluster=resources.clusters.get(namespace, machine["spec"]["clusterName"]),
            infrastructure=resources.referenced(namespace, machine["spec"].get("infrastructureRef")),
            node=resources.node_of(machine),
            machine_set=machine_set,
            deployment=deployment,
        )

    def _decide(self, seen: Snapshot) -> Decision:
        now = self._clock.now()
        return decide(seen, now, rfc3339(now))

    async def _act(self, seen: Snapshot, decision: Decision) -> None:
        resources = self._resources
        if decision.infrastructure is not None and seen.infrastructure is not None:
            await resources.of(seen.infrastructure).patch(seen.infrastructure, decision.infrastructure)
        if decision.status is not None:
            await resources.machines.update_status(decision.status)
        if decision.node is not None and seen.node is not None:
            await self._mark(seen.node, decision.node)
        if decision.delete and seen.infrastructure is not None:
            await resources.of(seen.infrastructure).delete(seen.infrastructure)

    async def _mark(self, node: Object, patch: Object) -> None:
        try:
            await self._resources.nodes.patch(node, patch)
        except NotFound:
            return  # the Node or its whole cluster has gone; the watch will say so
