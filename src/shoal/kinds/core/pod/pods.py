"""Pod and PodTemplate of core/v1: create and update preparation, defaults, QoS class, validation, deletion grace
period. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shoal.kinds.core.pod.containers import validate_image_whitespace
from shoal.kinds.core.pod.spec import (
    default_pod_only_fields,
    default_pod_spec,
    default_pod_template,
    validate_ip_address,
    validate_pod_spec,
    validate_pod_template,
)
from shoal.kinds.core.pod.update import validate_pod_update
from shoal.kinds.core.scheduling import PREFERRED, REQUIRED
from shoal.kinds.validation.field import ensure_map, invalid_causes
from shoal.kinds.validation.resource_list import quantity_of
from shoal.objects.errors import Cause, forbidden_field, invalid_value
from shoal.objects.names import is_qualified_name
from shoal.objects.quantity import ZERO, Quantity


def merge_label_keys(pod: Object) -> None:
    spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
    for term in (*_affinity_terms(spec.get("affinity") or {}), *(spec.get("topologySpreadConstraints") or ())):
        selector = term.get("labelSelector")
        if selector is None:
            continue  # a null selector matches nothing
        key_expressions = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
            for key in term.get(field) or ()
            if key in labels
        ]
        if key_expressions:
            expressions = [*(selector.get("matchExpressions") or ()), *key_expressions]
            term["labelSelector"] = {**selector, "matchExpressions": expressions}


def _affinity_terms(affinity: Object) -> Iterator[Object]:
    for field in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(field) or {}
        yield from rules.get(REQUIRED) or ()
        yield from (each["podAffinityTerm"] for each in rules.get(PREFERRED) or () if each.get("podAffinityTerm"))


Object = dict[str, Any]

DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
_CONTAINERS = ("containers", "initContainers")
_QOS_RESOURCES = ("cpu", "memory")
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_UNREACHABLE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
DEFAULT_TOLERATION_SECONDS = 300


def default_pod(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    default_pod_spec(spec)
    default_pod_only_fields(spec)
    default_pod_status(obj)


def default_pod_status(obj: Object) -> None:
    """Sets missing condition times to null, and keeps podIP and podIPs equal."""
    status = obj.get("status") or {}
    sync_pod_ips(status)
    for condition in status.get("conditions") or ():
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)


def sync_pod_ips(status: Object) -> None:
    address, several = status.get("podIP"), status.get("podIPs")
    if address and (not several or several[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif several and not address and several[0].get("ip"):
        status["podIP"] = several[0]["ip"]


def prepare_pod_create(obj: Object) -> None:
    add_default_tolerations(obj["spec"])
    merge_label_keys(obj)
    obj["status"] = status = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
    if obj["spec"].get("schedulingGates"):
        gated = "Scheduling is blocked due to non-empty scheduling gates"
        set_condition(
            status, "PodScheduled", "False", obj["metadata"].get("creationTimestamp"), "SchedulingGated", gated
        )


def prepare_pod_update(new: Object, old: Object) -> None:
    add_default_tolerations(new["spec"])


def add_default_tolerations(spec: Object) -> None:
    """Adds upstream's default tolerations: a pod stays five minutes on a not-ready or unreachable node, which may
    recover.
    """
    tolerations = spec.get("tolerations") or []
    for key in _UNREACHABLE_TAINTS:
        if not any((each.get("key") or key) == key and _tolerates_no_execute(each) for each in tolerations):
            toleration = {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": DEFAULT_TOLERATION_SECONDS,
            }
            tolerations = [*tolerations, toleration]
    spec["tolerations"] = tolerations


def _tolerates_no_execute(toleration: Object) -> bool:
    return (toleration.get("effect") or "NoExecute") == "NoExecute"


def set_condition(status: Object, kind: str, value: str, now: str | None, reason: str = "", message: str = "") -> None:
    """Sets a pod condition, which has lastProbeTime, always null, unlike those of other kinds."""
    conditions = [each for each in status.get("conditions") or () if each.get("type") != kind]
    before = next((each for each in status.get("conditions") or () if each.get("type") == kind), None)
    since = before.get("lastTransitionTime") if before and before.get("status") == value else now
    condition = {"type": kind, "status": value, "lastProbeTime": None, "lastTransitionTime": since}
    condition |= {field: text for field, text in (("reason", reason), ("message", message)) if text}
    status["conditions"] = [*conditions, condition]


def qos_class(spec: Object) -> str:
    """Guaranteed if the limits of every container cover cpu and memory and equal its requests; BestEffort without
    any.
    """
    holders = [spec] if spec.get("resources") else [c for field in _CONTAINERS for c in spec.get(field) or ()]
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for holder in holders:
        resources = holder.get("resources") or {}
        _add_resources(requests, resources.get("requests") or {})
        guaranteed = _add_resources(limits, resources.get("limits") or {}) == 2 and guaranteed
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _add_resources(total: dict[str, Quantity], more: Object) -> int:
    count = 0
    for name in _QOS_RESOURCES:
        quantity = quantity_of(more.get(name))
        if quantity > ZERO:
            total[name] = total.get(name, ZERO) + quantity
            count += 1
    return count


def grace_seconds(pod: Object, requested: int | None) -> int:
    """Returns the deletion grace period. A pod without a node, or a terminal one, is deleted at once."""
    spec, phase = pod.get("spec") or {}, (pod.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in ("Failed", "Succeeded"):
        return 0
    seconds = spec.get("terminationGracePeriodSeconds") or 0 if requested is None else requested
    return seconds if seconds >= 0 else 1


def prepare_pod_status_update(new: Object, old: Object) -> None:
    """Keeps qosClass on a status write: some kubelets drop it."""
    before = (old.get("status") or {}).get("qosClass")
    status = new.get("status")
    if before and status is not None and not status.get("qosClass"):
        status["qosClass"] = before


def selectable_field(obj: Object, path: str) -> str:
    """Returns the value of a selectable field."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if path == "spec.hostNetwork":
        return "true" if spec.get("hostNetwork") else "false"
    if path == "status.podIP":
        addresses = status.get("podIPs") or ()
        return str((addresses[0].get("ip") if addresses else status.get("podIP")) or "")
    holder = spec if path.startswith("spec.") else status
    value = holder.get(path.partition(".")[2])
    return value if isinstance(value, str) else ""


