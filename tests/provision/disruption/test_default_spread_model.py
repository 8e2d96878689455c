"""The model of the scheduler keeps pods of a controller apart as the scheduler does."""

from __future__ import annotations

import random
from typing import Any

import pytest

from shoal.controlplane.scheduler.cluster_scheduler import ClusterScheduler
from shoal.controlplane.scheduler.equivalence import EquivalenceClasses
from shoal.fit.resources import parse_amounts, pod_requests, subtract, total
from shoal.provision.disruption.kube_scheduler_model import place_pods, room_of_node
from shoal.provision.pods import largest_first
from shoal.provision.simulation.model import ExistingNode

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NAMES = [f"n{index}" for index in range(8)]
SIZES = {"web": ("500m", "512Mi"), "db": ("250m", "1Gi"), "alone": ("100m", "128Mi")}
Object = dict[str, Any]


def owned(name: str, app: str) -> Object:
    owner: Object = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"uid-{app}"}
    owner["controller"] = True
    metadata: Object = {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}}
    if app != "alone":
        metadata["ownerReferences"] = [owner]
    cpu, memory = SIZES[app]
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]},
    }


@pytest.mark.parametrize("seed", range(20))
def test_pods_are_placed_where_the_scheduler_binds_them(seed: int) -> None:
    dice = random.Random(seed)
    there = ClusterScheduler(EquivalenceClasses(), NAMES.index)
    for app in ("web", "db"):
        selector = {"spec": {"selector": {"matchLabels": {"app": app}}}}
        there.on_owner("replicasets", ("default", app), selector)
    rooms = []
    for name in NAMES[: dice.randint(2, 8)]:
        labels = {HOST: name, ZONE: dice.choice("xyz")}
        cpu = dice.choice([2, 4, 16])
        size = {"cpu": str(cpu), "memory": f"{dice.choice([2, 4]) * cpu}Gi", "pods": "110"}
        there.on_node(name, {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": size}})
        running = [owned(f"{name}-{index}", dice.choice(["web", "db"])) for index in range(dice.randint(0, 3))]
        for each in running:
            bound = {**each, "spec": {**each["spec"], "nodeName": name}}
            there.on_pod(("default", each["metadata"]["name"]), bound)
        free = subtract(parse_amounts(size), total(map(pod_requests, running)))
        rooms.append(room_of_node(ExistingNode(name, "Node", labels, (), free, pods=running)))
    pods = [owned(f"p{index:02}", dice.choice([*SIZES])) for index in range(20)]
    placements, unplaced = place_pods(pods, rooms)
    bound_nodes: dict[str, str] = {}
    for each in largest_first(pods):
        there.on_pod(("default", each["metadata"]["name"]), each)
        bound_nodes |= {binding.pod.key[1]: binding.node for binding in there.schedule_pending(1)}
    assert placements == bound_nodes
    assert len(unplaced) == len(pods) - len(bound_nodes)
