"""Validation of HorizontalPodAutoscaler (autoscaling/v2) in upstream's words. v1 is converted to v2 first. Pure."""

from __future__ import annotations

from shoal.kinds.autoscaling import to_v2
from shoal.kinds.checks import Object, not_negative, one_of, said, unchanged
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required
from shoal.objects.names import is_path_segment_name
from shoal.objects.quantity import Quantity

LONGEST_WINDOW, LONGEST_PERIOD = 3600, 1800
_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_EITHER_USE = "must set either a target raw value or a target utilization"
_TO_ZERO = "must specify at least one Object or External metric to support scaling to zero replicas"
_BOTH_USE = "may not set both a target raw value and a target utilization"


def validate_v1(obj: Object, old: Object | None) -> list[Cause]:
    return validate_v2(to_v2(obj), to_v2(old) if old is not None else None)


def validate_v2(obj: Object, old: Object | None) -> list[Cause]:
    causes = not_negative(obj.get("status") or {}, "status", "currentReplicas", "desiredReplicas")
    if unchanged(obj, old):
        return causes
    spec = obj["spec"]
    least, most = spec["minReplicas"], spec["maxReplicas"]
    if least < 1:
        causes.append(invalid_value("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most == 0:
        causes.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        causes.append(invalid_value("spec.maxReplicas", most, "must be greater than or equal to 1"))
    if most < least:
        causes.append(invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    target = spec.get("scaleTargetRef") or {}
    causes += _reference(target, "spec.scaleTargetRef")
    if "/" not in (target.get("apiVersion") or "") and target.get("kind") != "ReplicationController" and old is None:
        said_ = "apiVersion must specify API group"
        causes.append(invalid_value("spec.scaleTargetRef.apiVersion", target.get("apiVersion") or "", said_))
    metrics = spec.get("metrics") or []
    for i, metric in enumerate(metrics):
        causes += _metric(metric, f"spec.metrics[{i}]")
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        causes.append(forbidden_field("spec.metrics", _TO_ZERO))
    for field, rules in (spec.get("behavior") or {}).items():
        causes += _scaling_rules(rules, f"spec.behavior.{field}")
    return causes


def _reference(reference: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("kind", "name"):
        value = reference.get(field) or ""
        causes += (
            said(f"{path}.{field}", value, is_path_segment_name(value)) if value else [required(f"{path}.{field}")]
        )
    version = reference.get("apiVersion") or ""
    if version.count("/") > 1:
        causes.append(invalid_value(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    return causes


def _scaling_rules(rules: Object, path: str) -> list[Cause]:
    window, policies = rules.get("stabilizationWindowSeconds"), rules.get("policies") or []
    causes: list[Cause] = []
    if window is not None and window < 0:
        causes.append(
            invalid_value(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
        )
    if window is not None and window > LONGEST_WINDOW:
        said_ = f"must be less than or equal to {LONGEST_WINDOW}"
        causes.append(invalid_value(f"{path}.stabilizationWindowSeconds", window, said_))
    causes += one_of(rules.get("selectPolicy"), f"{path}.selectPolicy", "Disabled", "Max", "Min")
    if not policies:
        causes.append(required(f"{path}.policies", "must specify at least one Policy"))
    for i, policy in enumerate(policies):
        here, period = f"{path}.policies[{i}]", policy.get("periodSeconds") or 0
        causes += one_of(policy.get("type") or "", f"{here}.type", "Percent", "Pods")
        for field in ("value", "periodSeconds"):
            if (policy.get(field) or 0) <= 0:
                causes.append(invalid_value(f"{here}.{field}", policy.get(field) or 0, "must be greater than zero"))
        if period > LONGEST_PERIOD:
            causes.append(
                invalid_value(f"{here}.periodSeconds", period, f"must be less than or equal to {LONGEST_PERIOD}")
            )
    return causes


def _metric(metric: Object, path: str) -> list[Cause]:
    kind = metric.get("type") or ""
    if not kind:
        return [required(f"{path}.type", "must specify a metric source type")]
    if kind not in _SOURCES:
        return [not_supported(f"{path}.type", kind, _SOURCES)]
    given = [field for field in _SOURCES.values() if metric.get(field) is not None]
    wanted = _SOURCES[kind]
    causes: list[Cause] = []
    if wanted not in given:
        causes.append(required(f"{path}.{wanted}", "must populate information for the given metric source"))
    else:
        causes += _source(wanted, metric[wanted], f"{path}.{wanted}")
    for other in given:
        if other != wanted:
            causes.append(forbidden_field(f"{path}.{other}", "must populate the given metric source only"))
    return causes


def _source(field: str, source: Object, path: str) -> list[Cause]:
    target, here = source.get("target") or {}, f"{path}.target"
    causes = _target(target, here)
    value, average, utilization = (target.get(f) for f in ("value", "averageValue", "averageUtilization"))
    if field in ("resource", "containerResource"):
        if not source.get("name"):
            causes.append(required(f"{path}.name", "must specify a resource name"))
        if field == "containerResource" and not source.get("container"):
            causes.append(required(f"{path}.container", "must specify a container"))
        if utilization is None and average is None:
            causes.append(required(f"{here}.averageUtilization", _EITHER_USE))
        if utilization is not None and average is not None:
            causes.append(forbidden_field(f"{here}.averageValue", _BOTH_USE))
        return causes
    name = (source.get("metric") or {}).get("name") or ""
    if not name:
        causes.append(required(f"{path}.metric.name", "must specify a metric name"))
    causes += said(f"{path}.metric.name", name, is_path_segment_name(name)) if name else []
    if field == "object":
        causes += _reference(source.get("describedObject") or {}, f"{path}.describedObject")
    if field == "pods" and average is None:
        causes.append(required(f"{here}.averageValue", "must specify a positive target averageValue"))
    elif field == "object" and value is None and average is None:
        causes.append(required(f"{here}.averageValue", "must set either a target value or averageValue"))
    elif field == "external" and value is None and average is None:
        what = "must set either a target value for metric or a per-pod target"
        causes.append(required(f"{here}.averageValue", what))
    elif field == "external" and value is not None and average is not None:
        what = "may not set both a target value for metric and a per-pod target"
        causes.append(forbidden_field(f"{here}.value", what))
    return causes


def _target(target: Object, path: str) -> list[Cause]:
    kind = target.get("type") or ""
    causes = [] if kind else [required(f"{path}.type", "must specify a metric target type")]
    if kind not in ("Utilization", "Value", "AverageValue"):
        causes.append(invalid_value(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for field in ("value", "averageValue"):
        amount = target.get(field)
        if amount is not None and not _positive(amount):
            causes.append(invalid_value(f"{path}.{field}", amount, "must be positive"))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        causes.append(invalid_value(f"{path}.averageUtilization", utilization, "must be greater than 0"))
    return causes


def _positive(amount: str | int | float) -> bool:
    try:
        return Quantity.parse(amount).nano > 0
    except ValueError:
        return False
