"""RuntimeClass of node.k8s.io/v1: defaults and validation. Pure."""

from __future__ import annotations

from shoal.kinds.checks import Object, immutable, said
from shoal.kinds.pod_scheduling import validate_tolerations
from shoal.kinds.resources import default_list, validate_requirements
from shoal.objects.errors import Cause, duplicate, required
from shoal.objects.names import is_dns1123_label, validate_labels

_LIST_KEY = ("key", "operator", "value", "effect")


def default_runtime_class(obj: Object) -> None:
    default_list(obj.get("overhead"), "podFixed")


def validate_runtime_class(obj: Object, old: Object | None) -> list[Cause]:
    handler = obj.get("handler") or ""
    causes = said("handler", handler, is_dns1123_label(handler)) if handler else [required("handler")]
    if obj.get("overhead") is not None:
        causes += validate_requirements({"limits": obj["overhead"].get("podFixed")}, "overhead")
    scheduling = obj.get("scheduling") or {}
    causes += validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    causes += _tolerations(scheduling.get("tolerations") or [], "scheduling.tolerations")
    return causes + (immutable(obj, old, "", "handler", absent="") if old is not None else [])


def _tolerations(tolerations: list[Object], path: str) -> list[Cause]:
    causes = validate_tolerations(tolerations, path)
    seen: set[tuple[str, ...]] = set()
    for i, toleration in enumerate(tolerations):
        key = tuple(str(toleration.get(field) or "") for field in _LIST_KEY)
        if key in seen:
            causes.append(duplicate(f"{path}[{i}]", toleration))
        seen.add(key)
    return causes
