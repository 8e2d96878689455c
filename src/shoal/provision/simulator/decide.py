"""Offerings of the simulator for a NodeClaim, remaining availability, and the Node of a launch. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shoal.fit.requirements import Requirements, from_expressions, from_labels
from shoal.fit.resources import Resources, fits, parse_amounts, to_quantities
from shoal.kinds.clusterapi.simulated_node import SIMULATED_LABEL
from shoal.kinds.karpenter.karpenter import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    NODE_CLAIM_ANNOTATION,
    NODE_CLAIM_UID_ANNOTATION,
    ON_DEMAND,
    RESERVED,
    SPOT,
    SYSTEM,
    UNREGISTERED_TAINT_KEY,
    ZONE,
    annotation_of,
)
from shoal.provision.cloudprovider.types import Instance, InstanceType, Offering

Object = dict[str, Any]

SCHEME = "simulator://"
OFFERING_ANNOTATION = "simulator.shoal.dev/offering"
"""Annotation of a Node: the offering it was launched from."""
DRIFTED_ANNOTATION = "simulator.shoal.dev/drifted"
"""Annotation of a Node: why it has drifted."""
_PRECEDENCE = {RESERVED: 0, SPOT: 1, ON_DEMAND: 2}
"""Order of capacity types at equal price."""


def requirements_of(claim: Object) -> tuple[Requirements, Resources]:
    """Requirements and requests of a NodeClaim. A NodeClaim that was launched before keeps its type, zone and capacity
    type.
    """
    spec, labels = claim["spec"], claim["metadata"].get("labels") or {}
    launched_labels = {key: labels[key] for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE) if key in labels}
    required = from_expressions(spec.get("requirements")).union(from_labels(launched_labels))
    return required, parse_amounts((spec.get("resources") or {}).get("requests"))


def matching_offerings(
    types: Iterable[InstanceType], required: Requirements, requests: Resources
) -> list[tuple[InstanceType, Offering]]:
    """All available matching offerings, cheapest first."""
    matches = [
        (offering.price, _PRECEDENCE.get(offering.labels.get(CAPACITY_TYPE, ""), 3), offering.name, kind, offering)
        for kind in types
        if fits(requests, kind.allocatable) and kind.requirements.intersects(required)
        for offering in kind.offerings
        if offering.available and from_labels(offering.labels).intersects(required)
    ]
    return [(kind, offering) for *_, kind, offering in sorted(matches, key=lambda each: each[:3])]


def with_availability(
    types: Iterable[InstanceType],
    launched: Mapping[str, int],
    reserved: Mapping[str, int],
    unavailable: Collection[str],
) -> list[InstanceType]:
    """Types with the remaining availability after the launched instances, without offerings that are `unavailable`."""
    return [
        _with_offerings(
            kind, tuple(_remaining_offering(each, launched, reserved, unavailable) for each in kind.offerings)
        )
        for kind in types
    ]


def _with_offerings(kind: InstanceType, offerings: tuple[Offering, ...]) -> InstanceType:
    same = all(new is old for new, old in zip(offerings, kind.offerings, strict=True))
    return kind if same else replace(kind, offerings=offerings)


def _remaining_offering(
    offering: Offering, launched: Mapping[str, int], reserved: Mapping[str, int], unavailable: Collection[str]
) -> Offering:
    if offering.name in unavailable:
        return replace(offering, remaining=0)
    if offering.reservation and reserved.get(offering.reservation):
        remaining = offering.reservation_capacity - reserved[offering.reservation]
        offering = replace(offering, reservation_capacity=max(0, remaining))
    if offering.remaining is not None and launched.get(offering.name):
        offering = replace(offering, remaining=max(0, offering.remaining - launched[offering.name]))
    return offering


def node_of(claim: Object, kind: InstanceType, offering: Offering) -> Object:
    """Node as it registers. It has the name of its NodeClaim, so that a second attempt creates no second Node."""
    name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
    labels = {**node_labels(from_expressions(claim["spec"].get("requirements")), kind, offering), HOSTNAME: name}
    annotations = {NODE_CLAIM_ANNOTATION: name, NODE_CLAIM_UID_ANNOTATION: uid, OFFERING_ANNOTATION: offering.name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, SIMULATED_LABEL: "true"}, "annotations": annotations},
        "spec": {
            "providerID": f"{SCHEME}{name}",
            "taints": [{"key": UNREGISTERED_TAINT_KEY, "effect": "NoExecute"}, *offering.taints],
        },
        "status": {"capacity": to_quantities(kind.capacity), "allocatable": to_quantities(kind.allocatable)},
    }


def node_labels(required: Requirements, kind: InstanceType, offering: Offering) -> dict[str, str]:
    """Labels of the offering, completed by what the type and the NodeClaim agree on."""
    combined = kind.requirements.union(Requirements(each for key, each in required.items() if key in kind.requirements))
    return {**required.labels(), **_single_labels(combined), **offering.labels}


def _single_labels(requirements: Requirements) -> dict[str, str]:
    labels = {each.key: each.any_value() for each in requirements.values() if each.values and not each.complement}
    if SYSTEM in labels and requirements[SYSTEM].has("linux"):
        labels[SYSTEM] = "linux"
    # A label that not every node of the type has comes only from the offering.
    return {key: value for key, value in labels.items() if not requirements[key].allows_absent}


def instance_of(node: Object) -> Instance:
    """Instance that a Node represents."""
    metadata, status = node["metadata"], node.get("status") or {}
    return Instance(
        provider_id=node["spec"]["providerID"],
        labels={key: value for key, value in (metadata.get("labels") or {}).items() if key != HOSTNAME},
        capacity=parse_amounts(status.get("capacity")),
        allocatable=parse_amounts(status.get("allocatable")),
        deleting="deletionTimestamp" in metadata,
        name=metadata["name"],
        claim=annotation_of(node, NODE_CLAIM_ANNOTATION),
        claim_uid=annotation_of(node, NODE_CLAIM_UID_ANNOTATION),
    )


def is_simulated(node: Object) -> bool:
    return str((node.get("spec") or {}).get("providerID") or "").startswith(SCHEME)


def is_node_of_claim(node: Object, claim: Object) -> bool:
    return is_simulated(node) and annotation_of(node, NODE_CLAIM_UID_ANNOTATION) == claim["metadata"]["uid"]


def launched_counts(nodes: Sequence[Object], types: Iterable[InstanceType]) -> tuple[dict[str, int], dict[str, int]]:
    """Number of launched instances by offering and by reservation."""
    by_name = {offering.name: offering for kind in types for offering in kind.offerings}
    offerings: dict[str, int] = {}
    reservations: dict[str, int] = {}
    for each in nodes:
        name = annotation_of(each, OFFERING_ANNOTATION)
        offerings[name] = offerings.get(name, 0) + 1
        reservation = by_name[name].reservation if name in by_name else ""
        if reservation:
            reservations[reservation] = reservations.get(reservation, 0) + 1
    return offerings, reservations
