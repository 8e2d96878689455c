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

from shoal.capi.conditions import paused_condition, with_condition, with_status
from shoal.capi.machinesets.remediation import plan_remediation
from shoal.capi.metadata_patches import claim_patch, release_patch
from shoal.capi.replicas import (
    count_with_condition,
    deleting_condition,
    effective_selector,
    machine_conditions,
    remediating_condition,
    scaling_down_condition,
    scaling_up_condition,
    selector_text,
    version_counts,
)
from shoal.capi.templates import IN_PLACE_FIELDS, stable_suffix
from shoal.kinds.clusterapi.capi import (
    ANNOTATIONS_FROM_SET,
    API_VERSION,
    CLONED_FROM_GROUP_KIND,
    CLONED_FROM_NAME,
    CLUSTER,
    CLUSTER_NAME,
    DELETE_MACHINE,
    DEPLOYMENT_NAME,
    DISABLE_MACHINE_CREATE,
    LABELS_FROM_SET,
    MACHINE,
    MACHINE_FINALIZER,
    MACHINE_SET,
    MACHINE_SET_FINALIZER,
    SET_NAME,
    TEMPLATE_SUFFIX,
    annotations_of,
    controller_uid,
    initialization_flag,
    is_deleting,
    is_paused,
    labels_of,
    owner_reference,
)
from shoal.objects.conditions import condition_is


def machine_set_status(machine_set: Object, machines: Sequence[Object], missing_template: str, now: str) -> Object:
    """The MachineSet with its desired status; the identical object if nothing changes."""
    deleting = is_deleting(machine_set)
    desired = 0 if deleting else int(machine_set["spec"].get("replicas", 1))
    counts = {
        "selector": selector_text(machine_set["spec"].get("selector"), {SET_NAME: machine_set["metadata"]["name"]}),
        "replicas": len(machines),
        "readyReplicas": count_with_condition(machines, "Ready"),
        "availableReplicas": count_with_condition(machines, "Available"),
        "upToDateReplicas": count_with_condition(machines, "UpToDate"),
        "versions": version_counts(machines),
    }
    conditions = [
        scaling_up_condition(len(machines), desired, "" if deleting else missing_template),
        scaling_down_condition(len(machines), desired),
        *machine_conditions(machines),
        remediating_condition(machines, " by MachineSet"),
        deleting_condition(deleting, len(machines), "Machine"),
        paused_condition(False, None),
    ]
    return with_status(machine_set, counts, conditions, now)


def machines_to_delete(machines: Sequence[Object], count: int, order: str) -> list[Object]:
    """Deleting first, then annotated for deletion, then unhealthy, then by `order`; Random is by name."""
    if count <= 0:
        return []
    by_name = sorted(machines, key=lambda machine: str(machine["metadata"]["name"]))
    if order != "Random":
        by_name.sort(key=_creation_time, reverse=order == "Newest")
    return sorted(by_name, key=_delete_priority)[:count]


def _creation_time(machine: Mapping[str, Any]) -> str:
    return str(machine["metadata"].get("creationTimestamp", ""))


def _delete_priority(machine: Mapping[str, Any]) -> int:
    if is_deleting(machine):
        return 0
    if DELETE_MACHINE in annotations_of(machine):
        return 1
    return 3 if is_healthy(machine) else 2


def is_healthy(machine: Mapping[str, Any]) -> bool:
    """Unknown conditions do not count as unhealthy."""
    if not (machine.get("status") or {}).get("nodeRef"):
        return False
    return not condition_is(machine, "NodeHealthy", "False") and not condition_is(
        machine, "HealthCheckSucceeded", "False"
    )


Object = dict[str, Any]

MAX_NAME_LENGTH = 63
DEFAULT_NAMING = "{{ .machineSet.name }}-{{ .random }}"


@dataclass(frozen=True, slots=True)
class MachineSetSnapshot:
    machine_set: Object
    cluster: Object | None
    machines: Sequence[Object]
    """Controlled Machines, deleting ones included."""
    template: Object | None
    missing_template: str = ""
    """Why no Machine can be made of its infrastructure template."""
    machines_with_infrastructure: frozenset[str] = frozenset()
    """Names of its Machines whose infrastructure object exists."""
    reserved_names: frozenset[str] = frozenset()
    """Names that a new Machine must not get: existing and recently deleted ones."""
    deployment: Object | None = None
    """The MachineDeployment that controls it."""
    orphans: Sequence[Object] = ()
    """Machines of its Cluster without a controller."""


