"""The story of the README, step by step: what a person writes, and how it has ended when it went well.

Every step may be written again and looked at again: it is the same with a process that was killed in between.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from tests.story.api import Api, eventually
from tests.story.fleets import WORKERS, Fleet

Object = dict[str, Any]

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NAMES = ("east", "west")
FLEET = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1"
MANAGED = f"{FLEET}/namespaces/default/managedclusters"
SECRETS = "/api/v1/namespaces/default/secrets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CLUSTERS = "/apis/workload.kcp.dev/v1alpha1/clusters"
NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"
NODE_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
NODE_CLASSES = "/apis/karpenter.cluster.x-k8s.io/v1alpha1/clusterapinodeclasses"
MACHINES = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines"
PATHS = {
    "ManagedCluster": MANAGED,
    "Deployment": DEPLOYMENTS,
    "NodePool": NODE_POOLS,
    "ClusterAPINodeClass": NODE_CLASSES,
}
TYPE, POOL = "node.kubernetes.io/instance-type", "karpenter.sh/nodepool"
STEPS = ("clusters", "node_pools", "deployment", "scale", "delete_deployment", "delete_clusters")


def example(file: str) -> list[Object]:
    return list(yaml.safe_load_all((EXAMPLES / file).read_text()))


def apply(api: Api, file: str) -> None:
    for obj in example(file):
        api.apply(f"{PATHS[obj['kind']]}/{obj['metadata']['name']}", obj)


class Story:
    """Begins when both workers have joined."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.hub = fleet.api()
        self._inside: dict[str, Api] = {}
        eventually(lambda: [phase(obj) for obj in self.hub.items(f"{FLEET}/workers")] == ["Running"] * len(WORKERS))

    def begin(self, step: str) -> None:
        """The writes of a person."""
        getattr(self, f"_begin_{step}")()

    def finish(self, step: str) -> None:
        """Until it has come to its end."""
        done = getattr(self, f"_done_{step}")
        eventually(done, lambda: f"{step}: {self.picture()}")

    def live(self, step: str) -> None:
        self.begin(step)
        self.finish(step)

    def close(self) -> None:
        for api in self._inside.values():
            api.close()

    def _begin_clusters(self) -> None:
        apply(self.hub, "clusters.yaml")

    def _done_clusters(self) -> bool:
        found = self.hub.items(MANAGED)
        hosts = {obj["status"]["assignedWorker"] for obj in found if phase(obj) == "Running"}
        return len(found) == len(NAMES) and hosts == set(WORKERS)

    def kubeconfig(self, name: str) -> str:
        """That of the cluster's own administrator, as controllers of the hub use it."""
        secret = self.hub.request("GET", f"{SECRETS}/{name}-kubeconfig")
        return base64.b64decode(secret["data"]["value"]).decode()

    def inside(self, name: str) -> Api:
        """The administrator of a hosted cluster, through the hub."""
        if name not in self._inside:
            self._inside[name] = Api(self.kubeconfig(name))
        return self._inside[name]

    def _begin_node_pools(self) -> None:
        for name in NAMES:
            apply(self.inside(name), "nodepool.yaml")

    def _done_node_pools(self) -> bool:
        found = [self.inside(name).get(f"{NODE_POOLS}/default") for name in NAMES]
        return all(obj is not None and is_true(obj, "Ready") for obj in found) and all(map(self._runs, NAMES))

    def _runs(self, name: str) -> bool:
        nodes = self.inside(name).items("/api/v1/nodes")
        return len(nodes) >= 2 and all(is_true(node, "Ready") for node in nodes)

    def _begin_deployment(self) -> None:
        apply(self.hub, "deployment.yaml")

    def _done_deployment(self) -> bool:
        return self.ready("web") == 10 and [self.ready(f"web--{name}") for name in NAMES] == [5, 5]

    def _begin_scale(self) -> None:
        self.hub.merge(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 60}})

    def _done_scale(self) -> bool:
        return self.ready("web") == 60 and [self.ready(f"web--{name}") for name in NAMES] == [30, 30]

    def ready(self, deployment: str) -> int:
        """Ready replicas, once they are what was asked for; -1 before."""
        obj = self.hub.get(f"{DEPLOYMENTS}/{deployment}") or {"metadata": {}}
        status = obj.get("status") or {}
        if not status or status.get("observedGeneration") != obj["metadata"]["generation"]:
            return -1
        counts = {status.get(field, 0) for field in ("replicas", "readyReplicas", "updatedReplicas")}
        return counts.pop() if counts == {obj["spec"]["replicas"]} else -1

    def _begin_delete_deployment(self) -> None:
        self.hub.delete(f"{DEPLOYMENTS}/web")

    def _done_delete_deployment(self) -> bool:
        left = ("/apis/apps/v1/deployments", "/apis/apps/v1/replicasets", "/api/v1/pods")
        return not self.hub.items(DEPLOYMENTS) and not any(
            self.inside(name).items(path) for name in NAMES for path in left
        )

    def _begin_delete_clusters(self) -> None:
        for name in NAMES:
            self.hub.delete(f"{MANAGED}/{name}")

    def _done_delete_clusters(self) -> bool:
        return not self.hub.items(MANAGED) and not self.hub.items(CLUSTERS)

    def check_nodes(self) -> None:
        """After the scaling: what did not fit was bought, and every claim is one machine and one node."""
        machines = {m["metadata"]["name"]: m for worker in WORKERS for m in self.fleet.api(worker).items(MACHINES)}
        for name in NAMES:
            inside = self.inside(name)
            nodes = {node["metadata"]["name"]: node for node in inside.items("/api/v1/nodes")}
            claims = {claim["status"]["nodeName"]: claim for claim in inside.items(NODE_CLAIMS)}
            assert all(is_true(claim, "Ready") for claim in claims.values())
            assert nodes.keys() == {made for made in machines if made.startswith(f"{name}-")}
            assert all(machines[node]["status"]["nodeRef"]["name"] == node for node in nodes)
            assert claims.keys() < nodes.keys()
            assert len(nodes) - len(claims) == 2, "the two of the beginning"

    def bought(self, name: str) -> list[str]:
        """The types of the nodes that were bought."""
        nodes = self.inside(name).items("/api/v1/nodes")
        return sorted(node["metadata"]["labels"][TYPE] for node in nodes if POOL in node["metadata"]["labels"])

    def picture(self) -> Object:
        """What a person would look at if it does not go on."""
        found: Object = {
            "managed clusters": {o["metadata"]["name"]: o.get("status") for o in self.hub.items(MANAGED)},
            "clusters": {o["metadata"]["name"]: o.get("status") for o in self.hub.items(CLUSTERS)},
            "deployments": {o["metadata"]["name"]: o.get("status") for o in self.hub.items(DEPLOYMENTS)},
            "said": self.fleet.said(),
        }
        for name, api in self._inside.items():
            if name in found["managed clusters"]:
                pods = api.items("/api/v1/pods")
                found[name] = {
                    "claims": {o["metadata"]["name"]: o.get("status") for o in api.items(NODE_CLAIMS)},
                    "nodes": [o["metadata"]["name"] for o in api.items("/api/v1/nodes")],
                    "pods": f"{len(pods)}, {len([pod for pod in pods if pod['spec'].get('nodeName')])} bound",
                }
        return found


def phase(obj: Object) -> str:
    return str((obj.get("status") or {}).get("phase"))


def is_true(obj: Object, condition: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)
