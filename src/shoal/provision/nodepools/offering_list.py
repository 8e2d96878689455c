"""The Offerings of a cluster: what its NodePools may launch, where and for how much. Pure.

They are for people to read. Nothing is decided from them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.client.rest import GroupVersionResource
from shoal.fit.resources import to_quantities
from shoal.kinds.karpenter.karpenter import API_VERSION, CAPACITY_TYPE, NODE_POOL, ZONE
from shoal.provision.cloudprovider.types import InstanceType, Offering
from shoal.provision.simulation.nodeclaim_template import pool_requirements

Object = dict[str, Any]

GROUP, VERSION, KIND = "provision.shoal.dev", "v1alpha1", "Offering"
OFFERINGS = GroupVersionResource(GROUP, VERSION, "offerings", namespaced=False)

MAX_OFFERINGS = 500
"""Offerings of one cluster that are listed, the cheapest."""
_FIELDS = ("nodePool", "instanceType", "zone", "capacityType", "price", "available", "remaining", "capacity")


@dataclass(frozen=True, slots=True)
class OfferingChanges:
    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    """Objects with the resourceVersion that they replace."""
    delete: list[Object] = field(default_factory=list)


def offerings_of_pool(pool: Object, types: Iterable[InstanceType]) -> list[Object]:
    """The offerings that match the requirements of the NodePool."""
    requirements, metadata = pool_requirements(pool), pool["metadata"]
    owner = {"apiVersion": API_VERSION, "kind": NODE_POOL, "name": metadata["name"], "uid": metadata["uid"]}
    found: dict[str, Object] = {}
    for kind in types:
        if not requirements.intersects(kind.requirements):
            continue
        for offering in kind.offerings:
            labels = offering.labels
            if any(key in requirements and not requirements[key].has(value) for key, value in labels.items()):
                continue
            obj = _offering_object(metadata["name"], owner, kind, offering)
            other = found.get(obj["metadata"]["name"])
            if other is None or _rank(obj) < _rank(other):
                found[obj["metadata"]["name"]] = obj
    return list(found.values())


def plan_offerings(desired: Iterable[Object], existing: Mapping[str, Object]) -> OfferingChanges:
    """`existing`: by name. The cheapest are listed."""
    listed = {each["metadata"]["name"]: each for each in sorted(desired, key=_rank)[:MAX_OFFERINGS]}
    changes = OfferingChanges(delete=[obj for name, obj in existing.items() if name not in listed])
    for name, obj in listed.items():
        current = existing.get(name)
        if current is None:
            changes.create.append(obj)
        elif any(current.get(key) != obj.get(key) for key in _FIELDS) or _owners(current) != _owners(obj):
            version = {"resourceVersion": current["metadata"]["resourceVersion"]}
            changes.update.append({**obj, "metadata": {**obj["metadata"], **version}})
    return changes


def _offering_object(pool: str, owner: Object, kind: InstanceType, offering: Offering) -> Object:
    zone, capacity_type = offering.labels.get(ZONE, ""), offering.labels.get(CAPACITY_TYPE, "")
    digest = hashlib.sha256("\n".join((pool, kind.name, zone, capacity_type)).encode()).hexdigest()[:8]
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": f"{pool[:200].rstrip('.-')}-{digest}", "ownerReferences": [owner]},
        "nodePool": pool,
        "instanceType": kind.name,
        **({"zone": zone} if zone else {}),
        **({"capacityType": capacity_type} if capacity_type else {}),
        "price": round(offering.price, 6),
        "available": offering.available,
        **({"remaining": offering.remaining} if offering.remaining is not None else {}),
        "capacity": to_quantities(kind.capacity),
    }


def _owners(obj: Object) -> object:
    return [owner.get("uid") for owner in obj["metadata"].get("ownerReferences") or ()]


def _rank(obj: Object) -> tuple[bool, float, str]:
    """What can be launched first, the cheapest first."""
    return not obj["available"], obj["price"], obj["metadata"]["name"]
