"""What is known of a node that pods are put on: requirements that grow narrower, step by step. Pure.

Equal ones are one object, and every step from one to another is worked out once: many pods ask for the same, and
many nodes are in the same state. The hostname is not among them: it is each node's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from shoal.fit.requirements import Requirement, Requirements, from_labels

Object = dict[str, Any]


class Side(Protocol):
    """Where nodes are from: they have its taints, and their states belong to it."""

    taints: Sequence[Object]

    def after(self, state: State, wanted: Requirements) -> State | None: ...

    def pinned(self, state: State, key: str, domains: frozenset[str]) -> State | None: ...


class State:
    __slots__ = ("_after", "_pinned", "mask", "requirements", "side")

    def __init__(self, side: Side, requirements: Requirements, mask: int = -1) -> None:
        self.side, self.requirements, self.mask = side, requirements, mask
        self._after: dict[int, tuple[Requirements, State | None]] = {}
        self._pinned: dict[tuple[str, frozenset[str]], State | None] = {}

    def after(self, wanted: Requirements) -> State | None:
        """With a pod that wants this; None: it cannot be there. `wanted` is compared by identity."""
        known = self._after.get(id(wanted))
        if known is None:
            known = self._after[id(wanted)] = (wanted, self.side.after(self, wanted) if wanted else self)
        return known[1]

    def pinned(self, key: str, domains: frozenset[str]) -> State | None:
        """With the label's value among these."""
        try:
            return self._pinned[key, domains]
        except KeyError:
            found = self._pinned[key, domains] = self.side.pinned(self, key, domains)
            return found


class Existing:
    """Nodes that are there, or whose labels are known: nothing about them changes."""

    def __init__(self, labels: Mapping[str, str], taints: Sequence[Object]) -> None:
        self.labels, self.taints = labels, taints
        self.state = State(self, from_labels(labels))

    def after(self, state: State, wanted: Requirements) -> State | None:
        return state if wanted.matches(self.labels) else None

    def pinned(self, state: State, key: str, domains: frozenset[str]) -> State | None:
        return state if self.labels.get(key) in domains else None


def existing(
    labels: Mapping[str, str], taints: Sequence[Object], keys: frozenset[str], known: dict[Any, Existing]
) -> Existing:
    """One for all nodes that are alike as far as anybody asks: by labels with these keys, and by taints."""
    seen = {key: labels[key] for key in keys if key in labels}
    marks = frozenset((taint.get("key"), taint.get("value"), taint.get("effect")) for taint in taints)
    name = (frozenset(seen.items()), marks)
    found = known.get(name)
    if found is None:
        found = known[name] = Existing(seen, tuple(taints))
    return found


class Interned:
    """Requirements by content: those that are equal are one object."""

    def __init__(self) -> None:
        self._known: dict[frozenset[Requirement], Requirements] = {}

    def __call__(self, requirements: Requirements) -> Requirements:
        return self._known.setdefault(frozenset(requirements.values()), requirements)


def only(key: str, values: Iterable[str]) -> Requirement:
    return Requirement(key, False, frozenset(values))
