"""Placement only uses clusters that take the kind of the object, and says why it does not use the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shoal.assemble.commands.plan import explain_object
from shoal.client.rest import GroupVersionResource
from shoal.fit.room import NO_DEMAND
from shoal.kinds.workload import apiresource
from shoal.kinds.workload.apiresource import GVR
from shoal.kinds.workload.served_apis import APIRefusal, ServedAPIs, import_refusal, served_apis
from shoal.placement.cluster_info import ClusterInfo, CurrentShare
from shoal.placement.decide import decide_with_filtered
from shoal.placement.filter import FilteredClusters
from shoal.placement.policy import DEFAULT_POLICY
from shoal.placement.splitter.followers import Leader, following_policy
from tests.placement.hub import CLUSTERS, Hub
from tests.placement.test_placements import placed, says

Object = dict[str, Any]
IMPORTS = GroupVersionResource(apiresource.GROUP, apiresource.VERSION, apiresource.IMPORT_PLURAL, namespaced=False)
EVENTS = GroupVersionResource("", "v1", "events")
WIDGETS = GVR("example.com", "v1", "widgets")
NOT_SERVED = "does not serve widgets.example.com v1"


def imported(version: str = "v1", compatible: str = "True", available: str = "True", reason: str = "") -> Object:
    group_version = {"group": "example.com", "version": version}
    conditions = [
        {"type": "Compatible", "status": compatible, "message": "spec.size: another type"},
        {"type": "Available", "status": available, "reason": reason, "message": "not asked"},
    ]
    return {
        "spec": {"groupVersion": group_version, "plural": "widgets", "location": "east"},
        "status": {"conditions": conditions},
    }


@pytest.mark.parametrize(
    ("synced", "imports", "reason", "message"),
    [
        (None, [], "", ""),
        ([], [], "APINotServed", NOT_SERVED),
        (["widgets.example.com"], [], "", ""),  # a kind of the hub itself
        (["widgets.example.com"], [imported()], "", ""),
        (["widgets.example.com"], [imported("v1beta1")], "APINotServed", f"{NOT_SERVED}, only v1beta1"),
        (
            [],
            [imported(compatible="False")],
            "APIIncompatible",
            "serves widgets.example.com v1 with an incompatible schema: spec.size: another type",
        ),
        (
            [],
            [imported(available="False", reason="NotAsked")],
            "APINotPublished",
            "serves widgets.example.com v1, which the hub does not publish: not asked",
        ),
        (
            [],
            [imported(compatible="Unknown")],
            "APINegotiating",
            "serves widgets.example.com v1, which is being negotiated",
        ),
    ],
)
def test_what_a_cluster_takes(synced: list[str] | None, imports: list[Object], reason: str, message: str) -> None:
    status = {} if synced is None else {"syncedResources": synced}
    found = served_apis({"status": status}, imports).refusal_of(WIDGETS)
    assert found == (APIRefusal(reason, message) if reason else None)


def refusing(name: str, api_import: Object | None) -> ClusterInfo:
    refusals = {WIDGETS: import_refusal(api_import)} if api_import is not None else {}
    return replace(ClusterInfo(name), apis=ServedAPIs(frozenset(), refusals))


@pytest.mark.parametrize(
    ("api_import", "running", "found"),
    [
        (None, {}, {"east": 3, "north": 3}),
        (None, {"east": 4, "north": 3}, {"east": 4, "north": 3}),  # where nothing is served, nothing runs
        (imported(compatible="False"), {"east": 3, "north": 2, "west": 2}, {"east": 3, "north": 2, "west": 2}),
    ],
)
def test_a_cluster_that_does_not_take_the_kind_gets_nothing(
    api_import: Object | None, running: dict[str, int], found: dict[str, int]
) -> None:
    clusters = [ClusterInfo("east"), ClusterInfo("north"), refusing("west", api_import)]
    filtered = FilteredClusters(clusters, DEFAULT_POLICY, 0.0, WIDGETS)
    shares = {name: CurrentShare(count, count) for name, count in running.items()}
    decision = decide_with_filtered(sum(running.values()) or 6, filtered, shares, NO_DEMAND, 0.0)
    assert dict(decision.shares) == found


def test_what_follows_stays_out_of_a_cluster_that_does_not_take_its_kind() -> None:
    policy = following_policy([Leader("Deployment", "web", {}, frozenset({"east", "west"}), "", is_followed=True)])
    assert policy is not None
    filtered = FilteredClusters([ClusterInfo("east"), refusing("west", None)], policy, 0.0, WIDGETS)
    assert dict(decide_with_filtered(1, filtered, {}, NO_DEMAND, 0.0).shares) == {"east": 1}


@pytest.mark.anyio
async def test_on_a_hub(hub: Hub) -> None:
    await hub.learn()
    for name in ("east", "north", "west"):
        await hub.cluster(name)
    status = {"syncedResources": ["configmaps"]}
    await hub.client.merge_patch(CLUSTERS, "west", {"status": status}, subresource="status")
    await placed(hub)
    await hub.deploy(replicas=6)
    await hub.becomes(east=3, north=3)
    message = "west does not serve deployments.apps v1"
    assert await says(hub, "rule", "Served", "APINotServed") == message

    async def told() -> bool:
        events, _ = await hub.client.list_all(EVENTS, "default")
        return {("web", "Warning", message)} <= {
            (one["involvedObject"]["name"], one["type"], one["message"]) for one in events
        }

    await hub.eventually(told)
    explained = await explain_object(hub.client, "Deployment", "default", "web")
    assert [(one.cluster, one.why, one.change) for one in explained.verdicts][2] == (
        "west",
        "does not serve deployments.apps v1",
        "install its CRD in the cluster, and name it in --resources-to-sync",
    )
    body = {"apiVersion": f"{apiresource.GROUP}/{apiresource.VERSION}", "kind": apiresource.IMPORT_KIND}
    spec = {
        "groupVersion": {"group": "apps", "version": "v1"},
        "location": "west",
        "plural": "deployments",
        "singular": "deployment",
        "kind": "Deployment",
        "listKind": "DeploymentList",
        "scope": "Namespaced",
        "openAPIV3Schema": {"type": "object"},
    }
    name = "deployments.west.v1.apps"
    await hub.client.create(IMPORTS, {**body, "metadata": {"name": name}, "spec": spec})
    await hub.client.merge_patch(IMPORTS, name, {"status": imported()["status"]}, subresource="status")

    async def used() -> bool:
        return "web--west" in await hub.sizes()

    await hub.eventually(used)
    assert await says(hub, "rule", "Served", "Served")
