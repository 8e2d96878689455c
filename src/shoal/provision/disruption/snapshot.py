"""Builds disruption snapshots of a cluster from ClusterState."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from shoal.clock import rfc3339
from shoal.kinds.karpenter.karpenter import (
    INITIALIZED,
    is_deleting,
    is_managed_node_class,
    nodepool_of,
    nodepool_template_spec,
    provider_id,
)
from shoal.objects.conditions import condition_is
from shoal.provision.disruption.drift import with_consolidatable
from shoal.provision.disruption.model import DisruptionSnapshot, StateNode
from shoal.provision.disruption.nodeclaim_conditions import NodeClaimConditionReconciler
from shoal.provision.evictability import PDBLimits, is_currently_reschedulable, is_reschedulable
from shoal.provision.simulation.model import NodePoolInput, SchedulingInput
from shoal.provision.state import ClusterState
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]


class Provisioner(Protocol):
    """Interface of the provisioner: nominations, pending plans and the scheduling input."""

    def is_nominated(self, cluster: str, claim: str, node: str) -> bool: ...

    def has_unplanned_pods(self, cluster: str) -> bool: ...

    def nominate(self, cluster: str, nominations: Mapping[str, str]) -> None: ...

    def scheduling_input(self, cluster: str, pods: list[Object]) -> SchedulingInput: ...


class SnapshotBuilder:
    def __init__(self, state: ClusterState, conditions: NodeClaimConditionReconciler, provisioner: Provisioner) -> None:
        self._state, self._conditions, self._provisioner = state, conditions, provisioner

    def has_unplanned_pods(self, cluster: str) -> bool:
        """True if pods are pending that no plan has covered yet."""
        return self._provisioner.has_unplanned_pods(cluster)

    def is_settled(self, cluster: str) -> bool:
        """True if no pod is pending and no node is starting or being deleted."""
        all_initialized = all(
            condition_is(each, INITIALIZED) and not is_deleting(each)
            for each in self._state.node_claims.by_index(by_cluster, cluster)
        )
        return all_initialized and not self._state.pending_pods(cluster)

    def state_nodes(
        self, cluster: str, disrupting: Collection[str], replacements: Collection[str], now: float
    ) -> list[StateNode]:
        """`disrupting`: NodeClaims that commands in flight delete. `replacements`: NodeClaims that they wait for."""
        state_nodes = []
        for claim in self._state.node_claims.by_index(by_cluster, cluster):
            node = self._state.node_by_provider_id(cluster, provider_id(claim))
            pool = self._state.node_pools.get((cluster, "", nodepool_of(claim)))
            if (
                node is None
                or pool is None
                or not condition_is(claim, INITIALIZED)
                or not is_managed_node_class(claim["spec"])
            ):
                continue
            name, node_name = claim["metadata"]["name"], node["metadata"]["name"]
            last_pod_event = self._conditions.last_pod_event(cluster, claim)
            current_claim = with_consolidatable(claim, pool, last_pod_event, now)
            current_claim = {
                **current_claim,
                "status": {**current_claim["status"], "lastPodEventTime": rfc3339(last_pod_event)},
            }
            nominated = name in replacements or self._provisioner.is_nominated(cluster, name, node_name)
            pods = tuple(self._state.pods_on(cluster, node_name))
            state_nodes.append(StateNode(node, current_claim, pods, nominated, name in disrupting))
        return state_nodes

    def light_snapshot(self, cluster: str, nodes: Iterable[StateNode], now: float) -> DisruptionSnapshot:
        """Enough to find empty nodes."""
        pdbs = tuple(self._state.pdbs.by_index(by_cluster, cluster))
        return DisruptionSnapshot(SchedulingInput(()), tuple(nodes), pdbs, now, tuple(self._pool_inputs(cluster)))

    def full_snapshot(self, cluster: str, nodes: Iterable[StateNode], now: float) -> DisruptionSnapshot:
        state_nodes, pdbs = tuple(nodes), tuple(self._state.pdbs.by_index(by_cluster, cluster))
        limits = PDBLimits(pdbs)
        leaving = [each for each in state_nodes if each.disrupting or is_deleting(each.claim) or is_deleting(each.node)]
        displaced = [pod for each in leaving for pod in each.pods if is_currently_reschedulable(pod, limits, now)]
        pending = self._state.pending_pods(cluster)
        # The volume requirements of every pod that might move must be known.
        movable = [pod for each in state_nodes for pod in each.pods if is_reschedulable(pod)]
        inputs = self._provisioner.scheduling_input(cluster, [*pending, *movable])
        inputs = _without_nodes(replace(inputs, pods=[*pending, *displaced]), {each.name for each in leaving})
        buying = {pool.name for pool in inputs.node_pools}
        idle = tuple(pool for pool in self._pool_inputs(cluster) if pool.name not in buying)
        return DisruptionSnapshot(inputs, state_nodes, pdbs, now, idle)

    def _pool_inputs(self, cluster: str) -> list[NodePoolInput]:
        return [
            NodePoolInput(pool, self._conditions.instance_types(cluster, pool), {}, {})
            for pool in self._state.node_pools.by_index(by_cluster, cluster)
            if is_managed_node_class(nodepool_template_spec(pool))
        ]


def _without_nodes(inputs: SchedulingInput, names: Collection[str]) -> SchedulingInput:
    """Moves nodes that are being deleted to the draining nodes."""
    removed = [place for place in inputs.existing_nodes if place.name in names]
    draining = {place.name for place in inputs.draining_nodes}
    kept = [place for place in inputs.existing_nodes if place.name not in names]
    return replace(
        inputs,
        existing_nodes=kept,
        draining_nodes=[*inputs.draining_nodes, *(each for each in removed if each.name not in draining)],
    )
