"""ReplicationController of core/v1: defaults and validation in upstream's words. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.core.pod.spec import default_pod_template, validate_pod_template
from shoal.kinds.validation.field import default_status, ensure_map, is_unchanged, set_defaults, validate_nonnegative
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required_value

Object = dict[str, Any]

_STATUS_COUNTS = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")


def default_replication_controller(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    set_defaults(spec, replicas=1)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        spec["selector"] = spec.get("selector") or dict(labels)
        obj["metadata"]["labels"] = obj["metadata"].get("labels") or dict(labels)
    default_pod_template(spec)
    default_status(obj, replicas=0)


def prepare_replication_controller_create(obj: Object) -> None:
    obj["status"] = {"replicas": 0}


def selectable_field(obj: Object, path: str) -> str:
    """Returns `status.replicas`, the only selectable field of a ReplicationController."""
    return str((obj.get("status") or {}).get("replicas") or 0)


def validate_replication_controller(obj: Object, old: Object | None) -> list[Cause]:
    if is_unchanged(obj, old):
        return _validate_status(obj.get("status") or {})
    spec = obj["spec"]
    causes = validate_nonnegative(spec, "spec", "minReadySeconds")
    if not spec.get("selector"):
        causes.append(required_value("spec.selector"))
    causes += validate_nonnegative(spec, "spec", "replicas")
    template = spec.get("template")
    return causes + (
        [required_value("spec.template")]
        if template is None
        else _validate_template(template, spec.get("selector") or {})
    )


def _validate_template(template: Object, selector: dict[str, str]) -> list[Cause]:
    path, causes = "spec.template", []
    labels = (template.get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        causes.append(
            invalid_value(f"{path}.metadata.labels", labels or None, "`selector` does not match template `labels`")
        )
    causes += validate_pod_template(template, path)
    pods = template.get("spec") or {}
    if pods.get("restartPolicy") != "Always":
        causes.append(not_supported(f"{path}.spec.restartPolicy", pods.get("restartPolicy"), ["Always"]))
    if pods.get("activeDeadlineSeconds") is not None:
        detail = "activeDeadlineSeconds in ReplicationController is not Supported"
        causes.append(forbidden_field(f"{path}.spec.activeDeadlineSeconds", detail))
    return causes


def _validate_status(status: Object) -> list[Cause]:
    causes = validate_nonnegative(status, "status", "replicas", *_STATUS_COUNTS, "observedGeneration")
    total = status.get("replicas") or 0
    detail = "cannot be greater than status.replicas"
    causes += [invalid_value(f"status.{f}", status[f], detail) for f in _STATUS_COUNTS if (status.get(f) or 0) > total]
    if (status.get("availableReplicas") or 0) > (status.get("readyReplicas") or 0):
        detail = "cannot be greater than readyReplicas"
        causes.append(invalid_value("status.availableReplicas", status["availableReplicas"], detail))
    return causes
