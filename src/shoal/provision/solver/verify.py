"""Verifies that a repacked plan keeps every constraint of the incumbent plan. Pure.

It shares only the pod constraints and the DaemonSet overhead with the packing; everything is checked pod by pod and
type by type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shoal.fit.ports import clash, host_ports
from shoal.fit.requirements import Requirement, Requirements
from shoal.fit.resources import add, fits, highest, pod_requests, total
from shoal.fit.taints import untolerated
from shoal.kinds.karpenter import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, RESERVED, template_spec, weight
from shoal.provision.cloudprovider import InstanceType, Offering
from shoal.provision.simulation.groups import EVERY
from shoal.provision.simulation.model import NODES, Ask, NewClaim, Plan, Pool, Question
from shoal.provision.simulation.templates import Template, templates

Object = dict[str, Any]


def broken(question: Question, rule: Plan, plan: Plan) -> str:
    """Returns the first error of the plan; "" if there is none."""
    return next(problems(question, rule, plan), "")


def problems(question: Question, rule: Plan, plan: Plan) -> Iterator[str]:
    if (plan.nominations, plan.failures, plan.waiting) != (rule.nominations, rule.failures, rule.waiting):
        yield "pods without a new node are not what they were"
    before = sorted(_uid(pod) for claim in rule.claims for pod in claim.pods)
    if sorted(_uid(pod) for claim in plan.claims for pod in claim.pods) != before:
        yield "not the same pods have new nodes"
    if len({claim.name for claim in plan.claims}) != len(plan.claims):
        yield "two claims have one name"
    pools = {pool.name: pool for pool in question.pools}
    kinds = {(each.name, _names(each.taints)): each for each in templates(question)}
    known = {id(claim) for claim in rule.claims}
    rooms: list[tuple[NewClaim, Mapping[str, Sequence[Offering]]]] = []
    weights = {_uid(pod): weight(pools[claim.pool].pool) for claim in rule.claims for pod in claim.pods}
    offers = _Offers()
    for claim in plan.claims:
        pool = pools[claim.pool]
        taints = (*(template_spec(pool.pool).get("taints") or ()), *claim.taints)
        template = kinds.get((pool.name, _names(taints)))
        if template is None:
            yield f"claim {claim.name}: NodePool {pool.name} has no nodes with its taints"
            continue
        suiting = offers.suiting(claim, template)
        rooms.append((claim, suiting))
        if id(claim) in known:
            continue
        wrong = (
            *_pods(claim, plan.asks, taints, weights, weight(pool.pool)),
            *_hosts(claim, plan.asks),
            *_types(claim, template, suiting),
            *_variety(claim, template),
        )
        yield from (f"claim {claim.name}: {each}" for each in wrong)
    yield from _limits(plan, pools)
    yield from _rooms(rooms)
    if plan.cost > rule.cost * (1 + 1e-9):
        yield f"it costs {plan.cost}, the rule's {rule.cost}"


def _pods(
    claim: NewClaim, asks: Mapping[str, Ask], taints: Sequence[Object], weights: Mapping[str, int], mine: int
) -> Iterator[str]:
    for pod in claim.pods:
        name, ask = pod["metadata"].get("name", ""), asks[_uid(pod)]
        if ask.bound:
            yield f"pod {name} was not to be moved"
        if weights[_uid(pod)] != mine:
            yield f"pod {name} had a NodePool of another weight"
        if untolerated(taints, ask.tolerations, EVERY) is not None:
            yield f"pod {name} does not tolerate a taint"
        for key, wanted in ask.requirements.items():
            if key != HOSTNAME and not _implies(claim.requirements.get(key), wanted):
                yield f"pod {name} wants {wanted}"
    taken = [host_ports(pod) for pod in claim.pods]
    if any(clash(one, other) for number, one in enumerate(taken) if one for other in taken[:number] if other):
        yield "two pods want one port of the host"


def _implies(has: Requirement | None, wanted: Requirement) -> bool:
    """True if every node that satisfies the one requirement satisfies the other."""
    if has is None:
        return wanted.absent and wanted.complement and not wanted.values
    both = has.intersection(wanted)
    same = (both.complement, both.values, both.gte, both.lte) == (has.complement, has.values, has.gte, has.lte)
    return same and not has.impossible and (wanted.absent or not has.absent)


def _hosts(claim: NewClaim, asks: Mapping[str, Ask]) -> Iterator[str]:
    there = [asks[_uid(pod)] for pod in claim.pods]
    for rule, most in {each for ask in there for each in ask.most}:
        if sum(rule in ask.counts for ask in there) > most:
            yield f"more than {most} pods of topology {rule} on one host"


class _Offers:
    """Caches matches: claims with equal requirements besides the type share them."""

    def __init__(self) -> None:
        self._known: dict[Any, dict[str, list[Offering]]] = {}

    def suiting(self, claim: NewClaim, template: Template) -> dict[str, list[Offering]]:
        """Available offerings by type of the claim."""
        wanted = claim.requirements.without(INSTANCE_TYPE)
        key = (id(template), frozenset(wanted.values()))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = {
                kind.name: [each for each in kind.offerings if _suits(each, kind, wanted)] for kind in template.types
            }
        named = claim.requirements.of(INSTANCE_TYPE)
        return {name: found[name] for name in claim.types if name in found and named.has(name)}


def _types(claim: NewClaim, template: Template, suiting: Mapping[str, Sequence[Offering]]) -> Iterator[str]:
    by_name = {
        each.name: (each, taken, ports)
        for each, taken, ports in zip(template.types, template.overheads, template.ports, strict=True)
    }
    requests = total(pod_requests(pod) for pod in claim.pods)
    wanted = [port for pod in claim.pods for port in host_ports(pod)]
    for name in claim.types:
        if name not in by_name:
            yield f"type {name} is not one of the NodePool"
            continue
        kind, taken, ports = by_name[name]
        if not fits(add(requests, taken), kind.allocatable):
            yield f"type {name} does not hold its pods"
        if wanted and clash(wanted, ports):
            yield f"a DaemonSet has a port of its pods on type {name}"
        if not suiting.get(name):
            yield f"type {name} cannot be had for it"
    least = min((each.price for offers in suiting.values() for each in offers), default=float("inf"))
    if claim.price < least * (1 - 1e-9):
        yield f"it is not to be had for {claim.price}"


def _suits(offering: Offering, kind: InstanceType, wanted: Requirements) -> bool:
    return (
        offering.available
        and kind.requirements.intersects(wanted)
        and all(wanted[key].has(value) for key, value in offering.labels.items() if key in wanted)
    )


def _variety(claim: NewClaim, template: Template) -> Iterator[str]:
    names = frozenset(claim.types)
    for key, least in template.least:
        kept = claim.requirements[key].min_values
        listed = [each for each in template.types if each.name in names and key in each.requirements]
        values = {value for each in listed for value in each.requirements[key].values}
        if kept != least or len(values) < least:
            yield f"{len(values)} values of {key}, and minValues is {least}"
    pinned = claim.requirements.get(CAPACITY_TYPE)
    if template.reserved and (pinned is None or pinned.has(RESERVED)):
        yield "it could get a reserved machine that was not given to it"


def _limits(plan: Plan, pools: Mapping[str, Pool]) -> Iterator[str]:
    """Counts the largest type of each claim, because any of them may be launched."""
    for pool in pools.values():
        mine = [frozenset(claim.types) for claim in plan.claims if claim.pool == pool.name]
        if not pool.limits or not mine:
            continue
        largest = {types: highest(each.capacity for each in pool.types if each.name in types) for types in set(mine)}
        for name, limit in pool.limits.items():
            more = len(mine) if name == NODES else sum(largest[types].get(name, 0) for types in mine)
            if pool.used.get(name, 0) + more > limit:
                yield f"NodePool {pool.name} has a limit of {limit} {name}"


def _rooms(claims: Sequence[tuple[NewClaim, Mapping[str, Sequence[Offering]]]]) -> Iterator[str]:
    """Checks that every claim can get an offering where counts are limited (bipartite matching)."""
    seats: dict[str, list[int]] = {}
    wants = [[each for offers in suiting.values() for each in offers] for _, suiting in claims]

    def seated(number: int, tried: set[str]) -> bool:
        for offering in wants[number]:
            if offering.name in tried:
                continue
            tried.add(offering.name)
            there = seats.setdefault(offering.name, [])
            if len(there) < (offering.room or 0):
                there.append(number)
                return True
            for other in list(there):
                if seated(other, tried):
                    there.remove(other)
                    there.append(number)
                    return True
        return False

    for number, (claim, _) in enumerate(claims):
        if all(each.room is not None for each in wants[number]) and not seated(number, set()):
            yield f"there are not enough machines for claim {claim.name}"


def _names(taints: Sequence[Object]) -> tuple[tuple[str, str, str], ...]:
    return tuple(sorted((each.get("key", ""), each.get("value") or "", each.get("effect", "")) for each in taints))


def _uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])
