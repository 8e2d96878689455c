"""Scheduling data of a pod, and the relaxation of its preferences. Pure.

Terms of required node affinity are tried in order, and the heaviest preference is treated as required first.
`Preferences.relax` gives up one preference, in Karpenter's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.fit.ports import HostPort, host_ports
from shoal.fit.requirements import IN, Requirement, Requirements, from_expressions, requirement
from shoal.fit.resources import Resources, pod_requests
from shoal.fit.taints import PREFER_NO_SCHEDULE
from shoal.fit.topology import SCHEDULE_ANYWAY
from shoal.kinds.karpenter import ARCHITECTURE, INSTANCE_TYPE, POOL_LABEL, REGION, SYSTEM, ZONE
from shoal.provision.simulation.model import IGNORE

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ALIASES = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/arch": ARCHITECTURE,
    "beta.kubernetes.io/os": SYSTEM,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
}
"""Deprecated labels and the labels that replace them."""
ANY_PREFER = {"operator": "Exists", "effect": PREFER_NO_SCHEDULE}


@dataclass(frozen=True, slots=True)
class Wishes:
    """The relaxable part of a pod."""

    terms: tuple[Object, ...] = ()
    """Alternatives of its required node affinity."""
    liked: tuple[Object, ...] = ()
    """Preferred node affinity, heaviest first."""
    near: tuple[Object, ...] = ()
    far: tuple[Object, ...] = ()
    """Preferred pod affinity and anti-affinity, heaviest first."""
    spreads: tuple[Object, ...] = ()
    tolerations: tuple[Object, ...] = ()

    def relaxed(self, tolerate: bool) -> Wishes | None:
        """Returns the preferences without the next one to give up; None if nothing is left.
        `tolerate_prefer_no_schedule`: a NodePool has a PreferNoSchedule taint.
        """
        if len(self.terms) > 1:
            return replace(self, terms=self.terms[1:])
        if self.near:
            return replace(self, near=self.near[1:])
        if self.far:
            return replace(self, far=self.far[1:])
        if self.liked:
            return replace(self, liked=self.liked[1:])
        for number, spread in enumerate(self.spreads):
            if spread.get("whenUnsatisfiable") == SCHEDULE_ANYWAY:
                left = [*self.spreads]
                left[number] = left[-1]
                return replace(self, spreads=tuple(left[:-1]))
        if tolerate and not any(_tolerates_preferences(each) for each in self.tolerations):
            return replace(self, tolerations=(*self.tolerations, ANY_PREFER))
        return None


@dataclass(slots=True, eq=False)
class Asking:
    """Shared by all pods with equal constraints."""

    namespace: str
    labels: Mapping[str, str]
    """Labels that any pod selector uses."""
    selector: Mapping[str, str]
    requests: Resources
    ports: frozenset[HostPort]
    together: tuple[Object, ...]
    apart: tuple[Object, ...]
    """Required terms of pod affinity and anti-affinity."""
    wishes: Wishes
    volumes: tuple[Requirements, ...] = ()
    problem: str = ""
    """Why no node can be bought for the pod, whatever is available."""
    steps: list[Wishes] = field(default_factory=list)
    """Relaxations of `preferences`, computed as far as needed."""


def asking(
    pod: Object, labels: Mapping[str, str], volumes: Iterable[Requirements], preferences: str, problem: str = ""
) -> Asking:
    spec = pod.get("spec") or {}
    affinity = spec.get("affinity") or {}
    node, near, far = (affinity.get(name) or {} for name in ("nodeAffinity", "podAffinity", "podAntiAffinity"))
    terms = tuple((node.get(REQUIRED) or {}).get("nodeSelectorTerms") or ())
    ignore = preferences == IGNORE
    wishes = Wishes(
        terms=terms,
        liked=() if ignore else _by_weight(node.get(PREFERRED)),
        near=() if ignore else _by_weight(near.get(PREFERRED)),
        far=() if ignore else _by_weight(far.get(PREFERRED)),
        spreads=tuple(
            each
            for each in spec.get("topologySpreadConstraints") or ()
            if not ignore or each.get("whenUnsatisfiable") != SCHEDULE_ANYWAY
        ),
        tolerations=tuple(spec.get("tolerations") or ()),
    )
    found = Asking(
        namespace=pod["metadata"].get("namespace", ""),
        labels=labels,
        selector=spec.get("nodeSelector") or {},
        requests=pod_requests(pod),
        ports=host_ports(pod),
        together=tuple(near.get(REQUIRED) or ()),
        apart=tuple(far.get(REQUIRED) or ()),
        wishes=wishes,
        volumes=tuple(volumes),
        problem=problem or _problem(spec, wishes),
    )
    found.steps.append(wishes)
    return found


def required(selector: Mapping[str, str], wishes: Wishes) -> Requirements:
    """Returns the hard requirements: the nodeSelector and the first remaining affinity term."""
    found = normalized(requirement(key, IN, (value,)) for key, value in selector.items())
    return found.union(expressed(wishes.terms[0])) if wishes.terms else found


def wanted(selector: Mapping[str, str], wishes: Wishes) -> Requirements:
    """Returns the hard requirements with the heaviest preference treated as required."""
    found = required(selector, wishes)
    return found.union(expressed(wishes.liked[0].get("preference") or {})) if wishes.liked else found


def expressed(term: Object) -> Requirements:
    return normalized(from_expressions(term.get("matchExpressions")).values())


def normalized(requirements: Iterable[Requirement]) -> Requirements:
    return Requirements(replace(each, key=ALIASES[each.key]) if each.key in ALIASES else each for each in requirements)


def _problem(spec: Object, wishes: Wishes) -> str:
    if any(term.get("matchFields") for term in wishes.terms):
        return "node affinity by matchFields names nodes that exist"
    if any(term.get("preference", {}).get("matchFields") for term in wishes.liked):
        return "preferred node affinity by matchFields names nodes that exist"
    if spec.get("resourceClaims"):
        return "it has resourceClaims, and dynamic resource allocation is not supported"
    try:
        for term in wishes.terms or ({},):
            pool = required(spec.get("nodeSelector") or {}, replace(wishes, terms=(term,))).get(POOL_LABEL)
            if pool is not None and pool.absent and not pool.complement:
                return "it wants no node of a NodePool"
        for term in wishes.liked:
            expressed(term.get("preference") or {})
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
