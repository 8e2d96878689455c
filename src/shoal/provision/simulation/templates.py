"""NodeClaim templates: a NodePool's requirements, taints and types, with DaemonSet overhead subtracted.

Offerings of a pool with their own taints form a separate template for each set of taints, because a claim is for one of
them. Sets of types and offerings are integers with one bit per element. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shoal.fit.ports import HostPort, clash, host_ports
from shoal.fit.requirements import Requirement, Requirements, from_expressions, from_labels
from shoal.fit.resources import Resources, add_to, pod_requests, subtract
from shoal.fit.taints import HARD, untolerated
from shoal.kinds.karpenter import (
    CAPACITY_TYPE,
    CLASS_LABEL,
    INITIALIZED_LABEL,
    POOL_LABEL,
    REGISTERED_LABEL,
    RESERVATION_ID,
    RESERVED,
    WELL_KNOWN,
    class_ref,
    template_labels,
    template_spec,
    weight,
)
from shoal.provision.cloudprovider import InstanceType, Offering
from shoal.provision.simulation.asking import asking, normalized, required
from shoal.provision.simulation.ladders import Ladders
from shoal.provision.simulation.model import IGNORE, Pool, Question
from shoal.provision.simulation.states import State, only

Object = dict[str, Any]

SIMULATED = (REGISTERED_LABEL, INITIALIZED_LABEL)
"""Labels that a node will have when it is ready. Only DaemonSets select them."""


class Template:
    """Origin of new nodes. `empty_state` is the state of a node without pods."""

    def __init__(self, pool: Pool, types: Sequence[InstanceType], more: tuple[Object, ...], daemons: Sequence[Daemon]):
        self.pool, self.name, self.more = pool, pool.name, more
        self.taints: Sequence[Object] = (*(template_spec(pool.pool).get("taints") or ()), *more)
        self.requirements = pool_requirements(pool.pool)
        self.undefined = WELL_KNOWN | {RESERVATION_ID} | {key for each in types for key in each.requirements}
        running = [each for each in daemons if each.bears(self.taints)]
        overheads = [_taken(each, self, running) for each in types]
        kept = [
            (each, taken, ports)
            for each, (taken, ports) in zip(types, overheads, strict=True)
            if all(amount >= 0 for amount in subtract(each.allocatable, taken).values())
        ]
        self.types = [each for each, _, _ in kept]
        self.overheads = [taken for _, taken, _ in kept]
        self.ports = [ports for _, _, ports in kept]
        self.space = Ladders([subtract(each.allocatable, taken) for each, taken, _ in kept])
        self.capacity = Ladders([each.capacity for each in self.types])
        self.offerings = [(number, each) for number, kind in enumerate(self.types) for each in kind.offerings]
        self._spans = _spans(self.offerings, len(self.types))
        self._available = _bits(n for n, (_, each) in enumerate(self.offerings) if each.available)
        self.limited = any(each.room is not None for _, each in self.offerings)
        self.reserved = _bits(
            n
            for n, (_, each) in enumerate(self.offerings)
            if each.available and each.labels.get(CAPACITY_TYPE) == RESERVED
        )
        self._endless = _bits(n for n, (_, each) in enumerate(self.offerings) if each.room is None)
        self._unlimited: dict[State, int] = {}
        self._of_types: dict[str, dict[Requirement, int]] = {}
        self._of_offerings: dict[str, dict[str, int]] = {}
        self._index()
        self._by_requirement: dict[Requirement, tuple[int, int]] = {}
        self._states: dict[frozenset[Requirement], State] = {}
        self._offers: dict[State, int] = {}
        self._prices: dict[State, list[tuple[float, int]]] = {}
        least = ((each.key, each.min_values) for each in self.requirements.values() if each.min_values)
        self.least = tuple(sorted(least))
        self.base = self.state(self.requirements)
        self.all = self.base.mask & (1 << len(self.types)) - 1

    def state(self, requirements: Requirements) -> State:
        name = frozenset(requirements.values())
        found = self._states.get(name)
        if found is None:
            types, offers = -1, self._available
            for each in requirements.values():
                some, other = self._suiting(each)
                types, offers = types & some, offers & other
            found = self._states[name] = State(self, requirements, types & self._offered(offers))
            self._offers[found] = offers
        return found

    def after(self, state: State, wanted: Requirements) -> State | None:
        if not state.requirements.compatible(wanted, self.undefined):
            return None
        return self.state(state.requirements.union(wanted))

    def pinned(self, state: State, key: str, domains: frozenset[str]) -> State | None:
        pin = only(key, domains)
        mine = state.requirements.get(key)
        if mine is None and key not in self.undefined:
            return None
        if mine is not None:
            pin = replace(mine.intersection(pin), min_values=mine.min_values)
            if not pin.values:
                return None
        return self.state(state.requirements.without(key).add((pin,)))

    def offers(self, state: State, types: int) -> list[int]:
        """Indexes of the offerings that match the state and these types."""
        mask = self._offers[state]
        return [n for n, (number, _) in enumerate(self.offerings) if mask >> n & 1 and types >> number & 1]

    def unlimited(self, state: State) -> int:
        """Types that are available in this state without a count limit."""
        found = self._unlimited.get(state)
        if found is None:
            found = self._unlimited[state] = self._offered(self._offers[state] & self._endless)
        return found

    def reservations(self, state: State, types: int) -> list[str]:
        """Reservation ids of the matching reserved offerings."""
        mask = self._offers[state] & self.reserved
        found = []
        while mask:
            number = (mask & -mask).bit_length() - 1
            mask &= mask - 1
            kind, offering = self.offerings[number]
            if types >> kind & 1:
                found.append(offering.reservation)
        return found

    def prices(self, state: State) -> list[tuple[float, int]]:
        """Price of the cheapest available offering and type index, cheapest first."""
        found = self._prices.get(state)
        if found is None:
            mask, lowest = self._offers[state], dict[int, float]()
            for n, (number, offering) in enumerate(self.offerings):
                if mask >> n & 1 and offering.price < lowest.get(number, float("inf")):
                    lowest[number] = offering.price
            by_name = sorted(lowest, key=lambda number: self.types[number].name)
            found = self._prices[state] = sorted(((lowest[number], number) for number in by_name), key=_price)
        return found

    def values(self, key: str, types: int) -> int:
        """Number of distinct values of a label among these types."""
        seen: set[str] = set()
        for each, mask in self._of_types.get(key, {}).items():
            if mask & types and not each.complement:
                seen |= each.values
        return len(seen)

    def clashing(self, ports: frozenset[HostPort]) -> int:
        """Types on which a DaemonSet pod uses one of these host ports."""
        return _bits(number for number, taken in enumerate(self.ports) if taken and clash(ports, taken))

    def _index(self) -> None:
        for number, kind in enumerate(self.types):
            for key, each in kind.requirements.items():
                masks = self._of_types.setdefault(key, {})
                masks[each] = masks.get(each, 0) | 1 << number
        for number, (_, offering) in enumerate(self.offerings):
            for key, value in offering.labels.items():
                bits = self._of_offerings.setdefault(key, {})
                bits[value] = bits.get(value, 0) | 1 << number

    def _suiting(self, wanted: Requirement) -> tuple[int, int]:
        """Bit sets of the types and offerings that do not contradict the requirement."""
        found = self._by_requirement.get(wanted)
        if found is None:
            types = offers = -1
            for each, mask in self._of_types.get(wanted.key, {}).items():
                if not each.meets(wanted):
                    types &= ~mask
            for value, mask in self._of_offerings.get(wanted.key, {}).items():
                if not wanted.has(value):
                    offers &= ~mask
            found = self._by_requirement[wanted] = (types, offers)
        return found

    def _offered(self, offers: int) -> int:
        """Types that have one of these offerings."""
        return _bits(number for number, span in enumerate(self._spans) if offers & span)


def templates(question: Question) -> list[Template]:
    """Returns the templates in the order in which they are tried: heaviest pool first, then descending by name."""
    found = []
    daemons = [daemon(each) for each in question.daemons]
    pools = sorted(question.pools, key=lambda each: each.name, reverse=True)
    for pool in sorted(pools, key=lambda each: -weight(each.pool)):
        kinds: dict[tuple[tuple[str, ...], ...], tuple[Object, ...]] = {}
        for kind in pool.types:
            for offering in kind.offerings:
                kinds.setdefault(_names(offering.taints), offering.taints)
        for name, more in sorted(kinds.items()):
            types = [_only(kind, name) for kind in pool.types]
            found.append(Template(pool, [each for each in types if each.offerings], more, daemons))
    return found


def pool_requirements(pool: Object) -> Requirements:
    """Requirements of a ready node, with all labels that the pool sets."""
    spec = template_spec(pool)
    labels = {**template_labels(pool), POOL_LABEL: pool["metadata"]["name"], **dict.fromkeys(SIMULATED, "true")}
    if class_ref(spec):
        labels[CLASS_LABEL] = class_ref(spec).get("name", "")
    return normalized(from_expressions(spec.get("requirements")).values()).union(from_labels(labels))


@dataclass(frozen=True, slots=True)
class Daemon:
    """Requests, ports and node selection of a DaemonSet's pods."""

    requests: Resources
    ports: frozenset[HostPort]
    tolerations: tuple[Object, ...]
    alternatives: tuple[Requirements, ...]

    def bears(self, taints: Sequence[Object]) -> bool:
        return untolerated(taints, self.tolerations, HARD) is None


