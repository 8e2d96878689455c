"""PriorityClass of scheduling.k8s.io/v1: defaults, validation, strategy, printer columns, and the two system classes of
every cluster. Pure.
"""

from __future__ import annotations

from shoal.kinds.column import AGE, Column, field_cell, number_cell
from shoal.kinds.strategy import Strategy
from shoal.kinds.validation.field import Object, set_defaults, validate_enum, validate_immutable
from shoal.objects.errors import Cause, forbidden_field

MAX_USER_PRIORITY = 1_000_000_000
"""The maximum value of a user-defined class."""
_SYSTEM_PRIORITY = 2 * MAX_USER_PRIORITY
SYSTEM_PREFIX = "system-"
_SYSTEM_CLASSES = {
    "system-cluster-critical": (
        _SYSTEM_PRIORITY,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    "system-node-critical": (
        _SYSTEM_PRIORITY + 1000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}


def default_priority_class(obj: Object) -> None:
    set_defaults(obj, value=0, preemptionPolicy="PreemptLowerPriority")


def prepare_priority_class_create(obj: Object) -> None:
    """Sets generation 1, which never changes: no counted field is mutable."""
    obj["metadata"]["generation"] = 1


def validate_priority_class(obj: Object, old: Object | None) -> list[Cause]:
    if old is not None:
        causes = []
        if obj["value"] != old["value"]:
            causes.append(forbidden_field("value", "may not be changed in an update."))
        return causes + validate_immutable(obj, old, "", "preemptionPolicy")
    causes = []
    name, value = obj["metadata"].get("name") or "", obj["value"]
    if name.startswith(SYSTEM_PREFIX):
        if system_error := _system_class_error(name, value, bool(obj.get("globalDefault"))):
            reserved = "priority class names with 'system-' prefix are reserved for system use only. error: "
            causes.append(forbidden_field("metadata.name", reserved + system_error))
    elif value > MAX_USER_PRIORITY:
        causes.append(
            forbidden_field("value", f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}")
        )
    return causes + validate_enum(obj["preemptionPolicy"], "preemptionPolicy", "PreemptLowerPriority", "Never")


def _system_class_error(name: str, value: int, global_default: bool) -> str:
    system_class = _SYSTEM_CLASSES.get(name)
    if system_class is None:
        return f"{name} is not a known system priority class"
    if value != system_class[0]:
        return f"value of {name} PriorityClass must be {system_class[0]}"
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


STRATEGIES: dict[str, Strategy] = {
    "priorityclasses.scheduling.k8s.io": Strategy(
        default=default_priority_class,
        prepare_for_create=prepare_priority_class_create,
        validate=validate_priority_class,
    ),
}

COLUMNS: dict[str, tuple[Column, ...]] = {
    "priorityclasses.scheduling.k8s.io": (
        Column("Value", type="integer", cell=number_cell("value")),
        Column("Global-Default", type="boolean", cell=field_cell("globalDefault", otherwise=False)),
        AGE,
        Column("PreemptionPolicy", cell=field_cell("preemptionPolicy", otherwise="")),
    ),
}
