"""Parses a Placement into a PlacementPolicy, and selects the Placement that applies to an object. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shoal.kinds.deployments import scaled
from shoal.objects.duration import parse_duration, parse_time
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import NOTHING, LabelSelector, from_label_selector

Object = dict[str, Any]

EVERYTHING = LabelSelector()
NEVER = float("inf")
GIVEN = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
"""Every namespace of every cluster has its own."""


@dataclass(frozen=True, slots=True)
class Group:
    """Selects clusters by name or by labels; without both, all."""

    names: frozenset[str] = frozenset()
    selector: LabelSelector = EVERYTHING

    def has(self, name: str, labels: Mapping[str, str]) -> bool:
        return (not self.names or name in self.names) and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class Limit:
    group: Group
    least: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    label: str
    max_skew: int = 1
    anyway: bool = False


@dataclass(frozen=True, slots=True)
class Override:
    group: Group
    registry: str = ""
    patch: tuple[Object, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """The defaults apply without a Placement: evenly over all ready clusters."""

    name: str = ""
    priority: int = 0
    names: frozenset[str] = frozenset()
    affinity: LabelSelector = EVERYTHING
    anti_affinity: LabelSelector = NOTHING
    preferred: tuple[tuple[int, LabelSelector], ...] = ()
    tolerations: tuple[Object, ...] = ()
    min_clusters: int = 1
    max_clusters: int | None = None
    spread: Spread | None = None
    duplicate: bool = False
    by: str = "Weight"
    weights: tuple[tuple[Group, int], ...] = ()
    limits: tuple[Limit, ...] = ()
    overflow: tuple[Group, ...] = ()
    max_unavailable: int | str = "25%"
    max_surge: int | str = 0
    grace: float = 300.0
    fail_back: float = 60.0
    unschedulable: float = 60.0
    overrides: tuple[Override, ...] = field(default=())

    def weight_of(self, name: str, labels: Mapping[str, str]) -> int:
        return next((weight for group, weight in self.weights if group.has(name, labels)), 1)

    def limit_of(self, name: str, labels: Mapping[str, str]) -> tuple[int, int | None]:
        found = next((limit for limit in self.limits if limit.group.has(name, labels)), None)
        return (found.least, found.most) if found is not None else (0, None)

    def tier_of(self, name: str, labels: Mapping[str, str]) -> int:
        """Returns the index of its overflow group; clusters of no group come last."""
        found = (place for place, group in enumerate(self.overflow) if group.has(name, labels))
        return next(found, len(self.overflow))

    def points_of(self, labels: Mapping[str, str]) -> int:
        return sum(weight for weight, selector in self.preferred if selector.matches(labels))

    def floor(self, total: int) -> int:
        """Returns how many replicas have to be available while replicas move."""
        return total - min(scaled(self.max_unavailable, total, up=False), total)

    def surge(self, total: int) -> int:
        """Returns how many replicas more than the total there may be meanwhile. If none may be missing it is at least
        one.
        """
        return max(scaled(self.max_surge, total, up=True), int(self.floor(total) >= total > 0))


DEFAULT = Policy()


def policy_of(placement: Object) -> Policy:
    """Raises BadRequest, with the field's path, if the Placement is invalid."""
    spec: Object = placement.get("spec") or {}
    clusters, replicas = spec.get("clusters") or {}, spec.get("replicas") or {}
    disruption = spec.get("disruption") or {}
    least, most = clusters.get("minClusters", 1), clusters.get("maxClusters")
    if most is not None and most < least:
        raise BadRequest(f"spec.clusters.maxClusters: {most} is less than minClusters, {least}")
    for place, one in enumerate(selects_of(placement)):
        _selector(one.get("labelSelector"), f"spec.selects[{place}].labelSelector")
    return Policy(
        name=placement["metadata"]["name"],
        priority=spec.get("priority", 0),
        names=frozenset(clusters.get("names") or ()),
        affinity=_selector(clusters.get("affinity"), "spec.clusters.affinity", EVERYTHING),
        anti_affinity=_selector(clusters.get("antiAffinity") or None, "spec.clusters.antiAffinity", NOTHING),
        preferred=tuple(
            (one["weight"], _selector(one["selector"], f"spec.clusters.preferred[{place}].selector"))
            for place, one in enumerate(clusters.get("preferred") or ())
        ),
        tolerations=tuple(clusters.get("tolerations") or ()),
        min_clusters=least,
        max_clusters=most,
        spread=_spread(clusters.get("spread") or ()),
        duplicate=replicas.get("strategy") == "Duplicate",
        by=replicas.get("by", "Weight"),
        weights=tuple(
            (_group(one.get("clusters"), f"spec.replicas.weights[{place}]"), one["weight"])
            for place, one in enumerate(replicas.get("weights") or ())
        ),
        limits=tuple(_limit(one, f"spec.replicas.limits[{p}]") for p, one in enumerate(replicas.get("limits") or ())),
        overflow=tuple(
            _group(one, f"spec.replicas.overflow[{p}]") for p, one in enumerate(replicas.get("overflow") or ())
        ),
        max_unavailable=_share(disruption, "maxUnavailable", "25%"),
        max_surge=_share(disruption, "maxSurge", 0),
        grace=_seconds(disruption, "gracePeriod", 300.0),
        fail_back=_seconds(disruption, "failBackAfter", 60.0),
        unschedulable=_seconds(disruption, "unschedulableAfter", 60.0),
        overrides=tuple(
            Override(
                _group(one.get("clusters"), f"spec.overrides[{place}]"),
                one.get("imageRegistry", ""),
                tuple(one.get("patch") or ()),
            )
            for place, one in enumerate(spec.get("overrides") or ())
        ),
    )


