"""Converts the scheduler's state to Results: claims with types by price, pod constraints and failure reasons.

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shoal.fit.requirements import Requirement, Requirements
from shoal.fit.resources import Resources, add
from shoal.kinds.karpenter import CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_ID, RESERVED
from shoal.provision.simulation.bins import Claim
from shoal.provision.simulation.groups import APART, SPREAD, TOGETHER
from shoal.provision.simulation.model import STRICT, Ask, NewClaim, Plan, Pool
from shoal.provision.simulation.reasons import Reasons
from shoal.provision.simulation.rounds import Round
from shoal.provision.simulation.shapes import Shape
from shoal.provision.simulation.states import State, only
from shoal.provision.simulation.templates import SIMULATED, Template

Object = dict[str, Any]

MOST_TYPES = 600
"""Maximum number of types in a claim; the cheapest are kept."""
TOO_FEW = "the cheapest types that a claim may name do not have the variety that minValues asks for"


def answer(round_: Round) -> Plan:
    finish = _Finish(round_)
    claims, failures, asks = [], [], dict[str, Ask]()
    for claim in round_.claims.all:
        made = finish.claim(claim)
        if made is None:
            said = f'incompatible with nodepool "{claim.template.name}", {TOO_FEW}'
            failures += [(pod, said) for pod, _ in claim.pods]
            continue
        claims.append(made)
        for pod, shape in claim.pods:
            asks[pod["metadata"]["uid"]] = finish.ask(shape, claim.state)
    reasons, waiting = Reasons(round_), []
    for pod, asking, said in round_.failed:
        if asking is not None and said:
            waiting.append((pod, said))
        else:
            failures.append((pod, said if asking is None else reasons.why(asking)))
    nominations = tuple((pod, spot.place.kind, spot.place.name) for pod, spot in round_.nominated)
    return Plan(tuple(claims), nominations, tuple(failures), asks, tuple(waiting))


class _Finish:
    """Caches by state: equal claims share their computed fields, as there may be thousands."""

    def __init__(self, round_: Round) -> None:
        self._round = round_
        self._known: dict[Any, tuple[tuple[str, ...], Requirements, float, Resources]] = {}
        self._asks: dict[tuple[Shape, State], Ask] = {}

    def claim(self, claim: Claim) -> NewClaim | None:
        key = (claim.state, claim.types, claim.least, claim.reserved)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._finished(claim)
        types, requirements, price, overhead = known
        if not types:
            return None
        if claim.template.limited:
            number, offering = self._round.rooms.settled(claim)
            first, price = claim.template.types[number].name, offering.price
            types = (first, *(name for name in types if name != first))
        pods = tuple(pod for pod, _ in claim.pods)
        return NewClaim(
            pool=claim.template.name,
            name=claim_name(claim.template.pool, pods),
            types=types,
            requirements=requirements,
            requests=add(claim.used, overhead),
            pods=pods,
            price=price,
            min_values_relaxed=claim.relaxed,
            taints=claim.template.more,
            labels=decided(claim.template, requirements),
        )

    def _finished(self, claim: Claim) -> tuple[tuple[str, ...], Requirements, float, Resources]:
        template, wanted = claim.template, claim.state.requirements.without(*SIMULATED)
        if claim.reserved:
            pins = [only(CAPACITY_TYPE, (RESERVED,)), only(RESERVATION_ID, claim.reserved)]
            wanted = wanted.without(CAPACITY_TYPE).add(pins)
        state = template.state(wanted)
        ordered = [(price, number) for price, number in template.prices(state) if claim.types >> number & 1]
        ordered = ordered[:MOST_TYPES]
        mask = sum(1 << number for _, number in ordered)
        enough = all(template.values(key, mask) >= least for key, least in claim.least)
        if not ordered or (not enough and self._round.question.min_values == STRICT):
            return (), wanted, 0.0, {}
        types = tuple(template.types[number].name for _, number in ordered)
        offered = {template.offerings[n][1].labels.get(CAPACITY_TYPE) for n in template.offers(state, mask)}
        named = frozenset(each for each in offered if each)
        pins = [only(INSTANCE_TYPE, types), *([only(CAPACITY_TYPE, named)] if named else [])]
        requirements = _with_least(wanted.add(pins), claim.least)
        return types, requirements, ordered[0][0], _lowest([template.overheads[number] for _, number in ordered])

    def ask(self, shape: Shape, state: State) -> Ask:
        known = self._asks.get((shape, state))
        if known is None:
            known = self._asks[shape, state] = self._ask(shape, state)
        return known

    def _ask(self, shape: Shape, state: State) -> Ask:
        counted = shape.counted(self._round.topology)
        keys = {group.key for group in (*shape.owned, *shape.opposing, *counted) if not group.by_host}
        keys |= {key for each in shape.asking.volumes for key in each}
        mine = (shape.asking.namespace, shape.asking.labels)
        keys |= {group.key for group in self._round.topology.inverse if not group.by_host and group.selects(*mine)}
        pins = [state.requirements[key] for key in sorted(keys) if key in state.requirements]
        hosts = [group for group in shape.owned if group.by_host]
        most = [(group.number, group.max_skew) for group in hosts if group.kind == SPREAD]
        most += [(group.number, int(group in counted)) for group in hosts if group.kind == APART]
        near = any(group.kind == TOGETHER for group in hosts) or any(
            group.kind == TOGETHER for group in counted if group.by_host
        )
        return Ask(
            requirements=shape.scope.wanted.add(pins),
            tolerations=shape.asking.steps[shape.step].tolerations,
            most=tuple(most),
            counts=frozenset(group.number for group in counted if group.by_host),
            bound=near,
        )


def decided(template: Template, requirements: Requirements) -> dict[str, str]:
    """Chooses one value for each label that the pool leaves open. No instance type determines it, so the provisioner
    sets it.
    """
    open_ = (each for each in requirements.values() if each.key not in template.undefined and not each.absent)
    return {each.key: each.any() or _number(each) for each in open_ if not each.impossible}


def _number(wanted: Requirement) -> str:
    """Value for requirements that any value satisfies, such as Exists: pods that require the label need the node to
    have it.
    """
    return next(str(number) for number in range(len(wanted.values) + 1) if wanted.has(str(number)))


def claim_name(pool: Pool, pods: Sequence[Object]) -> str:
    """Deterministic for the same pods, so that a NodeClaim of an interrupted attempt is not created twice. A pod that
    leaves a node counts as different from the same pod without a node.
    """
    named = sorted(f"{pod['metadata']['uid']} {(pod.get('spec') or {}).get('nodeName') or ''}" for pod in pods)
    text = "\n".join([pool.pool["metadata"].get("uid", ""), *named])
    return f"{pool.name[:50].rstrip('.-')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _with_least(requirements: Requirements, least: Sequence[tuple[str, int]]) -> Requirements:
    """Sets minValues as relaxed."""
    amounts = dict(least)
    return Requirements(
        replace(each, min_values=amounts[each.key]) if each.key in amounts else each for each in requirements.values()
    )


def _lowest(overheads: Sequence[Resources]) -> Resources:
    """Resources that every overhead has, each at its minimum."""
    names = set.intersection(*(set(each) for each in overheads))
    return {name: min(each[name] for each in overheads) for name in sorted(names)}
