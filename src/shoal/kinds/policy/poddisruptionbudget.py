"""PodDisruptionBudget of policy/v1: defaults, validation, strategy and printer columns. Pure."""

from __future__ import annotations

from shoal.kinds.column import AGE, Cell, Column, number_cell
from shoal.kinds.strategy import Strategy
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
from shoal.objects.names import is_path_segment_name

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


def _spec_field(field: str) -> Cell:
    def cell(obj: Object, now: float) -> object:
        found = obj["spec"].get(field)
        return "N/A" if found is None else str(found)

    return cell


STRATEGIES: dict[str, Strategy] = {
    "poddisruptionbudgets.policy": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        name_rule=is_path_segment_name,
        default=default_pod_disruption_budget,
        validate=validate_pod_disruption_budget,
    ),
}

COLUMNS: dict[str, tuple[Column, ...]] = {
    "poddisruptionbudgets.policy": (
        Column("Min Available", cell=_spec_field("minAvailable")),
        Column("Max Unavailable", cell=_spec_field("maxUnavailable")),
        Column("Allowed Disruptions", type="integer", cell=number_cell("status", "disruptionsAllowed")),
        AGE,
    ),
}
