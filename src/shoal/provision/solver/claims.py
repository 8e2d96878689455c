"""Converts the nodes of a packing to NodeClaims, each with all types that hold its pods, cheapest first. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shoal.fit.ports import host_ports
from shoal.fit.requirements import Requirements
from shoal.fit.resources import Resources, add, pod_requests, total
from shoal.kinds.karpenter import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE
from shoal.provision.simulation.answer import MOST_TYPES, claim_name, decided
from shoal.provision.simulation.model import NODES, NewClaim
from shoal.provision.simulation.states import State, only
from shoal.provision.simulation.templates import SIMULATED, Template
from shoal.provision.solver.instance import Node, Packing, packing
from shoal.provision.solver.problem import UNRESERVED, Option, Problem

Object = dict[str, Any]


def claims(problem: Problem, nodes: Packing) -> list[NewClaim] | None:
    """Returns None if the pods of a node, each allowed alone, are not compatible together."""
    found, others = _same(problem, nodes)
    used = {pod["metadata"]["uid"] for claim in found for pod in claim.pods}
    waiting = [[pod for pod in item.pods if pod["metadata"]["uid"] not in used] for item in problem.items]
    makers: dict[int, _Maker] = {}
    for each, times in others:
        option = problem.options[each.option]
        template = option.template
        maker = makers.setdefault(id(template), _Maker(template, problem.binding[template.name]))
        state = _state(template, [problem.items[number].ask.requirements for number, _ in each.contents])
        for _ in range(times):
            pods: list[Object] = []
            for number, amount in each.contents:
                pods += waiting[number][:amount]
                del waiting[number][:amount]
            made = None if state is None else maker.claim(option, state, pods)
            if made is None:
                return None
            found.append(made)
    return found


def _same(problem: Problem, nodes: Packing) -> tuple[list[NewClaim], Packing]:
    """Claims of the incumbent for unchanged nodes, and the other nodes."""
    known: dict[Node, list[NewClaim]] = {}
    for claim, held in problem.seen:
        # With limits, Karpenter counted a different type for it than this solver.
        if not problem.binding[claim.pool]:
            known.setdefault(held, []).append(claim)
    found: list[NewClaim] = []
    others: list[tuple[Node, int]] = []
    for each, times in nodes:
        mine = known.get(each, [])[:times]
        found += mine
        others.append((each, times - len(mine)))
    return found, packing(others)


def _state(template: Template, wishes: Sequence[Requirements]) -> State | None:
    state: State | None = template.base
    for wish in wishes:
        state = None if state is None else template.after(state, wish.without(HOSTNAME))
    if state is None or not template.reserved:
        return state
    return template.after(state, UNRESERVED)


class _Maker:
    """Builds claims of one template."""

    def __init__(self, template: Template, limits: Sequence[str]) -> None:
        self._template, self._limits = template, limits
        self._kinds: dict[State, list[tuple[int, str]]] = {}

    def claim(self, option: Option, state: State, pods: Sequence[Object]) -> NewClaim | None:
        template = self._template
        wanted = state.requirements.without(*SIMULATED)
        state = template.state(wanted)
        requests = total(pod_requests(pod) for pod in pods)
        able = template.all & state.mask & template.space.holding(requests, {})
        able &= template.capacity.within(_within(option, self._limits))
        ports = frozenset(port for pod in pods for port in host_ports(pod))
        if ports:
            able &= ~template.clashing(ports)
        ordered = [(price, number) for price, number in template.prices(state) if able >> number & 1][:MOST_TYPES]
        mask = sum(1 << number for _, number in ordered)
        if not mask >> option.type & 1 or any(template.values(key, mask) < least for key, least in template.least):
            return None
        types = tuple(template.types[number].name for _, number in ordered)
        named = frozenset(each for number, each in self._capacity_types(state) if mask >> number & 1)
        pins = [only(INSTANCE_TYPE, types), *([only(CAPACITY_TYPE, named)] if named else [])]
        requirements = _flexible(wanted.add(pins), wanted)
        return NewClaim(
            pool=template.name,
            name=claim_name(template.pool, pods),
            types=types,
            requirements=requirements,
            requests=add(requests, _least([template.overheads[number] for _, number in ordered])),
            pods=tuple(pods),
            # If the cheapest offering is limited, this claim may get another one.
            price=option.offering.price if template.limited else ordered[0][0],
            taints=template.more,
            labels=decided(template, requirements),
        )

    def _capacity_types(self, state: State) -> list[tuple[int, str]]:
        """By type index."""
        found = self._kinds.get(state)
        if found is None:
            offers = (self._template.offerings[number] for number in self._template.offers(state, self._template.all))
            pairs = {(number, offering.labels.get(CAPACITY_TYPE, "")) for number, offering in offers}
            found = self._kinds[state] = sorted((number, each) for number, each in pairs if each)
        return found


def _within(option: Option, limits: Sequence[str]) -> Resources:
    """Limited resources counted for the node: no type of the claim may use more."""
    capacity = option.template.types[option.type].capacity
    return {name: capacity.get(name, 0) for name in limits if name != NODES}


def _flexible(requirements: Requirements, wanted: Requirements) -> Requirements:
    """Copies the requested minValues."""
    return Requirements(
        replace(each, min_values=wanted[each.key].min_values) if each.key in wanted else each
        for each in requirements.values()
    )


def _least(overheads: Sequence[Resources]) -> Resources:
    """Resources that every overhead has, each at its minimum."""
    names = set.intersection(*(set(each) for each in overheads))
    return {name: min(each[name] for each in overheads) for name in sorted(names)}
