"""A namespace of the test server as a management cluster, and builders of the objects in it."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.serving import Cluster, Server

Object = dict[str, Any]
T = TypeVar("T")

CORE = "cluster.x-k8s.io/v1beta2"
EMBEDDED = "infrastructure.cluster.x-k8s.io/v1alpha1"
LOGICAL = "/apis/core.shoal.dev/v1alpha1/logicalclusters"
_numbers = itertools.count(1)

ONE_FILE = """
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: east}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: EmbeddedCluster, name: east}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: EmbeddedCluster
metadata: {name: east}
spec: {version: v1.35.1}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: EmbeddedMachineTemplate
metadata: {name: east-default}
spec:
  template:
    spec:
      instanceType: small
      zone: embedded-b
      price: "0.04"
      capacity: {cpu: "2", memory: 8Gi, pods: "110"}
      labels: {disk: fast}
      taints: [{key: dedicated, value: web, effect: NoSchedule}]
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: east-default}
spec:
  clusterName: east
  replicas: 3
  template:
    metadata:
      labels: {node.cluster.x-k8s.io/pool: default, team: blue}
    spec:
      clusterName: east
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: EmbeddedMachineTemplate, name: east-default}
"""

HEALTH_CHECK = """
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: east}
spec:
  clusterName: east
  selector: {matchLabels: {team: blue}}
  checks:
    nodeStartupTimeoutSeconds: 60
    unhealthyNodeConditions:
    - {type: Ready, status: "False", timeoutSeconds: 30}
    - {type: Ready, status: Unknown, timeoutSeconds: 30}
  remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 50%}}
"""


class Management:
    """One namespace; `path` and the verbs below it name objects by kind and name."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.root = Cluster(server, "root")
        self.namespace = f"capi{next(_numbers)}"
        self.root.post("/api/v1/namespaces", {"metadata": {"name": self.namespace}}).ok()

    def path(self, plural: str, name: str = "") -> str:
        version = EMBEDDED if plural.startswith("embedded") else CORE
        prefix = "/api/v1" if plural == "secrets" else f"/apis/{version}"
        return f"{prefix}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def apply(self, text: str = ONE_FILE) -> None:
        for obj in yaml.safe_load_all(text):
            if obj["kind"] == "Cluster":  # it is not to become a workload Cluster of the test server's hub
                obj["metadata"].setdefault("annotations", {})["workloads.kcp.dev/register"] = "false"
            self.root.post(self.path(f"{obj['kind'].lower()}s"), obj).ok()

    def get(self, plural: str, name: str) -> Object:
        found: Object = self.root.get(self.path(plural, name)).ok()
        return found

    def all(self, plural: str) -> list[Object]:
        found: list[Object] = self.root.get(self.path(plural)).ok()["items"]
        return found

    def names(self, plural: str) -> set[str]:
        return {obj["metadata"]["name"] for obj in self.all(plural)}

    def patch(self, plural: str, name: str, patch: Object) -> Object:
        patched: Object = self.root.patch(self.path(plural, name), patch).ok()
        return patched

    def delete(self, plural: str, name: str) -> None:
        self.root.delete(self.path(plural, name)).ok()

    def eventually(self, look: Callable[[], T]) -> T:
        return self.root.eventually(look)

    def scale(self, replicas: int) -> None:
        self.root.patch(
            self.path("machinedeployments", "east-default") + "/scale", {"spec": {"replicas": replicas}}
        ).ok()

    def settled(self, replicas: int) -> list[Object]:
        """The Machines, once there are that many, Running, and every one above them says so."""

        def look() -> list[Object]:
            machines = self.all("machines")
            fine = len(machines) == replicas and all(_is(machine, "Available") for machine in machines)
            status = self.get("machinedeployments", "east-default").get("status") or {}
            counts = [
                status.get(field) for field in ("replicas", "readyReplicas", "availableReplicas", "upToDateReplicas")
            ]
            return machines if fine and counts == [replicas] * 4 else []

        if replicas == 0:
            self.eventually(lambda: not self.all("machines"))
            return []
        return self.eventually(look)

    def hosted(self) -> Cluster:
        return Cluster(self.server, f"{self.namespace}.east")

    def kubeconfig(self, path: Path) -> Path:
        secret = self.get("secrets", "east-kubeconfig")
        path.write_bytes(base64.b64decode(secret["data"]["value"]))
        return path

    def everything(self) -> set[tuple[str, str]]:
        """Every object of every kind in the namespace, and every logical cluster."""
        found = {("logicalclusters", obj["metadata"]["name"]) for obj in self.root.get(LOGICAL).ok()["items"]}
        for prefix, plural in _namespaced(self.root):
            if plural != "events":
                items = self.root.get(f"{prefix}/namespaces/{self.namespace}/{plural}").ok()["items"]
                found |= {(plural, obj["metadata"]["name"]) for obj in items}
        return found


def _namespaced(root: Cluster) -> Iterator[tuple[str, str]]:
    groups = root.get("/apis").ok()["groups"]
    for prefix in ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]:
        for resource in root.get(prefix).ok()["resources"]:
            if resource["namespaced"] and "list" in resource["verbs"]:
                yield prefix, resource["name"]


def _is(obj: Object, type_: str, status: str = "True") -> bool:
    found = condition(obj, type_)
    return found is not None and found["status"] == status


def condition(obj: Object, type_: str) -> Object | None:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((found for found in conditions if found["type"] == type_), None)
