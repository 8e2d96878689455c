"""The kinds of apps/v1: validation in upstream's words. Pure."""

from __future__ import annotations

from contextlib import suppress

from shoal.kinds.checks import (
    IMMUTABLE,
    Object,
    amount,
    at_most_all,
    fixed_selector,
    in_key_order,
    int_or_percent,
    is_empty_selector,
    label_selector,
    not_negative,
    one_of,
    said,
    shown_selector,
    sorted_labels,
    unchanged,
)
from shoal.kinds.claims import validate_claim_spec
from shoal.kinds.pod_spec import validate_pod_template
from shoal.objects.errors import BadRequest, Cause, forbidden_field, invalid_value, not_supported, required
from shoal.objects.names import is_dns1123_label
from shoal.objects.selectors import from_label_selector

MISMATCH = "`selector` does not match template `labels`"
_MORE = "cannot be greater than status.replicas"
_STATEFUL_FREE = (
    "replicas", "template", "updateStrategy", "minReadySeconds", "ordinals", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
)  # fmt: skip
_STATEFUL_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def validate_deployment(obj: Object, old: Object | None) -> list[Cause]:
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    causes = _status(obj, old, counts, "readyReplicas", "unavailableReplicas", "terminatingReplicas")
    if unchanged(obj, old):
        return causes
    spec = obj["spec"]
    causes += not_negative(spec, "spec", "replicas")
    causes += _selected_template(spec, "deployment", "ReplicaSet")
    causes += _deployment_strategy(spec["strategy"], "spec.strategy")
    causes += not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec["progressDeadlineSeconds"]
    if deadline <= (spec.get("minReadySeconds") or 0):
        causes.append(invalid_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return causes + _fixed_selector(obj, old)


def validate_replica_set(obj: Object, old: Object | None) -> list[Cause]:
    counts = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    causes = _status(obj, old, counts, "readyReplicas", "terminatingReplicas")
    if unchanged(obj, old):
        return causes
    causes += not_negative(obj["spec"], "spec", "replicas", "minReadySeconds")
    return causes + _selected_template(obj["spec"], "deployment", "ReplicaSet") + _fixed_selector(obj, old)


def validate_stateful_set(obj: Object, old: Object | None) -> list[Cause]:
    counts = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    causes = _status(obj, old, counts, "status.readyReplicas")
    if unchanged(obj, old):
        return causes
    spec = obj["spec"]
    policy = spec["podManagementPolicy"]
    if policy not in ("OrderedReady", "Parallel"):
        causes.append(invalid_value("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    causes += _stateful_strategy(spec["updateStrategy"], "spec.updateStrategy")
    for field, value in spec["persistentVolumeClaimRetentionPolicy"].items():
        causes += one_of(value, f"spec.persistentVolumeClaimRetentionPolicy.{field}", "Retain", "Delete")
    causes += not_negative(spec, "spec", "replicas", "minReadySeconds")
    causes += not_negative(spec.get("ordinals") or {}, "spec.ordinals", "start")
    if old is None:
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            causes += validate_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
    if old is None and spec.get("serviceName"):
        causes += said("spec.serviceName", spec["serviceName"], is_dns1123_label(spec["serviceName"]))
    causes += _selected_template(_with_claims(spec), "statefulset", "StatefulSet")
    if old is not None and _fixed(spec) != _fixed(old["spec"]):
        causes.append(forbidden_field("spec", _STATEFUL_FIXED))
    return causes


def _fixed(spec: Object) -> Object:
    return {key: value for key, value in spec.items() if key not in _STATEFUL_FREE}


def _with_claims(spec: Object) -> Object:
    """Returns the spec with a volume per claim template, which containers may mount. The hostname fields are dropped:
    pods get them later.
    """
    template = spec["template"]
    claims = [(claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()]
    made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    own = template["spec"].get("volumes") or []
    volumes = made + [volume for volume in own if volume.get("name") not in claims]
    pod = {key: value for key, value in template["spec"].items() if key not in ("subdomain", "hostname")}
    return {**spec, "template": {**template, "spec": {**pod, "volumes": volumes}}}


def validate_daemon_set(obj: Object, old: Object | None) -> list[Cause]:
    counts = (
        "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
        "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "observedGeneration", "collisionCount",
    )  # fmt: skip
    causes = not_negative(obj.get("status") or {}, "status", *counts)
    if unchanged(obj, old):
        return causes
    spec = obj["spec"]
    causes += _fixed_selector(obj, old) + _daemon_template(spec)
    causes += not_negative(spec, "spec", "minReadySeconds")
    causes += _daemon_strategy(spec["updateStrategy"], "spec.updateStrategy")
    return causes + not_negative(spec, "spec", "revisionHistoryLimit")


def validate_controller_revision(obj: Object, old: Object | None) -> list[Cause]:
    causes = not_negative(obj, "", "revision")
    data = obj.get("data")
    if old is not None:
        return causes if data == old.get("data") else [*causes, invalid_value("data", in_key_order(data), IMMUTABLE)]
    if data is None:
        causes.append(required("data", "data is mandatory"))
    elif not isinstance(data, dict):
        causes.append(required("data", "data must be a valid JSON object"))
    return causes


def _selected_template(spec: Object, kind: str, in_kind: str) -> list[Cause]:
    """Validates the selector, the template, and that they match."""
    selector, path = spec.get("selector"), "spec.selector"
    causes: list[Cause] = []
    if selector is None:
        causes.append(required(path))
    else:
        causes = label_selector(selector, path)
        if is_empty_selector(selector):
            causes.append(invalid_value(path, {}, f"empty selector is invalid for {kind}"))
    template = spec["template"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    stateful = kind == "statefulset"
    try:
        chosen = from_label_selector(selector)
    except BadRequest:
        causes.append(invalid_value(path, shown_selector(selector), "" if stateful else "invalid label selector"))
        return causes + (_lasting_pod(template["spec"], in_kind) if stateful else [])
    if not chosen.empty and not chosen.matches(labels):
        causes.append(invalid_value("spec.template.metadata.labels", sorted_labels(labels), MISMATCH))
    return causes + validate_pod_template(template, "spec.template") + _lasting_pod(template["spec"], in_kind)


def _daemon_template(spec: Object) -> list[Cause]:
    """Validates selector and template of a DaemonSet. The template is validated even without a selector."""
    selector, path, template = spec.get("selector"), "spec.selector", spec["template"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    causes = label_selector(selector, path)
    with suppress(BadRequest):
        if not from_label_selector(selector).matches(labels):
            causes.append(invalid_value("spec.template.metadata.labels", sorted_labels(labels), MISMATCH))
    if selector is not None and is_empty_selector(selector):
        causes.append(invalid_value(path, {}, "empty selector is invalid for daemonset"))
    return causes + validate_pod_template(template, "spec.template") + _lasting_pod(template["spec"], "DaemonSet")


def _lasting_pod(pod: Object, in_kind: str) -> list[Cause]:
    """Validates that pods are always restarted."""
    causes: list[Cause] = []
    if pod.get("restartPolicy") != "Always":
        causes.append(not_supported("spec.template.spec.restartPolicy", pod.get("restartPolicy"), ("Always",)))
    if pod.get("activeDeadlineSeconds") is not None:
        said_ = f"activeDeadlineSeconds in {in_kind} is not Supported"
        causes.append(forbidden_field("spec.template.spec.activeDeadlineSeconds", said_))
    return causes


def _fixed_selector(obj: Object, old: Object | None) -> list[Cause]:
    return fixed_selector(obj["spec"], old["spec"], "spec") if old is not None else []


def _deployment_strategy(strategy: Object, path: str) -> list[Cause]:
    rolling, here = strategy.get("rollingUpdate"), f"{path}.rollingUpdate"
    if strategy["type"] == "Recreate":
        said_ = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden_field(here, said_)] if rolling is not None else []
    if strategy["type"] != "RollingUpdate":
        return [not_supported(path, strategy, ("Recreate", "RollingUpdate"))]
    if rolling is None:
        return [required(here, "this should be defaulted and never be nil")]
    missing, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    causes = int_or_percent(missing, f"{here}.maxUnavailable") + int_or_percent(surge, f"{here}.maxSurge")
    if amount(missing) == 0 and amount(surge) == 0:
        causes.append(invalid_value(f"{here}.maxUnavailable", missing, "may not be 0 when `maxSurge` is 0"))
    return causes + at_most_all(missing, f"{here}.maxUnavailable")


def _stateful_strategy(strategy: Object, path: str) -> list[Cause]:
    rolling, here = strategy.get("rollingUpdate"), f"{path}.rollingUpdate"
    if strategy["type"] == "OnDelete":
        said_ = "only allowed for updateStrategy 'RollingUpdate'"
        return [invalid_value(here, rolling, said_)] if rolling is not None else []
    if strategy["type"] != "RollingUpdate":
        return [invalid_value(path, strategy, "must be 'RollingUpdate' or 'OnDelete'")]
    if rolling is None:
        return []
    causes, most = not_negative(rolling, here, "partition"), rolling.get("maxUnavailable")
    if most is not None:
        causes += int_or_percent(most, f"{here}.maxUnavailable")
        if amount(most) == 0:
            causes.append(invalid_value(f"{here}.maxUnavailable", most, "cannot be 0"))
        causes += at_most_all(most, f"{here}.maxUnavailable")
    return causes


def _daemon_strategy(strategy: Object, path: str) -> list[Cause]:
    if strategy["type"] == "OnDelete":
        return []
    if strategy["type"] != "RollingUpdate":
        return [not_supported(path, strategy, ("RollingUpdate", "OnDelete"))]
    rolling, here = strategy["rollingUpdate"], f"{path}.rollingUpdate"
    causes: list[Cause] = []
    for check in (int_or_percent, at_most_all):
        for field in ("maxUnavailable", "maxSurge"):
            causes += check(rolling[field], f"{here}.{field}")
    missing, surge = amount(rolling["maxUnavailable"]) != 0, amount(rolling["maxSurge"]) != 0
    if missing and surge:
        said_ = "may not be set when maxUnavailable is non-zero"
        causes.append(invalid_value(f"{here}.maxSurge", rolling["maxSurge"], said_))
    elif not missing and not surge:
        causes.append(required(f"{here}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return causes


def _status(obj: Object, old: Object | None, counts: tuple[str, ...], ready: str, *more: str) -> list[Cause]:
    """Validates the pod counts: none is negative, none exceeds `replicas`, and available does not exceed ready."""
    if unchanged(obj, old, "status"):
        return []
    status = obj.get("status") or {}
    causes = not_negative(status, "status", *counts, "observedGeneration", "collisionCount", *more)
    total, available = status.get("replicas") or 0, status.get("availableReplicas") or 0
    for field in counts[1:]:
        if (status.get(field) or 0) > total:
            causes.append(invalid_value(f"status.{field}", status.get(field) or 0, _MORE))
    if available > (status.get("readyReplicas") or 0):
        causes.append(invalid_value("status.availableReplicas", available, f"cannot be greater than {ready}"))
    collisions, before = status.get("collisionCount") or 0, (old or {}).get("status") or {}
    if collisions < (before.get("collisionCount") or 0):
        causes.append(invalid_value("status.collisionCount", collisions, "cannot be decremented"))
    return causes