def validate_pod(obj: Object, old: Object | None) -> list[Cause]:
    causes = _validate_annotations(obj["metadata"].get("annotations") or {})
    spec = obj["spec"]
    if old is None:
        causes += validate_pod_own_spec(spec)
        if spec.get("ephemeralContainers"):
            causes.append(forbidden_field("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            detail = "cannot be set until all schedulingGates have been cleared"
            causes.append(forbidden_field("spec.nodeName", detail))
        return causes
    if spec != old["spec"]:
        causes += validate_pod_own_spec(spec) + validate_pod_update(spec, old["spec"])
    return causes + _validate_status(obj.get("status") or {}, old.get("status") or {})


def validate_pod_own_spec(spec: Object) -> list[Cause]:
    causes = validate_pod_spec(spec, "spec", is_pod=True)
    if not spec.get("serviceAccountName"):
        causes += [
            forbidden_field(
                f"spec.volumes[{i}].projected.sources[{j}].serviceAccountToken",
                "must not be specified when serviceAccountName is not set",
            )
            for i, volume in enumerate(spec.get("volumes") or ())
            for j, source in enumerate((volume.get("projected") or {}).get("sources") or ())
            if source.get("serviceAccountToken") is not None
        ]
    return causes + validate_image_whitespace(spec, "spec")


def _validate_annotations(annotations: Object) -> list[Cause]:
    cost = annotations.get(DELETION_COST_ANNOTATION)
    if cost is None or (cost.lstrip("-").isascii() and cost.lstrip("-").isdigit() and abs(int(cost)) < 2**31):
        return []
    return [invalid_value(f"metadata.annotations[{DELETION_COST_ANNOTATION}]", cost, "must be a 32bit integer")]


def _validate_status(new: Object, old: Object) -> list[Cause]:
    if new == old:
        return []
    causes: list[Cause] = []
    for i, condition in enumerate(new.get("conditions") or ()):
        kind = condition.get("type") or ""
        if kind not in _SYSTEM_CONDITIONS:
            causes += invalid_causes(f"status.conditions[{i}].Type", kind, is_qualified_name(kind))
    if new.get("qosClass") != old.get("qosClass"):
        causes.append(invalid_value("status.qosClass", new.get("qosClass") or "", "field is immutable"))
    causes += _validate_ips(new, old, "podIPs")
    hosts = new.get("hostIPs")
    if hosts and (hosts[0].get("ip") or "") != (new.get("hostIP") or ""):
        causes.append(invalid_value("status.hostIPs[0].ip", hosts[0].get("ip") or "", "must be equal to `hostIP`"))
    return causes + _validate_ips(new, old, "hostIPs")


def _validate_ips(new: Object, old: Object, field: str) -> list[Cause]:
    """Existing addresses are not validated again."""
    path, addresses = f"status.{field}", [each.get("ip") or "" for each in new.get(field) or ()]
    if not addresses or new.get(field) == old.get(field):
        return []
    old_ips = {each.get("ip") for each in old.get(field) or ()}
    causes = [
        cause
        for i, address in enumerate(addresses)
        if address not in old_ips
        for cause in validate_ip_address(address, f"{path}[{i}]")
    ]
    if len(addresses) > 1 and (len(addresses) > 2 or (":" in addresses[0]) == (":" in addresses[1])):
        causes.append(invalid_value(path, new[field], "may specify no more than one IP for each IP family"))
    return causes


# --- templates ---


def default_pod_template_object(obj: Object) -> None:
    default_pod_template(obj)


def validate_pod_template_object(obj: Object, old: Object | None) -> list[Cause]:
    return validate_pod_template(obj.get("template") or {}, "template")
