"""Requirements of a node while pods are added to it; each pod narrows them. Pure.

Equal states are one object, and each transition is computed once: many pods have the same requirements and many nodes
are in the same state. The hostname is not part of the state, because it differs for every node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from shoal.fit.requirements import Requirement, Requirements, from_labels

Object = dict[str, Any]


class NodeOrigin(Protocol):
    """Source of nodes: an existing node or a NodeClaim template. Nodes have its taints, and their states belong to
    it.
    """

    taints: Sequence[Object]

    def narrow(self, state: RequirementState, requirements: Requirements) -> RequirementState | None: ...

    def pin(self, state: RequirementState, key: str, domains: frozenset[str]) -> RequirementState | None: ...


class RequirementState:
    __slots__ = ("_narrowed", "_pinned_states", "mask", "origin", "requirements")

    def __init__(self, origin: NodeOrigin, requirements: Requirements, mask: int = -1) -> None:
        self.origin, self.requirements, self.mask = origin, requirements, mask
        self._narrowed: dict[int, tuple[Requirements, RequirementState | None]] = {}
        self._pinned_states: dict[tuple[str, frozenset[str]], RequirementState | None] = {}

    def narrow(self, requirements: Requirements) -> RequirementState | None:
        """State with a pod that has these requirements; None if they are incompatible. `requirements` is compared by
        identity.
        """
        cached = self._narrowed.get(id(requirements))
        if cached is None:
            cached = self._narrowed[id(requirements)] = (
                requirements,
                self.origin.narrow(self, requirements) if requirements else self,
            )
        return cached[1]

    def pin(self, key: str, domains: frozenset[str]) -> RequirementState | None:
        """State with the label restricted to these values."""
        try:
            return self._pinned_states[key, domains]
        except KeyError:
            pinned = self._pinned_states[key, domains] = self.origin.pin(self, key, domains)
            return pinned


class ExistingNodeOrigin:
    """Nodes whose labels are known. Their state never changes."""

    def __init__(self, labels: Mapping[str, str], taints: Sequence[Object]) -> None:
        self.labels, self.taints = labels, taints
        self.state = RequirementState(self, from_labels(labels))

    def narrow(self, state: RequirementState, requirements: Requirements) -> RequirementState | None:
        return state if requirements.matches(self.labels) else None

    def pin(self, state: RequirementState, key: str, domains: frozenset[str]) -> RequirementState | None:
        return state if self.labels.get(key) in domains else None


def shared_existing_origin(
    labels: Mapping[str, str], taints: Sequence[Object], keys: frozenset[str], cache: dict[Any, ExistingNodeOrigin]
) -> ExistingNodeOrigin:
    """Returns one origin for all nodes that have the same taints and the same values for the labels `keys`."""
    selected = {key: labels[key] for key in keys if key in labels}
    taint_keys = frozenset((taint.get("key"), taint.get("value"), taint.get("effect")) for taint in taints)
    cache_key = (frozenset(selected.items()), taint_keys)
    origin = cache.get(cache_key)
    if origin is None:
        origin = cache[cache_key] = ExistingNodeOrigin(selected, tuple(taints))
    return origin


class RequirementsInterner:
    """Interns Requirements: equal ones are one object."""

    def __init__(self) -> None:
        self._interned: dict[frozenset[Requirement], Requirements] = {}

    def __call__(self, requirements: Requirements) -> Requirements:
        return self._interned.setdefault(frozenset(requirements.values()), requirements)


def requirement_in(key: str, values: Iterable[str]) -> Requirement:
    return Requirement(key, False, frozenset(values))
