"""PodDisruptionBudget of policy/v1: defaults and validation. Pure."""

from __future__ import annotations

from shoal.kinds.checks import (
    Object,
    at_most_all,
    int_or_percent,
    label_selector,
    not_negative,
    one_of,
    section,
    unchanged,
    zero_status,
)
from shoal.objects.errors import Cause, invalid_value

_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def default_budget(obj: Object) -> None:
    section(obj, "spec")
    zero_status(obj, **dict.fromkeys(_COUNTS, 0))


def validate_budget(obj: Object, old: Object | None) -> list[Cause]:
    causes = not_negative(obj.get("status") or {}, "status", *_COUNTS)
    if unchanged(obj, old):
        return causes
    spec = obj["spec"]
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        causes.append(invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for field in ("minAvailable", "maxUnavailable"):
        if spec.get(field) is not None:
            causes += int_or_percent(spec[field], f"spec.{field}") + at_most_all(spec[field], f"spec.{field}")
    causes += label_selector(spec.get("selector"), "spec.selector")
    eviction = spec.get("unhealthyPodEvictionPolicy")
    return causes + one_of(eviction, "spec.unhealthyPodEvictionPolicy", "AlwaysAllow", "IfHealthyBudget")
