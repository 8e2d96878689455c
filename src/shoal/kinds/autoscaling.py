"""HorizontalPodAutoscaler: stored as autoscaling/v2, also served as v1. Defaults and conversion. Pure.

v2 fields that v1 lacks are kept in annotations of the v1 form, as upstream does, so nothing is lost when a v1 client
writes back what it read.
"""

from __future__ import annotations

import json
from typing import Any

from shoal.kinds.checks import Object, fill, section

V1, V2 = "autoscaling/v1", "autoscaling/v2"
DEFAULT_UTILIZATION = 80
_PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS, BEHAVIOR = f"{_PREFIX}metrics", f"{_PREFIX}behavior"
CURRENT, CONDITIONS = f"{_PREFIX}current-metrics", f"{_PREFIX}conditions"
_CARRIED = (METRICS, BEHAVIOR, CURRENT, CONDITIONS)
_SCALE_UP: Object = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN: Object = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


def default_v2(obj: Object) -> None:
    spec = section(obj, "spec")
    fill(spec, minReplicas=1, maxReplicas=0)
    section(spec, "scaleTargetRef")
    if not spec.get("metrics"):
        spec["metrics"] = [_cpu(DEFAULT_UTILIZATION)]
    behavior = spec.get("behavior")
    if behavior is not None:
        for field, rules in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
            fill(section(behavior, field), **json.loads(json.dumps(rules)))
    status = section(obj, "status")
    fill(status, desiredReplicas=0)
    status.setdefault("currentMetrics", None)


def default_v1(obj: Object) -> None:
    spec = section(obj, "spec")
    fill(spec, minReplicas=1, maxReplicas=0)
    section(spec, "scaleTargetRef")
    fill(section(obj, "status"), currentReplicas=0, desiredReplicas=0)


def keep_v1_status(new: Object, old: Object) -> None:
    """Restores the v1 annotations that carry status: a client may not drop them."""
    before = old["metadata"].get("annotations") or {}
    annotations = dict(new["metadata"].get("annotations") or {})
    for key in (CURRENT, CONDITIONS):
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
    metrics = [_spec_metric(metric) for metric in _read(annotations, METRICS, list)]
    if target is not None:
        metrics.append(_cpu(target))
    spec["metrics"] = metrics or [_cpu(DEFAULT_UTILIZATION)]
    behavior = _recased(_read(annotations, BEHAVIOR, dict), _lower)
    if behavior:
        spec["behavior"] = behavior
    status = dict(obj.get("status") or {})
    utilization = status.pop("currentCPUUtilizationPercentage", None)
    current = [_status_metric(metric) for metric in _read(annotations, CURRENT, list)]
    if not current and utilization is not None:
        now = {"averageUtilization": utilization, "averageValue": "0"}
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": now}}]
    status["currentMetrics"] = current or None
    conditions = _read(annotations, CONDITIONS, list)
    if conditions:
        status["conditions"] = conditions
    return {**obj, "apiVersion": V2, "metadata": _annotated(obj["metadata"], {}), "spec": spec, "status": status}


def to_v1(obj: Object) -> Object:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    carried: dict[str, str] = {}
    others = []
    for metric in spec.pop("metrics", None) or ():
        utilization = _cpu_utilization(metric)
        if utilization is None:
            others.append(_v1_spec_metric(metric))
        else:
            spec["targetCPUUtilizationPercentage"] = utilization
    current = status.pop("currentMetrics", None) or []
    for metric in current:
        found = metric.get("resource") or {}
        if found.get("name") == "cpu" and (found.get("current") or {}).get("averageUtilization") is not None:
            status["currentCPUUtilizationPercentage"] = found["current"]["averageUtilization"]
    behavior, conditions = spec.pop("behavior", None), status.pop("conditions", None)
    for key, value in (
        (METRICS, others),
        (CURRENT, [_v1_status_metric(metric) for metric in current]),
        (BEHAVIOR, _recased(behavior, _upper)),
        (CONDITIONS, conditions),
    ):
        if value:
            carried[key] = json.dumps(value, separators=(",", ":"))
    fill(status, currentReplicas=0)
    return {**obj, "apiVersion": V1, "metadata": _annotated(obj["metadata"], carried), "spec": spec, "status": status}


def _annotated(metadata: Object, carried: dict[str, str]) -> Object:
    own = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in _CARRIED}
    rest = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**rest, "annotations": own | carried} if own or carried else rest


def _read(annotations: dict[str, str], key: str, kind: type) -> Any:
    """Returns the value of an annotation. A malformed annotation counts as empty."""
    try:
        found = json.loads(annotations.get(key, "null"))
    except ValueError:
        return kind()
    return found if isinstance(found, kind) else kind()


