"""A hosted cluster with MachineDeployments on the test server, and the objects that tests create there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from shoal.objects.conditions import condition_is
from tests.serving import Cluster, Server

Object = dict[str, Any]
T = TypeVar("T")

CORE, EMBEDDED = "cluster.x-k8s.io/v1beta2", "infrastructure.cluster.x-k8s.io/v1alpha1"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
MEMBER = "node.cluster.x-k8s.io/karpenter-member"
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
SIZES = {"small": ("2", "8Gi", "0.04"), "medium": ("4", "16Gi", "0.08"), "large": ("16", "64Gi", "0.30")}

POOLS, CLAIMS = "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1/nodeclaims"
CLASSES = "/apis/karpenter.cluster.x-k8s.io/v1alpha1/clusterapinodeclasses"
NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_numbers = itertools.count(1)


def cluster_objects(name: str) -> list[Object]:
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "EmbeddedCluster", "name": name}
    alone = {"name": name, "annotations": {"workloads.kcp.dev/register": "false"}}
    return [
        {"apiVersion": CORE, "kind": "Cluster", "metadata": alone, "spec": {"infrastructureRef": reference}},
        {"apiVersion": EMBEDDED, "kind": "EmbeddedCluster", "metadata": {"name": name}, "spec": {}},
    ]


def size_objects(cluster: str, size: str, **annotations: str) -> list[Object]:
    """A template and a MachineDeployment that takes part."""
    cpu, memory, price = SIZES[size]
    name = f"{cluster}-{size}"
    spec = {
        "instanceType": size,
        "zone": "embedded-a",
        "price": price,
        "capacity": {"cpu": cpu, "memory": memory, "pods": "110"},
        "taints": [UNREGISTERED],
    }
    said = {
        f"{CAPACITY}/cpu": cpu,
        f"{CAPACITY}/memory": memory,
        f"{CAPACITY}/maxPods": "110",
        f"{CAPACITY}/labels": f"node.kubernetes.io/instance-type={size},topology.kubernetes.io/zone=embedded-a",
        f"{CAPACITY}/taints": "karpenter.sh/unregistered=:NoExecute",
        "cluster.x-k8s.io/machine-current-price": price,
        **{f"cluster.x-k8s.io/{key.replace('_', '-')}": value for key, value in annotations.items()},
    }
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "EmbeddedMachineTemplate", "name": name}
    template = {"spec": {"clusterName": cluster, "infrastructureRef": reference}}
    return [
        {
            "apiVersion": EMBEDDED,
            "kind": "EmbeddedMachineTemplate",
            "metadata": {"name": name},
            "spec": {"template": {"spec": spec}},
        },
        {
            "apiVersion": CORE,
            "kind": "MachineDeployment",
            "metadata": {"name": name, "labels": {MEMBER: "", "size": size}, "annotations": said},
            "spec": {"clusterName": cluster, "replicas": 0, "template": template},
        },
    ]


def node_class(name: str = "default", selector: Object | None = None) -> Object:
    spec = {"scalableResourceSelector": selector} if selector else {}
    api = "karpenter.cluster.x-k8s.io/v1alpha1"
    return {"apiVersion": api, "kind": "ClusterAPINodeClass", "metadata": {"name": name}, "spec": spec}


def node_pool(name: str = "default", requirements: Iterable[Object] = (), **spec: Any) -> Object:
    """`spec`: fields of the pool; those of its template under `template`."""
    reference = {"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "default"}
    template = {"requirements": list(requirements), "nodeClassRef": reference, **spec.pop("template", {})}
    labels = spec.pop("labels", None)
    metadata = {"metadata": {"labels": labels}} if labels else {}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {**metadata, "spec": template}, **spec},
    }


def pod(name: str, cpu: str = "500m", memory: str = "256Mi", **spec: Any) -> Object:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    containers = [{"name": "main", "image": "registry.example/main:1", "resources": resources}]
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def deployment(name: str, replicas: int, cpu: str = "500m") -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod("", cpu)["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


class Hosted:
    """`root` is the management cluster, `cluster` the hosted one."""

    def __init__(self, server: Server, sizes: Iterable[str] = ("small", "medium", "large")) -> None:
        self.root = Cluster(server, "root")
        self.namespace = f"buy{next(_numbers)}"
        self.root.post("/api/v1/namespaces", {"metadata": {"name": self.namespace}}).ok()
        self.put(*cluster_objects("east"))
        for size in sizes:
            self.put(*size_objects("east", size))
        self.cluster = Cluster(server, f"{self.namespace}.east")
        self.eventually(lambda: self.cluster.get("/api/v1/namespaces/default").status == 200)

    def path(self, plural: str, name: str = "") -> str:
        version = EMBEDDED if plural.startswith("embedded") else CORE
        return f"/apis/{version}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def put(self, *objects: Object) -> None:
        for obj in objects:
            self.root.post(self.path(f"{obj['kind'].lower()}s"), obj).ok()

    def pool(self, **pool: Any) -> None:
        self.cluster.post(CLASSES, node_class()).ok()
        self.cluster.post(POOLS, node_pool(**pool)).ok()

    def machines(self) -> list[Object]:
        found: list[Object] = self.root.get(self.path("machines")).ok()["items"]
        return found

    def replicas(self) -> dict[str, int]:
        found = self.root.get(self.path("machinedeployments")).ok()["items"]
        return {each["metadata"]["name"].removeprefix("east-"): each["spec"]["replicas"] for each in found}

    def items(self, path: str) -> list[Object]:
        found: list[Object] = self.cluster.get(path).ok()["items"]
        return found

    def running(self, count: int) -> list[Object]:
        def look() -> list[Object]:
            pods = [each for each in self.items(PODS) if each["status"].get("phase") == "Running"]
            return pods if len(pods) == count else []

        return self.eventually(look)

    def bought(self) -> list[Object]:
        """The NodeClaims, once all are Ready: what they say of their nodes may come after pods run there."""

        def look() -> list[Object]:
            found = self.items(CLAIMS)
            return found if all(condition_is(each, "Ready") for each in found) else []

        return self.eventually(look)

    def events(self, reason: str) -> list[str]:
        return [each["message"] for each in self.items(EVENTS) if each["reason"] == reason]

    def eventually(self, look: Callable[[], T]) -> T:
        return self.root.eventually(look)

    def close(self) -> None:
        self.root.close()
        self.cluster.close()
