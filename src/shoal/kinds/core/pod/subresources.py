"""Writes of pods/ephemeralcontainers and pods/resize: which fields they may change. Upstream's words; pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.core.pod.pods import default_pod, qos_class, validate_pod_own_spec
from shoal.kinds.strategy import Strategy
from shoal.kinds.validation.diff import diff, semantic_equal
from shoal.objects.errors import Cause, forbidden_field, invalid_value

Object = dict[str, Any]

_CONTAINERS = ("containers", "initContainers")
_RESIZABLE_RESOURCES = ("cpu", "memory")


def keep_only_ephemeral_containers(new: Object, old: Object) -> None:
    """Discards all other changes of a write to /ephemeralcontainers."""
    requested = (new.get("spec") or {}).get("ephemeralContainers")
    new["spec"] = {**old["spec"], "ephemeralContainers": requested or []}
    if not requested:
        del new["spec"]["ephemeralContainers"]


def validate_ephemeral_containers(obj: Object, old: Object | None) -> list[Cause]:
    causes = validate_pod_own_spec(obj["spec"])
    containers = {each.get("name"): each for each in obj["spec"].get("ephemeralContainers") or ()}
    for before in ((old or {}).get("spec") or {}).get("ephemeralContainers") or ():
        name = before.get("name")
        if name not in containers:
            detail = f'existing ephemeral containers "{name}" may not be removed\n'
            causes.append(forbidden_field("spec.ephemeralContainers", detail))
        elif not semantic_equal(containers[name], before):
            detail = f'existing ephemeral containers "{name}" may not be changed\n{diff(containers[name], before)}'
            causes.append(forbidden_field("spec.ephemeralContainers", detail))
    return causes


def keep_only_resources(new: Object, old: Object) -> None:
    """Keeps only the resources of the same containers in a write to /resize. Validation rejects other containers."""
    new_spec = new.get("spec") or {}
    spec = {**old["spec"]}
    for field in _CONTAINERS:
        requested, before = new_spec.get(field) or [], spec.get(field) or []
        if [c.get("name") for c in requested] == [c.get("name") for c in before]:
            parts = [{k: c[k] for k in ("resources", "resizePolicy") if k in c} for c in requested]
            requested = [{**container, **part} for container, part in zip(before, parts, strict=True)]
        if requested:
            spec[field] = requested
    new["spec"] = spec


def validate_resize(obj: Object, old: Object | None) -> list[Cause]:
    assert old is not None
    new_spec, old_spec = obj["spec"], old["spec"]
    causes = validate_pod_own_spec(new_spec)
    if qos_class(new_spec) != (old.get("status") or {}).get("qosClass", qos_class(old_spec)):
        detail = "Pod QOS Class may not change as a result of resizing"
        causes.append(invalid_value("spec", (obj.get("status") or {}).get("qosClass", ""), detail))
    for field in _CONTAINERS:
        requested, before = new_spec.get(field) or [], old_spec.get(field) or []
        if len(requested) != len(before):
            causes.append(forbidden_field(f"spec.{field}", f"{field} may not be added or removed on resize"))
        elif [c.get("name") for c in requested] != [c.get("name") for c in before]:
            causes.append(forbidden_field(f"spec.{field}", f"{field} may not be renamed or reordered on resize"))
        else:
            for i, (container, was) in enumerate(zip(requested, before, strict=True)):
                causes += _validate_resized_resources(
                    container.get("resources") or {}, was.get("resources") or {}, f"spec.{field}[{i}]"
                )
    return causes


def _validate_resized_resources(new: Object, old: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("requests", "limits"):
        requested, before = new.get(field) or {}, old.get(field) or {}
        if before.keys() - requested.keys():
            detail = f"resource {field} cannot be removed"
            causes.append(forbidden_field(f"{path}.resources.{field}", detail))
        elif any(requested.get(name) != before.get(name) for name in requested if name not in _RESIZABLE_RESOURCES):
            causes.append(forbidden_field("spec", "only cpu and memory resources are mutable"))
    return causes


EPHEMERAL_CONTAINERS_STRATEGY = Strategy(
    tracks_generation=True,
    default=default_pod,
    prepare_for_update=keep_only_ephemeral_containers,
    validate=validate_ephemeral_containers,
)
RESIZE_STRATEGY = Strategy(
    tracks_generation=True,
    default=default_pod,
    prepare_for_update=keep_only_resources,
    validate=validate_resize,
)
UNCHECKED_STRATEGY = Strategy()
"""For changes the server itself makes to a pod: nothing is checked again."""
SUBRESOURCE_STRATEGIES = {
    "ephemeralcontainers": EPHEMERAL_CONTAINERS_STRATEGY,
    "resize": RESIZE_STRATEGY,
    "unchecked": UNCHECKED_STRATEGY,
}
