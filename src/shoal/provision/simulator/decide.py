"""Offerings of the simulator for a NodeClaim, remaining availability, and the Node of a launch. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shoal.fit.requirements import Requirements, from_expressions, from_labels
from shoal.fit.resources import Resources, amounts, fits, quantities
from shoal.kinds.karpenter import (
    CAPACITY_TYPE,
    CLAIMED_BY,
    CLAIMED_BY_UID,
    HOSTNAME,
    INSTANCE_TYPE,
    ON_DEMAND,
    RESERVED,
    SPOT,
    SYSTEM,
    UNREGISTERED,
    ZONE,
    annotation,
)
from shoal.kinds.simulated import LABEL
from shoal.provision.cloudprovider import Instance, InstanceType, Offering

Object = dict[str, Any]

SCHEME = "simulator://"
OFFERING = "simulator.shoal.dev/offering"
"""Annotation of a Node: the offering it was launched from."""
DRIFTED = "simulator.shoal.dev/drifted"
"""Annotation of a Node: why it has drifted."""
_PRECEDENCE = {RESERVED: 0, SPOT: 1, ON_DEMAND: 2}
"""Order of capacity types at equal price."""


def wishes(claim: Object) -> tuple[Requirements, Resources]:
    """Requirements and requests of a NodeClaim. A NodeClaim that was launched before keeps its type, zone and capacity
    type.
    """
    spec, labels = claim["spec"], claim["metadata"].get("labels") or {}
    known = {key: labels[key] for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE) if key in labels}
    wanted = from_expressions(spec.get("requirements")).union(from_labels(known))
    return wanted, amounts((spec.get("resources") or {}).get("requests"))


def suiting(
    types: Iterable[InstanceType], wanted: Requirements, needs: Resources
) -> list[tuple[InstanceType, Offering]]:
    """All available matching offerings, cheapest first."""
    found = [
        (offering.price, _PRECEDENCE.get(offering.labels.get(CAPACITY_TYPE, ""), 3), offering.name, kind, offering)
        for kind in types
        if fits(needs, kind.allocatable) and kind.requirements.intersects(wanted)
        for offering in kind.offerings
        if offering.available and from_labels(offering.labels).intersects(wanted)
    ]
    return [(kind, offering) for *_, kind, offering in sorted(found, key=lambda each: each[:3])]


def stocked(
    types: Iterable[InstanceType], sold: Mapping[str, int], reserved: Mapping[str, int], out: Collection[str]
) -> list[InstanceType]:
    """Types with the remaining availability after the launched instances, without offerings that are `unavailable`."""
    return [_stocked(kind, tuple(_left(each, sold, reserved, out) for each in kind.offerings)) for kind in types]


def _stocked(kind: InstanceType, offerings: tuple[Offering, ...]) -> InstanceType:
    same = all(new is old for new, old in zip(offerings, kind.offerings, strict=True))
    return kind if same else replace(kind, offerings=offerings)


def _left(offering: Offering, sold: Mapping[str, int], reserved: Mapping[str, int], out: Collection[str]) -> Offering:
    if offering.name in out:
        return replace(offering, room=0)
    if offering.reservation and reserved.get(offering.reservation):
        left = offering.reservation_capacity - reserved[offering.reservation]
        offering = replace(offering, reservation_capacity=max(0, left))
    if offering.room is not None and sold.get(offering.name):
        offering = replace(offering, room=max(0, offering.room - sold[offering.name]))
    return offering


def node(claim: Object, kind: InstanceType, offering: Offering) -> Object:
    """Node as it registers. It has the name of its NodeClaim, so that a second attempt creates no second Node."""
    name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
    labels = {**node_labels(from_expressions(claim["spec"].get("requirements")), kind, offering), HOSTNAME: name}
    annotations = {CLAIMED_BY: name, CLAIMED_BY_UID: uid, OFFERING: offering.name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, LABEL: "true"}, "annotations": annotations},
        "spec": {
            "providerID": f"{SCHEME}{name}",
            "taints": [{"key": UNREGISTERED, "effect": "NoExecute"}, *offering.taints],
        },
        "status": {"capacity": quantities(kind.capacity), "allocatable": quantities(kind.allocatable)},
    }


def node_labels(wanted: Requirements, kind: InstanceType, offering: Offering) -> dict[str, str]:
    """Labels of the offering, completed by what the type and the NodeClaim agree on."""
    open_ = kind.requirements.union(Requirements(each for key, each in wanted.items() if key in kind.requirements))
    return {**wanted.labels(), **_settled(open_), **offering.labels}


def _settled(requirements: Requirements) -> dict[str, str]:
    found = {each.key: each.any() for each in requirements.values() if each.values and not each.complement}
    if SYSTEM in found and requirements[SYSTEM].has("linux"):
        found[SYSTEM] = "linux"
    # A label that not every node of the type has comes only from the offering.
    return {key: value for key, value in found.items() if not requirements[key].absent}


def machine(node: Object) -> Instance:
    """Instance that a Node represents."""
    metadata, status = node["metadata"], node.get("status") or {}
    return Instance(
        provider_id=node["spec"]["providerID"],
        labels={key: value for key, value in (metadata.get("labels") or {}).items() if key != HOSTNAME},
        capacity=amounts(status.get("capacity")),
        allocatable=amounts(status.get("allocatable")),
        going="deletionTimestamp" in metadata,
        name=metadata["name"],
        claim=annotation(node, CLAIMED_BY),
        claim_uid=annotation(node, CLAIMED_BY_UID),
    )


def is_ours(node: Object) -> bool:
    return str((node.get("spec") or {}).get("providerID") or "").startswith(SCHEME)


def is_of(node: Object, claim: Object) -> bool:
    return is_ours(node) and annotation(node, CLAIMED_BY_UID) == claim["metadata"]["uid"]


def sold(nodes: Sequence[Object], types: Iterable[InstanceType]) -> tuple[dict[str, int], dict[str, int]]:
    """Number of launched instances by offering and by reservation."""
    by_name = {offering.name: offering for kind in types for offering in kind.offerings}
    offerings: dict[str, int] = {}
    reservations: dict[str, int] = {}
    for each in nodes:
        name = annotation(each, OFFERING)
        offerings[name] = offerings.get(name, 0) + 1
        reservation = by_name[name].reservation if name in by_name else ""
        if reservation:
            reservations[reservation] = reservations.get(reservation, 0) + 1
    return offerings, reservations
