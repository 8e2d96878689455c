"""Standalone Machines with all of Cluster API running: from pods to nodes and back."""

from __future__ import annotations

from tests.provision.clusterapi.yard import bare_class, bare_template
from tests.provision.hosted import CLAIMS, CLASSES, DEPLOYMENTS, NODES, POOLS, Hosted, deployment, node_pool


def test_pods_get_nodes_made_one_by_one_and_they_go_again(hosted: Hosted) -> None:
    hosted.put(bare_template())
    hosted.cluster.post(CLASSES, bare_class("default")).ok()
    pool = node_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})
    hosted.cluster.post(POOLS, pool).ok()
    hosted.cluster.post(DEPLOYMENTS, deployment("web", 3, cpu="1500m")).ok()
    hosted.running(3)
    machines = hosted.machines()
    assert {each["spec"]["infrastructureRef"]["kind"] for each in machines} == {"EmbeddedMachine"}
    owners = [each["kind"] for machine in machines for each in machine["metadata"].get("ownerReferences") or ()]
    assert set(owners) == {"Cluster"}, "they are of no MachineDeployment"
    assert {each["metadata"]["labels"]["node.kubernetes.io/instance-type"] for each in hosted.items(NODES)} == {"bare"}
    assert hosted.replicas() == {"small": 0, "medium": 0, "large": 0}
    hosted.cluster.delete(f"{DEPLOYMENTS}/web").ok()
    hosted.eventually(lambda: not hosted.items(CLAIMS) and not hosted.machines() and not hosted.items(NODES))
    hosted.eventually(lambda: not hosted.root.get(hosted.path("embeddedmachines")).ok()["items"])