def daemon(daemon_set: Object) -> Daemon:
    pod = daemon_set["spec"]["template"]
    asked = asking({"metadata": {}, **pod}, {}, (), IGNORE)
    try:
        terms = asked.wishes.terms or ({},)
        alternatives = tuple(required(asked.selector, replace(asked.wishes, terms=(term,))) for term in terms)
    except ValueError:
        alternatives = ()
    return Daemon(pod_requests(pod), host_ports(pod), asked.wishes.tolerations, alternatives)


def overhead(daemons: Iterable[Daemon], labels: Mapping[str, str], taints: Sequence[Object]) -> Resources:
    """Requests of the DaemonSet pods on a node with these labels."""
    total: Resources = {}
    for each in daemons:
        if each.bears(taints) and any(wanted.matches(labels) for wanted in each.alternatives):
            add_to(total, each.requests)
    return total


def _taken(kind: InstanceType, template: Template, daemons: Iterable[Daemon]) -> tuple[Resources, frozenset[HostPort]]:
    """Requests and host ports of the DaemonSet pods on a new node."""
    total: Resources = {}
    ports: frozenset[HostPort] = frozenset()
    for each in daemons:
        if any(
            template.requirements.compatible(wanted, template.undefined) and kind.requirements.intersects(wanted)
            for wanted in each.alternatives
        ):
            add_to(total, each.requests)
            ports |= each.ports
    return total, ports


def _only(kind: InstanceType, taints: tuple[tuple[str, ...], ...]) -> InstanceType:
    """The type with only the offerings that have these taints; the same object if that is all of them."""
    offerings = tuple(each for each in kind.offerings if _names(each.taints) == taints)
    return kind if len(offerings) == len(kind.offerings) else replace(kind, offerings=offerings)


def _names(taints: Iterable[Object]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted((each.get("key", ""), each.get("value") or "", each.get("effect", "")) for each in taints))


def _spans(offerings: Sequence[tuple[int, Offering]], types: int) -> list[int]:
    spans = [0] * types
    for n, (number, _) in enumerate(offerings):
        spans[number] |= 1 << n
    return spans


def _bits(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def _price(each: tuple[float, int]) -> float:
    return each[0]
