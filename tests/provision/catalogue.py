"""Instance types, pools and pods for decision tests without a server."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shoal.fit.resources import parse_amounts
from shoal.provision.cloudprovider.types import InstanceType, Offering
from shoal.provision.simulation.model import ExistingNode, NodePoolInput, Results, SchedulingInput
from shoal.provision.simulation.simulate import simulate
from shoal.provision.solver.optimize import improve
from tests.provision.hosted import node_pool
from tests.provision.hosted import pod as pod_object

Object = dict[str, Any]

_uids = itertools.count(1)
INSTANCE_TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"


def kind(
    name: str,
    cpu: int | str,
    memory: str,
    price: float,
    *,
    zones: tuple[str, ...] = ("a",),
    room: int | None = None,
    pods: int = 110,
    taints: tuple[Object, ...] = (),
    labels: dict[str, str] | None = None,
) -> InstanceType:
    has = parse_amounts({"cpu": str(cpu), "memory": memory, "pods": str(pods)})
    offerings = tuple(
        Offering(
            f"default/{name}-{zone}",
            {INSTANCE_TYPE: name, ZONE: zone, "karpenter.sh/capacity-type": "on-demand", **(labels or {})},
            price,
            room,
            taints,
        )
        for zone in zones
    )
    return InstanceType(name, has, has, offerings)


SMALL = kind("small", 2, "8Gi", 0.04)
MEDIUM = kind("medium", 4, "16Gi", 0.08)
LARGE = kind("large", 16, "64Gi", 0.30)
SIZES = (SMALL, MEDIUM, LARGE)


def pool(name: str = "default", types: tuple[InstanceType, ...] = SIZES, **more: Any) -> NodePoolInput:
    limits = more.get("limits") or {}
    used = parse_amounts(more.pop("used", {})) | {"nodes": 0}
    obj = node_pool(name, more.pop("requirements", ()), **more)
    obj["metadata"]["uid"] = f"uid-{name}"
    return NodePoolInput(obj, types, used, parse_amounts(limits))


def pod(cpu: str = "500m", memory: str = "256Mi", labels: dict[str, str] | None = None, **spec: Any) -> Object:
    number = next(_uids)
    found = pod_object(f"p{number:05}", cpu, memory, **spec)
    found["metadata"] |= {"uid": f"uid-{number}", "labels": labels or {}}
    return found


def pods(count: int, cpu: str = "500m", memory: str = "256Mi", **spec: Any) -> list[Object]:
    return [pod(cpu, memory, **spec) for _ in range(count)]


def bought(found: Results) -> list[str]:
    """The types that will come, if all can be had."""
    return sorted(claim.types[0] for claim in found.new_node_claims)


def price(found: Results) -> float:
    return round(sum(claim.price for claim in found.new_node_claims), 9)


def plan(
    pods: Iterable[Object],
    places: Sequence[ExistingNode] = (),
    pools: Sequence[NodePoolInput] = (),
    daemons: Sequence[Object] = (),
    promised: Mapping[str, str] | None = None,
) -> Results:
    """By Karpenter's rule."""
    return simulate(SchedulingInput(list(pods), places, pools, daemons, promised or {}))


def cheapest(pods: Iterable[Object], *pools: NodePoolInput) -> Results:
    """By the rule, and then made cheaper."""
    question = SchedulingInput(list(pods), node_pools=pools)
    return improve(question, simulate(question))[0]
