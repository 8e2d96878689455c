"""Nodes of a simulation: existing nodes and in-flight NodeClaims, in the order in which they are tried. Pure.

Claims with fewer pods come first. A claim that got a pod comes before all others with the same count, and a new claim
after them: this equals a stable sort by pod count after each pod.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from shoal.fit.attachments import Attachment
from shoal.fit.ports import HostPort
from shoal.fit.resources import Resources
from shoal.provision.simulation.equivalence import EquivalenceClass
from shoal.provision.simulation.model import ExistingNode
from shoal.provision.simulation.nodeclaim_template import NodeClaimTemplate
from shoal.provision.simulation.requirement_state import RequirementState

Object = dict[str, Any]

_SORT_LIMIT = 24


class SimulatedNode:
    """An existing node."""

    __slots__ = ("attachments", "bit", "existing", "free", "hostname", "ports", "state")

    def __init__(self, index: int, existing: ExistingNode, hostname: str, state: RequirementState) -> None:
        self.bit, self.existing, self.hostname, self.state = 1 << index, existing, hostname, state
        self.free: Resources = dict(existing.free)
        self.ports: set[HostPort] = set(existing.ports)
        self.attachments: set[Attachment] = set(existing.attachments)


class InFlightNodeClaim:
    """A node to be bought. `types` is the bit set of the types that can still hold its pods."""

    __slots__ = (
        "bit",
        "count",
        "hostname",
        "index",
        "min_values",
        "min_values_relaxed",
        "pods",
        "ports",
        "rank",
        "requests",
        "reservations",
        "state",
        "template",
        "types",
    )  # fmt: skip

    def __init__(self, index: int, template: NodeClaimTemplate, state: RequirementState, types: int) -> None:
        self.index, self.bit, self.hostname = index, 1 << index, f"hostname-placeholder-{index + 1:04}"
        self.template, self.state, self.types = template, state, types
        self.requests: Resources = {}
        self.ports: set[HostPort] = set()
        self.pods: list[tuple[Object, EquivalenceClass]] = []
        self.count = self.rank = 0
        self.min_values: tuple[tuple[str, int], ...] = template.min_values
        self.min_values_relaxed = False
        self.reservations: frozenset[str] = frozenset()


class InFlightNodeClaims:
    def __init__(self) -> None:
        self.all: list[InFlightNodeClaim] = []
        self.by_state: dict[RequirementState, int] = {}
        """Bit set of the claims in each state."""
        self._counts: list[int] = []
        self._buckets: dict[int, OrderedDict[InFlightNodeClaim, None]] = {}
        self._bits: dict[int, int] = {}
        self._next_rank = 0

    def append(self, claim: InFlightNodeClaim) -> None:
        """Adds a claim with its first pod."""
        self.all.append(claim)
        claim.count, claim.rank = 1, len(self.all)
        self._insert(claim)
        self.by_state[claim.state] = self.by_state.get(claim.state, 0) | claim.bit

    def on_pod_added(self, claim: InFlightNodeClaim, state: RequirementState) -> None:
        """Records that the claim got a pod and is now in this state."""
        bucket = self._buckets[claim.count]
        del bucket[claim]
        self._bits[claim.count] ^= claim.bit
        if not bucket:
            del self._buckets[claim.count], self._bits[claim.count]
            self._counts.remove(claim.count)
        claim.count += 1
        self._next_rank -= 1
        claim.rank = self._next_rank
        self._insert(claim)
        self._buckets[claim.count].move_to_end(claim, last=False)
        if state is not claim.state:
            remaining = self.by_state[claim.state] ^ claim.bit
            if remaining:
                self.by_state[claim.state] = remaining
            else:
                del self.by_state[claim.state]
            self.by_state[state] = self.by_state.get(state, 0) | claim.bit
            claim.state = state

    def in_order(self, bits: int) -> Iterator[InFlightNodeClaim]:
        """Yields the claims in the bit set, in order."""
        for count in self._counts:
            matching = self._bits[count] & bits
            if not matching:
                continue
            if matching.bit_count() > _SORT_LIMIT:
                for claim in self._buckets[count]:
                    if matching & claim.bit:
                        yield claim
            else:
                yield from sorted(self._by_bits(matching), key=_rank)

    def _by_bits(self, bits: int) -> Iterator[InFlightNodeClaim]:
        while bits:
            yield self.all[(bits & -bits).bit_length() - 1]
            bits &= bits - 1

    def _insert(self, claim: InFlightNodeClaim) -> None:
        bucket = self._buckets.get(claim.count)
        if bucket is None:
            bucket = self._buckets[claim.count] = OrderedDict()
            self._bits[claim.count] = 0
            insort(self._counts, claim.count)
        bucket[claim] = None
        self._bits[claim.count] |= claim.bit


def _rank(claim: InFlightNodeClaim) -> int:
    """Position among the claims with the same pod count."""
    return claim.rank
