"""Node groups: member MachineDeployments, and the machine templates of a node class; drift of Machines from them. Pure.

Membership is a label on the management side (the MachineDeployment, or the infrastructure template): a workload cluster
cannot grant it to itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.fit.resources import Resources, subtract
from shoal.kinds.clusterapi import capi
from shoal.kinds.clusterapi.capi import CLUSTER_NAME, INTERRUPTIBLE, KARPENTER_MEMBER
from shoal.kinds.karpenter.karpenter import (
    ANNOUNCED_RESERVATION_ID,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODE_CLASS,
    ON_DEMAND,
    RESERVATION_ID,
    RESERVED,
    SPOT,
    ZONE,
    is_deleting,
)
from shoal.objects.conditions import get_condition
from shoal.objects.selectors import from_label_selector
from shoal.provision.clusterapi import scale_from_zero
from shoal.provision.clusterapi.price_list import PriceList
from shoal.provision.clusterapi.scale_from_zero import MAX_SIZE, MIN_SIZE

Object = dict[str, Any]

NOT_UP_TO_DATE, UPDATING = "MachineNotUpToDate", "Updating"
DEPLOYMENT_GONE, NOT_SELECTED = "MachineDeploymentGone", "MachineDeploymentNotSelected"
TEMPLATE_GONE, TEMPLATE_CHANGED = "MachineTemplateGone", "MachineTemplateChanged"
"""Reasons of drift."""
_MAX_LABEL_LENGTH = 63


@dataclass(frozen=True, slots=True)
class NodeGroup:
    name: str
    """namespace/name of a MachineDeployment, or `template_offering_name`: the name of the offering."""
    labels: Mapping[str, str]
    capacity: Resources
    """Empty: unknown, and nothing can be bought."""
    price: float
    taints: tuple[Object, ...] = ()
    max_machines: int | None = None
    """Maximum number of Machines; None: unlimited."""
    reserved: Resources = field(default_factory=dict)
    """Part of the capacity that pods do not get."""

    @property
    def allocatable(self) -> Resources:
        known = {name: amount for name, amount in self.reserved.items() if name in self.capacity}
        return {name: max(0, amount) for name, amount in subtract(self.capacity, known).items()}


def group_of_deployment(deployment: Object, template: Object | None, prices: PriceList) -> NodeGroup:
    """`template`: its infrastructure template."""
    annotations = capi.annotations_of(deployment)
    machine = _machine_template(deployment)
    capacity = scale_from_zero.capacity(annotations, template)
    labels = node_labels(deployment, template)
    cost = scale_from_zero.price(deployment, machine, template)
    return NodeGroup(
        full_name(deployment),
        labels,
        capacity,
        _resolve_price(cost, prices, labels, capacity),
        scale_from_zero.taints(annotations),
        max_size(deployment),
        scale_from_zero.reserved_resources(deployment, machine, template),
    )


def group_of_entry(node_class: Object, entry: Object, template: Object, prices: PriceList) -> NodeGroup:
    annotations = capi.annotations_of(template)
    capacity = scale_from_zero.capacity(annotations, template, entry.get("capacity"))
    template_labels = (_machine_template(template).get("metadata") or {}).get("labels") or {}
    labels = scale_from_zero.labels(annotations, template) | dict(entry.get("labels") or {})
    labels[INSTANCE_TYPE] = str(entry.get("instanceType") or labels.get(INSTANCE_TYPE) or entry["name"])
    if entry.get("failureDomain"):
        labels[ZONE] = str(entry["failureDomain"])
    labels.setdefault(
        CAPACITY_TYPE, str(entry.get("capacityType") or (SPOT if INTERRUPTIBLE in template_labels else ON_DEMAND))
    )
    _set_reservation_id(labels, f"{node_class['metadata']['name']}.{entry['name']}")
    cost = scale_from_zero.parse_price(entry.get("price"))
    limits = [
        most for most in (entry.get("limit"), scale_from_zero.parse_integer(annotations, MAX_SIZE)) if most is not None
    ]
    return NodeGroup(
        template_offering_name(node_class, entry),
        labels,
        capacity,
        _resolve_price(scale_from_zero.price(template) if cost is None else cost, prices, labels, capacity),
        scale_from_zero.taints(annotations) + scale_from_zero.permanent_taints(entry.get("taints") or ()),
        min(limits, default=None),
        scale_from_zero.reserved_resources(template),
    )


def is_member(obj: Object) -> bool:
    """True if a MachineDeployment or a template has the member label."""
    return KARPENTER_MEMBER in capi.labels_of(obj)


def is_buyable(deployment: Object) -> bool:
    paused = capi.PAUSED in capi.annotations_of(deployment)
    return is_member(deployment) and not is_deleting(deployment) and not paused


def is_selected(deployment: Object, node_class: Object) -> bool:
    """Requires the member label and the selector of the class. Without a selector all members match, unless the class
    has machine templates.
    """
    spec = node_class.get("spec") or {}
    selector = spec.get("scalableResourceSelector")
    if not selector:
        return is_member(deployment) and not spec.get("machineTemplates")
    return is_member(deployment) and from_label_selector(selector).matches(capi.labels_of(deployment))


def is_usable_template(template: Object | None, cluster: str) -> bool:
    """True if standalone Machines of the Cluster may be created from the template: it is a member, for this Cluster or
    for all.
    """
    return (
        template is not None
        and is_member(template)
        and _is_for_cluster(template, cluster)
        and not is_deleting(template)
    )


def _is_for_cluster(template: Object, cluster: str) -> bool:
    return capi.labels_of(template).get(CLUSTER_NAME, cluster) == cluster


def machine_templates(node_class: Object) -> list[Object]:
    """Machine templates of a node class."""
    return list((node_class.get("spec") or {}).get("machineTemplates") or ())


def template_offering_name(node_class: Object, entry: Object) -> str:
    return f"{NODE_CLASS}/{node_class['metadata']['name']}/{entry['name']}"


def is_template_offering(name: str) -> bool:
    """Distinguishes offering names: those of MachineDeployments have one slash."""
    return name.count("/") == 2


def template_by_offering(node_class: Object, name: str) -> Object | None:
    return next(
        (entry for entry in machine_templates(node_class) if template_offering_name(node_class, entry) == name), None
    )


def infrastructure_reference(deployment: Object) -> Object:
    """Reference to its infrastructure template."""
    return (_machine_template(deployment).get("spec") or {}).get("infrastructureRef") or {}


def node_labels(deployment: Object, template: Object | None = None) -> dict[str, str]:
    """Labels that Cluster API sets on nodes of the MachineDeployment, then announced labels. The instance type is
    always set.
    """
    machine = _machine_template(deployment)
    template_labels = (machine.get("metadata") or {}).get("labels") or {}
    labels = capi.node_labels({key: value for key, value in template_labels.items() if key != KARPENTER_MEMBER})
    labels |= scale_from_zero.labels(capi.annotations_of(deployment), template)
    labels.setdefault(INSTANCE_TYPE, deployment["metadata"]["name"])
    labels.setdefault(CAPACITY_TYPE, SPOT if INTERRUPTIBLE in template_labels else ON_DEMAND)
    zone = (machine.get("spec") or {}).get("failureDomain")
    if zone:
        labels.setdefault(ZONE, zone)
    _set_reservation_id(labels, full_name(deployment).replace("/", "."))
    return labels


def _set_reservation_id(labels: dict[str, str], name: str) -> None:
    announced = labels.pop(ANNOUNCED_RESERVATION_ID, "")
    if labels[CAPACITY_TYPE] == RESERVED:
        labels.setdefault(RESERVATION_ID, announced or name[-_MAX_LABEL_LENGTH:])


def max_size(deployment: Object) -> int | None:
    return scale_from_zero.parse_integer(capi.annotations_of(deployment), MAX_SIZE)


def min_size(deployment: Object) -> int:
    return scale_from_zero.parse_integer(capi.annotations_of(deployment), MIN_SIZE) or 0


def full_name(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _machine_template(holder: Object) -> Object:
    """Machine template of a MachineDeployment or of an infrastructure template."""
    template: Object = (holder.get("spec") or {}).get("template") or {}
    return template


def _resolve_price(
    announced_price: float | None, prices: PriceList, labels: Mapping[str, str], capacity: Resources
) -> float:
    listed = prices.price_of(labels) if announced_price is None else announced_price
    return scale_from_zero.estimated_price(capacity) if listed is None else listed


def deployment_drift(
    machine: Object, deployment: Object | None, sets: Iterable[Object], node_class: Object | None
) -> str:
    """Returns the drift reason, or empty. `deployment`: None if it is no longer a member."""
    if deployment is None:
        return DEPLOYMENT_GONE
    if node_class is not None and not is_selected(deployment, node_class):
        return NOT_SELECTED
    condition = get_condition(machine, "UpToDate") or {}
    if condition.get("status") == "False":
        return "" if condition.get("reason") == UPDATING else NOT_UP_TO_DATE
    if condition.get("status") == "True":
        return ""
    newest = max(sets, key=_revision, default=None)
    if newest is None:
        return ""
    newest_hash, machine_hash = (capi.labels_of(each).get(capi.TEMPLATE_HASH, "") for each in (newest, machine))
    return NOT_UP_TO_DATE if newest_hash and machine_hash and newest_hash != machine_hash else ""


def template_drift(machine_hash: str, template_hash: str | None) -> str:
    """Compares the template hash of the Machine with the current one; None: the template was deleted."""
    if template_hash is None:
        return TEMPLATE_GONE
    return TEMPLATE_CHANGED if machine_hash != template_hash else ""


def _revision(machine_set: Object) -> tuple[int, str]:
    revision = capi.annotations_of(machine_set).get(capi.REVISION, "")
    return int(revision) if revision.isdecimal() else 0, machine_set["metadata"].get("creationTimestamp", "")
