"""Placements on a real server: selection, retention, overrides and status."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.client.rest import GroupVersionResource
from shoal.kinds.workload import placement, workloadcluster
from shoal.objects.errors import NotFound
from shoal.placement.splitter.events import PLACEMENTS
from tests.placement.hub import CLUSTERS, Hub

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
MAPS = GroupVersionResource("", "v1", "configmaps")
DEFINITIONS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
SETS = GroupVersionResource("apps", "v1", "statefulsets")
SCALED = GroupVersionResource("example.com", "v1", "scaleds")
DEPLOYMENTS = [{"kind": "Deployment"}]


@pytest.fixture
async def fleet(hub: Hub) -> Hub:
    await hub.learn()
    for name, region in (("east", "us"), ("north", "eu"), ("west", "us")):
        await hub.cluster(name)
        await hub.client.merge_patch(CLUSTERS, name, {"metadata": {"labels": {"region": region}}})
    return hub


async def placed(hub: Hub, name: str = "rule", selects: list[Object] | None = None, **spec: Any) -> Object:
    body = {"apiVersion": f"{placement.GROUP}/{placement.VERSION}", "kind": "Placement", "metadata": {"name": name}}
    given = {"selects": DEPLOYMENTS if selects is None else selects, **spec}
    return await hub.client.create(PLACEMENTS, {**body, "spec": given}, "default")


async def says(hub: Hub, name: str, kind: str, reason: str) -> str:
    async def look() -> str | None:
        found = await hub.client.get(PLACEMENTS, name, "default")
        conditions = {one["type"]: one for one in (found.get("status") or {}).get("conditions") or ()}
        one = conditions.get(kind)
        return (one.get("message") or reason) if one is not None and one["reason"] == reason else None

    return str(await hub.eventually(look))


async def test_weights_and_affinity(fleet: Hub) -> None:
    us = {"matchLabels": {"region": "us"}}
    await placed(
        fleet, clusters={"affinity": us}, replicas={"weights": [{"clusters": {"names": ["east"]}, "weight": 4}]}
    )
    await fleet.deploy(replicas=10)
    await fleet.becomes(east=8, west=2)
    assert await says(fleet, "rule", "Valid", "Valid")
    await fleet.client.merge_patch(PLACEMENTS, "rule", {"spec": {"replicas": {"strategy": "Duplicate"}}}, "default")
    await fleet.becomes(east=10, west=10)
    await fleet.client.delete(PLACEMENTS, "rule", "default")
    await fleet.becomes(east=4, north=3, west=3)


async def test_replicas_move_within_the_budget_and_come_back(fleet: Hub) -> None:
    await placed(fleet, disruption={"gracePeriod": "2m", "failBackAfter": "30s", "maxUnavailable": 2})
    await fleet.deploy(replicas=12)
    await fleet.becomes(east=4, north=4, west=4)
    for name in ("east", "north", "west"):
        await fleet.run(f"web--{name}")
    await fleet.says("NewReplicaSetAvailable")
    await fleet.ready("north", "Unknown")
    await fleet.says("WorkloadClusterNotReporting", "ClustersReporting")
    counts = {"replicas": 12, "updatedReplicas": 12, "readyReplicas": 8, "availableReplicas": 8}
    assert counts.items() <= (await fleet.status()).items(), "what north runs is not known"
    await fleet.becomes(east=4, north=4, west=4)
    fleet.world.clock.step(120)
    await fleet.becomes(east=6, north=0, west=6)
    for name in ("east", "west"):
        await fleet.run(f"web--{name}")
    await fleet.says("NewReplicaSetAvailable")
    status = await fleet.status()
    assert {status[name] for name in counts} == {12}, "what was placed elsewhere does not count twice"
    [silent] = [one["message"] for one in status["conditions"] if one["type"] == "ClustersReporting"]
    assert silent == "north does not report: its replicas were placed elsewhere, and may still run there"
    await fleet.run("web--north")
    await fleet.ready("north", "True")
    fleet.world.clock.step(10)
    await fleet.becomes(east=6, north=0, west=6)
    fleet.world.clock.step(30)
    await fleet.becomes(east=6, north=3, west=6)  # a quarter more than desired, until they are available
    await fleet.run("web--north")
    await fleet.becomes(east=4, north=4, west=5)  # then as many are given up, the first by name first
    await fleet.run("web--north")
    await fleet.becomes(east=4, north=4, west=4)


async def test_of_two_the_higher_one_counts_and_the_other_says_so(fleet: Hub) -> None:
    await placed(fleet, "low", clusters={"names": ["west"]})
    await fleet.deploy()
    await fleet.becomes(west=10)
    await placed(fleet, "high", priority=1, clusters={"names": ["east"]})
    await fleet.becomes(east=10)
    assert await says(fleet, "low", "Superseded", "HigherPriority") == "Deployment web follows Placement high"
    assert await says(fleet, "high", "Superseded", "NotSuperseded")
    assert (await fleet.client.get(PLACEMENTS, "high", "default"))["status"]["placed"] == 1
    await fleet.client.delete(PLACEMENTS, "high", "default")
    await fleet.becomes(west=10)
    assert await says(fleet, "low", "Superseded", "NotSuperseded")


async def test_what_cannot_be_followed_changes_nothing(fleet: Hub) -> None:
    await fleet.deploy()
    await fleet.becomes(east=4, north=3, west=3)
    wrong = {"matchExpressions": [{"key": "region", "operator": "In"}]}
    await placed(fleet, clusters={"affinity": wrong})
    assert "spec.clusters.affinity" in await says(fleet, "rule", "Valid", "Invalid")
    await fleet.becomes(east=4, north=3, west=3)
    patch = [{"op": "replace", "path": "/spec/nothing/there", "value": 1}]
    await fleet.client.merge_patch(
        PLACEMENTS, "rule", {"spec": {"clusters": None, "overrides": [{"patch": patch}]}}, "default"
    )
    assert "Deployment web" in await says(fleet, "rule", "Valid", "CannotBePlaced")
    await fleet.becomes(east=4, north=3, west=3)
    await placed(fleet, "unknown", [{"kind": "Nothing"}])
    assert "Nothing" in await says(fleet, "unknown", "Valid", "KindNotServed")
    await placed(fleet, "lease", [{"kind": "Placement"}])
    await says(fleet, "lease", "Valid", "KindNotPlaced")


async def test_overrides(fleet: Hub) -> None:
    group = {"selector": {"matchLabels": {"region": "eu"}}}
    patch = [{"op": "add", "path": "/spec/template/metadata/labels/where", "value": "eu"}]
    await placed(fleet, overrides=[{"clusters": group, "imageRegistry": "registry.eu:5000", "patch": patch}])
    await fleet.deploy()
    await fleet.becomes(east=4, north=3, west=3)
    north, east = await fleet.get("web--north"), await fleet.get("web--east")
    assert north["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.eu:5000/web:1"
    assert north["spec"]["template"]["metadata"]["labels"] == {"app": "web", "where": "eu"}
    assert east["spec"]["template"]["spec"]["containers"][0]["image"] == "web:1"
    await fleet.patch("web--north", {"spec": {"replicas": 9}})
    await fleet.becomes(east=4, north=3, west=3)


async def test_other_kinds_are_copied_where_a_placement_says_so(fleet: Hub) -> None:
    body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
    await fleet.client.create(MAPS, body, "default")
    await placed(fleet, selects=[{"kind": "ConfigMap", "name": "settings"}], clusters={"names": ["east", "west"]})

    async def copies(**wanted: str) -> None:
        async def look() -> bool:
            found, _ = await fleet.client.list_all(MAPS, "default", labels=workloadcluster.CLUSTER_LABEL)
            return {one["metadata"]["name"]: one["data"]["a"] for one in found} == {
                f"settings--{cluster}": value for cluster, value in wanted.items()
            }

        await fleet.eventually(look)

    await copies(east="1", west="1")
    leaf = await fleet.client.get(MAPS, "settings--east", "default")
    assert leaf["metadata"]["annotations"]["placement.shoal.dev/downstream-name"] == "settings"
    await fleet.client.merge_patch(MAPS, "settings", {"data": {"a": "2"}}, "default")
    await copies(east="2", west="2")
    await fleet.client.merge_patch(MAPS, "settings--west", {"data": {"a": "edited"}}, "default")
    await copies(east="2", west="2")
    await fleet.ready("west", "Unknown")
    fleet.world.clock.step(3600)
    await copies(east="2", west="2")
    await fleet.client.delete(PLACEMENTS, "rule", "default")
    await copies()


async def test_a_kind_of_ones_own_is_divided_by_its_scale(fleet: Hub) -> None:
    size = {"type": "object", "properties": {"count": {"type": "integer"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": size, "status": size}}},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"},
        },
    }
    names = {"plural": "scaleds", "kind": "Scaled"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    meta = {"name": "scaleds.example.com"}
    await placed(fleet, selects=[{"kind": "Scaled"}])
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta}
    await fleet.client.create(DEFINITIONS, {**body, "spec": spec})
    made = {"apiVersion": "example.com/v1", "kind": "Scaled", "metadata": {"name": "s"}, "spec": {"count": 7}}

    async def create() -> bool:
        try:
            await fleet.client.create(SCALED, made, "default")
        except NotFound:
            return False
        return True

    await fleet.eventually(create)

    async def look() -> bool:
        found, _ = await fleet.client.list_all(SCALED, "default", labels=workloadcluster.CLUSTER_LABEL)
        return {one["metadata"]["name"]: one["spec"]["count"] for one in found} == {
            "s--east": 3,
            "s--north": 2,
            "s--west": 2,
        }

    await fleet.eventually(look)


async def test_ordinals_of_a_stateful_set_are_shared_out_and_never_shifted(fleet: Hub) -> None:
    await fleet.learn("StatefulSet")
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "db:1"}]}}
    spec = {"replicas": 7, "selector": {"matchLabels": {"app": "db"}}, "serviceName": "db", "template": template}
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec}

    async def create() -> bool:
        try:
            await fleet.client.create(SETS, body, "default")
        except NotFound:
            return False
        return True

    await fleet.eventually(create)
    await placed(fleet, selects=[{"kind": "StatefulSet"}])

    async def become(**wanted: tuple[int, int]) -> None:
        async def look() -> bool:
            found, _ = await fleet.client.list_all(SETS, "default", labels=workloadcluster.CLUSTER_LABEL)
            ranges = {one["metadata"]["name"]: _range(one["spec"]) for one in found}
            return ranges == {f"db--{cluster}": one for cluster, one in wanted.items()}

        await fleet.eventually(look)

    await become(east=(0, 3), north=(3, 2), west=(5, 2))
    leaf = await fleet.client.get(SETS, "db--west", "default")
    assert leaf["metadata"]["annotations"]["placement.shoal.dev/downstream-name"] == "db"
    await fleet.client.merge_patch(SETS, "db", {"spec": {"replicas": 9}}, "default")
    await become(east=(0, 3), north=(3, 2), west=(5, 4))
    await fleet.ready("north", "Unknown")
    fleet.world.clock.step(3600)
    await fleet.client.merge_patch(SETS, "db", {"spec": {"replicas": 6}}, "default")
    await become(east=(0, 3), north=(3, 2), west=(5, 1))
    await fleet.client.merge_patch(CLUSTERS, "north", {"spec": {"evictAfter": "2020-01-01T00:00:00Z"}})
    await become(east=(0, 5), west=(5, 1))


def _range(spec: Object) -> tuple[int, int]:
    return (spec.get("ordinals") or {}).get("start", 0), spec["replicas"]


async def test_who_waits_for_room_gets_it(fleet: Hub) -> None:
    """Who waits for room gets it when there is some."""

    async def free(cpu: str) -> None:
        for name in ("east", "north", "west"):
            amounts = {"cpu": cpu, "memory": "1Gi", "pods": "100"}
            room = {"status": {"nodeGroups": [{"free": amounts, "largestFree": amounts}]}}
            await fleet.client.merge_patch(CLUSTERS, name, room, subresource="status")

    await free("1")
    await placed(fleet, replicas={"by": "Capacity"})
    await fleet.deploy(replicas=9, requests={"cpu": "500m"})
    await fleet.becomes(east=2, north=2, west=2)
    await fleet.says("NoReadyClusters")
    await free("1500m")
    await fleet.becomes(east=3, north=3, west=3)
