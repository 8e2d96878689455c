"""Parses a Placement into a PlacementPolicy, and selects the Placement that applies to an object. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shoal.objects.duration import parse_duration, parse_time
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import SELECT_NOTHING, LabelSelector
from shoal.placement.division import UNBOUNDED
from shoal.placement.resource_selector import ResourceSelector, group_of, parse_resource_selector, parse_selector
from shoal.placement.workload_affinity import WorkloadTerm, parse_workload_terms

Object = dict[str, Any]

EVERYTHING = LabelSelector()
NEVER = float("inf")
CLUSTER_LOCAL_OBJECTS = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
"""Every namespace of every cluster has its own."""


@dataclass(frozen=True, slots=True)
class ClusterSelector:
    """Selects clusters by name or by labels; without both, all."""

    names: frozenset[str] = frozenset()
    selector: LabelSelector = EVERYTHING

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        return (not self.names or name in self.names) and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class ReplicaLimit:
    selector: ClusterSelector
    minimum: int = 0
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    label: str
    max_skew: int = 1
    place_anyway: bool = False


@dataclass(frozen=True, slots=True)
class OverrideRule:
    selector: ClusterSelector
    registry: str = ""
    patch: tuple[Object, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacementPolicy:
    """The defaults apply without a Placement: evenly over all ready clusters."""

    name: str = ""
    priority: int = 0
    cluster_names: frozenset[str] = frozenset()
    affinity: LabelSelector = EVERYTHING
    anti_affinity: LabelSelector = SELECT_NOTHING
    preferred: tuple[tuple[int, LabelSelector], ...] = ()
    workload_terms: tuple[WorkloadTerm, ...] = ()
    tolerations: tuple[Object, ...] = ()
    min_clusters: int = 1
    max_clusters: int | None = None
    spread: SpreadConstraint | None = None
    is_duplicate: bool = False
    divide_by: str = "Weight"
    weights: tuple[tuple[ClusterSelector, int], ...] = ()
    limits: tuple[ReplicaLimit, ...] = ()
    overflow: tuple[ClusterSelector, ...] = ()
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None
    """None: as the object's own strategy allows."""
    grace_seconds: float = 300.0
    fail_back_seconds: float = 60.0
    unschedulable_seconds: float = 60.0
    overrides: tuple[OverrideRule, ...] = field(default=())
    is_following: bool = False
    """Of an object that follows others: whatever the state of the named clusters, they have what it follows."""

    def weight_of(self, name: str, labels: Mapping[str, str]) -> int:
        return next((weight for group, weight in self.weights if group.matches(name, labels)), 1)

    def limit_of(self, name: str, labels: Mapping[str, str]) -> tuple[int, int | None]:
        match = next((limit for limit in self.limits if limit.selector.matches(name, labels)), None)
        return (match.minimum, match.maximum) if match is not None else (0, None)

    def maximum_of(self, name: str, labels: Mapping[str, str]) -> int:
        maximum = self.limit_of(name, labels)[1]
        return UNBOUNDED if maximum is None else maximum

    @property
    def depends_on_capacity(self) -> bool:
        """Replicas are placed by capacity, so those without any are not placed."""
        return self.divide_by != "Weight" or bool(self.overflow)

    def tier_of(self, name: str, labels: Mapping[str, str]) -> int:
        """Returns the index of its overflow group; clusters of no group come last."""
        indexes = (index for index, group in enumerate(self.overflow) if group.matches(name, labels))
        return next(indexes, len(self.overflow))

    def preference_of(self, name: str, labels: Mapping[str, str]) -> int:
        preferred = sum(weight for weight, selector in self.preferred if selector.matches(labels))
        return preferred + sum(term.weight for term in self.workload_terms if term.is_met_by(name))


DEFAULT_POLICY = PlacementPolicy()


def parse_policy(placement: Object) -> PlacementPolicy:
    """Raises BadRequest, with the field's path, if the Placement is invalid."""
    spec: Object = placement.get("spec") or {}
    clusters, replicas = spec.get("clusters") or {}, spec.get("replicas") or {}
    disruption = spec.get("disruption") or {}
    minimum, maximum = clusters.get("minClusters", 1), clusters.get("maxClusters")
    if maximum is not None and maximum < minimum:
        raise BadRequest(f"spec.clusters.maxClusters: {maximum} is less than minClusters, {minimum}")
    for index, one in enumerate(resource_selectors_of(placement)):
        parse_selector(one.get("labelSelector"), f"spec.selects[{index}].labelSelector")
    return PlacementPolicy(
        name=placement["metadata"]["name"],
        priority=spec.get("priority", 0),
        cluster_names=frozenset(clusters.get("names") or ()),
        affinity=parse_selector(clusters.get("affinity"), "spec.clusters.affinity", EVERYTHING),
        anti_affinity=parse_selector(
            clusters.get("antiAffinity") or None, "spec.clusters.antiAffinity", SELECT_NOTHING
        ),
        preferred=tuple(
            (one["weight"], parse_selector(one["selector"], f"spec.clusters.preferred[{index}].selector"))
            for index, one in enumerate(clusters.get("preferred") or ())
        ),
        workload_terms=parse_workload_terms(clusters),
        tolerations=tuple(clusters.get("tolerations") or ()),
        min_clusters=minimum,
        max_clusters=maximum,
        spread=_spread_constraint(clusters.get("spread") or ()),
        is_duplicate=replicas.get("strategy") == "Duplicate",
        divide_by=replicas.get("by", "Weight"),
        weights=tuple(
            (_cluster_selector(one.get("clusters"), f"spec.replicas.weights[{index}]"), one["weight"])
            for index, one in enumerate(replicas.get("weights") or ())
        ),
        limits=tuple(
            _replica_limit(one, f"spec.replicas.limits[{p}]") for p, one in enumerate(replicas.get("limits") or ())
        ),
        overflow=tuple(
            _cluster_selector(one, f"spec.replicas.overflow[{p}]")
            for p, one in enumerate(replicas.get("overflow") or ())
        ),
        max_unavailable=_int_or_percent(disruption, "maxUnavailable"),
        max_surge=_int_or_percent(disruption, "maxSurge"),
        grace_seconds=_seconds(disruption, "gracePeriod", 300.0),
        fail_back_seconds=_seconds(disruption, "failBackAfter", 60.0),
        unschedulable_seconds=_seconds(disruption, "unschedulableAfter", 60.0),
        overrides=tuple(
            OverrideRule(
                _cluster_selector(one.get("clusters"), f"spec.overrides[{index}]"),
                one.get("imageRegistry", ""),
                tuple(one.get("patch") or ()),
            )
            for index, one in enumerate(spec.get("overrides") or ())
        ),
    )


