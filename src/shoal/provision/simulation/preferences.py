"""Scheduling data of a pod, and the relaxation of its preferences. Pure.

Terms of required node affinity are tried in order, and the heaviest preference is treated as required first.
`Preferences.relax` gives up one preference, in Karpenter's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.fit.ports import HostPort, host_ports
from shoal.fit.requirements import IN, Requirement, Requirements, from_expressions, new_requirement
from shoal.fit.resources import Resources, pod_requests
from shoal.fit.taints import PREFER_NO_SCHEDULE
from shoal.fit.topology import SCHEDULE_ANYWAY
from shoal.kinds.karpenter.karpenter import ARCHITECTURE, INSTANCE_TYPE, NODE_POOL_LABEL, REGION, SYSTEM, ZONE
from shoal.provision.simulation.model import IGNORE

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
LABEL_ALIASES = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/arch": ARCHITECTURE,
    "beta.kubernetes.io/os": SYSTEM,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
}
"""Deprecated labels and the labels that replace them."""
TOLERATE_PREFER_NO_SCHEDULE = {"operator": "Exists", "effect": PREFER_NO_SCHEDULE}


@dataclass(frozen=True, slots=True)
class Preferences:
    """The relaxable part of a pod."""

    node_terms: tuple[Object, ...] = ()
    """Alternatives of its required node affinity."""
    node_preferences: tuple[Object, ...] = ()
    """Preferred node affinity, heaviest first."""
    pod_affinity: tuple[Object, ...] = ()
    pod_anti_affinity: tuple[Object, ...] = ()
    """Preferred pod affinity and anti-affinity, heaviest first."""
    spreads: tuple[Object, ...] = ()
    tolerations: tuple[Object, ...] = ()

    def relax(self, tolerate_prefer_no_schedule: bool) -> Preferences | None:
        """Returns the preferences without the next one to give up; None if nothing is left.
        `tolerate_prefer_no_schedule`: a NodePool has a PreferNoSchedule taint.
        """
        if len(self.node_terms) > 1:
            return replace(self, node_terms=self.node_terms[1:])
        if self.pod_affinity:
            return replace(self, pod_affinity=self.pod_affinity[1:])
        if self.pod_anti_affinity:
            return replace(self, pod_anti_affinity=self.pod_anti_affinity[1:])
        if self.node_preferences:
            return replace(self, node_preferences=self.node_preferences[1:])
        for number, spread in enumerate(self.spreads):
            if spread.get("whenUnsatisfiable") == SCHEDULE_ANYWAY:
                remaining = [*self.spreads]
                remaining[number] = remaining[-1]
                return replace(self, spreads=tuple(remaining[:-1]))
        if tolerate_prefer_no_schedule and not any(_tolerates_preferences(each) for each in self.tolerations):
            return replace(self, tolerations=(*self.tolerations, TOLERATE_PREFER_NO_SCHEDULE))
        return None


@dataclass(slots=True, eq=False)
class PodData:
    """Shared by all pods with equal constraints."""

    namespace: str
    labels: Mapping[str, str]
    """Labels that any pod selector uses."""
    node_selector: Mapping[str, str]
    requests: Resources
    ports: frozenset[HostPort]
    required_affinity: tuple[Object, ...]
    required_anti_affinity: tuple[Object, ...]
    """Required terms of pod affinity and anti-affinity."""
    preferences: Preferences
    volumes: tuple[Requirements, ...] = ()
    error: str = ""
    """Why no node can be bought for the pod, whatever is available."""
    relaxations: list[Preferences] = field(default_factory=list)
    """Relaxations of `preferences`, computed as far as needed."""


def new_pod_data(
    pod: Object, labels: Mapping[str, str], volumes: Iterable[Requirements], preferences: str, error: str = ""
) -> PodData:
    spec = pod.get("spec") or {}
    affinity = spec.get("affinity") or {}
    node, near, far = (affinity.get(name) or {} for name in ("nodeAffinity", "podAffinity", "podAntiAffinity"))
    terms = tuple((node.get(REQUIRED) or {}).get("nodeSelectorTerms") or ())
    ignore = preferences == IGNORE
    wishes = Preferences(
        node_terms=terms,
        node_preferences=() if ignore else _by_weight(node.get(PREFERRED)),
        pod_affinity=() if ignore else _by_weight(near.get(PREFERRED)),
        pod_anti_affinity=() if ignore else _by_weight(far.get(PREFERRED)),
        spreads=tuple(
            each
            for each in spec.get("topologySpreadConstraints") or ()
            if not ignore or each.get("whenUnsatisfiable") != SCHEDULE_ANYWAY
        ),
        tolerations=tuple(spec.get("tolerations") or ()),
    )
    pod_data = PodData(
        namespace=pod["metadata"].get("namespace", ""),
        labels=labels,
        node_selector=spec.get("nodeSelector") or {},
        requests=pod_requests(pod),
        ports=host_ports(pod),
        required_affinity=tuple(near.get(REQUIRED) or ()),
        required_anti_affinity=tuple(far.get(REQUIRED) or ()),
        preferences=wishes,
        volumes=tuple(volumes),
        error=error or _pod_error(spec, wishes),
    )
    pod_data.relaxations.append(wishes)
    return pod_data


def required_node_requirements(selector: Mapping[str, str], preferences: Preferences) -> Requirements:
    """Returns the hard requirements: the nodeSelector and the first remaining affinity term."""
    requirements = normalize(new_requirement(key, IN, (value,)) for key, value in selector.items())
    return requirements.union(term_requirements(preferences.node_terms[0])) if preferences.node_terms else requirements


def preferred_node_requirements(selector: Mapping[str, str], preferences: Preferences) -> Requirements:
    """Returns the hard requirements with the heaviest preference treated as required."""
    requirements = required_node_requirements(selector, preferences)
    return (
        requirements.union(term_requirements(preferences.node_preferences[0].get("preference") or {}))
        if preferences.node_preferences
        else requirements
    )


def term_requirements(term: Object) -> Requirements:
    return normalize(from_expressions(term.get("matchExpressions")).values())


def normalize(requirements: Iterable[Requirement]) -> Requirements:
    return Requirements(
        replace(each, key=LABEL_ALIASES[each.key]) if each.key in LABEL_ALIASES else each for each in requirements
    )


def _pod_error(spec: Object, preferences: Preferences) -> str:
    if any(term.get("matchFields") for term in preferences.node_terms):
        return "node affinity with matchFields is not supported"
    if any(term.get("preference", {}).get("matchFields") for term in preferences.node_preferences):
        return "preferred node affinity with matchFields is not supported"
    if spec.get("resourceClaims"):
        return "resourceClaims (dynamic resource allocation) are not supported"
    try:
        for term in preferences.node_terms or ({},):
            pool = required_node_requirements(
                spec.get("nodeSelector") or {}, replace(preferences, node_terms=(term,))
            ).get(NODE_POOL_LABEL)
            if pool is not None and pool.allows_absent and not pool.complement:
                return "its requirements exclude nodes of NodePools"
        for term in preferences.node_preferences:
            term_requirements(term.get("preference") or {})
    except ValueError as error:
        return str(error)
    return ""


def _by_weight(terms: Iterable[Object] | None) -> tuple[Object, ...]:
    return tuple(sorted(terms or (), key=lambda term: -int(term.get("weight", 0))))


def _tolerates_preferences(toleration: Object) -> bool:
    return (
        toleration.get("operator") == "Exists"
        and toleration.get("effect") == PREFER_NO_SCHEDULE
        and not toleration.get("key")
    )
