"""Writes of pods/ephemeralcontainers and pods/resize: which fields they may change. Upstream's words; pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.differences import difference, same
from shoal.kinds.pods import qos_class, validate_spec
from shoal.objects.errors import Cause, forbidden_field, invalid_value

Object = dict[str, Any]

_CONTAINERS = ("containers", "initContainers")
_RESIZABLE = ("cpu", "memory")


def only_ephemeral_containers(new: Object, old: Object) -> None:
    """Discards all other changes of a write to /ephemeralcontainers."""
    wanted = (new.get("spec") or {}).get("ephemeralContainers")
    new["spec"] = {**old["spec"], "ephemeralContainers": wanted or []}
    if not wanted:
        del new["spec"]["ephemeralContainers"]


def validate_ephemeral_containers(obj: Object, old: Object | None) -> list[Cause]:
    causes = validate_spec(obj["spec"])
    found = {each.get("name"): each for each in obj["spec"].get("ephemeralContainers") or ()}
    for before in ((old or {}).get("spec") or {}).get("ephemeralContainers") or ():
        name = before.get("name")
        if name not in found:
            why = f'existing ephemeral containers "{name}" may not be removed\n'
            causes.append(forbidden_field("spec.ephemeralContainers", why))
        elif not same(found[name], before):
            why = f'existing ephemeral containers "{name}" may not be changed\n{difference(found[name], before)}'
            causes.append(forbidden_field("spec.ephemeralContainers", why))
    return causes


def only_resources(new: Object, old: Object) -> None:
    """Keeps only the resources of the same containers in a write to /resize. Validation rejects other containers."""
    wanted = new.get("spec") or {}
    spec = {**old["spec"]}
    for field in _CONTAINERS:
        asked, before = wanted.get(field) or [], spec.get(field) or []
        if [c.get("name") for c in asked] == [c.get("name") for c in before]:
            parts = [{k: c[k] for k in ("resources", "resizePolicy") if k in c} for c in asked]
            asked = [{**container, **part} for container, part in zip(before, parts, strict=True)]
        if asked:
            spec[field] = asked
    new["spec"] = spec


def validate_resize(obj: Object, old: Object | None) -> list[Cause]:
    assert old is not None
    new_spec, old_spec = obj["spec"], old["spec"]
    causes = validate_spec(new_spec)
    if qos_class(new_spec) != (old.get("status") or {}).get("qosClass", qos_class(old_spec)):
        why = "Pod QOS Class may not change as a result of resizing"
        causes.append(invalid_value("spec", (obj.get("status") or {}).get("qosClass", ""), why))
    for field in _CONTAINERS:
        asked, before = new_spec.get(field) or [], old_spec.get(field) or []
        if len(asked) != len(before):
            causes.append(forbidden_field(f"spec.{field}", f"{field} may not be added or removed on resize"))
        elif [c.get("name") for c in asked] != [c.get("name") for c in before]:
            causes.append(forbidden_field(f"spec.{field}", f"{field} may not be renamed or reordered on resize"))
        else:
            for i, (container, was) in enumerate(zip(asked, before, strict=True)):
                causes += _resized(container.get("resources") or {}, was.get("resources") or {}, f"spec.{field}[{i}]")
    return causes


def _resized(new: Object, old: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("requests", "limits"):
        asked, before = new.get(field) or {}, old.get(field) or {}
        if before.keys() - asked.keys():
            why = f"resource {field} cannot be removed"
            causes.append(forbidden_field(f"{path}.resources.{field}", why))
        elif any(asked.get(name) != before.get(name) for name in asked if name not in _RESIZABLE):
            causes.append(forbidden_field("spec", "only cpu and memory resources are mutable"))
    return causes
