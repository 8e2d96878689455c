"""Reconciles EmbeddedMachines: one Node in the hosted cluster for each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shoal.capi.providers.embedded.machines.decide import Decision, Snapshot, decide
from shoal.capi.providers.embedded.resources import EmbeddedResources
from shoal.capi.resources import Changes, Name, name_of, standing
from shoal.client.reflector import key_of
from shoal.clock import Clock, rfc3339
from shoal.kinds import capi, embedded
from shoal.objects.errors import AlreadyExists
from shoal.runtime.loop import Loop

Object = dict[str, Any]

WORKERS = 16


class EmbeddedMachineLoop:
    def __init__(self, resources: EmbeddedResources, clock: Clock) -> None:
        self._resources, self._clock = resources, clock
        self.loop: Loop[Name] = Loop("capi-embeddedmachines", clock, self.reconcile, WORKERS)
        self._clusters = Changes(standing)
        resources.core.follow(resources.machines, self.loop.queue)
        resources.core.clusters.listen(self._cluster)
        resources.nodes.listen(self._node)

    def _cluster(self, obj: Object) -> None:
        if self._clusters.matter(obj):
            for machine in self._resources.machines.by("cluster", name_of(obj)):
                self.loop.queue.add(name_of(machine))

    def _node(self, obj: Object) -> None:
        """Only the existence of the Node matters, not its state."""
        cluster, _, name = key_of(obj)
        if self._resources.nodes.get("", name, cluster) is None or capi.is_deleting(obj):
            self.loop.queue.add((embedded.hosted_owner(cluster)[0], name))

    async def reconcile(self, key: Name) -> float | None:
        await self._resources.core.listed()
        obj = self._resources.machines.get(*key)
        if obj is None:
            return None
        seen = self._look(obj)
        decision = self._decide(seen)
        if decision.patch is not None:
            obj = await self._resources.machines.patch(obj, decision.patch)
            decision = self._decide(replace(seen, infrastructure=obj))
        await self._act(seen, decision)
        return decision.again

    def _look(self, obj: Object) -> Snapshot:
        resources = self._resources
        namespace, name = name_of(obj)
        machine = resources.core.machines.get(namespace, capi.owner_of(obj, capi.MACHINE))
        # If the Machine was deleted first, the label still names the cluster of the Node.
        cluster = capi.cluster_name(machine) if machine is not None else capi.labels_of(obj).get(capi.CLUSTER_NAME, "")
        hosted = resources.hosted(namespace, cluster)
        return Snapshot(
            infrastructure=obj,
            machine=machine,
            cluster=resources.core.clusters.get(namespace, cluster),
            logical=resources.logical_clusters.get("", hosted),
            node=resources.nodes.get("", name, hosted) if hosted else None,
        )

    def _decide(self, seen: Snapshot) -> Decision:
        now = self._clock.now()
        return decide(seen, now, rfc3339(now))

    async def _act(self, seen: Snapshot, decision: Decision) -> None:
        resources = self._resources
        if decision.create is not None and seen.logical is not None:
            hosted = seen.logical["metadata"]["name"]
            try:
                await resources.nodes.create(decision.create, hosted)
            except AlreadyExists:
                await resources.nodes.fetch("", decision.create["metadata"]["name"], hosted)
        if decision.crash is not None and seen.node is not None:
            await resources.nodes.patch(seen.node, decision.crash)
        if decision.status is not None and not resources.core.can_wait(
            self.loop.queue, seen.infrastructure, decision.status
        ):
            await resources.machines.update_status(decision.status)
        if decision.delete and seen.node is not None:
            await resources.nodes.delete(seen.node)
            self.loop.queue.add(name_of(seen.infrastructure))
