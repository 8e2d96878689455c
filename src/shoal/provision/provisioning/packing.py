"""Pods into new nodes, by price: several ways of packing are tried, and the cheapest that places most is taken. Pure.

A node is filled first-fit-decreasing, group by group: what first-fit puts in its first bin does not depend on the
others, so one bin after another is the same packing, and equal bins are found in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.fit.ports import HostPort, clash
from shoal.fit.requirements import Requirements
from shoal.fit.resources import Resources, add_to, subtract, subtract_from
from shoal.fit.taints import untolerated
from shoal.kinds.karpenter import WELL_KNOWN
from shoal.provision.cloudprovider import InstanceType, Offering
from shoal.provision.provisioning.pods import Shape

Object = dict[str, Any]
Contents = tuple[tuple[int, int], ...]
"""Group and how many of it."""

NODES = "nodes"
"""Among the limits of a NodePool: how many."""


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """A node that a NodePool could buy."""

    kind: InstanceType
    offering: Offering
    requirements: Requirements
    """Of the pool and the offering together."""
    taints: tuple[Object, ...]
    overhead: Resources
    """What DaemonSets will take of it."""

    @property
    def space(self) -> Resources:
        return subtract(self.kind.allocatable, self.overhead)


@dataclass(frozen=True, slots=True)
class Bin:
    """`times` equal nodes with equal contents."""

    option: Option
    contents: Contents
    times: int


@dataclass(slots=True)
class Budget:
    """What may still be bought: within the pool's limits, and of each offering."""

    limits: Resources
    rooms: dict[str, int] = field(default_factory=dict)
    cost: Callable[[Option], Resources] = lambda option: {**option.kind.capacity, NODES: 1}
    """What of the limits a node takes."""

    def copy(self) -> Budget:
        return Budget(dict(self.limits), dict(self.rooms), self.cost)

    def most(self, option: Option, wanted: int) -> int:
        takes = self.cost(option)
        for name, left in self.limits.items():
            if takes.get(name, 0) > 0:
                wanted = min(wanted, max(0, left) // takes[name])
        return min(wanted, self.rooms.get(option.offering.name, wanted))

    def take(self, option: Option, times: int) -> None:
        for name, amount in self.cost(option).items():
            if name in self.limits:
                self.limits[name] -= amount * times
        if option.offering.name in self.rooms:
            self.rooms[option.offering.name] -= times


Accept = Callable[[Resources, Requirements], bool]
"""Whether a node for pods with these requests and wishes is one the pool may ask for (minValues)."""


@dataclass(frozen=True, slots=True)
class Packer:
    options: Sequence[Option]
    shapes: Sequence[Shape]
    accept: Accept | None = None

    def best(self, counts: Sequence[int], budget: Budget) -> list[Bin]:
        tried = [self._alone(counts, budget.copy()), self._greedy(list(counts), budget.copy())]
        tried += [self._uniform(option, counts, budget.copy()) for option in self.options]
        return min(tried, key=_rank)

    def _uniform(self, option: Option, counts: Sequence[int], budget: Budget) -> list[Bin]:
        """All nodes of one kind, the rest as it comes; what is not full is then replaced by something cheaper."""
        left = list(counts)
        bins = self._repeat(option, left, budget)
        bins += self._greedy(left, budget)
        return self._shrunk(bins, budget)

    def _greedy(self, left: list[int], budget: Budget) -> list[Bin]:
        """One node after another: the one that costs least for the share of the demand it takes."""
        demand = _demand(self.shapes, left)
        bins: list[Bin] = []
        while any(left):
            found = [(option, self.fill(option, left)) for option in self.options if budget.most(option, 1)]
            scored = [
                (option.offering.price / _share(self.shapes, contents, demand), option.offering.name, option, contents)
                for option, contents in found
                if contents
            ]
            if not scored:
                break
            _, _, option, contents = min(scored, key=lambda each: each[:2])
            bins.append(self._take(option, contents, left, budget))
        return self._shrunk(bins, budget)

    def _alone(self, counts: Sequence[int], budget: Budget) -> list[Bin]:
        """A node for every pod: what no packing may cost more than."""
        left = list(counts)
        bins = []
        for number, count in enumerate(counts):
            for option in sorted(self.options, key=lambda each: (each.offering.price, each.offering.name)):
                one = [0] * len(left)
                one[number] = 1
                contents = self.fill(option, one)
                equal = budget.most(option, left[number]) if contents and count else 0
                if equal:
                    budget.take(option, equal)
                    left[number] -= equal
                    bins.append(Bin(option, contents, equal))
        return bins

    def _repeat(self, option: Option, left: list[int], budget: Budget) -> list[Bin]:
        bins = []
        while budget.most(option, 1):
            contents = self.fill(option, left)
            if not contents:
                break
            bins.append(self._take(option, contents, left, budget))
        return bins

    def _take(self, option: Option, contents: Contents, left: list[int], budget: Budget) -> Bin:
        """As many equal ones as the pods allow: the next fill would find the same."""
        equal = budget.most(option, min(left[number] // amount for number, amount in contents))
        budget.take(option, equal)
        for number, amount in contents:
            left[number] -= amount * equal
        return Bin(option, contents, equal)

    def _shrunk(self, bins: Iterable[Bin], budget: Budget) -> list[Bin]:
        found = []
        for each in bins:
            cheaper = self._cheaper(each, budget)
            if cheaper is not None:
                budget.take(each.option, -each.times)
                budget.take(cheaper, each.times)
            found.append(each if cheaper is None else Bin(cheaper, each.contents, each.times))
        return found

    def _cheaper(self, old: Bin, budget: Budget) -> Option | None:
        """Another kind that holds the same for less, within what the first may take of the limits."""
        may = budget.cost(old.option)
        for option in sorted(self.options, key=lambda each: (each.offering.price, each.offering.name)):
            if option.offering.price >= old.option.offering.price:
                return None
            takes = budget.cost(option)
            within = all(takes.get(name, 0) <= may.get(name, 0) for name in budget.limits)
            room = budget.rooms.get(option.offering.name, old.times) >= old.times
            if room and within and self.holds(option, old.contents):
                return option
        return None

    def holds(self, option: Option, contents: Contents) -> bool:
        wanted = [0] * len(self.shapes)
        for number, amount in contents:
            wanted[number] = amount
        return self.fill(option, wanted) == contents

    def fill(self, option: Option, left: Sequence[int]) -> Contents:
        """What one node of it takes."""
        free, used = option.space, _Used(option.requirements)
        contents = []
        for number, shape in enumerate(self.shapes):
            wanted = wish(shape, used.requirements, option.taints) if left[number] else None
            if wanted is None:
                continue
            amount = used.most(shape, how_many(shape.requests, free, left[number]))
            if self.accept is not None:
                amount = self._accepted(used, shape, wanted, amount)
            if amount:
                contents.append((number, amount))
                used.add(shape, wanted, amount)
                subtract_from(free, times(shape.requests, amount))
        return tuple(contents)

    def wanted(self, option: Option, contents: Contents) -> Requirements:
        """What the pods of such a node want of it."""
        used = _Used(option.requirements)
        for number, amount in contents:
            wanted = wish(self.shapes[number], used.requirements, option.taints)
            if wanted is not None:
                used.add(self.shapes[number], wanted, amount)
        return used.wanted

    def _accepted(self, used: _Used, shape: Shape, wanted: Requirements, amount: int) -> int:
        assert self.accept is not None
        while amount:
            requests = dict(used.requests)
            add_to(requests, times(shape.requests, amount))
            if self.accept(requests, used.wanted.union(wanted)):
                return amount
            amount -= 1
        return 0


@dataclass(slots=True)
class _Used:
    """A node while it is filled."""

    requirements: Requirements
    wanted: Requirements = field(default_factory=Requirements)
    requests: Resources = field(default_factory=dict)
    ports: set[HostPort] = field(default_factory=set)

    def most(self, shape: Shape, amount: int) -> int:
        if shape.ports and clash(shape.ports, self.ports):
            return 0
        return min(amount, 1) if shape.ports or shape.apart is not None else amount

    def add(self, shape: Shape, wanted: Requirements, amount: int) -> None:
        if wanted:
            self.requirements, self.wanted = self.requirements.union(wanted), self.wanted.union(wanted)
        self.ports |= shape.ports
        add_to(self.requests, times(shape.requests, amount))


def wish(shape: Shape, requirements: Requirements, taints: Sequence[Object]) -> Requirements | None:
    """The first alternative of such pods that the node can satisfy; None: it cannot have one of them."""
    if shape.problem or untolerated(taints, shape.tolerations) is not None:
        return None
    return next((each for each in shape.alternatives if requirements.compatible(each, WELL_KNOWN)), None)


def times(requests: Mapping[str, int], amount: int) -> Resources:
    return {name: value * amount for name, value in requests.items()}


def how_many(requests: Mapping[str, int], free: Mapping[str, int], most: int) -> int:
    for name, amount in requests.items():
        if amount > 0:
            most = min(most, max(0, free.get(name, 0)) // amount)
    return most


def _rank(bins: list[Bin]) -> tuple[Any, ...]:
    placed = sum(each.times * amount for each in bins for _, amount in each.contents)
    price = round(sum(each.times * each.option.offering.price for each in bins), 9)
    return -placed, price, sum(each.times for each in bins), sorted(each.option.offering.name for each in bins)


def _demand(shapes: Sequence[Shape], counts: Sequence[int]) -> Resources:
    total: Resources = {}
    for shape, count in zip(shapes, counts, strict=True):
        add_to(total, times(shape.requests, count))
    return total


def _share(shapes: Sequence[Shape], contents: Contents, demand: Mapping[str, int]) -> float:
    """Of all that is asked for, added up over the resources."""
    return sum(
        value * amount / demand[name] for number, amount in contents for name, value in shapes[number].requests.items()
    )
