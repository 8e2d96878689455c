"""Translates the new claims of a plan to a packing instance: equal pods become items, offerings become options.

Pods stay in the topology domains in which the simulation counted them, and in pools of the same weight. Claims that
cannot be expressed in numbers stay fixed: pods with affinity to each other, reserved instances, relaxed minValues.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from shoal.fit.ports import HostPort, host_ports
from shoal.fit.requirements import NOT_IN, Requirements, requirement
from shoal.fit.resources import Resources, highest, pod_requests, subtract
from shoal.fit.taints import untolerated
from shoal.kinds.karpenter import CAPACITY_TYPE, HOSTNAME, RESERVED, weight
from shoal.provision.cloudprovider import Offering
from shoal.provision.simulation.groups import EVERY
from shoal.provision.simulation.model import NODES, Ask, NewClaim, Plan, Pool, Question
from shoal.provision.simulation.states import State
from shoal.provision.simulation.templates import Template, templates
from shoal.provision.solver.choosing import undominated
from shoal.provision.solver.instance import Bools, Instance, Ints, Node, Packing, holds, node, packing
from shoal.provision.solver.items import Item, rules

Object = dict[str, Any]

UNRESERVED = Requirements([requirement(CAPACITY_TYPE, NOT_IN, [RESERVED])])
"""A pod that was not assigned a reserved instance does not get one by chance."""
_FEE = 0.02
"""Fee per node, as a share of the cheapest node's price."""


@dataclass(frozen=True, slots=True)
class Option:
    template: Template
    type: int
    offering: Offering


