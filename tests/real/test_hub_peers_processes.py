"""Two hub processes and a worker process: the hub with the worker's tunnel is killed, and the other one takes over."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.etcd import running_etcd
from tests.faults.processes import HANG, Client, Up
from tests.fleet_story.links import Links
from tests.real.hubs import hub

Object = dict[str, Any]

FLEET = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/default/managedclusters"
EAST = "/managedclusters/default/east"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/shoal-system/leases/worker-far"


def eventually(check: Callable[[], object]) -> None:
    end = time.monotonic() + HANG
    while not check():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


def answer(up: Up, path: str, token: str) -> tuple[int, str, Object]:
    """Status, Retry-After and body of a GET."""
    connection = http.client.HTTPSConnection("127.0.0.1", up.port, context=up.context, timeout=HANG)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        found = connection.getresponse()
        return found.status, found.headers.get("Retry-After", ""), json.loads(found.read())
    finally:
        connection.close()


def east_token(client: Client) -> str:
    secret = client.request("GET", "/api/v1/namespaces/default/secrets/east-kubeconfig")
    text = base64.b64decode(secret["data"]["value"]).decode()
    return text.partition("token: ")[2].split()[0].strip("\"'")


def tunnel_hub(client: Client) -> str:
    annotations = client.request("GET", LEASE)["metadata"].get("annotations") or {}
    return str(annotations.get("shoal.dev/tunnel-hub", ""))


def test_the_hub_with_the_tunnel_is_killed(tmp_path: Path) -> None:
    with running_etcd() as etcd, Links() as links:
        ups = [hub(tmp_path / name, etcd, "/peers") for name in ("a", "b")]
        a, b = ups
        try:
            link = links.make(a.port)
            kubeconfig = tmp_path / "kubeconfig"
            text = (a.data / "kubeconfig").read_text()
            kubeconfig.write_text(text.replace(f"127.0.0.1:{a.port}", f"127.0.0.1:{link.port}"))
            join = ("--hub-kubeconfig", str(kubeconfig), "--name", "far")
            ups.append(Up(tmp_path / "far", *join, verb="worker", ready="the worker's own API is at "))
            client = b.client()
            meta = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "ManagedCluster"}
            spec = {"nodes": 0, "register": False}
            client.request("POST", FLEET, {**meta, "metadata": {"name": "east"}, "spec": spec})
            eventually(lambda: client.request("GET", f"{FLEET}/east").get("status", {}).get("phase") == "Running")
            token, path = east_token(client), f"{EAST}/api/v1/namespaces"
            assert tunnel_hub(client) == f"https://127.0.0.1:{a.port}"
            for up in (a, b):
                assert answer(up, path, token)[0] == 200
                assert answer(up, path, "wrong")[0] == 401
                assert answer(up, path, up.token)[0] == 401
                assert answer(up, "/hubs/tunnel", up.token)[0] == 401
            a.kill()
            eventually(lambda: answer(b, path, token)[2].get("message") == 'the hub of worker "far" does not answer')
            assert answer(b, path, token)[:2] == (503, "1")
            link.target = b.port
            eventually(lambda: answer(b, path, token)[0] == 200)
            eventually(lambda: tunnel_hub(client) == f"https://127.0.0.1:{b.port}")
            ups[0] = again = hub(a.data, etcd, "/peers")
            assert answer(again, path, token)[0] == 200
            assert "Traceback" not in b.said + again.said
        finally:
            for up in reversed(ups):
                up.close()
