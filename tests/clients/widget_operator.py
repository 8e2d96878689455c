"""An operator of Widgets as its author would write it, for `kopf run`."""

from __future__ import annotations

from typing import Any

import kopf


@kopf.on.create("example.com", "v1", "widgets")
def build(body: kopf.Body, spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> dict[str, int]:
    kopf.info(body, reason="Building", message=f"size {spec['size']}")
    patch.status["phase"] = "Built"
    patch.spec["color"] = "red"
    return {"size": spec["size"]}


@kopf.on.update("example.com", "v1", "widgets", field="spec.size")
def resize(old: Any, new: Any, patch: kopf.Patch, **_: Any) -> None:
    patch.status["resized"] = f"{old} to {new}"


@kopf.on.delete("example.com", "v1", "widgets")
def dismantle(body: kopf.Body, retry: int, **_: Any) -> None:
    if retry == 0:
        raise kopf.TemporaryError("still in use", delay=0.1)
    kopf.info(body, reason="Dismantled", message=f"after {retry} retry")
