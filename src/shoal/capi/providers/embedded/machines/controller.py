"""Reconciles EmbeddedMachines: one Node in the hosted cluster for each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shoal.capi.informers import NamespacedName, cluster_state_for_machines, has_changed, namespaced_name
from shoal.capi.providers.embedded.informers import EmbeddedInformers, by_cluster_label
from shoal.capi.providers.embedded.machines.decide import EmbeddedMachineDecision, EmbeddedMachineSnapshot, decide
from shoal.client.reflector import Key
from shoal.clock import Clock, rfc3339
from shoal.kinds.clusterapi import capi, embedded
from shoal.objects.errors import AlreadyExists
from shoal.runtime.controller import Controller

Object = dict[str, Any]

WORKERS = 16


class EmbeddedMachineReconciler:
    def __init__(self, informers: EmbeddedInformers, clock: Clock) -> None:
        self._informers, self._clock = informers, clock
        self.controller: Controller[NamespacedName] = Controller(
            "capi-embeddedmachines", clock, self.reconcile, WORKERS
        )
        informers.core_informers.enqueue_on_change(informers.machines, self.controller.queue)
        informers.core_informers.clusters.add_event_handler(self._on_cluster)
        informers.nodes.add_event_handler(self._on_node)

    def _on_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        if has_changed(old, new, cluster_state_for_machines):
            for machine in self._informers.machines.by_index(by_cluster_label, key[1:]):
                self.controller.queue.add(namespaced_name(machine))

    def _on_node(self, key: Key, old: Object | None, new: Object | None) -> None:
        """Only the existence of the Node matters, not its state."""
        cluster, _, name = key
        if new is None or capi.is_deleting(new):
            self.controller.queue.add((embedded.owner_of_logical_cluster(cluster)[0], name))

    async def reconcile(self, key: NamespacedName) -> float | None:
        await self._informers.core_informers.wait_for_sync()
        obj = self._informers.machines.get(("", *key))
        if obj is None:
            return None
        snapshot = self._snapshot(obj)
        decision = self._decide(snapshot)
        if decision.patch is not None:
            obj = await self._informers.core_informers.writer.patch(self._informers.machines, obj, decision.patch)
            decision = self._decide(replace(snapshot, infrastructure=obj))
        await self._apply(snapshot, decision)
        return decision.requeue_after

    def _snapshot(self, obj: Object) -> EmbeddedMachineSnapshot:
        informers = self._informers
        namespace, name = namespaced_name(obj)
        machine = informers.core_informers.machines.get(("", namespace, capi.owner_name(obj, capi.MACHINE)))
        # If the Machine was deleted first, the label still names the cluster of the Node.
        cluster = capi.cluster_name(machine) if machine is not None else capi.labels_of(obj).get(capi.CLUSTER_NAME, "")
        hosted = informers.logical_cluster_of(namespace, cluster)
        return EmbeddedMachineSnapshot(
            infrastructure=obj,
            machine=machine,
            cluster=informers.core_informers.clusters.get(("", namespace, cluster)),
            logical_cluster=informers.logical_clusters.get(("", "", hosted)),
            node=informers.nodes.get((hosted, "", name)) if hosted else None,
        )

    def _decide(self, snapshot: EmbeddedMachineSnapshot) -> EmbeddedMachineDecision:
        now = self._clock.now()
        return decide(snapshot, now, rfc3339(now))

    async def _apply(self, snapshot: EmbeddedMachineSnapshot, decision: EmbeddedMachineDecision) -> None:
        informers, writer = self._informers, self._informers.host_writer
        if decision.create_node is not None and snapshot.logical_cluster is not None:
            hosted = snapshot.logical_cluster["metadata"]["name"]
            try:
                await writer.create(informers.nodes, decision.create_node, hosted)
            except AlreadyExists:
                await writer.get_live(informers.nodes, "", decision.create_node["metadata"]["name"], hosted)
        if decision.crash_patch is not None and snapshot.node is not None:
            await writer.patch(informers.nodes, snapshot.node, decision.crash_patch)
        if decision.status is not None and not informers.core_informers.defer_status(
            self.controller.queue, snapshot.infrastructure, decision.status
        ):
            await informers.core_informers.writer.update_status(informers.machines, decision.status)
        if decision.delete_node and snapshot.node is not None:
            await writer.delete(informers.nodes, snapshot.node)
            self.controller.queue.add(namespaced_name(snapshot.infrastructure))
