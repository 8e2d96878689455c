"""HorizontalPodAutoscaler: stored as autoscaling/v2, also served as v1. Defaults and conversion. Pure.

v2 fields that v1 lacks are kept in annotations of the v1 form, as upstream does, so nothing is lost when a v1 client
writes back what it read.
"""

from __future__ import annotations

import json
from typing import Any

from shoal.kinds.validation.field import Object, ensure_map, set_defaults

V1, V2 = "autoscaling/v1", "autoscaling/v2"
DEFAULT_UTILIZATION = 80
_PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS_ANNOTATION, BEHAVIOR_ANNOTATION = f"{_PREFIX}metrics", f"{_PREFIX}behavior"
CURRENT_METRICS_ANNOTATION, CONDITIONS_ANNOTATION = f"{_PREFIX}current-metrics", f"{_PREFIX}conditions"
_V2_ANNOTATIONS = (METRICS_ANNOTATION, BEHAVIOR_ANNOTATION, CURRENT_METRICS_ANNOTATION, CONDITIONS_ANNOTATION)
_SCALE_UP: Object = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: Object = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


def default_hpa_v2(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    set_defaults(spec, minReplicas=1, maxReplicas=0)
    ensure_map(spec, "scaleTargetRef")
    if not spec.get("metrics"):
        spec["metrics"] = [_cpu_metric(DEFAULT_UTILIZATION)]
    behavior = spec.get("behavior")
    if behavior is not None:
        for field, rules in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
            set_defaults(ensure_map(behavior, field), **json.loads(json.dumps(rules)))
    status = ensure_map(obj, "status")
    set_defaults(status, desiredReplicas=0)
    status.setdefault("currentMetrics", None)


def default_hpa_v1(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    set_defaults(spec, minReplicas=1, maxReplicas=0)
    ensure_map(spec, "scaleTargetRef")
    set_defaults(ensure_map(obj, "status"), currentReplicas=0, desiredReplicas=0)


def prepare_v1_update(new: Object, old: Object) -> None:
    """Restores the v1 annotations that carry status: a client may not drop them."""
    before = old["metadata"].get("annotations") or {}
    annotations = dict(new["metadata"].get("annotations") or {})
    for key in (CURRENT_METRICS_ANNOTATION, CONDITIONS_ANNOTATION):
        annotations.pop(key, None)
        if key in before:
            annotations[key] = before[key]
    if annotations:
        new["metadata"]["annotations"] = annotations
    else:
        new["metadata"].pop("annotations", None)


def to_v2(obj: Object) -> Object:
    annotations = obj["metadata"].get("annotations") or {}
    spec = dict(obj.get("spec") or {})
    target = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = [_to_v2_spec_metric(metric) for metric in _read_annotation(annotations, METRICS_ANNOTATION, list)]
    if target is not None:
        metrics.append(_cpu_metric(target))
    spec["metrics"] = metrics or [_cpu_metric(DEFAULT_UTILIZATION)]
    behavior = _recase_keys(_read_annotation(annotations, BEHAVIOR_ANNOTATION, dict), _lower_first)
    if behavior:
        spec["behavior"] = behavior
    status = dict(obj.get("status") or {})
    utilization = status.pop("currentCPUUtilizationPercentage", None)
    current = [
        _to_v2_status_metric(metric) for metric in _read_annotation(annotations, CURRENT_METRICS_ANNOTATION, list)
    ]
    if not current and utilization is not None:
        now = {"averageUtilization": utilization, "averageValue": "0"}
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": now}}]
    status["currentMetrics"] = current or None
    conditions = _read_annotation(annotations, CONDITIONS_ANNOTATION, list)
    if conditions:
        status["conditions"] = conditions
    return {**obj, "apiVersion": V2, "metadata": _with_annotations(obj["metadata"], {}), "spec": spec, "status": status}


def to_v1(obj: Object) -> Object:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    v2_annotations: dict[str, str] = {}
    others = []
    for metric in spec.pop("metrics", None) or ():
        utilization = _cpu_utilization(metric)
        if utilization is None:
            others.append(_to_v1_spec_metric(metric))
        else:
            spec["targetCPUUtilizationPercentage"] = utilization
    current = status.pop("currentMetrics", None) or []
    for metric in current:
        resource = metric.get("resource") or {}
        if resource.get("name") == "cpu" and (resource.get("current") or {}).get("averageUtilization") is not None:
            status["currentCPUUtilizationPercentage"] = resource["current"]["averageUtilization"]
    behavior, conditions = spec.pop("behavior", None), status.pop("conditions", None)
    for key, value in (
        (METRICS_ANNOTATION, others),
        (CURRENT_METRICS_ANNOTATION, [_to_v1_status_metric(metric) for metric in current]),
        (BEHAVIOR_ANNOTATION, _recase_keys(behavior, _upper_first)),
        (CONDITIONS_ANNOTATION, conditions),
    ):
        if value:
            v2_annotations[key] = json.dumps(value, separators=(",", ":"))
    set_defaults(status, currentReplicas=0)
    return {
        **obj,
        "apiVersion": V1,
        "metadata": _with_annotations(obj["metadata"], v2_annotations),
        "spec": spec,
        "status": status,
    }


def _with_annotations(metadata: Object, annotations: dict[str, str]) -> Object:
    own = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in _V2_ANNOTATIONS}
    rest = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**rest, "annotations": own | annotations} if own or annotations else rest


