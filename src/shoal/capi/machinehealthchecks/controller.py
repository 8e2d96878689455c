"""Reconciles MachineHealthChecks: checks the selected Machines and their Nodes, and writes the results into the
Machines' status.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from shoal.capi.machinehealthchecks.decide import Decision, Snapshot, decide
from shoal.capi.resources import Changes, Name, Resources, name_of
from shoal.clock import Clock, rfc3339
from shoal.kinds.capi import (
    NODE_CLUSTER_NAMESPACE,
    NODE_MACHINE,
    annotations_of,
    cluster_name,
    is_deleting,
    is_paused,
)
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Loop

Object = dict[str, Any]


class MachineHealthCheckLoop:
    def __init__(self, resources: Resources, clock: Clock) -> None:
        self._resources, self._clock = resources, clock
        self.loop: Loop[Name] = Loop("capi-machinehealthchecks", clock, self.reconcile)
        self._clusters = Changes(_of_interest)
        resources.health_checks.listen(lambda obj: self.loop.queue.add(name_of(obj)))
        resources.machines.listen(self._machine)
        resources.clusters.listen(self._cluster)
        resources.listen_to_nodes(self._node)

    def _of(self, cluster: Name) -> None:
        for check in self._resources.health_checks.by("cluster", cluster):
            self.loop.queue.add(name_of(check))

    def _machine(self, obj: Object) -> None:
        self._of((obj["metadata"]["namespace"], cluster_name(obj)))

    def _cluster(self, obj: Object) -> None:
        if self._clusters.matter(obj):
            self._of(name_of(obj))

    def _node(self, obj: Object) -> None:
        said = annotations_of(obj)
        machine = self._resources.machines.get(said.get(NODE_CLUSTER_NAMESPACE, ""), said.get(NODE_MACHINE, ""))
        if machine is not None:
            self._machine(machine)

    async def reconcile(self, key: Name) -> float | None:
        await self._resources.listed()
        check = self._resources.health_checks.get(*key)
        if check is None:
            return None
        seen = self._look(check)
        decision = self._decide(seen)
        if decision.patch is not None:
            check = await self._resources.health_checks.patch(check, decision.patch)
            decision = self._decide(replace(seen, check=check))
        for machine in decision.mark:
            await self._mark(machine)
        if decision.status is not None:
            await self._resources.health_checks.update_status(decision.status)
        return decision.again

    def _look(self, check: Object) -> Snapshot:
        resources = self._resources
        key = check["metadata"]["namespace"], cluster_name(check)
        machines = resources.machines.by("cluster", key)
        return Snapshot(check, resources.clusters.get(*key), [(each, resources.node_of(each)) for each in machines])

    def _decide(self, seen: Snapshot) -> Decision:
        now = self._clock.now()
        return decide(seen, now, rfc3339(now))

    async def _mark(self, machine: Object) -> None:
        try:
            await self._resources.machines.update_status(machine)
        except NotFound:
            return  # deleted meanwhile


def _of_interest(cluster: Object) -> Hashable:
    types = ("ControlPlaneInitialized", "InfrastructureReady")
    held = tuple(condition_is(cluster, type_) for type_ in types)
    return cluster["metadata"]["uid"], is_deleting(cluster), is_paused(cluster, cluster), held
