"""ReplicationController of core/v1: defaults and validation in upstream's words. Pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import fill, not_negative, section, unchanged, zero_status
from shoal.kinds.pod_spec import default_pod_template, validate_pod_template
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required

Object = dict[str, Any]

_COUNTS = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")


def default_controller(obj: Object) -> None:
    spec = section(obj, "spec")
    fill(spec, replicas=1)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        spec["selector"] = spec.get("selector") or dict(labels)
        obj["metadata"]["labels"] = obj["metadata"].get("labels") or dict(labels)
    default_pod_template(spec)
    zero_status(obj, replicas=0)


def create_controller(obj: Object) -> None:
    obj["status"] = {"replicas": 0}


def selectable(obj: Object, path: str) -> str:
    """Returns `status.replicas`, the only selectable field of a ReplicationController."""
    return str((obj.get("status") or {}).get("replicas") or 0)


def validate_controller(obj: Object, old: Object | None) -> list[Cause]:
    if unchanged(obj, old):
        return _status(obj.get("status") or {})
    spec = obj["spec"]
    causes = not_negative(spec, "spec", "minReadySeconds")
    if not spec.get("selector"):
        causes.append(required("spec.selector"))
    causes += not_negative(spec, "spec", "replicas")
    template = spec.get("template")
    return causes + (
        [required("spec.template")] if template is None else _template(template, spec.get("selector") or {})
    )


def _template(template: Object, selector: dict[str, str]) -> list[Cause]:
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
        why = "activeDeadlineSeconds in ReplicationController is not Supported"
        causes.append(forbidden_field(f"{path}.spec.activeDeadlineSeconds", why))
    return causes


def _status(status: Object) -> list[Cause]:
    causes = not_negative(status, "status", "replicas", *_COUNTS, "observedGeneration")
    total = status.get("replicas") or 0
    why = "cannot be greater than status.replicas"
    causes += [invalid_value(f"status.{f}", status[f], why) for f in _COUNTS if (status.get(f) or 0) > total]
    if (status.get("availableReplicas") or 0) > (status.get("readyReplicas") or 0):
        why = "cannot be greater than readyReplicas"
        causes.append(invalid_value("status.availableReplicas", status["availableReplicas"], why))
    return causes
