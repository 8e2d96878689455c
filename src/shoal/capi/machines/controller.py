"""Reconciles Machines: links a Machine to its infrastructure object and its Node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shoal.capi.machines.decide import Decision, Snapshot, decide
from shoal.capi.machines.drain import Drain, eviction, is_unreachable, plan
from shoal.capi.resources import Changes, Name, Resources, name_of, standing
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.kinds.capi import (
    CONTROL_PLANE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    NODE_CLUSTER_NAMESPACE,
    NODE_MACHINE,
    annotations_of,
    is_deleting,
    labels_of,
    owner_of,
)
from shoal.objects.errors import NotFound, StatusError
from shoal.runtime.loop import Loop

Object = dict[str, Any]

PODS = Kind("", "v1", "pods")
NODES = Kind("", "v1", "nodes", namespaced=False)
WORKERS = 16


class MachineLoop:
    def __init__(self, resources: Resources, clock: Clock) -> None:
        self._resources, self._clock = resources, clock
        self.loop: Loop[Name] = Loop("capi-machines", clock, self.reconcile, WORKERS)
        self._clusters, self._deployments = Changes(standing), Changes(lambda obj: obj["metadata"].get("generation"))
        resources.follow(resources.machines, self.loop.queue)
        resources.clusters.listen(self._cluster)
        resources.deployments.listen(self._deployment)
        resources.listen_to_provided(self._provided)
        resources.listen_to_nodes(self._node)

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

    def _provided(self, obj: Object) -> None:
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
        if decision.drain and seen.node is not None:
            seen = replace(seen, drain=await self._drain(machine, seen.node))
            decision = self._decide(seen)
        if decision.delete_node and seen.node is not None:
            await self._delete_node(seen, decision)
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
            last_leader=self._is_last_leader(machine),
        )

    def _is_last_leader(self, machine: Object) -> bool:
        if CONTROL_PLANE not in labels_of(machine):
            return False
        key = machine["metadata"]["namespace"], machine["spec"]["clusterName"]
        leaders = [each for each in self._resources.machines.by("cluster", key) if CONTROL_PLANE in labels_of(each)]
        return all(is_deleting(each) or each is machine for each in leaders)

    def _decide(self, seen: Snapshot) -> Decision:
        now = self._clock.now()
        return decide(seen, now, rfc3339(now))

    async def _act(self, seen: Snapshot, decision: Decision) -> None:
        resources = self._resources
        if decision.infrastructure is not None and seen.infrastructure is not None:
            await resources.of(seen.infrastructure).patch(seen.infrastructure, decision.infrastructure)
        if decision.status is not None and not resources.can_wait(self.loop.queue, seen.machine, decision.status):
            await resources.machines.update_status(decision.status)
        if decision.node is not None and seen.node is not None:
            await self._mark(seen.machine, seen.node, decision.node)
        if decision.delete and seen.infrastructure is not None:
            await resources.of(seen.infrastructure).delete(seen.infrastructure)

    async def _drain(self, machine: Object, node: Object) -> Drain:
        """Cordons the Node first, so that no Pod is scheduled while others are evicted."""
        client = self._resources.workload(machine)
        if client is None:
            return Drain()
        if not (node.get("spec") or {}).get("unschedulable"):
            await self._mark(machine, node, {"spec": {"unschedulable": True}})
        try:
            pods, _ = await client.list_all(PODS, fields=f"spec.nodeName={node['metadata']['name']}")
        except NotFound:
            return Drain()  # the workload cluster was deleted
        unreachable = is_unreachable(node)
        wanted = plan(pods, unreachable, self._clock.now())
        failed: dict[str, tuple[Object, ...]] = {}
        gone = []
        for pod in wanted.evict:
            try:
                await client.call("POST", _eviction(client, pod), body=eviction(pod, unreachable))
            except NotFound:
                gone.append(pod)
            except StatusError as error:
                said = " ".join([error.message, *(cause.message for cause in error.causes)])
                failed[said] = (*failed.get(said, ()), pod)
        held = [*gone, *(pod for pods in failed.values() for pod in pods)]
        return replace(wanted, evict=tuple(pod for pod in wanted.evict if pod not in held), failed=failed)

    async def _delete_node(self, seen: Snapshot, decision: Decision) -> None:
        assert seen.node is not None
        client = self._resources.workload(seen.machine)
        try:
            if client is not None:
                await client.delete(NODES, seen.node["metadata"]["name"], uid=seen.node["metadata"]["uid"])
        except NotFound:
            pass
        except StatusError:
            if decision.patch is None:
                raise
        if decision.patch is None:
            self.loop.queue.add(name_of(seen.machine))

    async def _mark(self, machine: Object, node: Object, patch: Object) -> None:
        try:
            await self._resources.patch_node(machine, node, patch)
        except NotFound:
            return  # the Node or its cluster was deleted; the watch reports it


def _eviction(client: Client, pod: Object) -> str:
    return client.path(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"], "eviction")
