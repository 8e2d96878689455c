"""PriorityClass of scheduling.k8s.io/v1: defaults, validation, and the two system classes of every cluster. Pure."""

from __future__ import annotations

from shoal.kinds.checks import Object, fill, immutable, one_of
from shoal.objects.errors import Cause, forbidden_field

HIGHEST = 1_000_000_000
"""The maximum value of a user-defined class."""
_SYSTEM = 2 * HIGHEST
SYSTEM_PREFIX = "system-"
_SYSTEM_CLASSES = {
    "system-cluster-critical": (
        _SYSTEM,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    "system-node-critical": (
        _SYSTEM + 1000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}


def default_priority_class(obj: Object) -> None:
    fill(obj, value=0, preemptionPolicy="PreemptLowerPriority")


def create_priority_class(obj: Object) -> None:
    """Sets generation 1, which never changes: no counted field is mutable."""
    obj["metadata"]["generation"] = 1


def validate_priority_class(obj: Object, old: Object | None) -> list[Cause]:
    if old is not None:
        causes = []
        if obj["value"] != old["value"]:
            causes.append(forbidden_field("value", "may not be changed in an update."))
        return causes + immutable(obj, old, "", "preemptionPolicy")
    causes = []
    name, value = obj["metadata"].get("name") or "", obj["value"]
    if name.startswith(SYSTEM_PREFIX):
        if wrong := _not_known(name, value, bool(obj.get("globalDefault"))):
            reserved = "priority class names with 'system-' prefix are reserved for system use only. error: "
            causes.append(forbidden_field("metadata.name", reserved + wrong))
    elif value > HIGHEST:
        causes.append(forbidden_field("value", f"maximum allowed value of a user defined priority is {HIGHEST}"))
    return causes + one_of(obj["preemptionPolicy"], "preemptionPolicy", "PreemptLowerPriority", "Never")


def _not_known(name: str, value: int, global_default: bool) -> str:
    known = _SYSTEM_CLASSES.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known[0]:
        return f"value of {name} PriorityClass must be {known[0]}"
    return f"globalDefault of {name} PriorityClass must be false" if global_default else ""


def system_priority_classes() -> list[Object]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        }
        for name, (value, description) in _SYSTEM_CLASSES.items()
    ]
