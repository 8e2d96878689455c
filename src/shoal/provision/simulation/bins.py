"""Nodes of a simulation: existing nodes and in-flight NodeClaims, in the order in which they are tried. Pure.

Claims with fewer pods come first. A claim that got a pod comes before all others with the same count, and a new claim
after them: this equals a stable sort by pod count after each pod.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from shoal.fit.ports import HostPort
from shoal.fit.resources import Resources
from shoal.provision.simulation.model import Place
from shoal.provision.simulation.shapes import Shape
from shoal.provision.simulation.states import State
from shoal.provision.simulation.templates import Template

Object = dict[str, Any]

_FEW = 24


class Spot:
    """An existing node."""

    __slots__ = ("bit", "free", "host", "place", "ports", "state")

    def __init__(self, number: int, place: Place, host: str, state: State) -> None:
        self.bit, self.place, self.host, self.state = 1 << number, place, host, state
        self.free: Resources = dict(place.free)
        self.ports: set[HostPort] = set(place.ports)


class Claim:
    """A node to be bought. `types` is the bit set of the types that can still hold its pods."""

    __slots__ = (
        "bit", "count", "host", "least", "number", "pods", "ports", "rank", "relaxed", "reserved", "state",
        "template", "types", "used",
    )  # fmt: skip

    def __init__(self, number: int, template: Template, state: State, types: int) -> None:
        self.number, self.bit, self.host = number, 1 << number, f"hostname-placeholder-{number + 1:04}"
        self.template, self.state, self.types = template, state, types
        self.used: Resources = {}
        self.ports: set[HostPort] = set()
        self.pods: list[tuple[Object, Shape]] = []
        self.count = self.rank = 0
        self.least: tuple[tuple[str, int], ...] = template.least
        self.relaxed = False
        self.reserved: frozenset[str] = frozenset()


class Claims:
    def __init__(self) -> None:
        self.all: list[Claim] = []
        self.by_state: dict[State, int] = {}
        """Bit set of the claims in each state."""
        self._counts: list[int] = []
        self._buckets: dict[int, OrderedDict[Claim, None]] = {}
        self._bits: dict[int, int] = {}
        self._first = 0

    def append(self, claim: Claim) -> None:
        """Adds a claim with its first pod."""
        self.all.append(claim)
        claim.count, claim.rank = 1, len(self.all)
        self._put(claim)
        self.by_state[claim.state] = self.by_state.get(claim.state, 0) | claim.bit

    def moved(self, claim: Claim, state: State) -> None:
        """Records that the claim got a pod and is now in this state."""
        bucket = self._buckets[claim.count]
        del bucket[claim]
        self._bits[claim.count] ^= claim.bit
        if not bucket:
            del self._buckets[claim.count], self._bits[claim.count]
            self._counts.remove(claim.count)
        claim.count += 1
        self._first -= 1
        claim.rank = self._first
        self._put(claim)
        self._buckets[claim.count].move_to_end(claim, last=False)
        if state is not claim.state:
            left = self.by_state[claim.state] ^ claim.bit
            if left:
                self.by_state[claim.state] = left
            else:
                del self.by_state[claim.state]
            self.by_state[state] = self.by_state.get(state, 0) | claim.bit
            claim.state = state

    def among(self, bits: int) -> Iterator[Claim]:
        """Yields the claims in the bit set, in order."""
        for count in self._counts:
            some = self._bits[count] & bits
            if not some:
                continue
            if some.bit_count() > _FEW:
                for claim in self._buckets[count]:
                    if some & claim.bit:
                        yield claim
            else:
                yield from sorted(self._few(some), key=_rank)

    def _few(self, bits: int) -> Iterator[Claim]:
        while bits:
            yield self.all[(bits & -bits).bit_length() - 1]
            bits &= bits - 1

    def _put(self, claim: Claim) -> None:
        bucket = self._buckets.get(claim.count)
        if bucket is None:
            bucket = self._buckets[claim.count] = OrderedDict()
            self._bits[claim.count] = 0
            insort(self._counts, claim.count)
        bucket[claim] = None
        self._bits[claim.count] |= claim.bit


def _rank(claim: Claim) -> int:
    """Position among the claims with the same pod count."""
    return claim.rank