def resource_selectors_of(placement: Object) -> list[Object]:
    """Returns its resource selectors: kind, and optionally apiVersion, name and labels."""
    selectors: list[Object] = (placement.get("spec") or {}).get("selects") or []
    return selectors


def kind_and_version(obj: Object) -> tuple[str, str]:
    """Returns kind and apiVersion of an object or a resource selector, which may have no version."""
    return obj["kind"], obj.get("apiVersion") or ""


class PlacementRule:
    """A parsed Placement."""

    def __init__(self, placement: Object) -> None:
        self.placement = placement
        spec: Object = placement.get("spec") or {}
        metadata = placement["metadata"]
        self.name, self.namespace = str(metadata["name"]), str(metadata.get("namespace", ""))
        self.rank = -spec.get("priority", 0), parse_time(metadata.get("creationTimestamp")) or 0.0, self.name
        self._selectors = [_resource_selector(one) for one in resource_selectors_of(placement)]

    @cached_property
    def policy(self) -> PlacementPolicy:
        """Raises BadRequest, with the field's path, if the Placement is invalid."""
        return parse_policy(self.placement)

    @property
    def workload_terms(self) -> tuple[WorkloadTerm, ...]:
        """Empty while it is invalid."""
        try:
            return self.policy.workload_terms
        except BadRequest:
            return ()

    @property
    def is_followed(self) -> bool:
        """Whether objects that select what it places go where that is, also while it is invalid."""
        return bool((self.placement.get("spec") or {}).get("follow"))

    def selects(self, obj: Object) -> bool:
        metadata, group = obj["metadata"], group_of(obj.get("apiVersion", ""))
        identity = obj.get("kind", ""), group, metadata["name"], metadata.get("labels") or {}
        return any(one.matches(*identity) for one in self._selectors)


def _resource_selector(one: Object) -> ResourceSelector:
    """An invalid selector selects nothing; the Placement's status says so."""
    try:
        return parse_resource_selector(one, "spec.selects")
    except BadRequest:
        return ResourceSelector(one["kind"], None, selector=SELECT_NOTHING)


def matching_placements(placement_rules: Iterable[PlacementRule], obj: Object) -> list[PlacementRule]:
    """Returns the Placements of the object's namespace that select it, for a cluster-scoped object the
    ClusterPlacements. The first one applies: by priority, age and name.
    """
    namespace = obj["metadata"].get("namespace", "")
    if (obj.get("kind"), obj["metadata"]["name"]) in CLUSTER_LOCAL_OBJECTS:
        return []
    matches = [one for one in placement_rules if one.namespace == namespace and one.selects(obj)]
    matches.sort(key=lambda one: one.rank)
    return matches


def _cluster_selector(value: Object | None, path: str) -> ClusterSelector:
    value = value or {}
    return ClusterSelector(
        frozenset(value.get("names") or ()), parse_selector(value.get("selector"), f"{path}.selector")
    )


def _replica_limit(value: Object, path: str) -> ReplicaLimit:
    minimum, maximum = value.get("min", 0), value.get("max")
    if maximum is not None and maximum < minimum:
        raise BadRequest(f"{path}.max: {maximum} is less than min, {minimum}")
    return ReplicaLimit(_cluster_selector(value.get("clusters"), path), minimum, maximum)


def _spread_constraint(value: Iterable[Object]) -> SpreadConstraint | None:
    for one in value:
        return SpreadConstraint(one["label"], one.get("maxSkew", 1), one.get("whenUnsatisfiable") == "PlaceAnyway")
    return None


def _int_or_percent(disruption: Object, name: str) -> int | str | None:
    given: int | str | None = disruption.get(name)
    if given is None:
        return None
    number = str(given).removesuffix("%")
    if not number.isdecimal() or (isinstance(given, str) and not given.endswith("%")):
        raise BadRequest(f"spec.disruption.{name}: {given!r} is neither a number nor a percentage such as 25%")
    return given


def _seconds(value: Object, name: str, default: float) -> float:
    text = value.get(name)
    if text is None:
        return default
    if text == "Never":
        return NEVER
    seconds = parse_duration(text)
    if seconds is None or seconds < 0:
        raise BadRequest(f"spec.disruption.{name}: {text!r} is not a duration such as 90s or 5m")
    return seconds
