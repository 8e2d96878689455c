"""Pods that find no room, against the running server: NodeClaims, Machines, Nodes, and back again."""

from __future__ import annotations

from tests.provision.hosted import CLAIMS, DEPLOYMENTS, NODES, POOLS, Hosted, deployment


def test_pending_pods_become_nodes_of_the_cheapest_type_and_go_again(hosted: Hosted) -> None:
    hosted.pool()
    hosted.cluster.post(DEPLOYMENTS, deployment("web", 3)).ok()
    hosted.running(3)
    (claim,) = hosted.items(CLAIMS)
    assert claim["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "small"
    (node,) = hosted.items(NODES)
    assert node["spec"]["providerID"] == claim["status"]["providerID"]
    hosted.eventually(lambda: hosted.events("Nominated"))
    hosted.cluster.delete(f"{DEPLOYMENTS}/web").ok()
    hosted.eventually(lambda: not hosted.items(CLAIMS) and not hosted.machines() and not hosted.items(NODES))
    assert hosted.replicas() == {"small": 0, "medium": 0, "large": 0}
    pool = hosted.cluster.get(f"{POOLS}/default").ok()
    print(pool["status"])
