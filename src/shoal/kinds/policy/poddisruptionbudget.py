"""PodDisruptionBudget of policy/v1: defaults and validation. Pure."""

from __future__ import annotations

from shoal.kinds.validation.field import (
    Object,
    default_status,
    ensure_map,
    is_unchanged,
    validate_at_most_100_percent,
    validate_enum,
    validate_int_or_percent,
    validate_label_selector,
    validate_nonnegative,
)
from shoal.objects.errors import Cause, invalid_value

_STATUS_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def default_pod_disruption_budget(obj: Object) -> None:
    ensure_map(obj, "spec")
    default_status(obj, **dict.fromkeys(_STATUS_COUNTS, 0))


def validate_pod_disruption_budget(obj: Object, old: Object | None) -> list[Cause]:
    causes = validate_nonnegative(obj.get("status") or {}, "status", *_STATUS_COUNTS)
    if is_unchanged(obj, old):
        return causes
    spec = obj["spec"]
    min_available, max_unavailable = spec.get("minAvailable"), spec.get("maxUnavailable")
    if min_available is not None and max_unavailable is not None:
        causes.append(invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for field in ("minAvailable", "maxUnavailable"):
        if spec.get(field) is not None:
            causes += validate_int_or_percent(spec[field], f"spec.{field}") + validate_at_most_100_percent(
                spec[field], f"spec.{field}"
            )
    causes += validate_label_selector(spec.get("selector"), "spec.selector")
    eviction = spec.get("unhealthyPodEvictionPolicy")
    return causes + validate_enum(eviction, "spec.unhealthyPodEvictionPolicy", "AlwaysAllow", "IfHealthyBudget")
