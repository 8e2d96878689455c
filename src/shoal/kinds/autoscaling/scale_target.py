"""The object that an autoscaler scales: `spec.scaleTargetRef` of a HorizontalPodAutoscaler and of custom autoscalers
such as KEDA's ScaledObject. Pure.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Object = dict[str, Any]

DEFAULT_KIND = "Deployment"
"""KEDA's default. HorizontalPodAutoscalers always name a kind."""


class ScaleTarget(NamedTuple):
    kind: str
    name: str


def scale_target_of(obj: Object) -> ScaleTarget | None:
    """None: it is no autoscaler."""
    spec = obj.get("spec")
    reference = spec.get("scaleTargetRef") if isinstance(spec, dict) else None
    if not isinstance(reference, dict) or not isinstance(reference.get("name"), str):
        return None
    return ScaleTarget(str(reference.get("kind") or DEFAULT_KIND), reference["name"])


def with_scale_target(content: Object, name: str) -> Object:
    """Returns the autoscaler's content with another target of the same kind."""
    spec = content["spec"]
    return {**content, "spec": {**spec, "scaleTargetRef": {**spec["scaleTargetRef"], "name": name}}}
