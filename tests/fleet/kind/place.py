"""A hub with a worker that provides kind clusters. kind is the stand-in, and a real Shoal server stands where the API
server of every kind cluster would be.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.assemble.server.shoal_server import ShoalServer
from shoal.client.rest import Client, GroupVersionResource
from shoal.fleet.resources import CLUSTER_ROLE_BINDINGS, MANAGED_CLUSTERS, SECRETS, WORKERS
from tests.capi.kind.fake_kind import Standin
from tests.certificates import issue_client, signer_of
from tests.fleet.fleets import condition, eventually, managed, phase
from tests.fleet.test_hub_users import CLUSTER_ROLES, MANAGED, RBAC, USERS, Inside

Object = dict[str, Any]

KIND_CLUSTERS = GroupVersionResource("infrastructure.cluster-k8s.io", "v1alpha1", "kindclusters")
NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
ADMIN = "kubernetes-admin"
KIND_TEMPLATE = """apiVersion: v1
kind: Config
clusters:
- name: kind-NAME
  cluster: {{server: "{server}", certificate-authority-data: {ca}}}
contexts:
- name: kind-NAME
  context: {{cluster: kind-NAME, user: kind-NAME}}
current-context: kind-NAME
users:
- name: kind-NAME
  user: {{client-certificate-data: {certificate}, client-key-data: {key}}}
"""


class KindPlace:
    def __init__(self, up: HubWithWorkers, api: ShoalServer, standin: Standin) -> None:
        self.up, self.api, self.standin = up, api, standin
        self.admin, self.inside = up.hub.client("test"), api.client("test")
        self.own = up.workers[0].shoal.client("test")
        for token, user in USERS.items():
            up.hub.server.core.authenticator.add_static_token(token, user)

    async def prepare(self) -> None:
        """Lets the users of the hub ask for tokens."""
        rule = {"apiGroups": ["infrastructure.cluster.x-k8s.io"], "resources": ["managedclusters/token"]}
        role = {"metadata": {"name": "enter"}, "rules": [{**rule, "verbs": ["create"]}]}
        await self.admin.create(CLUSTER_ROLES, {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", **role})
        subjects = [{"kind": "Group", "name": "staff", "apiGroup": RBAC}]
        reference = {"kind": "ClusterRole", "name": "enter", "apiGroup": RBAC}
        binding = {"metadata": {"name": "enter"}, "roleRef": reference, "subjects": subjects}
        await self.admin.create(
            CLUSTER_ROLE_BINDINGS, {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", **binding}
        )

    async def create(self, name: str, **spec: Any) -> Object:
        return await self.admin.create(MANAGED_CLUSTERS, managed(name, infrastructure="kind", **spec), "default")

    async def get(self, name: str) -> Object:
        return await self.admin.get(MANAGED_CLUSTERS, name, "default")

    async def merge(self, name: str, **spec: Any) -> Object:
        return await self.admin.merge_patch(MANAGED_CLUSTERS, name, {"spec": spec}, "default")

    async def running(self, name: str) -> Object:
        last: list[Object | None] = []

        async def look() -> Object | None:
            obj = await self.get(name)
            last[:] = [obj.get("status")]
            return obj if phase(obj) == "Running" else None

        return await eventually(look)

    async def says(self, name: str, type_: str, reason: str) -> Object:
        async def look() -> Object | None:
            found = condition(await self.get(name), type_)
            return found if found.get("reason") == reason else None

        return await eventually(look)

    async def worker_says(self, type_: str, reason: str) -> Object:
        async def look() -> Object | None:
            workers, _ = await self.admin.list_all(WORKERS)
            found = condition(workers[0], type_) if workers else {}
            return found if found.get("reason") == reason else None

        return await eventually(look)

    async def kubeconfig(self, name: str) -> str:
        secret = await self.admin.get(SECRETS, f"{name}-kubeconfig", "default")
        return base64.b64decode(secret["data"]["value"]).decode()

    def hub(self, token: str) -> Client:
        return Client(self.up.hub.server.transport(), token)

    async def token(self, who: str, name: str = "east") -> str:
        answer = await self.hub(who).request("POST", f"{MANAGED}/{name}/token", body={"spec": {}})
        return str(answer["status"]["token"])

    async def enter(self, who: str, name: str = "east") -> Inside:
        return Inside(self.hub(await self.token(who, name)), name)


async def administrator_kubeconfig(api: ShoalServer) -> str:
    """As kind writes it: with a certificate of the administrator, of the authority of that API server."""
    keys = api.server.core.keys
    await keys.ensure_root_ca("root")
    issued = issue_client(signer_of(keys, "root"), ADMIN, ["system:masters"], cluster="root")

    def encoded(pem: bytes) -> str:
        return base64.b64encode(pem).decode()

    return KIND_TEMPLATE.format(
        server=api.server.url,
        ca=encoded(api.server.authority.certificate),
        certificate=encoded(issued.certificate),
        key=encoded(issued.key),
    )


@asynccontextmanager
async def kind_place(
    directory: Path, monkeypatch: pytest.MonkeyPatch, images: Mapping[str, str] | None = None
) -> AsyncIterator[KindPlace]:
    (directory / "kind").mkdir()
    standin = Standin(directory / "kind")
    monkeypatch.setenv("PATH", f"{standin.path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    api = await ShoalServer.start(ShoalServerSettings(directory / "api", port=0, is_hub=False, root_profile="cluster"))
    up: HubWithWorkers | None = None
    try:
        standin.write("template", await administrator_kubeconfig(api))
        workers = InProcessWorkers(1, kind_images=images if images is not None else {})
        up = await HubWithWorkers.start(ShoalServerSettings(directory / "hub", port=0), workers)
        place = KindPlace(up, api, standin)
        await place.prepare()
        yield place
    finally:
        if up is not None:
            await up.stop()
        await api.stop()
        await asyncio.sleep(0)
