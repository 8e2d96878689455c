"""A hub and a cluster on any servers, with synced objects, for tests of data loss."""

from __future__ import annotations

import base64

from shoal.assemble.storage.datadir import render_kubeconfig
from tests.serving import Cluster, config_map
from tests.sync.sync_environment import WORKLOAD_CLUSTERS, Object, condition, deployment, workload_cluster

ASSIGNED = "workloads.kcp.dev/cluster"
CONFIG_MAPS, DEPLOYMENTS = "/api/v1/namespaces/default/configmaps", "/apis/apps/v1/namespaces/default/deployments"


def with_config(name: str, cluster: str, config: str) -> Object:
    """A Deployment that names a ConfigMap."""
    made = deployment(name, cluster)
    made["spec"]["template"]["spec"]["volumes"] = [{"name": "v", "configMap": {"name": config}}]
    return made


class Pair:
    """A hub and a cluster, of any servers; some objects of the one are in the other."""

    def __init__(self, hub: Cluster, member: Cluster, name: str = "east") -> None:
        self.hub, self.member, self.name = hub, member, name
        self.uids: dict[str, str] = {}

    def register(self, name: str = "", port: int = 0) -> None:
        self.name = name or self.name
        server = self.member.server
        url = f"https://127.0.0.1:{port or server.port}{self.member.prefix}"
        text = render_kubeconfig(url, server.authority, server.token)
        secret = {"metadata": {"name": self.name}, "data": {"value": base64.b64encode(text.encode()).decode()}}
        self.hub.post("/api/v1/namespaces/default/secrets", secret).ok()
        reference = {"kubeconfigSecretRef": {"namespace": "default", "name": self.name}}
        self.hub.post(WORKLOAD_CLUSTERS, workload_cluster(self.name, reference)).ok()
        self.ready()

    def ready(self) -> None:
        self.hub.eventually(lambda: self.condition("Ready").get("status") == "True")

    def condition(self, kind: str, status: str = "") -> Object:
        found = self.hub.get(f"{WORKLOAD_CLUSTERS}/{self.name}")
        told = condition(found.json, kind) if found.status == 200 else {}
        return told if not status or told.get("status") == status else {}

    def told(self, kind: str, status: str = "True") -> Object:
        return self.hub.eventually(lambda: self.condition(kind, status))

    def fill(self) -> None:
        """A Deployment with its ConfigMap, and a labelled ConfigMap."""
        self.hub.post(CONFIG_MAPS, config_map("needed", {"a": "1"})).ok()
        self.hub.post(CONFIG_MAPS, config_map("settings", {"a": "1"}, labels={ASSIGNED: self.name})).ok()
        self.hub.post(DEPLOYMENTS, with_config("web", self.name, "needed")).ok()
        for path in (f"{CONFIG_MAPS}/needed", f"{CONFIG_MAPS}/settings", f"{DEPLOYMENTS}/web"):
            self.uids[path] = str(self.member.eventually(lambda path=path: self.uid_of(path)))  # type: ignore[misc]
        self.hub.eventually(lambda: self.hub.get(f"{DEPLOYMENTS}/web").ok().get("status"))

    def uid_of(self, path: str) -> str:
        found = self.member.get(path)
        metadata = found["metadata"] if found.status == 200 else {}
        return "" if "deletionTimestamp" in metadata else str(metadata.get("uid", ""))

    def all_there(self) -> None:
        assert {path: self.uid_of(path) for path in self.uids} == self.uids

    def still_synced(self) -> None:
        """A change arrives: whatever was to come of what broke has come."""
        path = f"{CONFIG_MAPS}/settings"
        self.hub.patch(path, {"data": {"now": "2"}}).ok()
        self.member.eventually(lambda: self.member.get(path)["data"].get("now") == "2")
        self.all_there()
