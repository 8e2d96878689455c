"""RuntimeClass of node.k8s.io/v1: validation. Pure."""

from __future__ import annotations

from shoal.kinds.checks import Object, immutable, said
from shoal.objects.errors import Cause, required
from shoal.objects.names import is_dns1123_label, validate_labels


def validate_runtime_class(obj: Object, old: Object | None) -> list[Cause]:
    if old is not None:
        return immutable(obj, old, "", "handler")
    handler = obj.get("handler") or ""
    causes = said("handler", handler, is_dns1123_label(handler)) if handler else [required("handler")]
    return causes + validate_labels((obj.get("scheduling") or {}).get("nodeSelector"), "scheduling.nodeSelector")
