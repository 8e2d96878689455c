"""Verifies that a repacked plan keeps every constraint of the incumbent plan. Pure.

It shares only the pod constraints and the DaemonSet overhead with the packing; everything is checked pod by pod and
type by type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shoal.fit.ports import host_ports, ports_conflict
from shoal.fit.requirements import Requirement, Requirements
from shoal.fit.resources import add, fits, max_resources, pod_requests, total
from shoal.fit.taints import first_untolerated
from shoal.kinds.karpenter.karpenter import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    RESERVED,
    nodepool_template_spec,
    nodepool_weight,
)
from shoal.provision.cloudprovider.types import InstanceType, Offering
from shoal.provision.simulation.model import (
    NODES,
    NewNodeClaim,
    NodePoolInput,
    PodConstraints,
    Results,
    SchedulingInput,
)
from shoal.provision.simulation.nodeclaim_template import NodeClaimTemplate, build_templates
from shoal.provision.simulation.topology_group import ALL_EFFECTS

Object = dict[str, Any]


def first_error(inputs: SchedulingInput, incumbent: Results, plan: Results) -> str:
    """Returns the first error of the plan; "" if there is none."""
    return next(verification_errors(inputs, incumbent, plan), "")


def verification_errors(inputs: SchedulingInput, incumbent: Results, plan: Results) -> Iterator[str]:
    if (plan.nominations, plan.failures, plan.awaiting_reservation) != (
        incumbent.nominations,
        incumbent.failures,
        incumbent.awaiting_reservation,
    ):
        yield "pods without a new node differ"
    incumbent_uids = sorted(_uid(pod) for claim in incumbent.new_node_claims for pod in claim.pods)
    if sorted(_uid(pod) for claim in plan.new_node_claims for pod in claim.pods) != incumbent_uids:
        yield "the set of pods on new nodes differs"
    if len({claim.name for claim in plan.new_node_claims}) != len(plan.new_node_claims):
        yield "two claims have the same name"
    pools = {pool.name: pool for pool in inputs.node_pools}
    template_by_taints = {(each.name, _taint_key(each.taints)): each for each in build_templates(inputs)}
    unchanged = {id(claim) for claim in incumbent.new_node_claims}
    offerings_by_claim: list[tuple[NewNodeClaim, Mapping[str, Sequence[Offering]]]] = []
    weights = {
        _uid(pod): nodepool_weight(pools[claim.pool].node_pool)
        for claim in incumbent.new_node_claims
        for pod in claim.pods
    }
    matcher = _OfferingMatcher()
    for claim in plan.new_node_claims:
        pool = pools[claim.pool]
        taints = (*(nodepool_template_spec(pool.node_pool).get("taints") or ()), *claim.taints)
        template = template_by_taints.get((pool.name, _taint_key(taints)))
        if template is None:
            yield f"claim {claim.name}: NodePool {pool.name} has no template with its taints"
            continue
        matching = matcher.matching_offerings(claim, template)
        offerings_by_claim.append((claim, matching))
        if id(claim) in unchanged:
            continue
        errors = (
            *_pod_errors(claim, plan.pod_constraints, taints, weights, nodepool_weight(pool.node_pool)),
            *_host_limit_errors(claim, plan.pod_constraints),
            *_type_errors(claim, template, matching),
            *_min_values_errors(claim, template),
        )
        yield from (f"claim {claim.name}: {each}" for each in errors)
    yield from _limit_errors(plan, pools)
    yield from _offering_count_errors(offerings_by_claim)
    if plan.cost > incumbent.cost * (1 + 1e-9):
        yield f"it costs {plan.cost}, Karpenter's plan {incumbent.cost}"


def _pod_errors(
    claim: NewNodeClaim,
    constraints: Mapping[str, PodConstraints],
    taints: Sequence[Object],
    weights: Mapping[str, int],
    pool_weight: int,
) -> Iterator[str]:
    for pod in claim.pods:
        name, pod_constraints = pod["metadata"].get("name", ""), constraints[_uid(pod)]
        if pod_constraints.fixed_to_claim:
            yield f"pod {name} must not be moved"
        if weights[_uid(pod)] != pool_weight:
            yield f"pod {name} moved to a NodePool of another weight"
        if first_untolerated(taints, pod_constraints.tolerations, ALL_EFFECTS) is not None:
            yield f"pod {name} does not tolerate a taint"
        for key, required in pod_constraints.requirements.items():
            if key != HOSTNAME and not _implies(claim.requirements.get(key), required):
                yield f"pod {name} requires {required}"
    ports = [host_ports(pod) for pod in claim.pods]
    if any(ports_conflict(one, other) for number, one in enumerate(ports) if one for other in ports[:number] if other):
        yield "two pods use the same host port"


def _implies(actual: Requirement | None, required: Requirement) -> bool:
    """True if every node that satisfies the one requirement satisfies the other."""
    if actual is None:
        return required.allows_absent and required.complement and not required.values
    both = actual.intersection(required)
    is_subset = (both.complement, both.values, both.gte, both.lte) == (
        actual.complement,
        actual.values,
        actual.gte,
        actual.lte,
    )
    return is_subset and not actual.is_impossible and (required.allows_absent or not actual.allows_absent)


def _host_limit_errors(claim: NewNodeClaim, constraints: Mapping[str, PodConstraints]) -> Iterator[str]:
    all_constraints = [constraints[_uid(pod)] for pod in claim.pods]
    for rule, limit in {each for pod_constraints in all_constraints for each in pod_constraints.host_limits}:
        if sum(rule in pod_constraints.host_topologies for pod_constraints in all_constraints) > limit:
            yield f"more than {limit} pods of topology {rule} on one host"


class _OfferingMatcher:
    """Caches matches: claims with equal requirements besides the type share them."""

    def __init__(self) -> None:
        self._cache: dict[Any, dict[str, list[Offering]]] = {}

    def matching_offerings(self, claim: NewNodeClaim, template: NodeClaimTemplate) -> dict[str, list[Offering]]:
        """Available offerings by type of the claim."""
        required = claim.requirements.without(INSTANCE_TYPE)
        key = (id(template), frozenset(required.values()))
        by_type = self._cache.get(key)
        if by_type is None:
            by_type = self._cache[key] = {
                kind.name: [each for each in kind.offerings if _matches(each, kind, required)]
                for kind in template.types
            }
        type_requirement = claim.requirements.requirement_for(INSTANCE_TYPE)
        return {name: by_type[name] for name in claim.types if name in by_type and type_requirement.has(name)}


def _type_errors(
    claim: NewNodeClaim, template: NodeClaimTemplate, matching: Mapping[str, Sequence[Offering]]
) -> Iterator[str]:
    by_name = {
        each.name: (each, overhead, ports)
        for each, overhead, ports in zip(template.types, template.overheads, template.ports, strict=True)
    }
    requests = total(pod_requests(pod) for pod in claim.pods)
    pod_ports = [port for pod in claim.pods for port in host_ports(pod)]
    for name in claim.types:
        if name not in by_name:
            yield f"type {name} does not belong to the NodePool"
            continue
        kind, overhead, ports = by_name[name]
        if not fits(add(requests, overhead), kind.allocatable):
            yield f"type {name} has too few resources for its pods"
        if pod_ports and ports_conflict(pod_ports, ports):
            yield f"a DaemonSet uses a host port of its pods on type {name}"
        if not matching.get(name):
            yield f"type {name} has no offering for it"
    lowest_price = min((each.price for offers in matching.values() for each in offers), default=float("inf"))
    if claim.price < lowest_price * (1 - 1e-9):
        yield f"it has no offering at price {claim.price}"


def _matches(offering: Offering, kind: InstanceType, required: Requirements) -> bool:
    return (
        offering.available
        and kind.requirements.intersects(required)
        and all(required[key].has(value) for key, value in offering.labels.items() if key in required)
    )


def _min_values_errors(claim: NewNodeClaim, template: NodeClaimTemplate) -> Iterator[str]:
    names = frozenset(claim.types)
    for key, least in template.min_values:
        min_values = claim.requirements[key].min_values
        listed = [each for each in template.types if each.name in names and key in each.requirements]
        values = {value for each in listed for value in each.requirements[key].values}
        if min_values != least or len(values) < least:
            yield f"{len(values)} values of {key}, but minValues is {least}"
    pinned = claim.requirements.get(CAPACITY_TYPE)
    if template.reserved_offerings and (pinned is None or pinned.has(RESERVED)):
        yield "it could launch from a reservation that it does not hold"


def _limit_errors(plan: Results, pools: Mapping[str, NodePoolInput]) -> Iterator[str]:
    """Counts the largest type of each claim, because any of them may be launched."""
    for pool in pools.values():
        type_sets = [frozenset(claim.types) for claim in plan.new_node_claims if claim.pool == pool.name]
        if not pool.limits or not type_sets:
            continue
        largest = {
            types: max_resources(each.capacity for each in pool.types if each.name in types) for types in set(type_sets)
        }
        for name, limit in pool.limits.items():
            added = len(type_sets) if name == NODES else sum(largest[types].get(name, 0) for types in type_sets)
            if pool.usage.get(name, 0) + added > limit:
                yield f"NodePool {pool.name} exceeds its limit of {limit} {name}"


def _offering_count_errors(claims: Sequence[tuple[NewNodeClaim, Mapping[str, Sequence[Offering]]]]) -> Iterator[str]:
    """Checks that every claim can get an offering where counts are limited (bipartite matching)."""
    assigned: dict[str, list[int]] = {}
    acceptable = [[each for offers in suiting.values() for each in offers] for _, suiting in claims]

    def assign(number: int, tried: set[str]) -> bool:
        for offering in acceptable[number]:
            if offering.name in tried:
                continue
            tried.add(offering.name)
            holders = assigned.setdefault(offering.name, [])
            if len(holders) < (offering.remaining or 0):
                holders.append(number)
                return True
            for other in list(holders):
                if assign(other, tried):
                    holders.remove(other)
                    holders.append(number)
                    return True
        return False

    for number, (claim, _) in enumerate(claims):
        if all(each.remaining is not None for each in acceptable[number]) and not assign(number, set()):
            yield f"limited offerings are insufficient for claim {claim.name}"


def _taint_key(taints: Sequence[Object]) -> tuple[tuple[str, str, str], ...]:
    return tuple(sorted((each.get("key", ""), each.get("value") or "", each.get("effect", "")) for each in taints))


def _uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])
