"""The kinds of apps/v1: validation in upstream's words. Pure."""

from __future__ import annotations

from contextlib import suppress

from shoal.kinds.core.persistentvolumeclaim import validate_claim_spec
from shoal.kinds.core.pod.spec import validate_pod_template
from shoal.kinds.validation.field import (
    IMMUTABLE,
    Object,
    go_label_selector,
    int_or_percent_value,
    invalid_causes,
    is_empty_selector,
    is_unchanged,
    sort_keys,
    sorted_labels,
    validate_at_most_100_percent,
    validate_enum,
    validate_immutable_selector,
    validate_int_or_percent,
    validate_label_selector,
    validate_nonnegative,
)
from shoal.objects.errors import BadRequest, Cause, forbidden_field, invalid_value, not_supported, required_value
from shoal.objects.names import is_dns1123_label
from shoal.objects.selectors import from_label_selector

SELECTOR_MISMATCH = "`selector` does not match template `labels`"
_MORE_THAN_REPLICAS = "cannot be greater than status.replicas"
_STATEFUL_SET_MUTABLE_FIELDS = (
    "replicas", "template", "updateStrategy", "minReadySeconds", "ordinals", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
)  # fmt: skip
_STATEFUL_SET_IMMUTABLE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def validate_deployment(obj: Object, old: Object | None) -> list[Cause]:
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    causes = _validate_status(obj, old, counts, "readyReplicas", "unavailableReplicas", "terminatingReplicas")
    if is_unchanged(obj, old):
        return causes
    spec = obj["spec"]
    causes += validate_nonnegative(spec, "spec", "replicas")
    causes += _validate_selector_and_template(spec, "deployment", "ReplicaSet")
    causes += _validate_deployment_strategy(spec["strategy"], "spec.strategy")
    causes += validate_nonnegative(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec["progressDeadlineSeconds"]
    if deadline <= (spec.get("minReadySeconds") or 0):
        causes.append(invalid_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return causes + _validate_selector_unchanged(obj, old)


def validate_replica_set(obj: Object, old: Object | None) -> list[Cause]:
    counts = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    causes = _validate_status(obj, old, counts, "readyReplicas", "terminatingReplicas")
    if is_unchanged(obj, old):
        return causes
    causes += validate_nonnegative(obj["spec"], "spec", "replicas", "minReadySeconds")
    return (
        causes
        + _validate_selector_and_template(obj["spec"], "deployment", "ReplicaSet")
        + _validate_selector_unchanged(obj, old)
    )


def validate_stateful_set(obj: Object, old: Object | None) -> list[Cause]:
    counts = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    causes = _validate_status(obj, old, counts, "status.readyReplicas")
    if is_unchanged(obj, old):
        return causes
    spec = obj["spec"]
    policy = spec["podManagementPolicy"]
    if policy not in ("OrderedReady", "Parallel"):
        causes.append(invalid_value("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    causes += _validate_stateful_strategy(spec["updateStrategy"], "spec.updateStrategy")
    for field, value in spec["persistentVolumeClaimRetentionPolicy"].items():
        causes += validate_enum(value, f"spec.persistentVolumeClaimRetentionPolicy.{field}", "Retain", "Delete")
    causes += validate_nonnegative(spec, "spec", "replicas", "minReadySeconds")
    causes += validate_nonnegative(spec.get("ordinals") or {}, "spec.ordinals", "start")
    if old is None:
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            causes += validate_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
    if old is None and spec.get("serviceName"):
        causes += invalid_causes("spec.serviceName", spec["serviceName"], is_dns1123_label(spec["serviceName"]))
    causes += _validate_selector_and_template(_with_claim_volumes(spec), "statefulset", "StatefulSet")
    if old is not None and _immutable_fields(spec) != _immutable_fields(old["spec"]):
        causes.append(forbidden_field("spec", _STATEFUL_SET_IMMUTABLE))
    return causes


def _immutable_fields(spec: Object) -> Object:
    return {key: value for key, value in spec.items() if key not in _STATEFUL_SET_MUTABLE_FIELDS}


def _with_claim_volumes(spec: Object) -> Object:
    """Returns the spec with a volume per claim template, which containers may mount. The hostname fields are dropped:
    pods get them later.
    """
    template = spec["template"]
    claims = [(claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()]
    claim_volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    own = template["spec"].get("volumes") or []
    volumes = claim_volumes + [volume for volume in own if volume.get("name") not in claims]
    pod = {key: value for key, value in template["spec"].items() if key not in ("subdomain", "hostname")}
    return {**spec, "template": {**template, "spec": {**pod, "volumes": volumes}}}


def validate_daemon_set(obj: Object, old: Object | None) -> list[Cause]:
    counts = (
        "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
        "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "observedGeneration", "collisionCount",
    )  # fmt: skip
    causes = validate_nonnegative(obj.get("status") or {}, "status", *counts)
    if is_unchanged(obj, old):
        return causes
    spec = obj["spec"]
    causes += _validate_selector_unchanged(obj, old) + _validate_daemon_template(spec)
    causes += validate_nonnegative(spec, "spec", "minReadySeconds")
    causes += _validate_daemon_strategy(spec["updateStrategy"], "spec.updateStrategy")
    return causes + validate_nonnegative(spec, "spec", "revisionHistoryLimit")


def validate_controller_revision(obj: Object, old: Object | None) -> list[Cause]:
    causes = validate_nonnegative(obj, "", "revision")
    data = obj.get("data")
    if old is not None:
        return causes if data == old.get("data") else [*causes, invalid_value("data", sort_keys(data), IMMUTABLE)]
    if data is None:
        causes.append(required_value("data", "data is mandatory"))
    elif not isinstance(data, dict):
        causes.append(required_value("data", "data must be a valid JSON object"))
    return causes


def _validate_selector_and_template(spec: Object, kind: str, kind_name: str) -> list[Cause]:
    """Validates the selector, the template, and that they match."""
    selector, path = spec.get("selector"), "spec.selector"
    causes: list[Cause] = []
    if selector is None:
        causes.append(required_value(path))
    else:
        causes = validate_label_selector(selector, path)
        if is_empty_selector(selector):
            causes.append(invalid_value(path, {}, f"empty selector is invalid for {kind}"))
    template = spec["template"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    stateful = kind == "statefulset"
    try:
        parsed_selector = from_label_selector(selector)
    except BadRequest:
        causes.append(invalid_value(path, go_label_selector(selector), "" if stateful else "invalid label selector"))
        return causes + (_validate_always_restarted_pod(template["spec"], kind_name) if stateful else [])
    if not parsed_selector.is_empty and not parsed_selector.matches(labels):
        causes.append(invalid_value("spec.template.metadata.labels", sorted_labels(labels), SELECTOR_MISMATCH))
    return (
        causes
        + validate_pod_template(template, "spec.template")
        + _validate_always_restarted_pod(template["spec"], kind_name)
    )


def _validate_daemon_template(spec: Object) -> list[Cause]:
    """Validates selector and template of a DaemonSet. The template is validated even without a selector."""
    selector, path, template = spec.get("selector"), "spec.selector", spec["template"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    causes = validate_label_selector(selector, path)
    with suppress(BadRequest):
        if not from_label_selector(selector).matches(labels):
            causes.append(invalid_value("spec.template.metadata.labels", sorted_labels(labels), SELECTOR_MISMATCH))
    if selector is not None and is_empty_selector(selector):
        causes.append(invalid_value(path, {}, "empty selector is invalid for daemonset"))
    return (
        causes
        + validate_pod_template(template, "spec.template")
        + _validate_always_restarted_pod(template["spec"], "DaemonSet")
    )


def _validate_always_restarted_pod(pod: Object, kind_name: str) -> list[Cause]:
    """Validates that pods are always restarted."""
    causes: list[Cause] = []
    if pod.get("restartPolicy") != "Always":
        causes.append(not_supported("spec.template.spec.restartPolicy", pod.get("restartPolicy"), ("Always",)))
    if pod.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind_name} is not Supported"
        causes.append(forbidden_field("spec.template.spec.activeDeadlineSeconds", detail))
    return causes


def _validate_selector_unchanged(obj: Object, old: Object | None) -> list[Cause]:
    return validate_immutable_selector(obj["spec"], old["spec"], "spec") if old is not None else []


def _validate_deployment_strategy(strategy: Object, path: str) -> list[Cause]:
    rolling, field_path = strategy.get("rollingUpdate"), f"{path}.rollingUpdate"
    if strategy["type"] == "Recreate":
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden_field(field_path, detail)] if rolling is not None else []
    if strategy["type"] != "RollingUpdate":
        return [not_supported(path, strategy, ("Recreate", "RollingUpdate"))]
    if rolling is None:
        return [required_value(field_path, "this should be defaulted and never be nil")]
    max_unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    causes = validate_int_or_percent(max_unavailable, f"{field_path}.maxUnavailable") + validate_int_or_percent(
        surge, f"{field_path}.maxSurge"
    )
    if int_or_percent_value(max_unavailable) == 0 and int_or_percent_value(surge) == 0:
        causes.append(
            invalid_value(f"{field_path}.maxUnavailable", max_unavailable, "may not be 0 when `maxSurge` is 0")
        )
    return causes + validate_at_most_100_percent(max_unavailable, f"{field_path}.maxUnavailable")


def _validate_stateful_strategy(strategy: Object, path: str) -> list[Cause]:
    rolling, field_path = strategy.get("rollingUpdate"), f"{path}.rollingUpdate"
    if strategy["type"] == "OnDelete":
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        return [invalid_value(field_path, rolling, detail)] if rolling is not None else []
    if strategy["type"] != "RollingUpdate":
        return [invalid_value(path, strategy, "must be 'RollingUpdate' or 'OnDelete'")]
    if rolling is None:
        return []
    causes, max_unavailable = validate_nonnegative(rolling, field_path, "partition"), rolling.get("maxUnavailable")
    if max_unavailable is not None:
        causes += validate_int_or_percent(max_unavailable, f"{field_path}.maxUnavailable")
        if int_or_percent_value(max_unavailable) == 0:
            causes.append(invalid_value(f"{field_path}.maxUnavailable", max_unavailable, "cannot be 0"))
        causes += validate_at_most_100_percent(max_unavailable, f"{field_path}.maxUnavailable")
    return causes


def _validate_daemon_strategy(strategy: Object, path: str) -> list[Cause]:
    if strategy["type"] == "OnDelete":
        return []
    if strategy["type"] != "RollingUpdate":
        return [not_supported(path, strategy, ("RollingUpdate", "OnDelete"))]
    rolling, field_path = strategy["rollingUpdate"], f"{path}.rollingUpdate"
    causes: list[Cause] = []
    for check in (validate_int_or_percent, validate_at_most_100_percent):
        for field in ("maxUnavailable", "maxSurge"):
            causes += check(rolling[field], f"{field_path}.{field}")
    has_max_unavailable, has_max_surge = (
        int_or_percent_value(rolling["maxUnavailable"]) != 0,
        int_or_percent_value(rolling["maxSurge"]) != 0,
    )
    if has_max_unavailable and has_max_surge:
        detail = "may not be set when maxUnavailable is non-zero"
        causes.append(invalid_value(f"{field_path}.maxSurge", rolling["maxSurge"], detail))
    elif not has_max_unavailable and not has_max_surge:
        causes.append(required_value(f"{field_path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return causes


def _validate_status(obj: Object, old: Object | None, counts: tuple[str, ...], ready: str, *more: str) -> list[Cause]:
    """Validates the pod counts: none is negative, none exceeds `replicas`, and available does not exceed ready."""
    if is_unchanged(obj, old, "status"):
        return []
    status = obj.get("status") or {}
    causes = validate_nonnegative(status, "status", *counts, "observedGeneration", "collisionCount", *more)
    total, available = status.get("replicas") or 0, status.get("availableReplicas") or 0
    for field in counts[1:]:
        if (status.get(field) or 0) > total:
            causes.append(invalid_value(f"status.{field}", status.get(field) or 0, _MORE_THAN_REPLICAS))
    if available > (status.get("readyReplicas") or 0):
        causes.append(invalid_value("status.availableReplicas", available, f"cannot be greater than {ready}"))
    collisions, before = status.get("collisionCount") or 0, (old or {}).get("status") or {}
    if collisions < (before.get("collisionCount") or 0):
        causes.append(invalid_value("status.collisionCount", collisions, "cannot be decremented"))
    return causes