def selects_of(placement: Object) -> list[Object]:
    """Returns its resource selectors: kind, and optionally apiVersion, name and labels."""
    found: list[Object] = (placement.get("spec") or {}).get("selects") or []
    return found


class Rule:
    """A parsed Placement."""

    def __init__(self, placement: Object) -> None:
        self.placement = placement
        spec: Object = placement.get("spec") or {}
        metadata = placement["metadata"]
        self.name, self.namespace = str(metadata["name"]), str(metadata.get("namespace", ""))
        self.rank = -spec.get("priority", 0), parse_time(metadata.get("creationTimestamp")) or 0.0, self.name
        self._choices = [_choice(one) for one in selects_of(placement)]

    @cached_property
    def policy(self) -> Policy:
        """Raises BadRequest, with the field's path, if the Placement is invalid."""
        return policy_of(self.placement)

    def selects(self, obj: Object) -> bool:
        kind, api_version, metadata = obj.get("kind"), obj.get("apiVersion"), obj["metadata"]
        for one in self._choices:
            if (
                one.kind == kind
                and one.api_version in ("", api_version)
                and one.name in ("", metadata["name"])
                and one.selector.matches(metadata.get("labels") or {})
            ):
                return True
        return False


@dataclass(frozen=True, slots=True)
class _Choice:
    kind: str
    api_version: str
    name: str
    selector: LabelSelector


def _choice(one: Object) -> _Choice:
    """An invalid selector selects nothing; the Placement's status says so."""
    try:
        selector = _selector(one.get("labelSelector"), "spec.selects", EVERYTHING)
    except BadRequest:
        selector = NOTHING
    return _Choice(one["kind"], one.get("apiVersion") or "", one.get("name") or "", selector)


def rivals(rules: Iterable[Rule], obj: Object) -> list[Rule]:
    """Returns the Placements of the object's namespace that select it. The first one applies: by priority, age and
    name.
    """
    namespace = obj["metadata"].get("namespace", "")
    if (obj.get("kind"), obj["metadata"]["name"]) in GIVEN:
        return []
    found = [one for one in rules if one.namespace == namespace and one.selects(obj)]
    found.sort(key=lambda one: one.rank)
    return found


def _selector(given: Object | None, path: str, absent: LabelSelector = EVERYTHING) -> LabelSelector:
    try:
        return absent if given is None else from_label_selector(given)
    except BadRequest as error:
        raise BadRequest(f"{path}: {error}") from None


def _group(given: Object | None, path: str) -> Group:
    given = given or {}
    return Group(frozenset(given.get("names") or ()), _selector(given.get("selector"), f"{path}.selector"))


def _limit(given: Object, path: str) -> Limit:
    least, most = given.get("min", 0), given.get("max")
    if most is not None and most < least:
        raise BadRequest(f"{path}.max: {most} is less than min, {least}")
    return Limit(_group(given.get("clusters"), path), least, most)


def _spread(given: Iterable[Object]) -> Spread | None:
    for one in given:
        return Spread(one["label"], one.get("maxSkew", 1), one.get("whenUnsatisfiable") == "PlaceAnyway")
    return None


def _share(disruption: Object, name: str, absent: int | str) -> int | str:
    given: int | str = disruption.get(name, absent)
    number = str(given).removesuffix("%")
    if not number.isdecimal() or (isinstance(given, str) and not given.endswith("%")):
        raise BadRequest(f"spec.disruption.{name}: {given!r} is neither a number nor a percentage such as 25%")
    return given


def _seconds(given: Object, name: str, absent: float) -> float:
    text = given.get(name)
    if text is None:
        return absent
    if text == "Never":
        return NEVER
    seconds = parse_duration(text)
    if seconds is None or seconds < 0:
        raise BadRequest(f"spec.disruption.{name}: {text!r} is not a duration such as 90s or 5m")
    return seconds
