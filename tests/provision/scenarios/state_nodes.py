"""Existing nodes for disruption decisions, and the cluster snapshot of these decisions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.disruption.decide import decide
from shoal.provision.disruption.model import (
    Command,
    DisruptionDecision,
    DisruptionSettings,
    DisruptionSnapshot,
    StateNode,
)
from tests.provision.scenarios.conftest import assorted_types
from tests.provision.scenarios.words import ARCH, CAPACITY, HOST, ON_DEMAND, POOL, SYSTEM, ZONE, pool
from tests.provision.scenarios.world import World

Object = dict[str, Any]

NOW = 1_800_000_000.0
LONG_AGO = "2020-01-01T00:00:00Z"
_numbers = itertools.count(1)
ROOM = {"cpu": "32", "pods": "100"}
ALONE = {"cpu": "32"}
"""Without a word about pods, so that none can come from elsewhere."""


def disruptable(name: str = "default", *requirements: Object, budgets: Iterable[Object] = (), **more: Any) -> Object:
    """All may go at once, and as soon as they can."""
    listed = list(budgets) or [{"nodes": "100%"}]
    disruption = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": listed}
    return pool(name, *requirements, disruption={**disruption, **more.pop("disruption", {})}, **more)


def by_price(kind: str = ON_DEMAND, zone: str = "") -> list[InstanceType]:
    """Of the assorted types, for amd64 and linux."""
    wanted = {CAPACITY: kind, ARCH: "amd64", SYSTEM: "linux", **({ZONE: zone} if zone else {})}
    found = [
        each
        for each in assorted_types()
        if all(each.offerings[0].labels[key] == value for key, value in wanted.items())
    ]
    return sorted(found, key=lambda each: each.offerings[0].price)


def least(kind: str = ON_DEMAND, zone: str = "") -> InstanceType:
    return by_price(kind, zone)[0]


def most(kind: str = ON_DEMAND, zone: str = "") -> InstanceType:
    return by_price(kind, zone)[-1]


def stand(
    world: World,
    kind: InstanceType,
    *pods: Object,
    owner: str = "default",
    room: Mapping[str, str] = ROOM,
    conditions: Iterable[str] = ("Consolidatable",),
    initialized: bool = True,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    drifted: str = "",
    **spec: Any,
) -> str:
    """A node with these pods; `drifted` is since when. Its name."""
    name = f"n{next(_numbers):04}"
    has = {**kind.offerings[0].labels, POOL: owner, HOST: name, **(labels or {})}
    true = [*(["Initialized"] if initialized else []), *conditions]
    said = [{"type": each, "status": "True", "lastTransitionTime": LONG_AGO} for each in true]
    if drifted:
        said.append({"type": "Drifted", "status": "True", "lastTransitionTime": drifted})
    metadata: Object = {
        "name": name,
        "labels": has,
        "annotations": dict(annotations or {}),
        "creationTimestamp": LONG_AGO,
    }
    resources = {"capacity": dict(room), "allocatable": dict(room)}
    provider = f"simulator://{name}"
    world.nodes[name] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            **metadata,
            "uid": f"uid-node-{name}",
            "labels": {**has, **({"karpenter.sh/initialized": "true"} if initialized else {})},
        },
        "spec": {"providerID": provider, "taints": []},
        "status": {**resources, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    world.claims[name] = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {**metadata, "uid": f"uid-{name}"},
        "spec": {"nodeClassRef": world.pools[0]["spec"]["template"]["spec"]["nodeClassRef"], **spec},
        "status": {"providerID": provider, "nodeName": name, **resources, "conditions": said},
    }
    for each in pods:
        world.bind(each, name)
    return name


def see(
    world: World, *pending: Object, pdbs: Iterable[Object] = (), nominated: Iterable[str] = (), now: float = NOW
) -> DisruptionSnapshot:
    chosen = set(nominated)
    nodes = tuple(
        StateNode(world.nodes[name], claim, tuple(world.pods_on(name)), nominated=name in chosen)
        for name, claim in world.claims.items()
    )
    return DisruptionSnapshot(world.ask(pending), nodes, tuple(pdbs), now)


def decided(
    world: World, *pending: Object, spot_to_spot: bool = False, planner: str = "karpenter", **more: Any
) -> DisruptionDecision:
    return decide(
        see(world, *pending, **more), DisruptionSettings(planner=planner, spot_to_spot_consolidation=spot_to_spot)
    )


def going(command: Command | None) -> list[str]:
    return sorted(each.name for each in command.candidates) if command is not None else []


def told(decision: DisruptionDecision) -> str:
    return "\n".join(note.message for note in decision.notes)


def carry_out(world: World, command: Command) -> None:
    """The nodes are gone, what was bought is there, and the pods are where the plan has them."""
    moved = [each for candidate in command.candidates for each in candidate.pods]
    for candidate in command.candidates:
        del world.nodes[candidate.name], world.claims[candidate.name]
    world.remove(*moved)
    for new in command.replacements:
        world.launch(new)
    for each, _, name in command.results.nominations:
        world.bind(each, name)


def pdb(labels: Mapping[str, str], allowed: int, namespace: str = "default", **spec: Any) -> Object:
    return {
        "metadata": {"name": "pdb", "namespace": namespace},
        "spec": {"selector": {"matchLabels": dict(labels)}, **spec},
        "status": {"disruptionsAllowed": allowed},
    }
