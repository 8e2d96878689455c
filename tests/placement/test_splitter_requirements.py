"""The requirements of the first Deployment splitter, one by one, and invariants that hold whatever clusters do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.client.rest import GroupVersionResource
from shoal.fit.room import NO_DEMAND
from shoal.kinds.workload import workloadcluster
from shoal.objects.errors import NotFound
from shoal.placement.cluster_info import NO_SHARE, ClusterInfo, CurrentShare
from shoal.placement.decide import decide_placement
from shoal.placement.policy import PlacementPolicy
from shoal.placement.rollout import move_budget
from tests.placement.hub import CLUSTERS, Hub
from tests.placement.test_placements import MAPS, placed, says

Object = dict[str, Any]
SETS, DAEMONS = GroupVersionResource("apps", "v1", "statefulsets"), GroupVersionResource("apps", "v1", "daemonsets")
SECRETS = GroupVersionResource("", "v1", "secrets")
TEMPLATE = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "db:1"}]}}


@pytest.fixture
async def fleet(hub: Hub) -> Hub:
    await hub.learn()
    await hub.cluster("east")
    await hub.cluster("west")
    return hub


async def where(hub: Hub, kind: GroupVersionResource) -> set[str]:
    found, _ = await hub.client.list_all(kind, "default", labels=workloadcluster.CLUSTER_LABEL)
    return {workloadcluster.assigned_cluster(one) for one in found}


async def are_in(hub: Hub, kind: GroupVersionResource, *clusters: str) -> None:
    async def look() -> bool:
        return await where(hub, kind) == set(clusters)

    await hub.eventually(look)


@pytest.mark.anyio
async def test_wish_1_a_cluster_that_is_not_ready_gets_nothing(fleet: Hub) -> None:
    await fleet.cluster("dark", ready="False")
    await fleet.deploy()
    await fleet.becomes(east=5, west=5)
    await fleet.ready("dark", "True")
    await fleet.becomes(dark=3, east=4, west=3)


@pytest.mark.anyio
async def test_wish_2_hints_of_the_user_such_as_affinity_and_anti_affinity(fleet: Hub) -> None:
    await fleet.cluster("north")
    for name, labels in {"east": {"tier": "gold"}, "north": {"tier": "gold", "draining": "true"}}.items():
        await fleet.client.merge_patch(CLUSTERS, name, {"metadata": {"labels": labels}})
    gold, draining = {"matchLabels": {"tier": "gold"}}, {"matchLabels": {"draining": "true"}}
    await placed(fleet, clusters={"affinity": gold, "antiAffinity": draining})
    await fleet.deploy()
    await fleet.becomes(east=10)
    await fleet.client.merge_patch(CLUSTERS, "north", {"metadata": {"labels": {"draining": None}}})
    await fleet.becomes(east=5, north=5)


@pytest.mark.anyio
async def test_wish_3_what_depends_on_each_other_is_in_the_same_cluster(fleet: Hub) -> None:
    """Here by one Placement; what a workload names goes with it by itself (docs/sync.md)."""
    await placed(fleet, selects=[{"kind": "Deployment"}, {"kind": "ConfigMap"}], clusters={"maxClusters": 1})
    await fleet.client.create(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}}, "default")
    await fleet.deploy()
    await fleet.becomes(east=10)
    await are_in(fleet, MAPS, "east")
    await fleet.client.delete(CLUSTERS, "east")
    await fleet.becomes(west=10)
    await are_in(fleet, MAPS, "west")


@pytest.mark.anyio
async def test_wish_4_new_clusters_are_used_and_what_is_placed_is_balanced_again(fleet: Hub) -> None:
    await fleet.deploy(replicas=12)
    await fleet.becomes(east=6, west=6)
    for name in ("east", "west"):
        await fleet.run(f"web--{name}")
    await fleet.says("NewReplicaSetAvailable")
    await fleet.cluster("north")
    await fleet.becomes(east=6, north=3, west=6)  # three more than desired, until they are available
    await fleet.run("web--north")
    await fleet.becomes(east=4, north=4, west=5)
    await fleet.run("web--north")
    await fleet.becomes(east=4, north=4, west=4)


@pytest.mark.anyio
async def test_wish_5_what_ceases_to_be_ready_is_left_after_the_grace_and_used_again(fleet: Hub) -> None:
    await fleet.deploy()
    await fleet.becomes(east=5, west=5)
    await fleet.ready("west", "False")
    fleet.world.clock.step(299)
    await fleet.becomes(east=5, west=5)
    fleet.world.clock.step(2)
    await fleet.becomes(east=10, west=0)
    await fleet.ready("west", "True")
    fleet.world.clock.step(61)
    await fleet.becomes(east=5, west=5)


@pytest.mark.anyio
async def test_wish_6_kinds_of_every_sort(fleet: Hub) -> None:
    await fleet.learn("StatefulSet")
    await fleet.learn("DaemonSet")
    kinds = ("StatefulSet", "DaemonSet", "ConfigMap", "Secret")
    await placed(fleet, selects=[{"kind": kind} for kind in kinds])
    spec: Object = {"selector": {"matchLabels": {"app": "db"}}, "template": TEMPLATE}
    made: dict[GroupVersionResource, Object] = {
        SETS: {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {**spec, "replicas": 4, "serviceName": "db"}},
        DAEMONS: {"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": spec},
        MAPS: {"apiVersion": "v1", "kind": "ConfigMap"},
        SECRETS: {"apiVersion": "v1", "kind": "Secret"},
    }
    for kind, body in made.items():
        await _create(fleet, kind, body)
        await are_in(fleet, kind, "east", "west")
    west = await fleet.client.get(SETS, "db--west", "default")
    assert (west["spec"]["replicas"], west["spec"]["ordinals"]) == (2, {"start": 2})
    await placed(fleet, "namespaces", [{"kind": "Namespace"}])
    assert await says(fleet, "namespaces", "Valid", "KindNotPlaced") == (
        "Namespace cannot be placed: it configures the hub itself."
    )


async def _create(hub: Hub, kind: GroupVersionResource, body: Object) -> None:
    async def try_() -> bool:
        try:
            await hub.client.create(kind, {**body, "metadata": {"name": "db"}}, "default")
        except NotFound:
            return False
        return True

    await hub.eventually(try_)


@pytest.mark.anyio
async def test_labels_decide_and_may_change_and_only_in_the_placements_namespace(fleet: Hub) -> None:
    gold = {"kind": "Deployment", "labelSelector": {"matchLabels": {"tier": "gold"}}}
    await placed(fleet, selects=[gold], clusters={"names": ["west"]})
    await fleet.client.create(
        GroupVersionResource("", "v1", "namespaces", namespaced=False), {"metadata": {"name": "other"}}
    )
    rule = {"apiVersion": "placement.shoal.dev/v1alpha1", "kind": "Placement", "metadata": {"name": "theirs"}}
    spec = {"selects": [{"kind": "Deployment"}], "priority": 100, "clusters": {"names": ["nowhere"]}}
    await fleet.client.create(
        GroupVersionResource("placement.shoal.dev", "v1alpha1", "placements"), {**rule, "spec": spec}, "other"
    )
    await fleet.deploy()
    await fleet.becomes(east=5, west=5)
    await fleet.patch("web", {"metadata": {"labels": {"tier": "gold"}}})
    await fleet.becomes(west=10)
    await fleet.patch("web", {"metadata": {"labels": {"tier": "iron"}}})
    await fleet.becomes(east=5, west=5)


@pytest.mark.anyio
async def test_a_root_of_a_leafs_name_keeps_it(fleet: Hub) -> None:
    """`web--east` is a root; `web` goes without the cluster whose leaf would be called so."""
    await fleet.deploy("web--east", 2)
    await fleet.deploy("web", 4)

    async def look() -> bool:
        return await fleet.sizes() == {"web--east--east": 1, "web--east--west": 1, "web--west": 4}

    await fleet.eventually(look)
    await fleet.says("LeafNameTaken")
    assert (await fleet.get("web--east"))["spec"]["replicas"] == 2


# --- whatever clusters do ---

POLICY = PlacementPolicy(grace_seconds=300.0, fail_back_seconds=60.0)
NAMES = "abcd"


@dataclass
class Fleet:
    """What is placed becomes available one look later, where the cluster is ready."""

    total: int
    policy: PlacementPolicy
    sites: dict[str, ClusterInfo] = field(default_factory=lambda: {"a": ClusterInfo("a"), "b": ClusterInfo("b")})
    parts: dict[str, CurrentShare] = field(default_factory=dict)
    now: float = 10_000.0

    def available(self) -> int:
        return sum(part.available for name, part in self.parts.items() if self.sites[name].ready)

    def turn(self, name: str) -> None:
        """It joins, or is not ready any more, or is again."""
        before = self.sites.get(name)
        ready = before is None or not before.ready
        self.sites[name] = replace(before or ClusterInfo(name), ready=ready, since=self.now)

    def look(self) -> None:
        before = self.available()
        found = decide_placement(self.total, list(self.sites.values()), self.policy, self.parts, NO_DEMAND, self.now)
        after = {name: self._after(name, share, found.evicted) for name, share in found.shares.items()}
        self.parts = after
        budget = move_budget(self.total, self.policy)
        floor = min(budget.min_available, self.total - found.unassigned)
        assert self.available() >= min(floor, before), "placement itself took it below the floor"
        placed = sum(found.shares.values())
        assert placed <= self.total + budget.max_surge
        if any(site.ready for site in self.sites.values()) and before >= self.total:
            assert placed >= self.total
        self.now += 30

    def _after(self, name: str, share: int, away: frozenset[str]) -> CurrentShare:
        part = self.parts.get(name, NO_SHARE)
        return CurrentShare(share, min(part.available, share), was_evicted=name in away)

    def run(self) -> None:
        for name, part in self.parts.items():
            if self.sites[name].ready:
                self.parts[name] = replace(part, available=part.replicas)


@given(
    st.integers(1, 12),
    st.sampled_from(["25%", 1, 0, "100%"]),
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 15))),
)
def test_the_floor_stands_while_clusters_fail_return_and_join(
    total: int, most: int | str, turns: list[tuple[str, int]]
) -> None:
    fleet = Fleet(total, replace(POLICY, max_unavailable=most))
    for name, looks in [*turns, ("", 30)]:
        if name:
            fleet.turn(name)
        for _ in range(looks):
            fleet.look()
            fleet.run()
    if any(site.ready for site in fleet.sites.values()):
        assert fleet.available() == total, "where there is a cluster, all of them run in the end"
