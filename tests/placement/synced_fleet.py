"""A hub with a splitter, syncers and two clusters, of which east has three nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from shoal.client.rest import Client
from shoal.kinds.shoal_crds import shoal_crds
from shoal.placement.splitter.controller import new_splitter_controllers
from shoal.sync.controllers import SyncSettings
from tests.serving import DEFINITIONS, Cluster, Server, fresh_cluster
from tests.sync.hub_cluster_pair import DEPLOYMENTS, Pair
from tests.sync.hub_server import Hurried, hub_loops, make_hub

Object = dict[str, Any]
PLACEMENTS = "/apis/placement.shoal.dev/v1alpha1/namespaces/default/placements"
PODS = "/api/v1/namespaces/default/pods"


@dataclass
class Fleet:
    hub: Cluster
    members: dict[str, Cluster]
    clock: Hurried

    def place(self, name: str, *kinds: str, **spec: Any) -> None:
        selects = [{"kind": kind, "name": name} for kind in kinds]
        body = {"apiVersion": "placement.shoal.dev/v1alpha1", "kind": "Placement", "metadata": {"name": name}}
        self.hub.post(PLACEMENTS, {**body, "spec": {"selects": selects, **spec}}).ok()

    def sizes(self, name: str) -> list[int]:
        """Of the leaves, by cluster."""
        found = [self.hub.get(f"{DEPLOYMENTS}/{name}--{cluster}") for cluster in self.members]
        return [one["spec"]["replicas"] if one.status == 200 else -1 for one in found]

    def pods(self) -> list[set[str]]:
        return [{pod["metadata"]["uid"] for pod in member.get(PODS).ok()["items"]} for member in self.members.values()]

    def said(self, name: str, annotation: str) -> str:
        found: str = (self.hub.get(f"{DEPLOYMENTS}/{name}")["metadata"].get("annotations") or {}).get(annotation, "")
        return found


@contextmanager
def synced_fleet(server: Server, *resources: str) -> Iterator[Fleet]:
    """`resources` are imported and synced."""
    hub, clock = make_hub(server), Hurried()
    for definition in shoal_crds("root"):
        if definition["spec"]["group"] == "placement.shoal.dev":
            body = {key: definition[key] for key in ("apiVersion", "kind", "spec")}
            hub.post(DEFINITIONS, {**body, "metadata": {"name": definition["metadata"]["name"]}}).ok()
    members = {}
    for name, nodes in (("east", 3), ("west", 6)):
        members[name] = fresh_cluster(server, profile="cluster")
        for number in range(nodes):
            _add_node(members[name], f"n{number}")

    async def start() -> asyncio.Task[None]:
        client = Client(server.shoal.server.transport(), server.token)
        [loop] = new_splitter_controllers(client, clock, hub.name)
        return asyncio.create_task(loop.run())

    async def stop(task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with hub_loops(server, hub, SyncSettings(resources), clock):
        task = server.call(start())
        for name, member in members.items():
            Pair(hub, member, name).register()
        yield Fleet(hub, members, clock)
        server.call(stop(task))
    for cluster in (hub, *members.values()):
        cluster.close()


def _add_node(member: Cluster, name: str) -> None:
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "100"}
    labels = {"shoal.dev/simulated": "true", "kubernetes.io/hostname": name}
    node = {"metadata": {"name": name, "labels": labels}, "spec": {"providerID": f"simulated://{name}"}}
    member.post("/api/v1/nodes", {**node, "status": {"capacity": capacity, "allocatable": capacity}}).ok()
