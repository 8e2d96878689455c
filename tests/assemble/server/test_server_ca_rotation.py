"""The certificate authority of a running server is replaced: what the server serves and writes follows."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path

import pytest

from shoal.assemble.commands import rotate_ca
from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.client.kubeconfig import load
from shoal.client.rest import GroupVersionResource
from tests.serving_ports import request, trust

pytestmark = pytest.mark.anyio

CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")


async def test_a_running_server_follows(tmp_path: Path) -> None:
    settings = ShoalServerSettings(tmp_path, root_profile="cluster")
    running = await HubWithWorkers.start(settings, InProcessWorkers(0))
    try:
        server, client = running.hub.server, running.hub.client("test")
        assert server.reload_serving_certificate is not None
        former = server.authority.certificate.decode()

        async def root_ca() -> str:
            return str((await client.get(CONFIG_MAPS, "kube-root-ca.crt", "kube-system"))["data"]["ca.crt"])

        assert (await root_ca()).endswith(former)
        await asyncio.to_thread(rotate_ca.begin, tmp_path)
        assert await server.reload_serving_certificate()
        both = server.authority.certificate.decode()
        new = both.removesuffix(former)
        for trusted in (former, both, new):
            status, found = await request(server.port, trust(trusted), "/join/ca.crt")
            assert (status, found.decode()) == (200, both)
        assert (await root_ca()).endswith(both)
        await list_namespaces(tmp_path / "kubeconfig")
        await asyncio.to_thread(rotate_ca.finish, tmp_path)
        assert await server.reload_serving_certificate()
        for trusted in (both, new):
            status, found = await request(server.port, trust(trusted), "/join/ca.crt")
            assert (status, found.decode()) == (200, new)
        with pytest.raises(ssl.SSLCertVerificationError):
            await request(server.port, trust(former), "/version")
        assert (await root_ca()).endswith(new)
        assert former not in await root_ca()
        assert base64.b64encode(new.encode()).decode() in (tmp_path / "kubeconfig").read_text()
        await list_namespaces(tmp_path / "kubeconfig")
    finally:
        await running.stop()


async def list_namespaces(kubeconfig: Path) -> None:
    client = load(kubeconfig)
    try:
        assert (await client.request("GET", "/api/v1/namespaces"))["kind"] == "NamespaceList"
    finally:
        await client.close()
