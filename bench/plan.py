"""Which loads there are, how large they are, and what they are measured against."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class BenchSizes:
    rounds: int = 3
    seconds: float = 5.0
    warm: float = 1.0
    created: int = 10_000
    updated: int = 512
    """Objects that updates take in turn."""
    listed: int = 10_000
    watchers: int = 1_000
    rate: int = 20
    updates: int = 200
    starts: int = 5
    clusters: int = 10_000
    """Hosted ones."""
    capi_clusters: int = 500
    """Of Cluster API, with five machines each."""
    nodes: int = 1_000
    pods: int = 20_000
    """Of one hosted cluster, for the scheduler."""
    replicas: int = 5_000
    """Of one Deployment."""
    replica_nodes: int = 100
    fleet_workers: int = 1_000
    fleet_clusters: int = 100_000
    fleet_applies: int = 10_000
    """ManagedClusters on one hub, all at once and then at a steady rate."""
    sync_clusters: int = 100
    sync_objects: int = 100
    sync_changes: int = 10_000
    """Of objects on a hub that syncs so many clusters."""
    sync_pulled: int = 10_000
    """Objects of one pull syncer."""
    placed: int = 1_000
    """Deployments of a hub with so many workload Clusters."""
    placed_clusters: int = 100
    divided: int = 10_000
    """Replicas of one object."""
    planned: int = 10_000
    """Objects of a fleet, roots and leaves."""
    provisioned: tuple[int, ...] = (100, 1_000)
    """Pods that are planned for, for the cost."""
    catalogues: tuple[str, ...] = ("kwok36", "kwok<32", "cloud")
    bound_seconds: float = 60.0
    mip_seconds: float = 10.0
    """At most, for each: until the bound is known, and for the search of the best packing."""
    scheduled: tuple[int, ...] = (1_000, 5_000, 20_000)
    """Pods with all kinds of constraints, for the speed."""
    scheduled_types: int = 400
    bought: int = 500
    """Pods that come to a cluster without nodes; a tenth of them stays."""
    trickled: tuple[int, ...] = (16, 200)
    """Pods that come one by one."""
    settle: float = 5.0
    """Seconds of rest before memory is read, and before the first load."""


FULL = BenchSizes()
QUICK = BenchSizes(
    rounds=1,
    seconds=1,
    warm=0.3,
    created=500,
    updated=64,
    listed=1000,
    watchers=100,
    updates=20,
    starts=1,
    settle=1,
    clusters=200,
    capi_clusters=20,
    nodes=50,
    pods=1000,
    replicas=200,
    replica_nodes=4,
    fleet_workers=50,
    fleet_clusters=5_000,
    fleet_applies=2_000,
    sync_clusters=10,
    sync_objects=20,
    sync_changes=500,
    sync_pulled=500,
    placed=100,
    placed_clusters=20,
    planned=1_000,
    provisioned=(100,),
    bound_seconds=10,
    mip_seconds=5,
    scheduled=(1_000,),
    bought=50,
    trickled=(16,),
)


@dataclass(frozen=True, slots=True)
class BenchLoad:
    """One line of the table; `goal` is the ratio per CPU-second that Shoal is built for, 0 is none."""

    key: str
    title: str
    goal: float
    job: dict[str, Any]
    prepare: int = 0
    """Objects its namespace holds before the first round."""
    tidy: dict[str, Any] = field(default_factory=dict)
    """A job after every round, not measured."""

    @property
    def namespace(self) -> str:
        return f"bench-{self.key}"


def loads(sizes: BenchSizes) -> list[BenchLoad]:
    repeat = {"seconds": sizes.seconds, "warm": sizes.warm}
    listing = {"verb": "list", "connections": 1, **repeat}
    fan = {"verb": "watch", "watchers": sizes.watchers, "count": 64, "updates": sizes.updates}
    every = f"{sizes.watchers:,} watchers"
    return [
        BenchLoad("get", "get, 32 connections", 20, {"verb": "get", "connections": 32, **repeat}, prepare=1),
        BenchLoad("get", "get, 64 connections", 20, {"verb": "get", "connections": 64, **repeat}, prepare=1),
        BenchLoad(
            "create",
            "create, 32 connections",
            8,
            {"verb": "create", "connections": 32, "count": sizes.created},
            tidy={"verb": "delete", "connections": 32, "count": sizes.created},
        ),
        BenchLoad(
            "update",
            "update, 32 connections",
            0,
            {"verb": "update", "connections": 32, "count": sizes.updated, **repeat},
            prepare=sizes.updated,
        ),
        BenchLoad("watch", f"events, {every}, {sizes.rate} updates/s", 3, {**fan, "rate": sizes.rate}, prepare=64),
        BenchLoad("watch", f"events, {every}, burst of updates", 3, {**fan, "connections": 8}, prepare=64),
        BenchLoad("list", f"list of {sizes.listed:,}", 50, listing, prepare=sizes.listed),
        BenchLoad("list", f"list of {sizes.listed:,}, gzip", 0, {**listing, "gzip": True}, prepare=sizes.listed),
    ]


def etcd_loads(sizes: BenchSizes) -> list[BenchLoad]:
    """What is measured with Shoal's objects in etcd as well; a create is etcd's work for the most part."""
    same = [load for load in loads(sizes) if load.key in ("get", "create", "list")]
    return [replace(load, goal=3) if load.key == "create" else load for load in same]


START_GOAL = 0.8
MEMORY_GOAL = 0.25
KEYS = (
    *("start", "memory"),
    *dict.fromkeys(load.key for load in loads(FULL)),
    *("etcd", "story", "clusters", "capi", "scheduler", "replicas", "fleet", "sync", "placement"),
    "provision",
    "trickle",
)
