"""Affinity to other placed objects: which clusters it leaves, and a hub on which one workload follows another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.commands.plan import explain_object, plan_objects
from shoal.client.rest import GroupVersionResource
from shoal.fit.room import NO_DEMAND
from shoal.objects.errors import BadRequest, Invalid
from shoal.placement.cluster_info import ClusterInfo, CurrentShare
from shoal.placement.decide import decide_placement
from shoal.placement.policy import PlacementPolicy, parse_policy
from shoal.placement.resource_selector import ResourceSelector
from shoal.placement.splitter.controller import new_splitter_controllers
from shoal.placement.splitter.events import PLACEMENTS
from shoal.placement.splitter.followers import LeaderKey, Leaders, leader_of
from shoal.placement.workload_affinity import WorkloadTerm
from tests.controlplane.world import world
from tests.placement.hub import DEPLOYMENTS, Hub
from tests.placement.test_placements import placed, says

Object = dict[str, Any]
EVENTS = GroupVersionResource("", "v1", "events")
DB = (ResourceSelector("Deployment", "apps", "db"),)
CLUSTERS = [ClusterInfo(name) for name in ("east", "north", "west")]
DEPLOYED = {"kind": "Deployment"}


def term(clusters: str | None, weight: int = 0, *, is_anti: bool = False) -> WorkloadTerm:
    return WorkloadTerm(DB, is_anti, weight, None if clusters is None else frozenset(clusters.split()))


@pytest.mark.parametrize(
    ("terms", "running", "shares", "messages"),
    [
        ([term(None)], {}, {"east": 2, "north": 2, "west": 2}, {}),
        ([term("")], {}, {}, dict.fromkeys(("east", "north", "west"), "has no {}, which is placed nowhere")),
        ([term("west")], {}, {"west": 6}, dict.fromkeys(("east", "north"), "has no {}")),
        (
            [term("west")],
            {"east": 4},
            {"east": 4, "west": 2},
            {"east": "has no {}; its replicas stay", "north": "has no {}"},
        ),
        ([term("east", is_anti=True)], {}, {"north": 3, "west": 3}, {"east": "has {}"}),
        ([term("", is_anti=True)], {}, {"east": 2, "north": 2, "west": 2}, {}),
        ([term("east", is_anti=True)], {"east": 6}, {"east": 6}, {"east": "has {}; its replicas stay"}),
        ([term("west north"), term("west", is_anti=True)], {}, {"north": 6}, {"east": "has no {}", "west": "has {}"}),
        ([term("west", 5)], {}, {"east": 2, "north": 2, "west": 2}, {}),
    ],
)
def test_required_terms_filter(
    terms: list[WorkloadTerm], running: dict[str, int], shares: dict[str, int], messages: dict[str, str]
) -> None:
    policy = PlacementPolicy(workload_terms=tuple(terms))
    current = {name: CurrentShare(count, count) for name, count in running.items()}
    decision = decide_placement(6, CLUSTERS, policy, current, NO_DEMAND, 0.0)
    assert dict(decision.shares) == shares
    said = {name: failure.message for name, failure in decision.filter_failures.items()}
    assert said == {name: message.format("Deployment db") for name, message in messages.items()}


@pytest.mark.parametrize(
    ("terms", "running", "cluster"),
    [
        ([], "", "east"),
        ([term("west", 1)], "", "west"),
        ([term("east north", 1, is_anti=True)], "", "west"),
        ([term("west", 1), term("north", 2)], "", "north"),
        ([term("west", 9)], "north", "north"),
    ],
)
def test_other_terms_are_preferences(terms: list[WorkloadTerm], running: str, cluster: str) -> None:
    policy = PlacementPolicy(workload_terms=tuple(terms), max_clusters=1)
    current = {running: CurrentShare(6, 6)} if running else {}
    assert dict(decide_placement(6, CLUSTERS, policy, current, NO_DEMAND, 0.0).shares) == {cluster: 6}


def test_what_runs_leaves_a_cluster_that_is_lost_whatever_its_affinity() -> None:
    policy = PlacementPolicy(workload_terms=(term("north"),))
    lost = [ClusterInfo("east", ready=False), *CLUSTERS[1:]]
    found = decide_placement(6, lost, policy, {"east": CurrentShare(6)}, NO_DEMAND, policy.grace_seconds)
    assert found.target_shares == {"north": 6}


def deployment(name: str, api_version: str = "apps/v1", **labels: str) -> Object:
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": api_version, "kind": "Deployment", "metadata": metadata}


def key_of(obj: Object) -> LeaderKey:
    group = obj["apiVersion"].rpartition("/")[0]
    return f"{obj['kind']}.{group}", ("root", obj["metadata"]["namespace"], obj["metadata"]["name"])


@pytest.mark.parametrize(
    ("selects", "field", "wanted"),
    [
        ({"name": "db"}, "workloadAffinity", {"east"}),
        ({"name": "db", "apiVersion": "apps/v1beta1"}, "workloadAffinity", {"east"}),
        ({"name": "db", "apiVersion": "example.com/v1"}, "workloadAffinity", set()),
        ({"labelSelector": {"matchLabels": {"tier": "data"}}}, "workloadAffinity", {"east", "west"}),
        ({"labelSelector": {"matchExpressions": [{"key": "no", "operator": "Exists"}]}}, "workloadAffinity", set()),
        ({}, "workloadAffinity", {"east", "west"}),
        ({"name": "api"}, "workloadAffinity", None),  # it is the first that matches
        ({"name": "api"}, "workloadAntiAffinity", set()),
        ({"name": "stopped"}, "workloadAffinity", set()),
    ],
)
def test_the_clusters_of_a_term(selects: Object, field: str, wanted: set[str] | None) -> None:
    leaders, api = Leaders(), deployment("api")
    for obj, shares in (
        (deployment("db", tier="data"), {"east": 2, "north": 0}),
        (deployment("cache", tier="data"), {"west": 1}),
        (deployment("stopped"), {"north": 0}),
        (api, {"north": 3}),
        ({**deployment("db"), "kind": "StatefulSet"}, {"north": 1}),
    ):
        leaders.update(key_of(obj), leader_of(obj, (), shares, "", is_followed=False))
    elsewhere = deployment("db")
    elsewhere["metadata"]["namespace"] = "other"
    leaders.update(key_of(elsewhere), leader_of(elsewhere, (), {"north": 1}, "", is_followed=False))
    policy = parse_policy(rule("p", "api", {field: [{"selects": [{**DEPLOYED, **selects}]}]}))
    (located,) = leaders.locate(policy, key_of(api), api).workload_terms
    assert located.clusters == wanted


def test_an_invalid_selector_is_named() -> None:
    expression = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    wrong = {"workloadAntiAffinity": [{"selects": [DEPLOYED, {**DEPLOYED, "labelSelector": expression}]}]}
    with pytest.raises(BadRequest, match=r"spec\.clusters\.workloadAntiAffinity\[0\]\.selects\[1\]\.labelSelector"):
        parse_policy(rule("p", "api", wrong))


def rule(name: str, selected: str, clusters: Object) -> Object:
    spec = {"selects": [{**DEPLOYED, "name": selected}], "clusters": clusters}
    return {
        "apiVersion": "placement.shoal.dev/v1alpha1",
        "kind": "Placement",
        "metadata": {"name": name},
        "spec": spec,
    }


NEAR_DB = {"workloadAffinity": [{"selects": [{**DEPLOYED, "name": "db"}]}]}
APART = {"workloadAntiAffinity": [{"selects": [{**DEPLOYED, "labelSelector": {"matchLabels": {"apart": "yes"}}}]}]}


async def become(hub: Hub, **wanted: int) -> None:
    leaves = {name.replace("_", "--"): replicas for name, replicas in wanted.items()}

    async def look() -> bool:
        return await hub.sizes() == leaves

    await hub.eventually(look)


@pytest.mark.anyio
async def test_only_a_preference_has_a_weight(hub: Hub) -> None:
    term = {"selects": [DEPLOYED], "weight": 5}
    with pytest.raises(Invalid, match="only a term with required false has a weight"):
        await hub.client.create(PLACEMENTS, rule("p", "api", {"workloadAffinity": [term]}), "default")
    preferred = {"workloadAffinity": [{**term, "required": False}]}
    created = await hub.client.create(PLACEMENTS, rule("p", "api", preferred), "default")
    assert parse_policy(created).workload_terms[0].weight == 5


@pytest.mark.anyio
async def test_one_workload_follows_another(hub: Hub) -> None:
    await hub.learn()
    for name in ("east", "west"):
        await hub.cluster(name)
    await placed(hub, "api", [{**DEPLOYED, "name": "api"}], clusters=NEAR_DB)
    await hub.deploy("api", 4)
    unplaced = "has no Deployment db, which is placed nowhere"
    message = f"Deployment api: east {unplaced}; Deployment api: west {unplaced}"
    assert await says(hub, "api", "AffinityMet", "AffinityNotMet") == message
    assert await hub.sizes() == {}

    async def told() -> bool:
        events, _ = await hub.client.list_all(EVENTS, "default")
        found = {(one["involvedObject"]["name"], one["reason"], one["message"]) for one in events}
        return ("api", "AffinityNotMet", f"east {unplaced}; west {unplaced}") in found

    await hub.eventually(told)
    explained = await explain_object(hub.client, "Deployment", "default", "api")
    assert {(one.why, one.change) for one in explained.verdicts} == {(unplaced, "place Deployment db there")}

    in_west = rule("db", "db", {"names": ["west"]})
    db = {**await hub.get("api"), "metadata": {"name": "db"}}
    changes = await plan_objects(hub.client, [in_west, db])
    assert [(one.name, dict(one.after)) for one in changes] == [("api", {"west": 4}), ("db", {"west": 4})]

    await hub.client.create(PLACEMENTS, in_west, "default")
    await hub.deploy("db", 1)
    await become(hub, db_west=1, api_west=4)
    assert await says(hub, "api", "AffinityMet", "AffinityMet")

    # What runs stays; what is added follows.
    await hub.client.merge_patch(PLACEMENTS, "db", {"spec": {"clusters": {"names": ["east"]}}}, "default")
    for name in ("api--west", "db--west"):
        await hub.run(name)

    async def succeed() -> bool:
        if "db--east" in await hub.sizes():
            await hub.run("db--east")
        return "db--west" not in await hub.sizes()

    await hub.eventually(succeed)
    assert await says(hub, "api", "AffinityMet", "AffinityNotMet") == (
        "Deployment api: west has no Deployment db; its replicas stay"
    )
    explained = await explain_object(hub.client, "Deployment", "default", "api")
    assert [(one.cluster, one.then, one.why) for one in explained.verdicts] == [
        ("east", 0, "gets no replicas: there are fewer replicas than clusters"),
        ("west", 4, "has no Deployment db; its replicas stay"),
    ]
    await hub.patch("api", {"spec": {"replicas": 6}})
    await become(hub, db_east=1, api_west=4, api_east=2)


@pytest.mark.anyio
async def test_workloads_that_repel_each_other_separate_also_after_a_restart(
    tmp_path: Path, anyio_backend: str
) -> None:
    async with world(tmp_path, loops=False) as given:
        hub = Hub(given)

        def start() -> asyncio.Task[None]:
            [splitter] = new_splitter_controllers(given.client, given.clock)
            return asyncio.create_task(splitter.run())

        async def stop(task: asyncio.Task[None]) -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        await hub.learn()
        for name in ("east", "west"):
            await hub.cluster(name)
        selects = APART["workloadAntiAffinity"][0]["selects"]
        await placed(hub, "apart", selects, clusters={**APART, "maxClusters": 1})
        await hub.deploy("middle", 2, labels={"apart": "yes"})
        task = start()
        await become(hub, middle_east=2)
        await stop(task)
        for name in ("first", "last"):
            await hub.deploy(name, 2, labels={"apart": "yes"})
        task = start()
        message = await says(hub, "apart", "AffinityMet", "AffinityNotMet")
        found = await hub.sizes()
        assert found.pop("middle--east") == 2
        assert list(found.values()) == [2], "there is a cluster for one of them only"
        (leaf,) = found
        assert leaf in ("first--west", "last--west")
        assert message.count("has Deployment apart=yes") == 2
        await hub.client.delete(DEPLOYMENTS, "middle", "default")
        await hub.client.delete(DEPLOYMENTS, "middle--east", "default")
        await become(hub, **{leaf.replace("--", "_"): 2, f"{'last' if 'first' in leaf else 'first'}_east": 2})
        await stop(task)
