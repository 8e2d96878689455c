"""ServiceAccount: a pod without a ServiceAccount runs as `default`."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.server import RequestContext, ServerComponents

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


def admit(server: ServerComponents, ctx: RequestContext, new: dict[str, Any], old: dict[str, Any] | None) -> None:
    spec = new.get("spec")
    if not isinstance(spec, dict) or spec.get("serviceAccountName"):
        return
    if MIRROR_ANNOTATION in (new["metadata"].get("annotations") or {}):
        return
    spec["serviceAccountName"] = spec["serviceAccount"] = "default"
