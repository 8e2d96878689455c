"""Decides the next step of a MachineSet: Machines to create, clone, update in place or delete, its status, its own
deletion. Pure.

A Machine is created before its infrastructure object, which therefore has its owner from the start. A Machine that
lacks it (the reconcile was interrupted) gets it here. Names are derived from the snapshot, so a retry finds its own
objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.capi.conditions import only, paused_condition
from shoal.capi.machinesets.order import first_to_go
from shoal.capi.machinesets.remediation import remediation
from shoal.capi.machinesets.status import machine_set_status
from shoal.capi.replicas import selector
from shoal.capi.templates import IN_PLACE, suffix
from shoal.capi.writing import claimed, released
from shoal.kinds.capi import (
    ANNOTATIONS_FROM_SET,
    API_VERSION,
    CLONED_FROM_GROUP_KIND,
    CLONED_FROM_NAME,
    CLUSTER,
    CLUSTER_NAME,
    DEPLOYMENT_NAME,
    DISABLE_MACHINE_CREATE,
    LABELS_FROM_SET,
    MACHINE,
    MACHINE_FINALIZER,
    MACHINE_SET,
    MACHINE_SET_FINALIZER,
    SET_NAME,
    TEMPLATE,
    annotations_of,
    controller_uid,
    initialization,
    is_deleting,
    is_paused,
    labels_of,
    owner_reference,
)

Object = dict[str, Any]

LONGEST_NAME = 63
DEFAULT_NAMING = "{{ .machineSet.name }}-{{ .random }}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    machine_set: Object
    cluster: Object | None
    machines: Sequence[Object]
    """Controlled Machines, deleting ones included."""
    template: Object | None
    infrastructure: frozenset[str] = frozenset()
    """Names of its Machines whose infrastructure object exists."""
    taken: frozenset[str] = frozenset()
    """Names that a new Machine must not get: existing and recently deleted ones."""
    deployment: Object | None = None
    """The MachineDeployment that controls it."""
    orphans: Sequence[Object] = ()
    """Machines of its Cluster without a controller."""


@dataclass(frozen=True, slots=True)
class Decision:
    patch: Object | None = None
    """Patch of the MachineSet. The rest is decided again after it."""
    template: Object | None = None
    """Patch of the infrastructure template: the Cluster becomes its owner."""
    create: tuple[Object, ...] = ()
    adopt: tuple[tuple[Object, Object], ...] = ()
    """Selected Machines without a controller, and their patches."""
    clone: tuple[Object, ...] = ()
    """Machines without an infrastructure object."""
    keep_up: tuple[tuple[Object, Object], ...] = field(default_factory=tuple)
    """Machines and their patches."""
    mark: tuple[Object, ...] = ()
    """Machines with the status to write, before any is deleted."""
    delete: tuple[Object, ...] = ()
    status: Object | None = None
    """The MachineSet with the status to write, computed from the snapshot."""


def decide(seen: Snapshot, now: str) -> Decision:
    machine_set = seen.machine_set
    if is_paused(seen.cluster, machine_set):
        new = only(machine_set, paused_condition(True, seen.cluster), now)
        return Decision(status=None if new is machine_set else new)
    if is_deleting(machine_set):
        if not seen.machines:
            return Decision(patch=released(machine_set, MACHINE_SET_FINALIZER))
        going = tuple(machine for machine in seen.machines if not is_deleting(machine))
        return Decision(delete=going, status=_status(seen, now))
    if seen.cluster is None:
        return Decision()  # enqueued again with its Cluster
    adopt = _adopted(seen)
    if adopt:
        return Decision(adopt=adopt)  # enqueued again after the adoption, with new counts
    unhealthy = remediation(machine_set, seen.deployment, seen.machines, now)
    surplus = _surplus(seen)
    return Decision(
        patch=_patch(seen, seen.cluster),
        template=_template_patch(seen, seen.cluster),
        create=_missing(seen),
        clone=_without_infrastructure(seen) if seen.template is not None else (),
        keep_up=_outdated(seen),
        mark=unhealthy.mark,
        delete=(*surplus, *(machine for machine in unhealthy.delete if machine not in surplus)),
        status=_status(seen, now),
    )


def _status(seen: Snapshot, now: str) -> Object | None:
    new = machine_set_status(seen.machine_set, seen.machines, seen.template is not None, now)
    return None if new is seen.machine_set else new


def _patch(seen: Snapshot, cluster: Object) -> Object | None:
    machine_set = seen.machine_set
    alone = not controller_uid(machine_set)
    return claimed(
        machine_set,
        finalizer=MACHINE_SET_FINALIZER,
        owner=owner_reference(cluster, API_VERSION, CLUSTER, controller=False) if alone else None,
        labels={CLUSTER_NAME: machine_set["spec"]["clusterName"]},
    )


def _template_patch(seen: Snapshot, cluster: Object) -> Object | None:
    if seen.template is None or is_deleting(seen.template):
        return None
    owner = owner_reference(cluster, API_VERSION, CLUSTER, controller=False)
    return claimed(seen.template, owner=owner, labels={CLUSTER_NAME: cluster["metadata"]["name"]})


def _adopted(seen: Snapshot) -> tuple[tuple[Object, Object], ...]:
    wanted = selector(seen.machine_set["spec"].get("selector"), {SET_NAME: seen.machine_set["metadata"]["name"]})
    owner = owner_reference(seen.machine_set, API_VERSION, MACHINE_SET, controller=True)
    found = [machine for machine in seen.orphans if not is_deleting(machine) and wanted.matches(labels_of(machine))]
    return tuple((machine, patch) for machine in found if (patch := claimed(machine, owner=owner)) is not None)


def _replicas(machine_set: Object) -> int:
    return int(machine_set["spec"].get("replicas", 1))


def _missing(seen: Snapshot) -> tuple[Object, ...]:
    machine_set = seen.machine_set
    count = _replicas(machine_set) - len(seen.machines)
    disabled = annotations_of(machine_set).get(DISABLE_MACHINE_CREATE) == "true"
    if count <= 0 or disabled or seen.template is None:
        return ()
    return tuple(machine_of(machine_set, name) for name in _names(machine_set, count, seen.taken))


def _names(machine_set: Object, count: int, taken: frozenset[str]) -> list[str]:
    """The same for the same resourceVersion of the MachineSet: a retry uses the same names."""
    metadata = machine_set["metadata"]
    found: list[str] = []
    number = 0
    while len(found) < count:
        name = _named(machine_set, suffix(metadata["uid"], metadata["resourceVersion"], number))
        if name not in taken:
            found.append(name)
        number += 1
    return found


def _named(machine_set: Object, random: str) -> str:
    naming = (machine_set["spec"].get("machineNaming") or {}).get("template") or DEFAULT_NAMING
    said = naming.replace("{{ .cluster.name }}", machine_set["spec"]["clusterName"])
    said = said.replace("{{ .machineSet.name }}", machine_set["metadata"]["name"])
    start, found, end = said.partition("{{ .random }}")
    if not found:
        return f"{said[: LONGEST_NAME - len(random) - 1]}-{random}"
    return f"{start[: LONGEST_NAME - len(random) - len(end)]}{random}{end}"


def machine_of(machine_set: Object, name: str) -> Object:
    template = machine_set["spec"]["template"]
    reference = template["spec"]["infrastructureRef"]
    annotations = machine_annotations(machine_set)
    kind = reference["kind"].removesuffix(TEMPLATE)
    return {
        "apiVersion": API_VERSION,
        "kind": MACHINE,
        "metadata": {
            "namespace": machine_set["metadata"]["namespace"],
            "name": name,
            "labels": machine_labels(machine_set),
            **({"annotations": annotations} if annotations else {}),
            "finalizers": [MACHINE_FINALIZER],
            "ownerReferences": [owner_reference(machine_set, API_VERSION, MACHINE_SET, controller=True)],
        },
        "spec": {
            **template["spec"],
            "clusterName": machine_set["spec"]["clusterName"],
            "infrastructureRef": {"apiGroup": reference["apiGroup"], "kind": kind, "name": name},
        },
    }


def machine_labels(machine_set: Object) -> dict[str, str]:
    labels = dict((machine_set["spec"]["template"].get("metadata") or {}).get("labels") or {})
    labels |= (machine_set["spec"].get("selector") or {}).get("matchLabels") or {}
    labels |= {CLUSTER_NAME: machine_set["spec"]["clusterName"], SET_NAME: machine_set["metadata"]["name"]}
    deployment = labels_of(machine_set).get(DEPLOYMENT_NAME)
    return {**labels, DEPLOYMENT_NAME: deployment} if deployment else labels


def _without_infrastructure(seen: Snapshot) -> tuple[Object, ...]:
    """A Machine that was provisioned and lost its infrastructure object is not repaired: its machine is gone."""
    return tuple(
        machine
        for machine in seen.machines
        if machine["metadata"]["name"] not in seen.infrastructure
        and not is_deleting(machine)
        and not initialization(machine, "infrastructureProvisioned")
    )


def clone_of(machine_set: Object, template: Object, machine: Object) -> Object:
    """The infrastructure object of a Machine."""
    reference, body = machine["spec"]["infrastructureRef"], template["spec"]["template"]
    metadata = body.get("metadata") or {}
    group_kind = f"{template['kind']}.{reference['apiGroup']}"
    said = {CLONED_FROM_NAME: template["metadata"]["name"], CLONED_FROM_GROUP_KIND: group_kind}
    return {
        "apiVersion": template["apiVersion"],
        "kind": reference["kind"],
        "metadata": {
            "namespace": machine["metadata"]["namespace"],
            "name": reference["name"],
            "labels": {**(metadata.get("labels") or {}), **machine_labels(machine_set)},
            "annotations": {**(metadata.get("annotations") or {}), **said},
            "ownerReferences": [owner_reference(machine, API_VERSION, MACHINE, controller=True)],
        },
        "spec": body["spec"],
    }


def machine_annotations(machine_set: Object) -> dict[str, str]:
    """Annotations of the template, and records of which labels and annotations come from it."""
    metadata = machine_set["spec"]["template"].get("metadata") or {}
    annotations = dict(metadata.get("annotations") or {})
    for record, names in ((LABELS_FROM_SET, metadata.get("labels")), (ANNOTATIONS_FROM_SET, annotations)):
        if names:
            annotations = {**annotations, record: ",".join(sorted(names))}
    return annotations


def _outdated(seen: Snapshot) -> tuple[tuple[Object, Object], ...]:
    """Patches of what reaches Machines in place: labels, annotations and fields that need no new machine."""
    template = seen.machine_set["spec"]["template"]
    labels, annotations = machine_labels(seen.machine_set), machine_annotations(seen.machine_set)
    found = []
    for machine in seen.machines:
        spec = {
            key: template["spec"].get(key) for key in IN_PLACE if template["spec"].get(key) != machine["spec"].get(key)
        }
        patch: Object = {"spec": spec} if spec else {}
        if not is_deleting(machine):
            said = annotations_of(machine)
            metadata = {
                "labels": _changes(labels_of(machine), labels, said.get(LABELS_FROM_SET)),
                "annotations": _changes(said, annotations, said.get(ANNOTATIONS_FROM_SET)),
            }
            if any(metadata.values()):
                patch["metadata"] = {field: values for field, values in metadata.items() if values}
        if patch:
            found.append((machine, patch))
    return tuple(found)


def _changes(has: Mapping[str, str], wanted: Mapping[str, str], record: str | None) -> dict[str, str | None]:
    records = (LABELS_FROM_SET, ANNOTATIONS_FROM_SET)
    before = [*(record or "").split(","), *records]
    gone: dict[str, str | None] = {key: None for key in before if key in has and key not in wanted}
    return gone | {key: value for key, value in wanted.items() if has.get(key) != value}


def _surplus(seen: Snapshot) -> tuple[Object, ...]:
    """Deleting Machines are counted first, so that none is deleted twice."""
    count = len(seen.machines) - _replicas(seen.machine_set)
    order = (seen.machine_set["spec"].get("deletion") or {}).get("order") or "Random"
    return tuple(machine for machine in first_to_go(seen.machines, count, order) if not is_deleting(machine))