class Problem:
    """`fixed_claims` stay unchanged; `instance` covers all others."""

    def __init__(self, question: Question, plan: Plan) -> None:
        self.question, self.plan = question, plan
        self.templates = templates(question)
        self._weights = {pool.name: weight(pool.pool) for pool in question.pools}
        self._by_pool = {(each.name, _taints(each.more)): each for each in self.templates}
        self.binding = {pool.name: self._binding(pool) for pool in question.pools}
        """Limits of pools that could be reached."""
        self.kept = [claim for claim in plan.claims if not self._is_free(claim)]
        self.claims = [claim for claim in plan.claims if self._is_free(claim)]
        self._build()
        seen = [(claim, self._seen(claim)) for claim in self.claims]
        self._leave([claim for claim, found in seen if found is None])
        self.seen = [(claim, found) for claim, found in seen if found is not None]
        """The plan's claims as nodes of the instance."""
        self.incumbent: Packing = packing((found, 1) for _, found in self.seen)

    def _build(self) -> None:
        self.items, self._item_of = self._kinds(self.claims)
        self._states = [[self._state(each, item) for item in self.items] for each in self.templates]
        options = list(self._offered())
        names = sorted({name for item in self.items for name in item.requests})
        capacity = np.asarray([[_space(each).get(name, 0) for name in names] for each in options], np.int64)
        capacity = capacity.reshape(len(options), len(names))
        prices = np.asarray([each.offering.price for each in options], np.float64)
        allowed = self._allowed(options)
        takes, limits = self._limits(options)
        chosen = undominated(capacity, prices, allowed, takes)
        self.options = [options[number] for number in chosen.tolist()]
        of = np.asarray([each.template.name for each in self.options])
        self._of_pool = {each.name: np.flatnonzero(of == each.name) for each in self.templates}
        counted, most = rules(self.items, allowed[chosen])
        self.instance = Instance(
            requests=np.asarray(
                [[item.requests.get(name, 0) for name in names] for item in self.items], np.int64
            ).reshape(len(self.items), len(names)),
            counts=np.asarray([len(item.pods) for item in self.items], np.int64),
            capacity=capacity[chosen],
            prices=prices[chosen],
            allowed=allowed[chosen],
            counted=counted,
            most=most,
            takes=takes[:, chosen],
            limits=limits,
            fee=_FEE * float(prices[chosen].min(initial=0.0)),
        )

    def _leave(self, lost: Sequence[NewClaim]) -> None:
        """Fixes further claims: the simulation allowed something that the instance forbids."""
        if not lost:
            return
        self.kept += lost
        self.claims = [claim for claim in self.claims if not any(claim is each for each in lost)]
        gone = {_uid(pod) for claim in lost for pod in claim.pods}
        for item in self.items:
            item.pods = [pod for pod in item.pods if _uid(pod) not in gone]
        counts = np.asarray([len(item.pods) for item in self.items], np.int64)
        self.instance = replace(self.instance, counts=counts, limits=self._limits(self.options)[1])

    def _is_free(self, claim: NewClaim) -> bool:
        template = self._by_pool.get((claim.pool, _taints(claim.taints)))
        pinned = claim.requirements.get(CAPACITY_TYPE)
        return (
            template is not None
            and not claim.min_values_relaxed
            and not (template.least and self.binding[template.name])
            and not (pinned is not None and not pinned.complement and pinned.values == {RESERVED})
            and all(uid in self.plan.asks and not self.plan.asks[uid].bound for uid in map(_uid, claim.pods))
        )

    def _kinds(self, claims: Sequence[NewClaim]) -> tuple[list[Item], dict[str, int]]:
        items: list[Item] = []
        known: dict[Any, int] = {}
        names: dict[int, Any] = {}
        number_of: dict[str, int] = {}
        for claim in claims:
            heavy = self._weights[claim.pool]
            for pod in claim.pods:
                ask = self.plan.asks[_uid(pod)]
                name = names.get(id(ask))
                if name is None:
                    name = names[id(ask)] = _asked(ask)
                requests, ports = pod_requests(pod), host_ports(pod)
                key = (heavy, tuple(sorted(requests.items())), ports, name)
                number = known.get(key)
                if number is None:
                    number = known[key] = len(items)
                    items.append(Item(requests, ask, ports, heavy))
                items[number].pods.append(pod)
                number_of[_uid(pod)] = number
        return items, number_of

    def _state(self, template: Template, item: Item) -> State | None:
        """State of a template node with such a pod; None if incompatible."""
        if self._weights[template.name] != item.weight:
            return None
        if untolerated(template.taints, item.ask.tolerations, EVERY) is not None:
            return None
        return template.after(template.base, item.ask.requirements.without(HOSTNAME))

    def _offered(self) -> Iterable[Option]:
        for number, template in enumerate(self.templates):
            states = [each for each in self._states[number] if each is not None]
            for kind, offering in template.offerings if states else ():
                flexible = not template.least or _flexible(template, kind, states)
                if offering.available and flexible and offering.labels.get(CAPACITY_TYPE) != RESERVED:
                    yield Option(template, kind, offering)

    def _allowed(self, options: Sequence[Option]) -> Bools:
        found = np.zeros((len(options), len(self.items)), np.bool_)
        rows = {(id(each.template), each.type, id(each.offering)): row for row, each in enumerate(options)}
        known: dict[tuple[State, frozenset[HostPort]], list[int]] = {}
        for template, states in zip(self.templates, self._states, strict=True):
            for number, (item, state) in enumerate(zip(self.items, states, strict=True)):
                if state is None:
                    continue
                able = known.get((state, item.ports))
                if able is None:
                    types = template.all & ~template.clashing(item.ports) if item.ports else template.all
                    offers = [template.offerings[each] for each in template.offers(state, types)]
                    keys = [(id(template), kind, id(offering)) for kind, offering in offers]
                    able = known[state, item.ports] = [rows[key] for key in keys if key in rows]
                found[able, number] = True
        return found

    def _limits(self, options: Sequence[Option]) -> tuple[Ints, Ints]:
        """Limits of the pools, and of offerings with a remaining count."""
        takes: list[list[int]] = []
        limits: list[int] = []
        for pool in self.question.pools:
            for name in self.binding[pool.name]:
                takes.append([_takes(each, name) if each.template.name == pool.name else 0 for each in options])
                kept = sum(self._most(each, name) for each in self.kept if each.pool == pool.name)
                limits.append(pool.limits[name] - pool.used.get(name, 0) - kept)
        rooms = {each.offering.name: each.offering.room for each in options if each.offering.room is not None}
        spoken = self._spoken() if rooms else {}
        for name, room in rooms.items():
            takes.append([int(each.offering.name == name) for each in options])
            limits.append(room - spoken.get(name, 0))
        table = np.asarray(takes, np.int64).reshape(len(limits), len(options))
        return table, np.maximum(np.asarray(limits, np.int64), 0)

    def _binding(self, pool: Pool) -> tuple[str, ...]:
        """Limits that one node of the largest type per pod would exceed."""
        nodes = sum(len(claim.pods) for claim in self.plan.claims)
        largest = {**highest(each.capacity for each in pool.types), NODES: 1}
        left = subtract(pool.limits, pool.used)
        return tuple(name for name in pool.limits if left[name] < nodes * largest.get(name, 0))

    def _most(self, claim: NewClaim, name: str) -> int:
        """Maximum usage of a limit by a fixed claim over its types."""
        template = self._by_pool[claim.pool, _taints(claim.taints)]
        if name == NODES:
            return 1
        return max((each.capacity.get(name, 0) for each in template.types if each.name in claim.types), default=0)

    def _spoken(self) -> dict[str, int]:
        """Offerings used by the fixed claims, assuming the cheapest matching one for each."""
        found: dict[str, int] = {}
        for claim in self.kept:
            template = self._by_pool[claim.pool, _taints(claim.taints)]
            suiting = [
                offering
                for kind, offering in template.offerings
                if offering.available
                and template.types[kind].name in claim.types
                and all(
                    claim.requirements[key].has(value)
                    for key, value in offering.labels.items()
                    if key in claim.requirements
                )
            ]
            if suiting:
                name = min(suiting, key=lambda each: (each.price, each.name)).name
                found[name] = found.get(name, 0) + 1
        return found

    def _seen(self, claim: NewClaim) -> Node | None:
        """Node of the instance that equals the claim; None if there is none."""
        contents = np.zeros(len(self.items), np.int64)
        for pod in claim.pods:
            contents[self._item_of[_uid(pod)]] += 1
        options = self._of_pool[claim.pool]
        able = options[holds(self.instance, options, contents)]
        if not len(able):
            return None
        found = int(able[self.instance.prices[able].argmin()])
        return node(found, contents) if self.instance.prices[found] <= claim.price * (1 + 1e-9) else None