@dataclass(frozen=True, slots=True)
class MachineSetDecision:
    patch: Object | None = None
    """Patch of the MachineSet. The rest is decided again after it."""
    patch_template: Object | None = None
    """Patch of the infrastructure template: the Cluster becomes its owner."""
    create: tuple[Object, ...] = ()
    adoption_patches: tuple[tuple[Object, Object], ...] = ()
    """Selected Machines without a controller, and their patches."""
    clone_infrastructure: tuple[Object, ...] = ()
    """Machines without an infrastructure object."""
    in_place_patches: tuple[tuple[Object, Object], ...] = field(default_factory=tuple)
    """Machines and their patches."""
    machine_statuses: tuple[Object, ...] = ()
    """Machines with the status to write, before any is deleted."""
    delete: tuple[Object, ...] = ()
    status: Object | None = None
    """The MachineSet with the status to write, computed from the snapshot."""


def decide(snapshot: MachineSetSnapshot, now: str) -> MachineSetDecision:
    machine_set = snapshot.machine_set
    if is_paused(snapshot.cluster, machine_set):
        new = with_condition(machine_set, paused_condition(True, snapshot.cluster), now)
        return MachineSetDecision(status=None if new is machine_set else new)
    if is_deleting(machine_set):
        if not snapshot.machines:
            return MachineSetDecision(patch=release_patch(machine_set, MACHINE_SET_FINALIZER))
        to_delete = tuple(machine for machine in snapshot.machines if not is_deleting(machine))
        return MachineSetDecision(delete=to_delete, status=_status(snapshot, now))
    if snapshot.cluster is None:
        return MachineSetDecision()  # enqueued again with its Cluster
    adopt = _adoption_patches(snapshot)
    if adopt:
        return MachineSetDecision(adoption_patches=adopt)  # enqueued again after the adoption, with new counts
    remediation_plan = plan_remediation(machine_set, snapshot.deployment, snapshot.machines, now)
    surplus = _surplus_machines(snapshot)
    return MachineSetDecision(
        patch=_patch(snapshot, snapshot.cluster),
        patch_template=_template_patch(snapshot, snapshot.cluster),
        create=_machines_to_create(snapshot),
        clone_infrastructure=_machines_without_infrastructure(snapshot) if snapshot.template is not None else (),
        in_place_patches=_in_place_patches(snapshot),
        machine_statuses=remediation_plan.machine_statuses,
        delete=(*surplus, *(machine for machine in remediation_plan.delete if machine not in surplus)),
        status=_status(snapshot, now),
    )


def _status(snapshot: MachineSetSnapshot, now: str) -> Object | None:
    new = machine_set_status(snapshot.machine_set, snapshot.machines, snapshot.missing_template, now)
    return None if new is snapshot.machine_set else new


def _patch(snapshot: MachineSetSnapshot, cluster: Object) -> Object | None:
    machine_set = snapshot.machine_set
    alone = not controller_uid(machine_set)
    return claim_patch(
        machine_set,
        finalizer=MACHINE_SET_FINALIZER,
        owner=owner_reference(cluster, API_VERSION, CLUSTER, controller=False) if alone else None,
        labels={CLUSTER_NAME: machine_set["spec"]["clusterName"]},
    )


def _template_patch(snapshot: MachineSetSnapshot, cluster: Object) -> Object | None:
    if snapshot.template is None or is_deleting(snapshot.template):
        return None
    owner = owner_reference(cluster, API_VERSION, CLUSTER, controller=False)
    return claim_patch(snapshot.template, owner=owner, labels={CLUSTER_NAME: cluster["metadata"]["name"]})


def _adoption_patches(snapshot: MachineSetSnapshot) -> tuple[tuple[Object, Object], ...]:
    label_selector = effective_selector(
        snapshot.machine_set["spec"].get("selector"), {SET_NAME: snapshot.machine_set["metadata"]["name"]}
    )
    owner = owner_reference(snapshot.machine_set, API_VERSION, MACHINE_SET, controller=True)
    matches = [
        machine
        for machine in snapshot.orphans
        if not is_deleting(machine) and label_selector.matches(labels_of(machine))
    ]
    return tuple((machine, patch) for machine in matches if (patch := claim_patch(machine, owner=owner)) is not None)


def _replicas(machine_set: Object) -> int:
    return int(machine_set["spec"].get("replicas", 1))


def _machines_to_create(snapshot: MachineSetSnapshot) -> tuple[Object, ...]:
    machine_set = snapshot.machine_set
    count = _replicas(machine_set) - len(snapshot.machines)
    disabled = annotations_of(machine_set).get(DISABLE_MACHINE_CREATE) == "true"
    if count <= 0 or disabled or snapshot.template is None:
        return ()
    return tuple(new_machine(machine_set, name) for name in _new_names(machine_set, count, snapshot.reserved_names))


