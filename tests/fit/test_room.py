"""Room for pods by groups of nodes, and by what pools can buy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fit.requirements import from_expressions
from shoal.fit.room import UNLIMITED, ClusterRoom, NodeGroup, PodDemand, PoolRoom, RoomEstimate

Object = dict[str, Any]
GPU: Object = {"key": "gpu", "effect": "NoSchedule"}
TOLERATION: Object = {"key": "gpu", "operator": "Exists"}


def group(cpu: int, largest: int, *taints: Object, **labels: str) -> NodeGroup:
    return NodeGroup(labels, taints, {"cpu": cpu, "pods": 100}, {"cpu": largest, "pods": 100})


def pool(*taints: Object, remaining: dict[str, int] | None = None, **labels: str) -> PoolRoom:
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    return PoolRoom(from_expressions(expressions), taints, remaining)


def demand(cpu: int = 1000, **spec: Any) -> PodDemand:
    return PodDemand({"cpu": cpu, "pods": 1}, spec)


def affinity(key: str, *values: str, field: str = "matchExpressions") -> Object:
    term = {field: [{"key": key, "operator": "In", "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


ROOM = ClusterRoom(
    (group(4000, 2000, disk="ssd"), group(8000, 8000, GPU, disk="hdd")), (), frozenset({"kubernetes.io/hostname"})
)
NOTHING, UNKNOWN = RoomEstimate(False, 0), RoomEstimate(True, None)


@pytest.mark.parametrize(
    ("room", "demanded", "found"),
    [
        (ClusterRoom(), demand(), NOTHING),
        (ClusterRoom(), PodDemand(), RoomEstimate(True, UNLIMITED)),  # no pods
        (ROOM, demand(), RoomEstimate(True, 4)),
        (ROOM, demand(3000), RoomEstimate(True, 0)),  # on no single node
        (ROOM, demand(3000, tolerations=[TOLERATION]), RoomEstimate(True, 2)),
        (ROOM, demand(tolerations=[TOLERATION]), RoomEstimate(True, 12)),
        (ROOM, demand(nodeSelector={"disk": "ssd"}), RoomEstimate(True, 4)),
        (ROOM, demand(nodeSelector={"disk": "hdd"}), NOTHING),
        (ROOM, demand(nodeSelector={"disk": "hdd"}, tolerations=[TOLERATION]), RoomEstimate(True, 8)),
        (ROOM, demand(affinity=affinity("disk", "ssd", "tape")), RoomEstimate(True, 4)),
        (ROOM, demand(affinity=affinity("disk", "tape")), NOTHING),
        (ROOM, demand(nodeSelector={"kubernetes.io/hostname": "n1"}), UNKNOWN),
        (ROOM, demand(affinity=affinity("metadata.name", "n1", field="matchFields")), UNKNOWN),
        (ClusterRoom((), (), frozenset({"zone"})), demand(nodeSelector={"zone": "a"}), NOTHING),
        (ClusterRoom((), (pool(),)), demand(), RoomEstimate(True, UNLIMITED)),
        (ClusterRoom((), (pool(remaining={"cpu": 2500}),)), demand(), RoomEstimate(True, 2)),
        (ClusterRoom((), (pool(GPU),)), demand(), NOTHING),
        (ClusterRoom((), (pool(arch="arm"),)), demand(nodeSelector={"arch": "amd"}), NOTHING),
        (ClusterRoom((), (pool(),)), demand(nodeSelector={"zone": "a"}), NOTHING),
        (
            ClusterRoom((), (pool(),), well_known_labels=frozenset({"zone"})),
            demand(nodeSelector={"zone": "a"}),
            RoomEstimate(True, UNLIMITED),
        ),
    ],
)
def test_room(room: ClusterRoom, demanded: PodDemand, found: RoomEstimate) -> None:
    assert room.estimate(demanded) == found
    assert room.estimate(demanded) == found, "and again"


@given(st.lists(st.integers(0, 10), min_size=1, max_size=6), st.integers(1, 10))
def test_the_estimate_is_never_too_low(free: list[int], cpu: int) -> None:
    """It may be too high where free amounts are scattered; a cluster that is full all the same is found out later."""
    whole = ClusterRoom((NodeGroup({}, (), {"cpu": sum(free)}, {"cpu": max(free)}),))
    estimated = whole.estimate(PodDemand({"cpu": cpu}, {})).replicas
    fitting = sum(amount // cpu for amount in free)
    assert estimated is not None
    assert estimated >= fitting
    assert (estimated > 0) == (fitting > 0)
