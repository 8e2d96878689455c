"""Validation of HorizontalPodAutoscaler (autoscaling/v2) in upstream's words. v1 is converted to v2 first. Pure."""

from __future__ import annotations

from shoal.kinds.autoscaling.hpa import to_v2
from shoal.kinds.validation.field import Object, invalid_causes, is_unchanged, validate_enum, validate_nonnegative
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required_value
from shoal.objects.names import is_path_segment_name
from shoal.objects.quantity import Quantity

MAX_STABILIZATION_WINDOW_SECONDS, MAX_PERIOD_SECONDS = 3600, 1800
_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_TARGET_REQUIRED = "must set either a target raw value or a target utilization"
_SCALE_TO_ZERO_METRICS = "must specify at least one Object or External metric to support scaling to zero replicas"
_TARGETS_EXCLUSIVE = "may not set both a target raw value and a target utilization"


def validate_hpa_v1(obj: Object, old: Object | None) -> list[Cause]:
    return validate_hpa_v2(to_v2(obj), to_v2(old) if old is not None else None)


def validate_hpa_v2(obj: Object, old: Object | None) -> list[Cause]:
    causes = validate_nonnegative(obj.get("status") or {}, "status", "currentReplicas", "desiredReplicas")
    if is_unchanged(obj, old):
        return causes
    spec = obj["spec"]
    min_replicas, max_replicas = spec["minReplicas"], spec["maxReplicas"]
    if min_replicas < 1:
        causes.append(invalid_value("spec.minReplicas", min_replicas, "must be greater than or equal to 1"))
    if max_replicas == 0:
        causes.append(required_value("spec.maxReplicas", "must be set and greater than 0"))
    elif max_replicas < 0:
        causes.append(invalid_value("spec.maxReplicas", max_replicas, "must be greater than or equal to 1"))
    if max_replicas < min_replicas:
        causes.append(invalid_value("spec.maxReplicas", max_replicas, "must be greater than or equal to `minReplicas`"))
    target = spec.get("scaleTargetRef") or {}
    causes += _validate_reference(target, "spec.scaleTargetRef")
    if "/" not in (target.get("apiVersion") or "") and target.get("kind") != "ReplicationController" and old is None:
        detail = "apiVersion must specify API group"
        causes.append(invalid_value("spec.scaleTargetRef.apiVersion", target.get("apiVersion") or "", detail))
    metrics = spec.get("metrics") or []
    for i, metric in enumerate(metrics):
        causes += _validate_metric(metric, f"spec.metrics[{i}]")
    if min_replicas == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        causes.append(forbidden_field("spec.metrics", _SCALE_TO_ZERO_METRICS))
    for field, rules in (spec.get("behavior") or {}).items():
        causes += _validate_scaling_rules(rules, f"spec.behavior.{field}")
    return causes


