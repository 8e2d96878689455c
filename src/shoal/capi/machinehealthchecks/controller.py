"""Reconciles MachineHealthChecks: checks the selected Machines and their Nodes, and writes the results into the
Machines' status.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from shoal.capi.informers import (
    CAPIInformers,
    NamespacedName,
    by_cluster_name,
    has_changed,
    namespaced_name,
    versions,
)
from shoal.capi.machinehealthchecks.decide import HealthCheckDecision, HealthCheckSnapshot, decide
from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.kinds.clusterapi.capi import (
    NODE_CLUSTER_NAMESPACE,
    NODE_MACHINE,
    annotations_of,
    cluster_name,
    is_deleting,
    is_paused,
)
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller

Object = dict[str, Any]


class MachineHealthCheckReconciler:
    def __init__(self, informers: CAPIInformers, clock: Clock) -> None:
        self._informers, self._clock = informers, clock
        self.controller: Controller[NamespacedName] = Controller("capi-machinehealthchecks", clock, self.reconcile)
        informers.health_checks.add_event_handler(lambda key, old, new: self.controller.queue.add(key[1:]))
        informers.machines.add_event_handler(self._on_machine)
        informers.clusters.add_event_handler(self._on_cluster)
        informers.add_node_handler(self._on_node)

    def _enqueue_cluster(self, cluster: NamespacedName) -> None:
        for check in self._informers.health_checks.by_index(by_cluster_name, cluster):
            self.controller.queue.add(namespaced_name(check))

    def _on_machine(self, key: Key, old: Object | None, new: Object | None) -> None:
        for machine in versions(old, new):
            self._enqueue_cluster((key[1], cluster_name(machine)))

    def _on_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        if has_changed(old, new, _relevant_cluster_state):
            self._enqueue_cluster(key[1:])

    def _on_node(self, key: Key, old: Object | None, new: Object | None) -> None:
        for node in versions(old, new):
            annotations = annotations_of(node)
            namespace = annotations.get(NODE_CLUSTER_NAMESPACE, "")
            machine = self._informers.machines.get(("", namespace, annotations.get(NODE_MACHINE, "")))
            if machine is not None:
                self._enqueue_cluster((namespace, cluster_name(machine)))

    async def reconcile(self, key: NamespacedName) -> float | None:
        await self._informers.wait_for_sync()
        check = self._informers.health_checks.get(("", *key))
        if check is None:
            return None
        snapshot = self._snapshot(check)
        decision = self._decide(snapshot)
        if decision.patch is not None:
            check = await self._informers.writer.patch(self._informers.health_checks, check, decision.patch)
            decision = self._decide(replace(snapshot, check=check))
        for machine in decision.machine_statuses:
            await self._write_machine_status(machine)
        if decision.status is not None:
            await self._informers.writer.update_status(self._informers.health_checks, decision.status)
        return decision.requeue_after

    def _snapshot(self, check: Object) -> HealthCheckSnapshot:
        informers = self._informers
        key = check["metadata"]["namespace"], cluster_name(check)
        machines = informers.machines.by_index(by_cluster_name, key)
        return HealthCheckSnapshot(
            check, informers.clusters.get(("", *key)), [(each, informers.node_of(each)) for each in machines]
        )

    def _decide(self, snapshot: HealthCheckSnapshot) -> HealthCheckDecision:
        now = self._clock.now()
        return decide(snapshot, now, rfc3339(now))

    async def _write_machine_status(self, machine: Object) -> None:
        try:
            await self._informers.writer.update_status(self._informers.machines, machine)
        except NotFound:
            return  # deleted meanwhile


def _relevant_cluster_state(cluster: Object) -> Hashable:
    types = ("ControlPlaneInitialized", "InfrastructureReady")
    conditions = tuple(condition_is(cluster, type_) for type_ in types)
    return cluster["metadata"]["uid"], is_deleting(cluster), is_paused(cluster, cluster), conditions