def _flexible(template: Template, kind: int, states: Iterable[State]) -> bool:
    """True if enough other types can hold whatever this type holds to satisfy minValues."""
    space = subtract(template.types[kind].allocatable, template.overheads[kind])
    able = 0
    for number, other in enumerate(template.types):
        its = subtract(other.allocatable, template.overheads[number])
        if all(its.get(name, 0) >= amount for name, amount in space.items()):
            able |= 1 << number
    for state in states:
        able &= state.mask
    return all(template.values(key, able) >= least for key, least in template.least)


def _space(option: Option) -> Resources:
    return subtract(option.template.types[option.type].allocatable, option.template.overheads[option.type])


def _takes(option: Option, name: str) -> int:
    return 1 if name == NODES else option.template.types[option.type].capacity.get(name, 0)


def _asked(ask: Ask) -> Any:
    """Equal for equal constraints."""
    tolerations = orjson.dumps(ask.tolerations, option=orjson.OPT_SORT_KEYS)
    return frozenset(ask.requirements.values()), tolerations, ask.most, ask.counts


def _taints(taints: Iterable[Object]) -> tuple[tuple[str, str, str], ...]:
    return tuple(sorted((each.get("key", ""), each.get("value") or "", each.get("effect", "")) for each in taints))


def _uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])