def _validate_reference(reference: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("kind", "name"):
        value = reference.get(field) or ""
        causes += (
            invalid_causes(f"{path}.{field}", value, is_path_segment_name(value))
            if value
            else [required_value(f"{path}.{field}")]
        )
    version = reference.get("apiVersion") or ""
    if version.count("/") > 1:
        causes.append(invalid_value(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    return causes


def _validate_scaling_rules(rules: Object, path: str) -> list[Cause]:
    window, policies = rules.get("stabilizationWindowSeconds"), rules.get("policies") or []
    causes: list[Cause] = []
    if window is not None and window < 0:
        causes.append(
            invalid_value(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
        )
    if window is not None and window > MAX_STABILIZATION_WINDOW_SECONDS:
        detail = f"must be less than or equal to {MAX_STABILIZATION_WINDOW_SECONDS}"
        causes.append(invalid_value(f"{path}.stabilizationWindowSeconds", window, detail))
    causes += validate_enum(rules.get("selectPolicy"), f"{path}.selectPolicy", "Disabled", "Max", "Min")
    if not policies:
        causes.append(required_value(f"{path}.policies", "must specify at least one Policy"))
    for i, policy in enumerate(policies):
        item_path, period = f"{path}.policies[{i}]", policy.get("periodSeconds") or 0
        causes += validate_enum(policy.get("type") or "", f"{item_path}.type", "Percent", "Pods")
        for field in ("value", "periodSeconds"):
            if (policy.get(field) or 0) <= 0:
                causes.append(
                    invalid_value(f"{item_path}.{field}", policy.get(field) or 0, "must be greater than zero")
                )
        if period > MAX_PERIOD_SECONDS:
            causes.append(
                invalid_value(
                    f"{item_path}.periodSeconds", period, f"must be less than or equal to {MAX_PERIOD_SECONDS}"
                )
            )
    return causes


def _validate_metric(metric: Object, path: str) -> list[Cause]:
    kind = metric.get("type") or ""
    if not kind:
        return [required_value(f"{path}.type", "must specify a metric source type")]
    if kind not in _SOURCES:
        return [not_supported(f"{path}.type", kind, _SOURCES)]
    given_sources = [field for field in _SOURCES.values() if metric.get(field) is not None]
    source_field = _SOURCES[kind]
    causes: list[Cause] = []
    if source_field not in given_sources:
        causes.append(required_value(f"{path}.{source_field}", "must populate information for the given metric source"))
    else:
        causes += _validate_source(source_field, metric[source_field], f"{path}.{source_field}")
    for other in given_sources:
        if other != source_field:
            causes.append(forbidden_field(f"{path}.{other}", "must populate the given metric source only"))
    return causes


def _validate_source(field: str, source: Object, path: str) -> list[Cause]:
    target, field_path = source.get("target") or {}, f"{path}.target"
    causes = _validate_target(target, field_path)
    value, average, utilization = (target.get(f) for f in ("value", "averageValue", "averageUtilization"))
    if field in ("resource", "containerResource"):
        if not source.get("name"):
            causes.append(required_value(f"{path}.name", "must specify a resource name"))
        if field == "containerResource" and not source.get("container"):
            causes.append(required_value(f"{path}.container", "must specify a container"))
        if utilization is None and average is None:
            causes.append(required_value(f"{field_path}.averageUtilization", _TARGET_REQUIRED))
        if utilization is not None and average is not None:
            causes.append(forbidden_field(f"{field_path}.averageValue", _TARGETS_EXCLUSIVE))
        return causes
    name = (source.get("metric") or {}).get("name") or ""
    if not name:
        causes.append(required_value(f"{path}.metric.name", "must specify a metric name"))
    causes += invalid_causes(f"{path}.metric.name", name, is_path_segment_name(name)) if name else []
    if field == "object":
        causes += _validate_reference(source.get("describedObject") or {}, f"{path}.describedObject")
    if field == "pods" and average is None:
        causes.append(required_value(f"{field_path}.averageValue", "must specify a positive target averageValue"))
    elif field == "object" and value is None and average is None:
        causes.append(required_value(f"{field_path}.averageValue", "must set either a target value or averageValue"))
    elif field == "external" and value is None and average is None:
        what = "must set either a target value for metric or a per-pod target"
        causes.append(required_value(f"{field_path}.averageValue", what))
    elif field == "external" and value is not None and average is not None:
        what = "may not set both a target value for metric and a per-pod target"
        causes.append(forbidden_field(f"{field_path}.value", what))
    return causes


def _validate_target(target: Object, path: str) -> list[Cause]:
    kind = target.get("type") or ""
    causes = [] if kind else [required_value(f"{path}.type", "must specify a metric target type")]
    if kind not in ("Utilization", "Value", "AverageValue"):
        causes.append(invalid_value(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for field in ("value", "averageValue"):
        amount = target.get(field)
        if amount is not None and not _is_positive(amount):
            causes.append(invalid_value(f"{path}.{field}", amount, "must be positive"))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        causes.append(invalid_value(f"{path}.averageUtilization", utilization, "must be greater than 0"))
    return causes


def _is_positive(amount: str | int | float) -> bool:
    try:
        return Quantity.parse(amount).nano > 0
    except ValueError:
        return False
