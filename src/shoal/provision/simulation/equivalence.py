"""Equivalence classes of pods at one relaxation step, and which node states they accept. Pure.

A `ConstraintSet` holds everything but resources that decides whether a node in a given state is feasible. Classes that
differ only in requests share one. Its cached options are dropped when one of its topology groups changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from shoal.fit.requirements import Requirement, Requirements
from shoal.fit.taints import first_untolerated
from shoal.kinds.karpenter.karpenter import HOSTNAME
from shoal.provision.simulation.preferences import PodData, preferred_node_requirements, required_node_requirements
from shoal.provision.simulation.requirement_state import RequirementsInterner, RequirementState
from shoal.provision.simulation.topology import Topology
from shoal.provision.simulation.topology_group import ALL_EFFECTS, ANTI_AFFINITY, SPREAD, TopologyGroup

Object = dict[str, Any]

_NEW_HOSTNAME = "-"
"""Stands for the hostname of a node that has none yet."""


class ConstraintSet:
    def __init__(
        self,
        requirements: Requirements,
        strict: Requirements,
        hostname: Requirement | None,
        tolerations: tuple[Object, ...],
        volumes: tuple[Requirements, ...],
        groups: Sequence[tuple[TopologyGroup, bool]],
    ) -> None:
        self.requirements, self.hostname = requirements, hostname
        self._strict, self._tolerations, self._volumes = strict, tolerations, volumes
        self._groups = [(group, itself) for group, itself in groups if not group.by_host]
        self._host_groups = [(group, itself) for group, itself in groups if group.by_host]
        self._options_cache: dict[RequirementState, tuple[RequirementState, ...]] = {}
        self._topology_version = 0

    def refresh(self) -> None:
        """Must be called once per pod before the other methods."""
        version = 0
        for group, _ in self._groups:
            version += group.version
        if version != self._topology_version:
            self._topology_version = version
            self._options_cache.clear()

    def options(self, state: RequirementState) -> tuple[RequirementState, ...]:
        """Possible states of the node with the pod, preferred first; empty if infeasible."""
        options = self._options_cache.get(state)
        if options is None:
            options = self._options_cache[state] = self._compute_options(state)
        return options

    def allowed_hosts(self, origin: int) -> int:
        """Bit set of existing nodes (0) or claims (1) that the hostname topologies allow."""
        allowed = -1
        for group, itself in self._host_groups:
            if group.kind == ANTI_AFFINITY:
                allowed &= ~group.nonempty_hosts[origin]
            elif group.kind == SPREAD:
                allowed &= ~group.full_hosts[itself][origin]
            elif not group.is_first(itself, self.hostname):
                allowed &= group.nonempty_hosts[origin]
        return allowed

    def allows_new_node(self) -> bool:
        """True if the hostname constraints allow an empty new node."""
        if self.hostname is not None and not self.hostname.has(_NEW_HOSTNAME):
            return False
        for group, itself in self._host_groups:
            if group.kind == SPREAD:
                if itself > group.max_skew:
                    return False
            elif group.kind != ANTI_AFFINITY and not group.is_first(itself, self.hostname):
                return False
        return True

    def allows_inflight_nodes(self) -> bool:
        return self.hostname is None or self.hostname.has(_NEW_HOSTNAME)

    def _compute_options(self, state: RequirementState) -> tuple[RequirementState, ...]:
        if first_untolerated(state.origin.taints, self._tolerations, ALL_EFFECTS) is not None:
            return ()
        narrowed = state.narrow(self.requirements)
        if narrowed is None:
            return ()
        if not self._volumes:
            pinned = self._pin_domains(narrowed)
            return () if pinned is None else (pinned,)
        with_volumes = (narrowed.narrow(each) for each in self._volumes)
        pins = (self._pin_domains(each) for each in with_volumes if each is not None)
        return tuple(dict.fromkeys(each for each in pins if each is not None))

    def _pin_domains(self, state: RequirementState) -> RequirementState | None:
        pins: dict[str, frozenset[str]] = {}
        for group, itself in self._groups:
            key = group.key
            domains = group.allowed_domains(itself, self._strict.get(key), state.requirements.get(key))
            pins[key] = pins[key] & domains if key in pins else domains
            if not pins[key]:
                return None
        pinned: RequirementState | None = state
        for key, domains in pins.items():
            pinned = pinned.pin(key, domains) if pinned is not None else None
        return pinned


class EquivalenceClass:
    __slots__ = (
        "_counted_groups",
        "_groups_checked",
        "constraints",
        "failed_progress",
        "failure",
        "inverse_groups",
        "own_groups",
        "pod_data",
        "ports",
        "rejected_claims",
        "rejected_nodes",
        "relaxation",
        "requests",
    )  # fmt: skip

    def __init__(
        self,
        pod_data: PodData,
        relaxation: int,
        constraints: ConstraintSet,
        own_groups: tuple[TopologyGroup, ...],
        inverse_groups: tuple[TopologyGroup, ...],
    ) -> None:
        self.pod_data, self.relaxation, self.constraints = pod_data, relaxation, constraints
        self.requests, self.ports = pod_data.requests, pod_data.ports
        self.own_groups, self.inverse_groups = own_groups, inverse_groups
        self.rejected_claims: dict[tuple[RequirementState, ...], int] = {}
        """By options: bit set of claims without room for the class. Room only decreases."""
        self.rejected_nodes = 0
        self.failed_progress = -1
        self.failure = ""
        self._counted_groups: list[TopologyGroup] = []
        self._groups_checked = 0

    def counted_groups(self, topology: Topology) -> list[TopologyGroup]:
        """Topology groups that count the pods of this class."""
        groups = topology.groups
        if self._groups_checked != len(groups):
            namespace, labels = self.pod_data.namespace, self.pod_data.labels
            self._counted_groups += [each for each in groups[self._groups_checked :] if each.selects(namespace, labels)]
            self._groups_checked = len(groups)
        return self._counted_groups


class EquivalenceClasses:
    """Creates each class once."""

    def __init__(self, topology: Topology, tolerate_prefer_no_schedule: bool) -> None:
        self._topology, self._tolerate_prefer_no_schedule = topology, tolerate_prefer_no_schedule
        self._intern = RequirementsInterner()
        self._constraint_sets: dict[Any, ConstraintSet] = {}
        self._classes: dict[tuple[int, int], EquivalenceClass] = {}
        self.inverse_groups: dict[int, tuple[TopologyGroup, ...]] = {}

    def register_anti_affinity(self, pod_data: PodData) -> None:
        """Must be called for all pods before the first class is created, so that every class knows all anti-affinity
        groups.
        """
        self.inverse_groups[id(pod_data)] = self._topology.inverse_groups_of(pod_data)

    def initial_class(self, pod_data: PodData) -> EquivalenceClass:
        return self._class_of(pod_data, 0)

    def relax(self, pod_class: EquivalenceClass) -> EquivalenceClass | None:
        pod_data, relaxation = pod_class.pod_data, pod_class.relaxation + 1
        if relaxation == len(pod_data.relaxations):
            preferences = pod_data.relaxations[-1].relax(self._tolerate_prefer_no_schedule)
            if preferences is None:
                return None
            pod_data.relaxations.append(preferences)
        return self._class_of(pod_data, relaxation)

    def _class_of(self, pod_data: PodData, relaxation: int) -> EquivalenceClass:
        pod_class = self._classes.get((id(pod_data), relaxation))
        if pod_class is None:
            own_groups = self._topology.groups_of(pod_data, pod_data.relaxations[relaxation])
            inverse_groups = self.inverse_groups[id(pod_data)]
            pod_class = EquivalenceClass(
                pod_data, relaxation, self._constraints_of(pod_data, relaxation, own_groups), own_groups, inverse_groups
            )
            self._classes[id(pod_data), relaxation] = pod_class
        return pod_class

    def _constraints_of(
        self, pod_data: PodData, relaxation: int, own_groups: tuple[TopologyGroup, ...]
    ) -> ConstraintSet:
        preferences = pod_data.relaxations[relaxation]
        namespace, labels = pod_data.namespace, pod_data.labels
        groups = [(each, each.selects(namespace, labels)) for each in own_groups]
        groups += [(each, False) for each in self._topology.inverse_groups if each.selects(namespace, labels)]
        preferred, strict = (
            preferred_node_requirements(pod_data.node_selector, preferences),
            self._intern(required_node_requirements(pod_data.node_selector, preferences)),
        )
        hostname, preferred = preferred.get(HOSTNAME), self._intern(preferred.without(HOSTNAME))
        volumes = tuple(self._intern(each) for each in pod_data.volumes)
        key = (
            *(id(preferred), id(strict), hostname, tuple(id(each) for each in volumes)),
            tuple((id(each), itself) for each, itself in groups),
            orjson.dumps(preferences.tolerations, option=orjson.OPT_SORT_KEYS),
        )
        constraints = self._constraint_sets.get(key)
        if constraints is None:
            constraints = self._constraint_sets[key] = ConstraintSet(
                preferred, strict, hostname, preferences.tolerations, volumes, groups
            )
        return constraints