def _cpu(utilization: int) -> Object:
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _cpu_utilization(metric: Object) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    found: int | None = (resource.get("target") or {}).get("averageUtilization")
    return found


def _recased(value: Any, case: Any) -> Any:
    """Changes the case of keys. The behavior annotation has Go's field names, for historical reasons."""
    if isinstance(value, dict):
        return {case(key): _recased(each, case) for key, each in value.items() if each is not None}
    return [_recased(each, case) for each in value] if isinstance(value, list) else value


def _upper(key: str) -> str:
    return key[:1].upper() + key[1:]


def _lower(key: str) -> str:
    return key[:1].lower() + key[1:]


_SOURCES = ("object", "pods", "resource", "containerResource", "external")


def _each(metric: Object, change: Any) -> Object:
    found = {field: change(field, metric[field]) for field in _SOURCES if isinstance(metric.get(field), dict)}
    return {"type": metric.get("type", ""), **found}


def _present(**fields: Any) -> Object:
    return {key: value for key, value in fields.items() if value is not None}


def _spec_metric(metric: Object) -> Object:
    return _each(metric, _v2_source)


def _v2_source(field: str, source: Object) -> Object:
    if field in ("resource", "containerResource"):
        utilization, average = source.get("targetAverageUtilization"), source.get("targetAverageValue")
        kind = "AverageValue" if utilization is None else "Utilization"
        target = _present(type=kind, averageUtilization=utilization, averageValue=average)
        return _present(name=source.get("name"), container=source.get("container"), target=target)
    metric = _present(name=source.get("metricName"), selector=source.get("selector") or source.get("metricSelector"))
    average = source.get("averageValue") if field == "object" else source.get("targetAverageValue")
    value = source.get("targetValue")
    kind = "Value" if average is None else "AverageValue"
    value = None if average is not None and value in (None, "0") else value
    target = _present(type=kind, value=value, averageValue=average)
    return _present(metric=metric, target=target, describedObject=source.get("target"))


def _v1_spec_metric(metric: Object) -> Object:
    return _each(metric, _v1_source)


def _v1_source(field: str, source: Object) -> Object:
    target, metric = source.get("target") or {}, source.get("metric") or {}
    utilization, average, value = (target.get(f) for f in ("averageUtilization", "averageValue", "value"))
    if field in ("resource", "containerResource"):
        return _present(
            name=source.get("name"),
            targetAverageUtilization=utilization,
            targetAverageValue=average,
            container=source.get("container"),
        )
    name, selector = metric.get("name"), metric.get("selector")
    if field == "pods":
        return _present(metricName=name, targetAverageValue=average, selector=selector)
    if field == "external":
        return _present(metricName=name, metricSelector=selector, targetValue=value, targetAverageValue=average)
    described = source.get("describedObject")
    return _present(
        target=described, metricName=name, targetValue=value or "0", selector=selector, averageValue=average
    )


def _status_metric(metric: Object) -> Object:
    def change(field: str, source: Object) -> Object:
        current = _present(
            averageUtilization=source.get("currentAverageUtilization"),
            averageValue=source.get("averageValue") if field == "object" else source.get("currentAverageValue"),
            value=source.get("currentValue"),
        )
        if field in ("resource", "containerResource"):
            return _present(name=source.get("name"), container=source.get("container"), current=current)
        selector = source.get("selector") or source.get("metricSelector")
        named = _present(name=source.get("metricName"), selector=selector)
        return _present(metric=named, current=current, describedObject=source.get("target"))

    return _each(metric, change)


def _v1_status_metric(metric: Object) -> Object:
    def change(field: str, source: Object) -> Object:
        current, named = source.get("current") or {}, source.get("metric") or {}
        average, value = current.get("averageValue"), current.get("value")
        if field in ("resource", "containerResource"):
            return _present(
                name=source.get("name"),
                container=source.get("container"),
                currentAverageUtilization=current.get("averageUtilization"),
                currentAverageValue=average or "0",
            )
        name, selector = named.get("name"), named.get("selector")
        if field == "pods":
            return _present(metricName=name, currentAverageValue=average or "0", selector=selector)
        if field == "external":
            told = {"metricSelector": selector, "currentValue": value or "0", "currentAverageValue": average}
            return _present(metricName=name, **told)
        target = source.get("describedObject")
        told = {"selector": selector, "currentValue": value or "0", "averageValue": average}
        return _present(target=target, metricName=name, **told)

    return _each(metric, change)
