"""Converts the nodes of a packing to NodeClaims, each with all types that hold its pods, cheapest first. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shoal.fit.ports import host_ports
from shoal.fit.requirements import Requirements
from shoal.fit.resources import Resources, add, pod_requests, total
from shoal.kinds.karpenter.karpenter import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE
from shoal.provision.simulation.model import NODES, NewNodeClaim
from shoal.provision.simulation.nodeclaim_template import SIMULATED_LABELS, NodeClaimTemplate
from shoal.provision.simulation.requirement_state import RequirementState, requirement_in
from shoal.provision.simulation.results import MAX_INSTANCE_TYPES, claim_name, open_label_values
from shoal.provision.solver.instance import PackedNode, Packing, merge_equal_nodes
from shoal.provision.solver.packing_problem import NOT_RESERVED, PackingOption, PackingProblem

Object = dict[str, Any]


def new_node_claims(problem: PackingProblem, nodes: Packing) -> list[NewNodeClaim] | None:
    """Returns None if the pods of a node, each allowed alone, are not compatible together."""
    result, others = _unchanged_claims(problem, nodes)
    used_uids = {pod["metadata"]["uid"] for claim in result for pod in claim.pods}
    pods_by_item = [[pod for pod in item.pods if pod["metadata"]["uid"] not in used_uids] for item in problem.items]
    builders: dict[int, _ClaimBuilder] = {}
    for each, times in others:
        option = problem.options[each.option]
        template = option.template
        builder = builders.setdefault(id(template), _ClaimBuilder(template, problem.binding_limits[template.name]))
        state = _combined_state(
            template, [problem.items[number].constraints.requirements for number, _ in each.contents]
        )
        for _ in range(times):
            pods: list[Object] = []
            for number, amount in each.contents:
                pods += pods_by_item[number][:amount]
                del pods_by_item[number][:amount]
            new_claim = None if state is None else builder.build(option, state, pods)
            if new_claim is None:
                return None
            result.append(new_claim)
    return result


def _unchanged_claims(problem: PackingProblem, nodes: Packing) -> tuple[list[NewNodeClaim], Packing]:
    """Claims of the incumbent for unchanged nodes, and the other nodes."""
    claims_by_node: dict[PackedNode, list[NewNodeClaim]] = {}
    for claim, held in problem.incumbent_nodes:
        # With limits, Karpenter counted a different type for it than this solver.
        if not problem.binding_limits[claim.pool]:
            claims_by_node.setdefault(held, []).append(claim)
    unchanged: list[NewNodeClaim] = []
    others: list[tuple[PackedNode, int]] = []
    for each, times in nodes:
        matching = claims_by_node.get(each, [])[:times]
        unchanged += matching
        others.append((each, times - len(matching)))
    return unchanged, merge_equal_nodes(others)


def _combined_state(template: NodeClaimTemplate, requirements: Sequence[Requirements]) -> RequirementState | None:
    state: RequirementState | None = template.empty_state
    for required in requirements:
        state = None if state is None else template.narrow(state, required.without(HOSTNAME))
    if state is None or not template.reserved_offerings:
        return state
    return template.narrow(state, NOT_RESERVED)


class _ClaimBuilder:
    """Builds claims of one template."""

    def __init__(self, template: NodeClaimTemplate, binding_limits: Sequence[str]) -> None:
        self._template, self._binding_limits = template, binding_limits
        self._capacity_types_by_state: dict[RequirementState, list[tuple[int, str]]] = {}

    def build(self, option: PackingOption, state: RequirementState, pods: Sequence[Object]) -> NewNodeClaim | None:
        template = self._template
        required = state.requirements.without(*SIMULATED_LABELS)
        state = template.state(required)
        requests = total(pod_requests(pod) for pod in pods)
        feasible_types = template.all_types & state.mask & template.free_resources.with_room_for(requests, {})
        feasible_types &= template.capacity.within(_capacity_limits(option, self._binding_limits))
        ports = frozenset(port for pod in pods for port in host_ports(pod))
        if ports:
            feasible_types &= ~template.types_with_port_conflict(ports)
        ordered = [(price, number) for price, number in template.prices(state) if feasible_types >> number & 1][
            :MAX_INSTANCE_TYPES
        ]
        mask = sum(1 << number for _, number in ordered)
        if not mask >> option.type_index & 1 or any(
            template.value_count(key, mask) < least for key, least in template.min_values
        ):
            return None
        types = tuple(template.types[number].name for _, number in ordered)
        capacity_types = frozenset(each for number, each in self._capacity_types(state) if mask >> number & 1)
        pins = [
            requirement_in(INSTANCE_TYPE, types),
            *([requirement_in(CAPACITY_TYPE, capacity_types)] if capacity_types else []),
        ]
        requirements = _with_min_values(required.add(pins), required)
        return NewNodeClaim(
            pool=template.name,
            name=claim_name(template.pool, pods),
            types=types,
            requirements=requirements,
            requests=add(requests, _common_overhead([template.overheads[number] for _, number in ordered])),
            pods=tuple(pods),
            # If the cheapest offering is limited, this claim may get another one.
            price=option.offering.price if template.has_limited_offerings else ordered[0][0],
            taints=template.offering_taints,
            labels=open_label_values(template, requirements),
        )

    def _capacity_types(self, state: RequirementState) -> list[tuple[int, str]]:
        """By type index."""
        pairs_by_type = self._capacity_types_by_state.get(state)
        if pairs_by_type is None:
            offers = (
                self._template.offerings[number]
                for number in self._template.offerings_of(state, self._template.all_types)
            )
            index = {(number, offering.labels.get(CAPACITY_TYPE, "")) for number, offering in offers}
            pairs_by_type = self._capacity_types_by_state[state] = sorted(
                (number, each) for number, each in index if each
            )
        return pairs_by_type


def _capacity_limits(option: PackingOption, limits: Sequence[str]) -> Resources:
    """Limited resources counted for the node: no type of the claim may use more."""
    capacity = option.template.types[option.type_index].capacity
    return {name: capacity.get(name, 0) for name in limits if name != NODES}


def _with_min_values(requirements: Requirements, required: Requirements) -> Requirements:
    """Copies the requested minValues."""
    return Requirements(
        replace(each, min_values=required[each.key].min_values) if each.key in required else each
        for each in requirements.values()
    )


def _common_overhead(overheads: Sequence[Resources]) -> Resources:
    """Resources that every overhead has, each at its minimum."""
    names = set.intersection(*(set(each) for each in overheads))
    return {name: min(each[name] for each in overheads) for name in sorted(names)}
