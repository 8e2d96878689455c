"""Requirements of a node while pods are added to it; each pod narrows them. Pure.

Equal states are one object, and each transition is computed once: many pods have the same requirements and many nodes
are in the same state. The hostname is not part of the state, because it differs for every node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from shoal.fit.requirements import Requirement, Requirements, from_labels

Object = dict[str, Any]


class Side(Protocol):
    """Source of nodes: an existing node or a NodeClaim template. Nodes have its taints, and their states belong to
    it.
    """

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
        """State with a pod that has these requirements; None if they are incompatible. `requirements` is compared by
        identity.
        """
        known = self._after.get(id(wanted))
        if known is None:
            known = self._after[id(wanted)] = (wanted, self.side.after(self, wanted) if wanted else self)
        return known[1]

    def pinned(self, key: str, domains: frozenset[str]) -> State | None:
        """State with the label restricted to these values."""
        try:
            return self._pinned[key, domains]
        except KeyError:
            found = self._pinned[key, domains] = self.side.pinned(self, key, domains)
            return found


class Existing:
    """Nodes whose labels are known. Their state never changes."""

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
    """Returns one origin for all nodes that have the same taints and the same values for the labels `keys`."""
    seen = {key: labels[key] for key in keys if key in labels}
    marks = frozenset((taint.get("key"), taint.get("value"), taint.get("effect")) for taint in taints)
    name = (frozenset(seen.items()), marks)
    found = known.get(name)
    if found is None:
        found = known[name] = Existing(seen, tuple(taints))
    return found


class Interned:
    """Interns Requirements: equal ones are one object."""

    def __init__(self) -> None:
        self._known: dict[frozenset[Requirement], Requirements] = {}

    def __call__(self, requirements: Requirements) -> Requirements:
        return self._known.setdefault(frozenset(requirements.values()), requirements)


def only(key: str, values: Iterable[str]) -> Requirement:
    return Requirement(key, False, frozenset(values))
