"""Nodes in groups, as a workload Cluster publishes them."""

from __future__ import annotations

from typing import Any

from shoal.sync.registration.node_groups import MAX_GROUPS, NodeRoom, group_nodes, published_pool

Object = dict[str, Any]


def node(cpu: int, *taints: Object, **labels: str) -> NodeRoom:
    return NodeRoom({"kubernetes.io/hostname": f"n{cpu}", **labels}, taints, {"cpu": 8000}, {"cpu": cpu})


def test_nodes_with_the_same_labels_and_taints_are_one_group() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    groups, omitted = group_nodes([node(1000, zone="a"), node(3000, zone="a"), node(2000, taint, zone="a")])
    assert omitted == ["kubernetes.io/hostname"]
    assert groups == [
        {
            "labels": {"zone": "a"},
            "nodes": 2,
            "allocatable": {"cpu": "16"},
            "free": {"cpu": "4"},
            "largestFree": {"cpu": "3"},
        },
        {
            "labels": {"zone": "a"},
            "taints": [taint],
            "nodes": 1,
            "allocatable": {"cpu": "8"},
            "free": {"cpu": "2"},
            "largestFree": {"cpu": "2"},
        },
    ]
    assert group_nodes([]) == ([], [])


def test_labels_in_which_too_many_nodes_differ_are_left_out_and_named() -> None:
    nodes = [node(1000, zone=f"z{n % 3}", rack=f"r{n % 40}", serial=f"s{n}") for n in range(200)]
    groups, omitted = group_nodes(nodes)
    assert omitted == ["kubernetes.io/hostname", "rack", "serial"]  # three zones times forty racks are too many
    assert [each["labels"] for each in groups] == [{"zone": f"z{n}"} for n in range(3)]
    assert sum(each["nodes"] for each in groups) == 200
    tainted = [node(1000, {"key": f"t{n}", "effect": "NoSchedule"}) for n in range(200)]
    assert len(group_nodes(tainted)[0]) == MAX_GROUPS


def test_what_a_pool_could_buy() -> None:
    template: Object = {
        "metadata": {"labels": {"tier": "web"}},
        "spec": {
            "requirements": [{"key": "arch", "operator": "In", "values": ["arm"], "minValues": 1}],
            "taints": [{"key": "gpu", "effect": "NoSchedule"}],
        },
    }
    spec = {"template": template, "limits": {"cpu": "10"}}
    pool = {"metadata": {"name": "p"}, "spec": spec, "status": {"resources": {"cpu": "4", "memory": "1Gi"}}}
    assert published_pool(pool) == {
        "name": "p",
        "requirements": [
            {"key": "arch", "operator": "In", "values": ["arm"]},
            {"key": "tier", "operator": "In", "values": ["web"]},
        ],
        "taints": template["spec"]["taints"],
        "remaining": {"cpu": "6"},
    }
    assert published_pool({**pool, "spec": {**spec, "replicas": 3}}) is None
    assert published_pool({"metadata": {"name": "p"}}) == {"name": "p", "requirements": []}
