"""Plan and explain: they use the placement code on a snapshot and change nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.commands.plan import explain_object, plan_objects
from shoal.cli.explain import placed_object_lines
from shoal.cli.options.hub import CommandError
from shoal.cli.plan import change_lines, read_manifest
from shoal.client.rest import GroupVersionResource
from shoal.client.restmapper import NoKindMatchError
from shoal.kinds.workload import placement, workloadcluster
from shoal.objects.errors import BadRequest, NotFound
from tests.placement.hub import Hub

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
EVENTS = GroupVersionResource("", "v1", "events")


@pytest.fixture
async def fleet(hub: Hub) -> Hub:
    await hub.learn()
    await hub.cluster("east")
    await hub.cluster("west")
    await hub.deploy()
    await hub.becomes(east=5, west=5)
    await hub.says("ReplicaSetUpdated")

    async def is_recorded() -> bool:
        events, _ = await hub.client.list_all(EVENTS, "default")
        return bool(events)

    await hub.eventually(is_recorded)  # The splitter has written everything.
    return hub


def rule(**spec: Any) -> Object:
    body = {"apiVersion": f"{placement.GROUP}/{placement.VERSION}", "kind": "Placement", "metadata": {"name": "rule"}}
    return {**body, "spec": {"selects": [{"kind": "Deployment"}], **spec}}


def deployment(replicas: int, name: str = "web") -> Object:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"replicas": replicas}}


def cluster(name: str, **spec: Any) -> Object:
    kind = {"apiVersion": f"{workloadcluster.GROUP}/{workloadcluster.VERSION}", "kind": "Cluster"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


async def test_a_plan_tells_what_would_move_and_changes_nothing(fleet: Hub) -> None:
    revision = fleet.world.server.core.cache.revision
    assert change_lines(await plan_objects(fleet.client, [deployment(10)])) == ["nothing would change"]
    weights = {"weights": [{"clusters": {"names": ["east"]}, "weight": 4}]}
    assert change_lines(await plan_objects(fleet.client, [rule(replicas=weights), deployment(3, "new")])) == [
        "Deployment default/new by Placement rule",
        "  CLUSTER  NOW  THEN",
        "  east     0    2",
        "  west     0    1",
        "Deployment default/web by Placement rule",
        "  CLUSTER  NOW  THEN",
        "  east     5    8",
        "  west     5    2",
        "",
        "3 added, 3 moved, 0 removed, 0 unplaced",
    ]
    (grown,) = await plan_objects(fleet.client, [cluster("north"), deployment(12)])
    assert (grown.before, grown.after) == ({"east": 5, "west": 5}, {"east": 4, "north": 4, "west": 4})
    (nowhere,) = await plan_objects(fleet.client, [rule(clusters={"names": ["moon"]})])
    assert (nowhere.after, nowhere.unplaced, nowhere.removed_count) == ({}, 10, 10)
    assert fleet.world.server.core.cache.revision == revision


async def test_manifests_may_be_lists(tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    several = {"apiVersion": "v1", "kind": "List", "items": [deployment(3, "a"), deployment(4, "b")]}
    file.write_text(json.dumps(several))
    assert [one["metadata"]["name"] for one in read_manifest(str(file))] == ["a", "b"]
    file.write_text(json.dumps({"apiVersion": "apps/v1", "kind": "DeploymentList", "items": [deployment(3, "c")]}))
    assert [one["metadata"]["name"] for one in read_manifest(str(file))] == ["c"]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [{"kind": "Deployment"}]}))
    with pytest.raises(CommandError, match="not a named object"):
        read_manifest(str(file))


async def test_a_plan_that_cannot_be_made_says_why(fleet: Hub) -> None:
    with pytest.raises(BadRequest, match="maxClusters: 1 is less than minClusters, 2"):
        await plan_objects(fleet.client, [rule(clusters={"minClusters": 2, "maxClusters": 1})])
    with pytest.raises(NotFound, match="does not serve Nothing"):
        await plan_objects(fleet.client, [{**deployment(1), "kind": "Nothing"}])


async def test_it_says_for_every_cluster_why_and_what_would_help(fleet: Hub) -> None:
    await fleet.cluster("dark", "False")
    await fleet.cluster("full", unschedulable=True)
    found = await explain_object(fleet.client, "Deployment", "default", "web")
    assert (found.total, found.placement, found.unplaced) == (10, "", 0)
    said = {one.cluster: (one.now, one.then, one.why, one.change) for one in found.verdicts}
    assert said == {
        "east": (5, 5, "is selected", ""),
        "west": (5, 5, "is selected", ""),
        "dark": (0, 0, "is not ready", "make it ready"),
        "full": (
            0,
            0,
            "is unschedulable; its leaf stays",
            "make it schedulable (spec.unschedulable: false)",
        ),
    }
    with pytest.raises(NotFound, match="Deployment default/nobody not found or not placed"):
        await explain_object(fleet.client, "Deployment", "default", "nobody")


async def test_it_tells_what_found_no_node(fleet: Hub) -> None:
    await fleet.patch("web--west", {"metadata": {"annotations": {"workloads.kcp.dev/unschedulable": "5"}}})

    async def explained() -> dict[str, str]:
        found = await explain_object(fleet.client, "Deployment", "default", "web")
        return {one.cluster: one.why for one in found.verdicts}

    assert await explained() == {"east": "is selected", "west": "is selected; 5 replicas are unschedulable"}
    await fleet.patch("web--west", {"metadata": {"annotations": {"workloads.kcp.dev/unschedulable": "1"}}})
    assert (await explained())["west"] == "is selected; 1 replica is unschedulable"


@pytest.mark.parametrize("kind", ["Deployment", "deployment", "deploy", "deployments.apps"])
async def test_kinds_are_named_as_for_kubectl(fleet: Hub, kind: str) -> None:
    found = await explain_object(fleet.client, kind, "default", "web")
    lines = placed_object_lines(f"{found.kind} {found.namespace}/web", found)
    assert lines[0] == "Deployment default/web, 10 replicas, divided evenly (no Placement)"


async def test_a_kind_that_is_not_served_is_named(fleet: Hub) -> None:
    with pytest.raises(NoKindMatchError, match="the server has no kind 'farm'"):
        await explain_object(fleet.client, "farm", "default", "barn")
