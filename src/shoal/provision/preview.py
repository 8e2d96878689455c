"""Computes which nodes a change of pods would add or remove in one cluster, and the cost, from a snapshot. Pure.

It runs the same simulation as the controllers; nothing is launched. Volume topology is not considered here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.fit.requirements import from_labels
from shoal.fit.resources import parse_amounts, pod_requests
from shoal.kinds.karpenter.karpenter import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    MACHINE_DEPLOYMENT_ANNOTATION,
    NEVER,
    READY,
    ZONE,
    annotation_of,
    is_deleting,
    is_managed_node_class,
    node_class_ref,
    nodepool_of,
    nodepool_template_spec,
    provider_id,
    static_replicas,
)
from shoal.objects.conditions import condition_is
from shoal.provision.cloudprovider.nodeoverlays import apply_overlays
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.clusterapi.nodegroups import group_of_deployment, is_buyable, is_selected
from shoal.provision.clusterapi.offerings import instance_types
from shoal.provision.clusterapi.price_list import PriceList
from shoal.provision.pods import is_node_owned, is_provisionable
from shoal.provision.provisioning.existing_nodes import existing_nodes, pool_usage
from shoal.provision.simulation.model import NewNodeClaim, NodePoolInput, SchedulingInput
from shoal.provision.simulation.simulate import simulate
from shoal.provision.solver.optimize import improve

Object = dict[str, Any]
_TERMINAL_PHASES = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class PreviewSnapshot:
    """All objects of one cluster that decide about its nodes."""

    nodes: Sequence[Object]
    pods: Sequence[Object]
    claims: Sequence[Object]
    pools: Sequence[Object]
    classes: Mapping[str, Object]
    overlays: Sequence[Object] = ()
    daemons: Sequence[Object] = ()
    namespaces: Mapping[str, Mapping[str, str]] | None = None
    deployments: Sequence[Object] = ()
    """MachineDeployments of its Cluster API Cluster, including those that nothing is bought from."""
    prices: PriceList = field(default_factory=PriceList)


@dataclass(frozen=True, slots=True)
class PreviewNodeClaim:
    pool: str
    instance_type: str
    """The cheapest feasible type."""
    pods: int
    price: float


@dataclass(frozen=True, slots=True)
class Preview:
    node_claims: tuple[PreviewNodeClaim, ...]
    removed_nodes: tuple[str, ...]
    """Nodes that would run no pods and that their NodePool would remove."""
    unschedulable_pods: int
    """Pods that would get no node."""
    cost_before: float
    cost_after: float
    """Hourly cost of the nodes."""
    unpriced_nodes: int = 0
    """Nodes without a known price."""


def preview(
    snapshot: PreviewSnapshot,
    added: Sequence[Object] = (),
    removed_uids: Collection[str] = (),
    stop: Callable[[], bool] = lambda: False,
) -> Preview:
    """Adds the pods `added` and removes those in `removed_uids`. When `stop` returns True, no cheaper plan is searched
    for any more.
    """
    pods = [pod for pod in snapshot.pods if pod["metadata"]["uid"] not in removed_uids and not _is_terminal(pod)]
    inputs = _build_input(snapshot, pods, added)
    plan, _ = improve(inputs, simulate(inputs), stop=stop)
    price_by_node, unpriced = node_prices(snapshot)
    removed = _removed_nodes(snapshot, pods, {place for _, _, place in plan.nominations}) if removed_uids else ()
    before = sum(price_by_node.values())
    return Preview(
        tuple(_preview_claim(claim) for claim in plan.new_node_claims),
        removed,
        len(plan.failures),
        before,
        before + plan.cost - sum(price_by_node.get(name, 0.0) for name in removed),
        unpriced,
    )


def _build_input(snapshot: PreviewSnapshot, pods: Sequence[Object], added: Sequence[Object]) -> SchedulingInput:
    pods_by_node: defaultdict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        pods_by_node[(pod.get("spec") or {}).get("nodeName") or ""].append(pod)
    pending = [pod for pod in pods_by_node[""] if is_provisionable(pod)]
    existing = existing_nodes(
        snapshot.nodes, snapshot.claims, {}, snapshot.daemons, lambda node: pods_by_node.get(node, ()), pod_requests
    )
    return SchedulingInput(
        [*pending, *added],
        existing,
        [_pool_input(snapshot, pool) for pool in snapshot.pools if _is_buying(pool)],
        snapshot.daemons,
        namespaces=snapshot.namespaces or {},
    )


def _is_buying(pool: Object) -> bool:
    is_dynamic = static_replicas(pool) is None and is_managed_node_class(nodepool_template_spec(pool))
    return is_dynamic and condition_is(pool, READY) and not is_deleting(pool)


def _pool_input(snapshot: PreviewSnapshot, pool: Object) -> NodePoolInput:
    types = apply_overlays(
        _instance_types(snapshot, snapshot.classes.get(node_class_ref(nodepool_template_spec(pool)).get("name", ""))),
        snapshot.overlays,
        pool,
    )
    limits = parse_amounts((pool.get("spec") or {}).get("limits"))
    return NodePoolInput(pool, types, pool_usage(snapshot.claims, pool["metadata"]["name"], {}), limits)


def _instance_types(snapshot: PreviewSnapshot, node_class: Object | None) -> list[InstanceType]:
    """Instance types that the node class can buy; without a class, those that any node of the cluster may have."""
    deployments = [
        each
        for each in snapshot.deployments
        if node_class is None or (is_buyable(each) and is_selected(each, node_class))
    ]
    groups = [group_of_deployment(each, None, snapshot.prices) for each in deployments]
    claimed = Counter(annotation_of(claim, MACHINE_DEPLOYMENT_ANNOTATION) for claim in snapshot.claims)
    return instance_types([each for each in groups if each.capacity], claimed)


def node_prices(snapshot: PreviewSnapshot) -> tuple[dict[str, float], int]:
    """Returns prices by name of the node, or of the NodeClaim that will become one, and the number of nodes without a
    price.
    """
    base_types = _instance_types(snapshot, None)
    types_by_pool = {
        pool["metadata"]["name"]: apply_overlays(base_types, snapshot.overlays, pool) for pool in snapshot.pools
    }
    registered = {provider_id(claim) for claim in snapshot.claims if provider_id(claim)} & {
        _provider_id(node) for node in snapshot.nodes
    }
    unregistered = [
        claim for claim in snapshot.claims if provider_id(claim) not in registered and not is_deleting(claim)
    ]
    price_by_name: dict[str, float] = {}
    unpriced = 0
    for each in [*snapshot.nodes, *unregistered]:
        price = _price_of(each["metadata"].get("labels") or {}, types_by_pool.get(nodepool_of(each), base_types))
        if price is None:
            unpriced += 1
        else:
            price_by_name[each["metadata"]["name"]] = price
    return price_by_name, unpriced


def _price_of(labels: Mapping[str, str], types: Sequence[InstanceType]) -> float | None:
    required = from_labels({key: labels[key] for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE) if key in labels})
    if INSTANCE_TYPE not in labels:
        return None
    offerings = (each for kind in types if kind.name == labels[INSTANCE_TYPE] for each in kind.offerings)
    return min((each.price for each in offerings if from_labels(each.labels).intersects(required)), default=None)


def _removed_nodes(snapshot: PreviewSnapshot, pods: Sequence[Object], nominated: Collection[str]) -> tuple[str, ...]:
    """Only nodes of a NodePool are removed."""
    occupied = {(pod.get("spec") or {}).get("nodeName") for pod in pods if not is_node_owned(pod)}
    consolidating = {
        pool["metadata"]["name"]
        for pool in snapshot.pools
        if ((pool.get("spec") or {}).get("disruption") or {}).get("consolidateAfter") != NEVER
        and static_replicas(pool) is None
    }
    occupied_before = {
        (pod.get("spec") or {}).get("nodeName")
        for pod in snapshot.pods
        if not (is_node_owned(pod) or _is_terminal(pod))
    }
    names = (
        node["metadata"]["name"]
        for node in snapshot.nodes
        if nodepool_of(node) in consolidating and not is_deleting(node)
    )
    return tuple(
        sorted(name for name in names if name in occupied_before and name not in occupied and name not in nominated)
    )


def _preview_claim(claim: NewNodeClaim) -> PreviewNodeClaim:
    return PreviewNodeClaim(claim.pool, claim.types[0], len(claim.pods), claim.price)


def _is_terminal(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _TERMINAL_PHASES


def _provider_id(node: Object) -> str:
    return str((node.get("spec") or {}).get("providerID") or "")
