"""Equivalence classes of pods at one relaxation step, and which node states they accept. Pure.

A `ConstraintSet` holds everything but resources that decides whether a node in a given state is feasible. Classes that
differ only in requests share one. Its cached options are dropped when one of its topology groups changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from shoal.fit.requirements import Requirement, Requirements
from shoal.fit.taints import untolerated
from shoal.kinds.karpenter import HOSTNAME
from shoal.provision.simulation.asking import Asking, required, wanted
from shoal.provision.simulation.groups import APART, EVERY, SPREAD, Group
from shoal.provision.simulation.states import Interned, State
from shoal.provision.simulation.topology import Topology

Object = dict[str, Any]

_NEW = "-"
"""Stands for the hostname of a node that has none yet."""


class Scope:
    def __init__(
        self,
        wanted: Requirements,
        strict: Requirements,
        host: Requirement | None,
        tolerations: tuple[Object, ...],
        volumes: tuple[Requirements, ...],
        groups: Sequence[tuple[Group, bool]],
    ) -> None:
        self.wanted, self.host = wanted, host
        self._strict, self._tolerations, self._volumes = strict, tolerations, volumes
        self._groups = [(group, itself) for group, itself in groups if not group.by_host]
        self._hosts = [(group, itself) for group, itself in groups if group.by_host]
        self._known: dict[State, tuple[State, ...]] = {}
        self._stamp = 0

    def refresh(self) -> None:
        """Must be called once per pod before the other methods."""
        stamp = 0
        for group, _ in self._groups:
            stamp += group.version
        if stamp != self._stamp:
            self._stamp = stamp
            self._known.clear()

    def options(self, state: State) -> tuple[State, ...]:
        """Possible states of the node with the pod, preferred first; empty if infeasible."""
        known = self._known.get(state)
        if known is None:
            known = self._known[state] = self._options(state)
        return known

    def hosts(self, side: int) -> int:
        """Bit set of existing nodes (0) or claims (1) that the hostname topologies allow."""
        allowed = -1
        for group, itself in self._hosts:
            if group.kind == APART:
                allowed &= ~group.any[side]
            elif group.kind == SPREAD:
                allowed &= ~group.over[itself][side]
            elif not group.is_first(itself, self.host):
                allowed &= group.any[side]
        return allowed

    def allows_new(self) -> bool:
        """True if the hostname constraints allow an empty new node."""
        if self.host is not None and not self.host.has(_NEW):
            return False
        for group, itself in self._hosts:
            if group.kind == SPREAD:
                if itself > group.max_skew:
                    return False
            elif group.kind != APART and not group.is_first(itself, self.host):
                return False
        return True

    def allows_claims(self) -> bool:
        return self.host is None or self.host.has(_NEW)

    def _options(self, state: State) -> tuple[State, ...]:
        if untolerated(state.side.taints, self._tolerations, EVERY) is not None:
            return ()
        found = state.after(self.wanted)
        if found is None:
            return ()
        if not self._volumes:
            pinned = self._pinned(found)
            return () if pinned is None else (pinned,)
        with_volumes = (found.after(each) for each in self._volumes)
        pins = (self._pinned(each) for each in with_volumes if each is not None)
        return tuple(dict.fromkeys(each for each in pins if each is not None))

    def _pinned(self, state: State) -> State | None:
        pins: dict[str, frozenset[str]] = {}
        for group, itself in self._groups:
            key = group.key
            domains = group.domains(itself, self._strict.get(key), state.requirements.get(key))
            pins[key] = pins[key] & domains if key in pins else domains
            if not pins[key]:
                return None
        found: State | None = state
        for key, domains in pins.items():
            found = found.pinned(key, domains) if found is not None else None
        return found


class Shape:
    __slots__ = (
        "_counted", "_seen", "asking", "failed_at", "failure", "opposing", "owned", "ports", "refused",
        "refused_places", "requests", "scope", "step",
    )  # fmt: skip

    def __init__(
        self, asking: Asking, step: int, scope: Scope, owned: tuple[Group, ...], opposing: tuple[Group, ...]
    ) -> None:
        self.asking, self.step, self.scope = asking, step, scope
        self.requests, self.ports = asking.requests, asking.ports
        self.owned, self.opposing = owned, opposing
        self.refused: dict[tuple[State, ...], int] = {}
        """By options: bit set of claims without room for the class. Room only decreases."""
        self.refused_places = 0
        self.failed_at = -1
        self.failure = ""
        self._counted: list[Group] = []
        self._seen = 0

    def counted(self, topology: Topology) -> list[Group]:
        """Topology groups that count the pods of this class."""
        groups = topology.groups
        if self._seen != len(groups):
            namespace, labels = self.asking.namespace, self.asking.labels
            self._counted += [each for each in groups[self._seen :] if each.selects(namespace, labels)]
            self._seen = len(groups)
        return self._counted


class Shapes:
    """Creates each class once."""

    def __init__(self, topology: Topology, tolerate: bool) -> None:
        self._topology, self._tolerate = topology, tolerate
        self._intern = Interned()
        self._scopes: dict[Any, Scope] = {}
        self._shapes: dict[tuple[int, int], Shape] = {}
        self.opposing: dict[int, tuple[Group, ...]] = {}

    def oppose(self, asking: Asking) -> None:
        """Must be called for all pods before the first class is created, so that every class knows all anti-affinity
        groups.
        """
        self.opposing[id(asking)] = self._topology.opposing(asking)

    def first(self, asking: Asking) -> Shape:
        return self._shape(asking, 0)

    def relaxed(self, shape: Shape) -> Shape | None:
        asking, step = shape.asking, shape.step + 1
        if step == len(asking.steps):
            less = asking.steps[-1].relaxed(self._tolerate)
            if less is None:
                return None
            asking.steps.append(less)
        return self._shape(asking, step)

    def _shape(self, asking: Asking, step: int) -> Shape:
        found = self._shapes.get((id(asking), step))
        if found is None:
            owned = self._topology.owned(asking, asking.steps[step])
            opposing = self.opposing[id(asking)]
            found = Shape(asking, step, self._scope(asking, step, owned), owned, opposing)
            self._shapes[id(asking), step] = found
        return found

    def _scope(self, asking: Asking, step: int, owned: tuple[Group, ...]) -> Scope:
        wishes = asking.steps[step]
        namespace, labels = asking.namespace, asking.labels
        groups = [(each, each.selects(namespace, labels)) for each in owned]
        groups += [(each, False) for each in self._topology.inverse if each.selects(namespace, labels)]
        asked, strict = wanted(asking.selector, wishes), self._intern(required(asking.selector, wishes))
        host, asked = asked.get(HOSTNAME), self._intern(asked.without(HOSTNAME))
        volumes = tuple(self._intern(each) for each in asking.volumes)
        name = (
            *(id(asked), id(strict), host, tuple(id(each) for each in volumes)),
            tuple((id(each), itself) for each, itself in groups),
            orjson.dumps(wishes.tolerations, option=orjson.OPT_SORT_KEYS),
        )
        found = self._scopes.get(name)
        if found is None:
            found = self._scopes[name] = Scope(asked, strict, host, wishes.tolerations, volumes, groups)
        return found