def _new_names(machine_set: Object, count: int, reserved: frozenset[str]) -> list[str]:
    """The same for the same resourceVersion of the MachineSet: a retry uses the same names."""
    metadata = machine_set["metadata"]
    names: list[str] = []
    number = 0
    while len(names) < count:
        name = _machine_name(machine_set, stable_suffix(metadata["uid"], metadata["resourceVersion"], number))
        if name not in reserved:
            names.append(name)
        number += 1
    return names


def _machine_name(machine_set: Object, random: str) -> str:
    naming = (machine_set["spec"].get("machineNaming") or {}).get("template") or DEFAULT_NAMING
    name = naming.replace("{{ .cluster.name }}", machine_set["spec"]["clusterName"])
    name = name.replace("{{ .machineSet.name }}", machine_set["metadata"]["name"])
    start, marker, end = name.partition("{{ .random }}")
    if not marker:
        return f"{name[: MAX_NAME_LENGTH - len(random) - 1]}-{random}"
    return f"{start[: MAX_NAME_LENGTH - len(random) - len(end)]}{random}{end}"


def new_machine(machine_set: Object, name: str) -> Object:
    template = machine_set["spec"]["template"]
    reference = template["spec"]["infrastructureRef"]
    annotations = machine_annotations(machine_set)
    kind = reference["kind"].removesuffix(TEMPLATE_SUFFIX)
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


def _machines_without_infrastructure(snapshot: MachineSetSnapshot) -> tuple[Object, ...]:
    """A Machine that was provisioned and lost its infrastructure object is not repaired: its machine is gone."""
    return tuple(
        machine
        for machine in snapshot.machines
        if machine["metadata"]["name"] not in snapshot.machines_with_infrastructure
        and not is_deleting(machine)
        and not initialization_flag(machine, "infrastructureProvisioned")
    )


def infrastructure_clone(machine_set: Object, template: Object, machine: Object) -> Object:
    """The infrastructure object of a Machine."""
    reference, body = machine["spec"]["infrastructureRef"], template["spec"]["template"]
    metadata = body.get("metadata") or {}
    group_kind = f"{template['kind']}.{reference['apiGroup']}"
    clone_annotations = {CLONED_FROM_NAME: template["metadata"]["name"], CLONED_FROM_GROUP_KIND: group_kind}
    return {
        "apiVersion": template["apiVersion"],
        "kind": reference["kind"],
        "metadata": {
            "namespace": machine["metadata"]["namespace"],
            "name": reference["name"],
            "labels": {**(metadata.get("labels") or {}), **machine_labels(machine_set)},
            "annotations": {**(metadata.get("annotations") or {}), **clone_annotations},
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


def _in_place_patches(snapshot: MachineSetSnapshot) -> tuple[tuple[Object, Object], ...]:
    """Patches of what reaches Machines in place: labels, annotations and fields that need no new machine."""
    template = snapshot.machine_set["spec"]["template"]
    labels, annotations = machine_labels(snapshot.machine_set), machine_annotations(snapshot.machine_set)
    patches = []
    for machine in snapshot.machines:
        spec = {
            key: template["spec"].get(key)
            for key in IN_PLACE_FIELDS
            if template["spec"].get(key) != machine["spec"].get(key)
        }
        patch: Object = {"spec": spec} if spec else {}
        if not is_deleting(machine):
            current = annotations_of(machine)
            metadata = {
                "labels": _propagation_patch(labels_of(machine), labels, current.get(LABELS_FROM_SET)),
                "annotations": _propagation_patch(current, annotations, current.get(ANNOTATIONS_FROM_SET)),
            }
            if any(metadata.values()):
                patch["metadata"] = {field: values for field, values in metadata.items() if values}
        if patch:
            patches.append((machine, patch))
    return tuple(patches)


def _propagation_patch(
    current: Mapping[str, str], desired: Mapping[str, str], record: str | None
) -> dict[str, str | None]:
    records = (LABELS_FROM_SET, ANNOTATIONS_FROM_SET)
    previous = [*(record or "").split(","), *records]
    removed: dict[str, str | None] = {key: None for key in previous if key in current and key not in desired}
    return removed | {key: value for key, value in desired.items() if current.get(key) != value}


def _surplus_machines(snapshot: MachineSetSnapshot) -> tuple[Object, ...]:
    """Deleting Machines are counted first, so that none is deleted twice."""
    count = len(snapshot.machines) - _replicas(snapshot.machine_set)
    order = (snapshot.machine_set["spec"].get("deletion") or {}).get("order") or "Random"
    return tuple(machine for machine in machines_to_delete(snapshot.machines, count, order) if not is_deleting(machine))