def _read_annotation(annotations: dict[str, str], key: str, kind: type) -> Any:
    """Returns the value of an annotation. A malformed annotation counts as empty."""
    try:
        value = json.loads(annotations.get(key, "null"))
    except ValueError:
        return kind()
    return value if isinstance(value, kind) else kind()


def _cpu_metric(utilization: int) -> Object:
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _cpu_utilization(metric: Object) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    utilization: int | None = (resource.get("target") or {}).get("averageUtilization")
    return utilization


def _recase_keys(value: Any, case: Any) -> Any:
    """Changes the case of keys. The behavior annotation has Go's field names, for historical reasons."""
    if isinstance(value, dict):
        return {case(key): _recase_keys(each, case) for key, each in value.items() if each is not None}
    return [_recase_keys(each, case) for each in value] if isinstance(value, list) else value


def _upper_first(key: str) -> str:
    return key[:1].upper() + key[1:]


def _lower_first(key: str) -> str:
    return key[:1].lower() + key[1:]


_SOURCES = ("object", "pods", "resource", "containerResource", "external")


def _convert_sources(metric: Object, change: Any) -> Object:
    sources = {field: change(field, metric[field]) for field in _SOURCES if isinstance(metric.get(field), dict)}
    return {"type": metric.get("type", ""), **sources}


def _without_nulls(**fields: Any) -> Object:
    return {key: value for key, value in fields.items() if value is not None}


def _to_v2_spec_metric(metric: Object) -> Object:
    return _convert_sources(metric, _to_v2_spec_source)


def _to_v2_spec_source(field: str, source: Object) -> Object:
    if field in ("resource", "containerResource"):
        utilization, average = source.get("targetAverageUtilization"), source.get("targetAverageValue")
        kind = "AverageValue" if utilization is None else "Utilization"
        target = _without_nulls(type=kind, averageUtilization=utilization, averageValue=average)
        return _without_nulls(name=source.get("name"), container=source.get("container"), target=target)
    metric = _without_nulls(
        name=source.get("metricName"), selector=source.get("selector") or source.get("metricSelector")
    )
    average = source.get("averageValue") if field == "object" else source.get("targetAverageValue")
    value = source.get("targetValue")
    kind = "Value" if average is None else "AverageValue"
    value = None if average is not None and value in (None, "0") else value
    target = _without_nulls(type=kind, value=value, averageValue=average)
    return _without_nulls(metric=metric, target=target, describedObject=source.get("target"))


def _to_v1_spec_metric(metric: Object) -> Object:
    return _convert_sources(metric, _to_v1_spec_source)


def _to_v1_spec_source(field: str, source: Object) -> Object:
    target, metric = source.get("target") or {}, source.get("metric") or {}
    utilization, average, value = (target.get(f) for f in ("averageUtilization", "averageValue", "value"))
    if field in ("resource", "containerResource"):
        return _without_nulls(
            name=source.get("name"),
            targetAverageUtilization=utilization,
            targetAverageValue=average,
            container=source.get("container"),
        )
    name, selector = metric.get("name"), metric.get("selector")
    if field == "pods":
        return _without_nulls(metricName=name, targetAverageValue=average, selector=selector)
    if field == "external":
        return _without_nulls(metricName=name, metricSelector=selector, targetValue=value, targetAverageValue=average)
    described = source.get("describedObject")
    return _without_nulls(
        target=described, metricName=name, targetValue=value or "0", selector=selector, averageValue=average
    )


def _to_v2_status_metric(metric: Object) -> Object:
    def change(field: str, source: Object) -> Object:
        current = _without_nulls(
            averageUtilization=source.get("currentAverageUtilization"),
            averageValue=source.get("averageValue") if field == "object" else source.get("currentAverageValue"),
            value=source.get("currentValue"),
        )
        if field in ("resource", "containerResource"):
            return _without_nulls(name=source.get("name"), container=source.get("container"), current=current)
        selector = source.get("selector") or source.get("metricSelector")
        metric_id = _without_nulls(name=source.get("metricName"), selector=selector)
        return _without_nulls(metric=metric_id, current=current, describedObject=source.get("target"))

    return _convert_sources(metric, change)


def _to_v1_status_metric(metric: Object) -> Object:
    def change(field: str, source: Object) -> Object:
        current, metric_id = source.get("current") or {}, source.get("metric") or {}
        average, value = current.get("averageValue"), current.get("value")
        if field in ("resource", "containerResource"):
            return _without_nulls(
                name=source.get("name"),
                container=source.get("container"),
                currentAverageUtilization=current.get("averageUtilization"),
                currentAverageValue=average or "0",
            )
        name, selector = metric_id.get("name"), metric_id.get("selector")
        if field == "pods":
            return _without_nulls(metricName=name, currentAverageValue=average or "0", selector=selector)
        if field == "external":
            fields = {"metricSelector": selector, "currentValue": value or "0", "currentAverageValue": average}
            return _without_nulls(metricName=name, **fields)
        target = source.get("describedObject")
        fields = {"selector": selector, "currentValue": value or "0", "averageValue": average}
        return _without_nulls(target=target, metricName=name, **fields)

    return _convert_sources(metric, change)
