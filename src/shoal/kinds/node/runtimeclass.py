"""RuntimeClass of node.k8s.io/v1: defaults, validation, warnings, strategy and printer columns. Pure."""

from __future__ import annotations

from shoal.kinds.column import AGE, Column, field_cell
from shoal.kinds.core.pod_warnings import DEPRECATED_NODE_LABELS
from shoal.kinds.core.scheduling import validate_tolerations
from shoal.kinds.strategy import Strategy
from shoal.kinds.validation.field import Object, invalid_causes, validate_immutable
from shoal.kinds.validation.resource_list import normalize_resource_list, validate_resource_requirements
from shoal.objects.errors import Cause, duplicate, required_value
from shoal.objects.names import is_dns1123_label, validate_labels

_TOLERATION_KEY_FIELDS = ("key", "operator", "value", "effect")


def default_runtime_class(obj: Object) -> None:
    normalize_resource_list(obj.get("overhead"), "podFixed")


def validate_runtime_class(obj: Object, old: Object | None) -> list[Cause]:
    handler = obj.get("handler") or ""
    causes = invalid_causes("handler", handler, is_dns1123_label(handler)) if handler else [required_value("handler")]
    if obj.get("overhead") is not None:
        causes += validate_resource_requirements({"limits": obj["overhead"].get("podFixed")}, "overhead")
    scheduling = obj.get("scheduling") or {}
    causes += validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    causes += _validate_tolerations(scheduling.get("tolerations") or [], "scheduling.tolerations")
    return causes + (validate_immutable(obj, old, "", "handler", absent="") if old is not None else [])


def _validate_tolerations(tolerations: list[Object], path: str) -> list[Cause]:
    causes = validate_tolerations(tolerations, path)
    seen: set[tuple[str, ...]] = set()
    for i, toleration in enumerate(tolerations):
        key = tuple(str(toleration.get(field) or "") for field in _TOLERATION_KEY_FIELDS)
        if key in seen:
            causes.append(duplicate(f"{path}[{i}]", toleration))
        seen.add(key)
    return causes


def runtime_class_warnings(obj: Object, old: Object | None) -> list[str]:
    selector = (obj.get("scheduling") or {}).get("nodeSelector") or {}
    return [
        f"scheduling.nodeSelector: {DEPRECATED_NODE_LABELS[key]}" for key in selector if key in DEPRECATED_NODE_LABELS
    ]


STRATEGIES: dict[str, Strategy] = {
    "runtimeclasses.node.k8s.io": Strategy(
        allow_unconditional_update=False,
        allow_create_on_update=True,
        allow_unqualified_finalizers=True,
        default=default_runtime_class,
        validate=validate_runtime_class,
        warnings=runtime_class_warnings,
    ),
}

COLUMNS: dict[str, tuple[Column, ...]] = {
    "runtimeclasses.node.k8s.io": (Column("Handler", cell=field_cell("handler")), AGE),
}
