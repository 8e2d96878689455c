"""Reconciles Machines: links a Machine to its infrastructure object and its Node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shoal.capi.informers import (
    CAPIInformers,
    NamespacedName,
    by_cluster_name,
    by_reference,
    cluster_state_for_machines,
    has_changed,
    namespaced_name,
    versions,
)
from shoal.capi.machines.decide import MachineDecision, MachineSnapshot, decide
from shoal.capi.machines.drain import DrainState, eviction_body, is_unreachable, plan_drain
from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.kinds.clusterapi.capi import (
    CONTROL_PLANE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    NODE_CLUSTER_NAMESPACE,
    NODE_MACHINE,
    annotations_of,
    is_deleting,
    labels_of,
    owner_name,
)
from shoal.objects.errors import NotFound, StatusError
from shoal.runtime.controller import Controller

Object = dict[str, Any]

PODS = GroupVersionResource("", "v1", "pods")
NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
WORKERS = 16


class MachineReconciler:
    def __init__(self, informers: CAPIInformers, clock: Clock) -> None:
        self._informers, self._clock = informers, clock
        self.controller: Controller[NamespacedName] = Controller("capi-machines", clock, self.reconcile, WORKERS)
        informers.enqueue_on_change(informers.machines, self.controller.queue)
        informers.clusters.add_event_handler(self._on_cluster)
        informers.machine_deployments.add_event_handler(self._on_deployment)
        informers.add_provider_handler(self._on_provider_object)
        informers.add_node_handler(self._on_node)

    def _on_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        if not has_changed(old, new, cluster_state_for_machines):
            return
        for machine in self._informers.machines.by_index(by_cluster_name, key[1:]):
            self.controller.queue.add(namespaced_name(machine))

    def _on_deployment(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None or not has_changed(old, new, _generation):
            return
        for each in self._informers.controlled_by(self._informers.machine_sets, new):
            for machine in self._informers.controlled_by(self._informers.machines, each):
                self.controller.queue.add(namespaced_name(machine))

    def _on_provider_object(self, key: Key, old: Object | None, new: Object | None) -> None:
        for obj in versions(old, new):
            for machine in self._informers.machines.by_index(by_reference, (obj["kind"], *key[1:])):
                self.controller.queue.add(namespaced_name(machine))

    def _on_node(self, key: Key, old: Object | None, new: Object | None) -> None:
        for node in versions(old, new):
            annotations = annotations_of(node)
            if annotations.get(NODE_MACHINE):
                self.controller.queue.add((annotations.get(NODE_CLUSTER_NAMESPACE, ""), annotations[NODE_MACHINE]))

    async def reconcile(self, key: NamespacedName) -> float | None:
        await self._informers.wait_for_sync()
        machine = self._informers.machines.get(("", *key))
        if machine is None:
            return None
        snapshot = self._snapshot(machine)
        decision = self._decide(snapshot)
        if decision.drain and snapshot.node is not None:
            snapshot = replace(snapshot, drain=await self._drain_node(machine, snapshot.node))
            decision = self._decide(snapshot)
        if decision.delete_node and snapshot.node is not None:
            await self._delete_node(snapshot, decision)
        if decision.patch is not None:
            machine = await self._informers.writer.patch(self._informers.machines, machine, decision.patch)
            snapshot = replace(snapshot, machine=machine, node=self._informers.node_of(machine))
            decision = self._decide(snapshot)
        await self._apply(snapshot, decision)
        return decision.requeue_after

    def _snapshot(self, machine: Object) -> MachineSnapshot:
        informers, namespace = self._informers, machine["metadata"]["namespace"]
        machine_set = informers.machine_sets.get(("", namespace, owner_name(machine, MACHINE_SET)))
        deployment = None
        if machine_set is not None:
            deployment = informers.machine_deployments.get(("", namespace, owner_name(machine_set, MACHINE_DEPLOYMENT)))
        return MachineSnapshot(
            machine=machine,
            cluster=informers.clusters.get(("", namespace, machine["spec"]["clusterName"])),
            infrastructure=informers.resolve_reference(namespace, machine["spec"].get("infrastructureRef")),
            node=informers.node_of(machine),
            machine_set=machine_set,
            deployment=deployment,
            is_last_control_plane=self._is_last_control_plane(machine),
        )

    def _is_last_control_plane(self, machine: Object) -> bool:
        if CONTROL_PLANE not in labels_of(machine):
            return False
        key = machine["metadata"]["namespace"], machine["spec"]["clusterName"]
        control_plane_machines = [
            each for each in self._informers.machines.by_index(by_cluster_name, key) if CONTROL_PLANE in labels_of(each)
        ]
        return all(is_deleting(each) or each is machine for each in control_plane_machines)

    def _decide(self, snapshot: MachineSnapshot) -> MachineDecision:
        now = self._clock.now()
        return decide(snapshot, now, rfc3339(now))

    async def _apply(self, snapshot: MachineSnapshot, decision: MachineDecision) -> None:
        informers = self._informers
        if decision.patch_infrastructure is not None and snapshot.infrastructure is not None:
            await informers.writer.patch(
                informers.informer_of(snapshot.infrastructure), snapshot.infrastructure, decision.patch_infrastructure
            )
        if decision.status is not None and not informers.defer_status(
            self.controller.queue, snapshot.machine, decision.status
        ):
            await informers.writer.update_status(informers.machines, decision.status)
        if decision.patch_node is not None and snapshot.node is not None:
            await self._patch_node(snapshot.machine, snapshot.node, decision.patch_node)
        if decision.delete_infrastructure and snapshot.infrastructure is not None:
            await informers.writer.delete(informers.informer_of(snapshot.infrastructure), snapshot.infrastructure)

    async def _drain_node(self, machine: Object, node: Object) -> DrainState:
        """Cordons the Node first, so that no Pod is scheduled while others are evicted."""
        client = self._informers.workload_client(machine)
        if client is None:
            return DrainState()
        if not (node.get("spec") or {}).get("unschedulable"):
            await self._patch_node(machine, node, {"spec": {"unschedulable": True}})
        try:
            pods, _ = await client.list_all(PODS, fields=f"spec.nodeName={node['metadata']['name']}")
        except NotFound:
            return DrainState()  # the workload cluster was deleted
        unreachable = is_unreachable(node)
        drain_plan = plan_drain(pods, unreachable, self._clock.now())
        failed: dict[str, tuple[Object, ...]] = {}
        deleted = []
        for pod in drain_plan.evict:
            try:
                await client.request("POST", _eviction_path(client, pod), body=eviction_body(pod, unreachable))
            except NotFound:
                deleted.append(pod)
            except StatusError as error:
                reason = " ".join([error.message, *(cause.message for cause in error.causes)])
                failed[reason] = (*failed.get(reason, ()), pod)
        not_evicted = [*deleted, *(pod for pods in failed.values() for pod in pods)]
        return replace(
            drain_plan, evict=tuple(pod for pod in drain_plan.evict if pod not in not_evicted), failed=failed
        )

    async def _delete_node(self, snapshot: MachineSnapshot, decision: MachineDecision) -> None:
        assert snapshot.node is not None
        client = self._informers.workload_client(snapshot.machine)
        try:
            if client is not None:
                await client.delete(NODES, snapshot.node["metadata"]["name"], uid=snapshot.node["metadata"]["uid"])
        except NotFound:
            pass
        except StatusError:
            if decision.patch is None:
                raise
        if decision.patch is None:
            self.controller.queue.add(namespaced_name(snapshot.machine))

    async def _patch_node(self, machine: Object, node: Object, patch: Object) -> None:
        try:
            await self._informers.patch_node(machine, node, patch)
        except NotFound:
            return  # the Node or its cluster was deleted; the watch reports it


def _eviction_path(client: Client, pod: Object) -> str:
    return client.resource_path(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"], "eviction")


def _generation(obj: Object) -> int:
    return int(obj["metadata"].get("generation", 0))
