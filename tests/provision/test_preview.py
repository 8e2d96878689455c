"""`shoal plan` with nodes: what a change would buy and free in a cluster, and what the fleet costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.commands.plan_nodes import ClusterNodePlan, plan_nodes
from shoal.cli.plan import node_lines, node_plan_object
from shoal.client.kubeconfig import load
from shoal.placement.snapshot import PlacementChange
from shoal.provision.preview import Preview, PreviewNodeClaim, PreviewSnapshot, preview
from tests.provision.hosted import (
    CORE,
    DEPLOYMENTS,
    NODES,
    Hosted,
    deployment,
    node_class,
    node_pool,
    pod,
    size_objects,
)
from tests.serving import Cluster, Server

Object = dict[str, Any]

TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"


def named(obj: Object, uid: str = "", **more: Any) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "uid": uid or obj["metadata"]["name"], **more}}


def node(name: str, kind: str, pool: str = "") -> Object:
    labels = {TYPE: kind, ZONE: "embedded-a", **({"karpenter.sh/nodepool": pool} if pool else {})}
    labels |= {"karpenter.sh/initialized": "true"} if pool else {}
    has = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"allocatable": has, "capacity": has}}


def machines() -> list[Object]:
    found = [size_objects("east", size)[1] for size in ("small", "medium", "large")]
    return [{**each, "metadata": {**each["metadata"], "namespace": "default"}} for each in found]


def pool(**spec: Any) -> Object:
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    return {**node_pool(**spec), **ready}


def snapshot(**parts: Any) -> PreviewSnapshot:
    given = {"nodes": (), "pods": (), "claims": (), "pools": [pool()], "classes": {"default": node_class()}}
    return PreviewSnapshot(**{**given, "deployments": machines(), **parts})


def test_pods_that_fit_nowhere_are_bought_for() -> None:
    more = [named(pod(f"p{number}", "1500m")) for number in range(2)]
    found = preview(
        snapshot(nodes=[node("there", "medium")]), [*more, named(pod("p2", "1")), named(pod("p3", "1500m"))]
    )
    assert [each.instance_type for each in found.node_claims] == ["small"]
    assert [found.cost_before, found.cost_after, found.unschedulable_pods] == pytest.approx([0.08, 0.12, 0])


def test_without_a_pool_nothing_is_bought() -> None:
    found = preview(snapshot(pools=[]), [named(pod("p"))])
    assert found == Preview((), (), 1, 0.0, 0.0)
    waiting = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    found = preview(snapshot(pods=[{**named(pod("p")), "status": waiting}]))
    assert [(each.instance_type, each.pods) for each in found.node_claims] == [("small", 1)]


def test_nodes_that_nothing_is_left_on_go() -> None:
    pods = [named(pod(name, nodeName=where)) for name, where in (("a", "one"), ("b", "two"), ("c", "own"))]
    nodes = [
        node("one", "small", "default"),
        node("two", "large", "default"),
        node("own", "medium"),
        node("odd", "huge"),
    ]
    found = preview(snapshot(nodes=nodes, pods=pods), removed_uids={"a", "c"})
    assert (found.removed_nodes, found.unpriced_nodes) == (("one",), 1)
    assert [found.cost_before, found.cost_after] == pytest.approx([0.42, 0.38])
    kept = preview(
        snapshot(nodes=nodes, pods=pods, pools=[pool(disruption={"consolidateAfter": "Never"})]), removed_uids={"a"}
    )
    assert kept.removed_nodes == ()


def test_what_is_said() -> None:
    found = Preview((PreviewNodeClaim("default", "small", 3, 0.04),), ("n1",), 2, 0.12, 0.16, 1)
    assert node_lines([]) == []
    assert node_lines([ClusterNodePlan("east", found), ClusterNodePlan("west", None, "no answer")]) == [
        "",
        "Nodes of east",
        "  NODEPOOL  BUYS   PODS  COST/HR",
        "  default   small  3     0.0400",
        "  would be removed as empty: n1",
        "  2 pods would be unschedulable",
        "  1 nodes of east have no price",
        "Nodes of west: unknown: no answer",
        "cost of the fleet per hour: 0.1200 now, 0.1600 then",
    ]


def test_the_keys_of_its_json() -> None:
    found = Preview((PreviewNodeClaim("default", "small", 3, 0.04),), ("n1",), 2, 0.12, 0.16, 1)
    assert node_plan_object(ClusterNodePlan("east", found)) == {
        "kind": "Nodes",
        "cluster": "east",
        "bought": [{"pool": "default", "type": "small", "pods": 3, "price": 0.04}],
        "emptied": ("n1",),
        "unplaced": 2,
        "before": 0.12,
        "after": 0.16,
        "unpriced": 1,
    }
    unknown = node_plan_object(ClusterNodePlan("west", None, "no answer"))
    assert unknown == {"kind": "Nodes", "cluster": "west", "problem": "no answer"}


@pytest.mark.anyio
async def test_a_hosted_cluster_is_looked_at_and_left_as_it_is(
    hosted: Hosted, still_server: Server, tmp_path: Path
) -> None:
    """The hub is another server, whose loops do not run: nothing is synced by being there."""
    hosted.pool(disruption={"consolidateAfter": "Never"})
    hosted.cluster.post(DEPLOYMENTS, deployment("web", 1)).ok()
    hosted.running(1)
    hub, name = Cluster(still_server, "root"), f"plan-{hosted.namespace}"
    hub.post("/api/v1/namespaces", {"metadata": {"name": name}}).ok()
    for size in ("small", "medium", "large"):
        hub.post(f"/apis/{CORE}/namespaces/{name}/machinedeployments", size_objects("east", size)[1]).ok()
    labels = {"shoal.dev/capicluster": f"{name}.east"}
    site = {"apiVersion": "workload.kcp.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": name, "labels": labels}}
    kubeconfig = {"kubeconfig": hosted.cluster.kubeconfig(tmp_path / "east").read_text()}
    hub.post("/apis/workload.kcp.dev/v1alpha1/clusters", {**site, "spec": kubeconfig}).ok()
    client = load(hub.kubeconfig(tmp_path / "hub"))
    try:
        change = PlacementChange("Deployment", "default", "web", "", {name: 1}, {name: 8}, 0)
        given = {**deployment("web", 8, "1500m"), "kind": "Deployment"}
        (found,) = [each for each in await plan_nodes(client, [given], [change]) if each.cluster == name]
        assert found.preview is not None, found.error
        assert sum(each.pods for each in found.preview.node_claims) >= 6
        assert found.preview.cost_before == pytest.approx(0.04)
        assert found.preview.cost_after == pytest.approx(0.04 + sum(each.price for each in found.preview.node_claims))
        less = PlacementChange("Deployment", "default", "web", "", {name: 1}, {}, 0)
        (found,) = [each for each in await plan_nodes(client, [given], [less]) if each.cluster == name]
        assert found.preview is not None
        assert not found.preview.node_claims
        assert found.preview.cost_after == pytest.approx(0.04)
    finally:
        await client.close()
        hub.close()
    assert len(hosted.items(NODES)) == 1
