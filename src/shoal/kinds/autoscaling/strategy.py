"""Strategies and printer columns of HorizontalPodAutoscalers."""

from __future__ import annotations

from typing import Any

from shoal.kinds.autoscaling import hpa, hpa_validation
from shoal.kinds.column import AGE, NONE, UNKNOWN, UNSET, Column, number_cell
from shoal.kinds.strategy import StorageAlias, Strategy

Object = dict[str, Any]

SHOWN_METRICS = 2

STRATEGIES: dict[str, Strategy] = {
    "horizontalpodautoscalers.autoscaling": Strategy(
        status_writes_metadata=True, default=hpa.default_hpa_v2, validate=hpa_validation.validate_hpa_v2
    ),
    "horizontalpodautoscalers.v1.autoscaling": Strategy(
        status_writes_metadata=True,
        default=hpa.default_hpa_v1,
        prepare_for_update=hpa.prepare_v1_update,
        validate=hpa_validation.validate_hpa_v1,
        storage_alias=StorageAlias("autoscaling", hpa.to_v2, hpa.to_v1, str),
    ),
}


def _scale_target(obj: Object, now: float) -> object:
    target = obj["spec"].get("scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _metrics(obj: Object, now: float) -> object:
    obj = hpa.to_v2(obj) if obj["apiVersion"] == hpa.V1 else obj
    wanted, current = obj["spec"].get("metrics") or [], (obj.get("status") or {}).get("currentMetrics") or []
    shown = [_metric(metric, current[i] if i < len(current) else {}) for i, metric in enumerate(wanted)]
    if not shown:
        return NONE
    more = len(shown) - SHOWN_METRICS
    return ", ".join(shown[:SHOWN_METRICS]) + (f" + {more} more..." if more > 0 else "")


def _metric(metric: Object, current: Object) -> str:
    kind = metric.get("type") or " "
    field = kind[0].lower() + kind[1:]
    source = metric.get(field)
    if source is None:
        return "<unknown type>"
    target, found = source.get("target") or {}, (current.get(field) or {}).get("current") or {}
    of_resource = field in ("resource", "containerResource")
    prefix = f"{source.get('name', '')}: " if of_resource else ""
    if target.get("averageValue") is not None:
        suffix = " (avg)" if field in ("external", "object") else ""
        return f"{prefix}{found.get('averageValue', UNKNOWN)}/{target['averageValue']}{suffix}"
    if of_resource:
        return f"{prefix}{_percent(found, UNKNOWN)}/{_percent(target, '<auto>')}"
    return f"{found.get('value', UNKNOWN)}/{target.get('value', UNKNOWN)}"


def _percent(holder: Object, otherwise: str) -> str:
    found = holder.get("averageUtilization")
    return otherwise if found is None else f"{found}%"


COLUMNS: dict[str, tuple[Column, ...]] = {
    "horizontalpodautoscalers.autoscaling": (
        Column("Reference", cell=_scale_target),
        Column("Targets", cell=_metrics),
        Column("MinPods", cell=lambda obj, now: str(obj["spec"].get("minReplicas", UNSET))),
        Column("MaxPods", cell=number_cell("spec", "maxReplicas")),
        Column("Replicas", cell=number_cell("status", "currentReplicas")),
        AGE,
    ),
}
