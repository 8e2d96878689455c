"""Existing and in-flight nodes with their free resources, as input of the simulation. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from shoal.fit.ports import host_ports
from shoal.fit.requirements import from_expressions
from shoal.fit.resources import Resources, add_to, allocatable, parse_amounts, subtract_from, total
from shoal.fit.taints import UNSCHEDULABLE
from shoal.kinds.karpenter.karpenter import (
    INITIALIZED,
    INITIALIZED_LABEL,
    is_deleting,
    is_ephemeral_taint,
    nodepool_of,
    provider_id,
)
from shoal.objects.conditions import condition_is
from shoal.provision.cloudprovider.types import Instance
from shoal.provision.pods import is_node_owned
from shoal.provision.simulation.model import NODES, ExistingNode
from shoal.provision.simulation.nodeclaim_template import DaemonOverhead, daemon_overhead_of, daemon_requests

Object = dict[str, Any]
PodsOnNode = Callable[[str], Sequence[Object]]
PodRequests = Callable[[Object], Resources]


def existing_nodes(
    nodes: Iterable[Object],
    claims: Iterable[Object],
    expected_instances: Mapping[str, Instance],
    daemons: Sequence[Object],
    pods_on: PodsOnNode,
    requests: PodRequests,
) -> list[ExistingNode]:
    """Ready nodes first, by name; then in-flight nodes. `expected_instances`: by name of the NodeClaim."""
    nodes = list(nodes)
    daemon_overheads = [daemon_overhead_of(each) for each in daemons]
    by_id = {(node.get("spec") or {}).get("providerID"): node for node in nodes}
    managed: dict[str, Object] = {}
    registered, inflight = [], []
    for claim in claims:
        expected = expected_instances.get(claim["metadata"]["name"])
        # The node may exist before the NodeClaim's status names it.
        provider = provider_id(claim) or (expected.provider_id if expected is not None else "")
        node = by_id.get(provider) if provider else None
        if node is not None:
            managed[node["metadata"]["name"]] = claim
        if is_deleting(claim) or condition_is(claim, INITIALIZED) or (node is not None and is_deleting(node)):
            continue
        existing = _inflight_node(claim, node, expected)
        if existing is not None:
            inflight.append(_with_pods(existing, node, daemon_overheads, pods_on, requests))
    for node in nodes:
        owner = managed.get(node["metadata"]["name"])
        if is_deleting(node) or (owner is not None and (is_deleting(owner) or not condition_is(owner, INITIALIZED))):
            continue
        if owner is None and nodepool_of(node) and INITIALIZED_LABEL not in (node["metadata"].get("labels") or {}):
            continue  # its NodeClaim is not in the cache yet
        registered.append(_with_pods(_registered_node(node, owner), node, daemon_overheads, pods_on, requests))
    return [*sorted(registered, key=_name), *sorted(inflight, key=_name)]


def deleting_nodes(nodes: Iterable[Object], claims: Iterable[Object]) -> list[Object]:
    """Nodes that are being deleted, or whose NodeClaim is. Their pods need other nodes."""
    deleting_ids = {provider_id(claim) for claim in claims if is_deleting(claim)} - {""}
    return [node for node in nodes if is_deleting(node) or (node.get("spec") or {}).get("providerID") in deleting_ids]


def draining_nodes(nodes: Iterable[Object], pods_on: PodsOnNode) -> list[ExistingNode]:
    """Nodes that accept no more pods, with the pods still on them."""
    draining = [_registered_node(node, None) for node in nodes]
    for existing in draining:
        existing.pods = _running_pods(pods_on(existing.name))
    return sorted(draining, key=_name)


def pool_usage(claims: Iterable[Object], pool: str, expected_instances: Mapping[str, Instance]) -> Resources:
    """Total capacity of a NodePool's nodes including in-flight ones; `nodes` is their number."""
    usage: Resources = {NODES: 0}
    for claim in claims:
        if nodepool_of(claim) != pool:
            continue
        capacity = parse_amounts((claim.get("status") or {}).get("capacity"))
        expected = expected_instances.get(claim["metadata"]["name"])
        add_to(usage, capacity or (expected.capacity if expected is not None else {}))
        usage[NODES] += 1
    return usage


def _inflight_node(claim: Object, node: Object | None, instance: Instance | None) -> ExistingNode | None:
    """Startup taints and ephemeral taints are ignored: they are removed before pods arrive."""
    status = claim.get("status") or {}
    available = allocatable(node) if node is not None else {}
    available = (
        available
        or parse_amounts(status.get("allocatable"))
        or (dict(instance.allocatable) if instance is not None else {})
    )
    if not available:
        return None
    labels = {
        **from_expressions(claim["spec"].get("requirements")).labels(),
        **(instance.labels if instance is not None else {}),
        **(claim["metadata"].get("labels") or {}),
    }
    taints = [taint for taint in (claim["spec"].get("taints") or ()) if not is_ephemeral_taint(taint)]
    return ExistingNode(claim["metadata"]["name"], "NodeClaim", labels, taints, available, initialized=False)


def _registered_node(node: Object, claim: Object | None) -> ExistingNode:
    spec, metadata = node.get("spec") or {}, node["metadata"]
    taints = [*(spec.get("taints") or ()), *([UNSCHEDULABLE] if spec.get("unschedulable") else ())]
    existing = ExistingNode(metadata["name"], "Node", metadata.get("labels") or {}, taints, allocatable(node))
    existing.node_claim = claim["metadata"]["name"] if claim is not None else ""
    return existing


def _with_pods(
    existing: ExistingNode,
    node: Object | None,
    daemons: Sequence[DaemonOverhead],
    pods_on: PodsOnNode,
    requests: PodRequests,
) -> ExistingNode:
    pods = pods_on(node["metadata"]["name"]) if node is not None else ()
    running = _running_pods(pods)
    for pod in running:
        subtract_from(existing.free, requests(pod))
        existing.ports |= host_ports(pod)
    expected = daemon_requests(daemons, existing.labels, existing.taints)
    subtract_from(expected, total(requests(pod) for pod in running if is_node_owned(pod)))
    subtract_from(existing.free, {name: amount for name, amount in expected.items() if amount > 0})
    existing.pods = running
    return existing


def _running_pods(pods: Iterable[Object]) -> list[Object]:
    return [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]


def _name(existing: ExistingNode) -> str:
    return existing.name
