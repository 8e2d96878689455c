"""Node groups: member MachineDeployments, and the machine templates of a node class. Pure.

Membership is a label on the management side (the MachineDeployment, or the infrastructure template): a workload cluster
cannot grant it to itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.fit.resources import Resources
from shoal.kinds import capi
from shoal.kinds.capi import CLUSTER_NAME, INTERRUPTIBLE, KARPENTER_MEMBER
from shoal.kinds.karpenter import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODE_CLASS,
    ON_DEMAND,
    RESERVATION_ID,
    RESERVED,
    SPOT,
    ZONE,
    is_going,
)
from shoal.objects.selectors import from_label_selector
from shoal.provision.clusterapi import announced
from shoal.provision.clusterapi.announced import MAX_SIZE, MIN_SIZE
from shoal.provision.clusterapi.prices import PriceList

Object = dict[str, Any]

_LONGEST_LABEL = 63


@dataclass(frozen=True, slots=True)
class Seller:
    name: str
    """namespace/name of a MachineDeployment, or `template_offering_name`: the name of the offering."""
    labels: Mapping[str, str]
    capacity: Resources
    """Empty: unknown, and nothing can be bought."""
    price: float
    taints: tuple[Object, ...] = ()
    most: int | None = None
    """Maximum number of Machines; None: unlimited."""


def of_deployment(deployment: Object, template: Object | None, prices: PriceList) -> Seller:
    """`template`: its infrastructure template."""
    annotations = capi.annotations_of(deployment)
    machine = _machine_template(deployment)
    has = announced.capacity(annotations, template)
    found = node_labels(deployment, template)
    cost = announced.price(deployment, machine, template)
    return Seller(
        full_name(deployment),
        found,
        has,
        _price(cost, prices, found, has),
        announced.taints(annotations),
        max_size(deployment),
    )


def of_entry(node_class: Object, entry: Object, template: Object, prices: PriceList) -> Seller:
    annotations = capi.annotations_of(template)
    has = announced.capacity(annotations, template, entry.get("capacity"))
    own = (_machine_template(template).get("metadata") or {}).get("labels") or {}
    found = announced.labels(annotations, template) | dict(entry.get("labels") or {})
    found[INSTANCE_TYPE] = str(entry.get("instanceType") or found.get(INSTANCE_TYPE) or entry["name"])
    if entry.get("failureDomain"):
        found[ZONE] = str(entry["failureDomain"])
    found.setdefault(CAPACITY_TYPE, str(entry.get("capacityType") or (SPOT if INTERRUPTIBLE in own else ON_DEMAND)))
    _name_reservation(found, f"{node_class['metadata']['name']}.{entry['name']}")
    cost = announced.number(entry.get("price"))
    limits = [most for most in (entry.get("limit"), announced.whole(annotations, MAX_SIZE)) if most is not None]
    return Seller(
        entry_name(node_class, entry),
        found,
        has,
        _price(announced.price(template) if cost is None else cost, prices, found, has),
        announced.taints(annotations) + announced.lasting(entry.get("taints") or ()),
        min(limits, default=None),
    )


def takes_part(obj: Object) -> bool:
    """True if a MachineDeployment or a template has the member label."""
    return KARPENTER_MEMBER in capi.labels_of(obj)


def is_open(deployment: Object) -> bool:
    paused = capi.PAUSED in capi.annotations_of(deployment)
    return takes_part(deployment) and not is_going(deployment) and not paused


def selected(deployment: Object, node_class: Object) -> bool:
    """Requires the member label and the selector of the class. Without a selector all members match, unless the class
    has machine templates.
    """
    spec = node_class.get("spec") or {}
    selector = spec.get("scalableResourceSelector")
    if not selector:
        return takes_part(deployment) and not spec.get("machineTemplates")
    return takes_part(deployment) and from_label_selector(selector).matches(capi.labels_of(deployment))


def usable(template: Object | None, cluster: str) -> bool:
    """True if standalone Machines of the Cluster may be created from the template: it is a member, for this Cluster or
    for all.
    """
    return template is not None and takes_part(template) and _for(template, cluster) and not is_going(template)


def _for(template: Object, cluster: str) -> bool:
    return capi.labels_of(template).get(CLUSTER_NAME, cluster) == cluster


def entries(node_class: Object) -> list[Object]:
    """Machine templates of a node class."""
    return list((node_class.get("spec") or {}).get("machineTemplates") or ())


def entry_name(node_class: Object, entry: Object) -> str:
    return f"{NODE_CLASS}/{node_class['metadata']['name']}/{entry['name']}"


def is_entry(name: str) -> bool:
    """Distinguishes offering names: those of MachineDeployments have one slash."""
    return name.count("/") == 2


def entry_of(node_class: Object, name: str) -> Object | None:
    return next((entry for entry in entries(node_class) if entry_name(node_class, entry) == name), None)


def infrastructure(deployment: Object) -> Object:
    """Reference to its infrastructure template."""
    return (_machine_template(deployment).get("spec") or {}).get("infrastructureRef") or {}


def node_labels(deployment: Object, template: Object | None = None) -> dict[str, str]:
    """Labels that Cluster API sets on nodes of the MachineDeployment, then announced labels. The instance type is
    always set.
    """
    machine = _machine_template(deployment)
    said = (machine.get("metadata") or {}).get("labels") or {}
    found = capi.node_labels({key: value for key, value in said.items() if key != KARPENTER_MEMBER})
    found |= announced.labels(capi.annotations_of(deployment), template)
    found.setdefault(INSTANCE_TYPE, deployment["metadata"]["name"])
    found.setdefault(CAPACITY_TYPE, SPOT if INTERRUPTIBLE in said else ON_DEMAND)
    zone = (machine.get("spec") or {}).get("failureDomain")
    if zone:
        found.setdefault(ZONE, zone)
    _name_reservation(found, full_name(deployment).replace("/", "."))
    return found


def _name_reservation(labels: dict[str, str], name: str) -> None:
    if labels[CAPACITY_TYPE] == RESERVED:
        labels.setdefault(RESERVATION_ID, name[-_LONGEST_LABEL:])


def max_size(deployment: Object) -> int | None:
    return announced.whole(capi.annotations_of(deployment), MAX_SIZE)


def min_size(deployment: Object) -> int:
    return announced.whole(capi.annotations_of(deployment), MIN_SIZE) or 0


def full_name(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _machine_template(holder: Object) -> Object:
    """Machine template of a MachineDeployment or of an infrastructure template."""
    found: Object = (holder.get("spec") or {}).get("template") or {}
    return found


def _price(named: float | None, prices: PriceList, labels: Mapping[str, str], has: Resources) -> float:
    listed = prices.of(labels) if named is None else named
    return announced.guess(has) if listed is None else listed
