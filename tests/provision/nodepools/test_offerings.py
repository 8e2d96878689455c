"""Offerings: what NodePools may launch, as objects of the hosted cluster."""

from __future__ import annotations

from typing import Any

from shoal.fit.requirements import Requirements
from shoal.provision.nodepools.offering_list import MAX_OFFERINGS, offerings_of_pool, plan_offerings
from tests.provision.catalogue import LARGE, MEDIUM, SMALL, kind
from tests.provision.hosted import Hosted, node_pool
from tests.serving import Cluster

Object = dict[str, Any]

TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
OFFERINGS = "/apis/provision.shoal.dev/v1alpha1/offerings"


def pool(name: str = "default", **requirements: list[str]) -> Object:
    keys = {"types": TYPE, "zones": ZONE}
    wanted = [{"key": keys[key], "operator": "In", "values": values} for key, values in requirements.items()]
    made = node_pool(name, wanted)
    return {**made, "metadata": {"name": name, "uid": f"uid-{name}"}}


def row(obj: Object) -> tuple[Any, ...]:
    return tuple(obj.get(key) for key in ("nodePool", "instanceType", "zone", "capacityType", "price", "available"))


def test_the_requirements_of_the_pool_select() -> None:
    types = (kind("wide", 2, "8Gi", 0.04, zones=("a", "b")), kind("sold", 4, "16Gi", 0.08, room=0), LARGE)
    assert sorted(map(row, offerings_of_pool(pool(types=["wide", "sold"]), types))) == [
        ("default", "sold", "a", "on-demand", 0.08, False),
        ("default", "wide", "a", "on-demand", 0.04, True),
        ("default", "wide", "b", "on-demand", 0.04, True),
    ]
    assert [row(each)[1:3] for each in offerings_of_pool(pool(zones=["b"]), types)] == [("wide", "b")]
    assert LARGE.requirements != Requirements()


def test_of_two_sources_of_one_offering_the_better_is_listed() -> None:
    dear, cheap = kind("one", 2, "8Gi", 0.09), kind("one", 2, "8Gi", 0.01, room=0)
    assert [row(each)[4:] for each in offerings_of_pool(pool(), (cheap, dear))] == [(0.09, True)]


def test_what_differs_is_written() -> None:
    desired = offerings_of_pool(pool(), (SMALL, MEDIUM))
    first = plan_offerings(desired, {})
    assert (len(first.create), first.update, first.delete) == (2, [], [])
    stored = {
        each["metadata"]["name"]: {**each, "metadata": {**each["metadata"], "uid": "u", "resourceVersion": "7"}}
        for each in first.create
    }
    assert plan_offerings(desired, stored) == type(first)()
    dearer = offerings_of_pool(pool(), (kind("small", 2, "8Gi", 0.05),))
    changes = plan_offerings(dearer, stored)
    assert [(row(each)[4], each["metadata"]["resourceVersion"]) for each in changes.update] == [(0.05, "7")]
    assert [row(each)[1] for each in changes.delete] == ["medium"]


def test_the_list_is_bounded() -> None:
    types = [kind(f"t{n}", 2, "8Gi", 1 + n / 1000, room=0 if n < 5 else None) for n in range(MAX_OFFERINGS + 10)]
    listed = plan_offerings(offerings_of_pool(pool(), types), {}).create
    assert len(listed) == MAX_OFFERINGS
    assert all(each["available"] for each in listed)
    assert max(each["price"] for each in listed) == 1 + (MAX_OFFERINGS + 4) / 1000


def test_a_cluster_lists_what_its_pool_may_launch(hosted: Hosted) -> None:
    def rows() -> list[tuple[Any, ...]]:
        return sorted((row(each)[1:] for each in hosted.items(OFFERINGS)), key=str)

    assert rows() == []
    hosted.pool(requirements=[{"key": TYPE, "operator": "In", "values": ["small", "large"]}])
    wanted = [
        ("large", "embedded-a", "on-demand", 0.3, True),
        ("small", "embedded-a", "on-demand", 0.04, True),
    ]
    hosted.eventually(lambda: rows() == wanted)
    table = hosted.cluster.get(OFFERINGS, Accept="application/json;as=Table;v=v1;g=meta.k8s.io").ok()
    names = [column["name"] for column in table["columnDefinitions"] if not column.get("priority")]
    assert names == ["Name", "NodePool", "Type", "Zone", "Capacity", "Price", "Available"]
    (small, _) = sorted(hosted.items(OFFERINGS), key=lambda each: each["price"])
    path = f"{OFFERINGS}/{small['metadata']['name']}"
    hosted.cluster.patch(path, {"price": 9.0}, "merge").ok()
    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "half"},
        "spec": {
            "requirements": [{"key": TYPE, "operator": "In", "values": ["large"]}],
            "priceAdjustment": "-50%",
        },
    }
    hosted.cluster.post("/apis/karpenter.sh/v1alpha1/nodeoverlays", overlay).ok()
    hosted.eventually(lambda: rows() == [(*wanted[0][:3], 0.15, True), wanted[1]])
    hosted.cluster.delete("/apis/karpenter.sh/v1/nodepools/default").ok()
    hosted.eventually(lambda: rows() == [])


def test_the_list_of_another_provisioner_is_left_alone(hosted: Hosted) -> None:
    """A `shoal provisioner` may serve a logical cluster that is not hosted for a Cluster."""
    name, logical = f"{hosted.namespace}-apart", "/apis/core.shoal.dev/v1alpha1/logicalclusters"
    body = {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": name}}
    hosted.root.post(logical, {**body, "spec": {"profile": "cluster"}}).ok()
    apart = Cluster(hosted.root.server, name)
    (listed,) = plan_offerings(offerings_of_pool(pool(), (SMALL,)), {}).create
    listed["metadata"] = {"name": listed["metadata"]["name"]}
    apart.post(OFFERINGS, listed).ok()
    apart.patch(f"{OFFERINGS}/{listed['metadata']['name']}", {"price": 0.05}, "merge").ok()
    hosted.pool()
    hosted.eventually(lambda: len(hosted.items(OFFERINGS)) == 3)
    assert [row(each)[1] for each in apart.get(OFFERINGS).ok()["items"]] == ["small"]
    hosted.root.delete(f"{logical}/{name}").ok()
    apart.close()
