"""Existing and in-flight nodes with their free resources, as input of the simulation. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from shoal.fit.ports import host_ports
from shoal.fit.requirements import from_expressions
from shoal.fit.resources import Resources, add_to, allocatable, amounts, subtract_from, total
from shoal.fit.taints import UNSCHEDULABLE
from shoal.kinds.karpenter import INITIALIZED, INITIALIZED_LABEL, is_ephemeral, is_going, pool_of, provider_id
from shoal.objects.conditions import condition_is
from shoal.provision.cloudprovider import Instance
from shoal.provision.pods import is_of_the_node
from shoal.provision.simulation.model import NODES, Place
from shoal.provision.simulation.templates import Daemon, daemon, overhead

Object = dict[str, Any]
PodsOn = Callable[[str], Sequence[Object]]
Requests = Callable[[Object], Resources]


def places(
    nodes: Iterable[Object],
    claims: Iterable[Object],
    foreseen: Mapping[str, Instance],
    daemons: Sequence[Object],
    pods_on: PodsOn,
    requests: Requests,
) -> list[Place]:
    """Ready nodes first, by name; then in-flight nodes. `expected_instances`: by name of the NodeClaim."""
    nodes = list(nodes)
    running = [daemon(each) for each in daemons]
    by_id = {(node.get("spec") or {}).get("providerID"): node for node in nodes}
    managed: dict[str, Object] = {}
    there, coming = [], []
    for claim in claims:
        expected = foreseen.get(claim["metadata"]["name"])
        # The node may exist before the NodeClaim's status names it.
        named = provider_id(claim) or (expected.provider_id if expected is not None else "")
        node = by_id.get(named) if named else None
        if node is not None:
            managed[node["metadata"]["name"]] = claim
        if is_going(claim) or condition_is(claim, INITIALIZED) or (node is not None and is_going(node)):
            continue
        found = _coming(claim, node, expected)
        if found is not None:
            coming.append(_occupied(found, node, running, pods_on, requests))
    for node in nodes:
        owner = managed.get(node["metadata"]["name"])
        if is_going(node) or (owner is not None and (is_going(owner) or not condition_is(owner, INITIALIZED))):
            continue
        if owner is None and pool_of(node) and INITIALIZED_LABEL not in (node["metadata"].get("labels") or {}):
            continue  # its NodeClaim is not in the cache yet
        there.append(_occupied(_there(node, owner), node, running, pods_on, requests))
    return [*sorted(there, key=_name), *sorted(coming, key=_name)]


def going(nodes: Iterable[Object], claims: Iterable[Object]) -> list[Object]:
    """Nodes that are being deleted, or whose NodeClaim is. Their pods need other nodes."""
    leaving = {provider_id(claim) for claim in claims if is_going(claim)} - {""}
    return [node for node in nodes if is_going(node) or (node.get("spec") or {}).get("providerID") in leaving]


def left(nodes: Iterable[Object], pods_on: PodsOn) -> list[Place]:
    """Nodes that accept no more pods, with the pods still on them."""
    found = [_there(node, None) for node in nodes]
    for place in found:
        place.pods = _running(pods_on(place.name))
    return sorted(found, key=_name)


def used(claims: Iterable[Object], pool: str, foreseen: Mapping[str, Instance]) -> Resources:
    """Total capacity of a NodePool's nodes including in-flight ones; `nodes` is their number."""
    sum_: Resources = {NODES: 0}
    for claim in claims:
        if pool_of(claim) != pool:
            continue
        has = amounts((claim.get("status") or {}).get("capacity"))
        expected = foreseen.get(claim["metadata"]["name"])
        add_to(sum_, has or (expected.capacity if expected is not None else {}))
        sum_[NODES] += 1
    return sum_


def _coming(claim: Object, node: Object | None, instance: Instance | None) -> Place | None:
    """Startup taints and ephemeral taints are ignored: they are removed before pods arrive."""
    status = claim.get("status") or {}
    has = allocatable(node) if node is not None else {}
    has = has or amounts(status.get("allocatable")) or (dict(instance.allocatable) if instance is not None else {})
    if not has:
        return None
    labels = {
        **from_expressions(claim["spec"].get("requirements")).labels(),
        **(instance.labels if instance is not None else {}),
        **(claim["metadata"].get("labels") or {}),
    }
    taints = [taint for taint in (claim["spec"].get("taints") or ()) if not is_ephemeral(taint)]
    return Place(claim["metadata"]["name"], "NodeClaim", labels, taints, has, initialized=False)


def _there(node: Object, claim: Object | None) -> Place:
    spec, metadata = node.get("spec") or {}, node["metadata"]
    taints = [*(spec.get("taints") or ()), *([UNSCHEDULABLE] if spec.get("unschedulable") else ())]
    place = Place(metadata["name"], "Node", metadata.get("labels") or {}, taints, allocatable(node))
    place.claim = claim["metadata"]["name"] if claim is not None else ""
    return place


def _occupied(
    place: Place, node: Object | None, daemons: Sequence[Daemon], pods_on: PodsOn, requests: Requests
) -> Place:
    pods = pods_on(node["metadata"]["name"]) if node is not None else ()
    running = _running(pods)
    for pod in running:
        subtract_from(place.free, requests(pod))
        place.ports |= host_ports(pod)
    expected = overhead(daemons, place.labels, place.taints)
    subtract_from(expected, total(requests(pod) for pod in running if is_of_the_node(pod)))
    subtract_from(place.free, {name: amount for name, amount in expected.items() if amount > 0})
    place.pods = running
    return place


def _running(pods: Iterable[Object]) -> list[Object]:
    return [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]


def _name(place: Place) -> str:
    return place.name
