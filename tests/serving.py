"""One Shoal per test process, on loopback, and a fresh logical cluster per test.

The server runs in a thread with a loop of its own, as it runs in a process of its own for users: tests talk
to it over TLS and see what a client sees.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from shoal.assemble.server.hub import ShoalServer, ShoalServerSettings, StoreSettings
from shoal.assemble.storage.datadir import render_kubeconfig, write_private_file
from shoal.kinds.limits import DEFAULT_LIMITS, UNLIMITED, ClusterLimits
from shoal.objects.egress import LOOPBACK, EgressSettings

Object = dict[str, Any]
T = TypeVar("T")

HANG = 120.0
"""No test waits longer for anything: a hang guard, not a measure."""
REUSED_SECONDS = 60.0
"""A connection that rested for longer is opened anew: the server closes it after a while, perhaps just now."""
_numbers = itertools.count(1)


TEST_EGRESS = EgressSettings(LOOPBACK, discloses_failures=True)
"""Webhooks of tests are on loopback, in any logical cluster, and tests compare upstream's messages."""


class Server:
    """A `shoal up` in a thread."""

    def __init__(
        self,
        directory: Path,
        port: int = 0,
        store: StoreSettings | None = None,
        *,
        worker_processes: bool = False,
        root_profile: str = "",
        cluster_limits: ClusterLimits = DEFAULT_LIMITS,
        root_limits: ClusterLimits = UNLIMITED,
        egress: EgressSettings = TEST_EGRESS,
    ) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="shoal", daemon=True)
        self._thread.start()
        settings = ShoalServerSettings(
            directory,
            port=port,
            store=store or StoreSettings(),
            run_worker_processes=worker_processes,
            root_profile=root_profile,
            cluster_limits=cluster_limits,
            root_limits=root_limits,
            egress=egress,
        )
        self.shoal = self.call(ShoalServer.start(settings))
        self.port = self.shoal.server.port
        self.token = (directory / "admin-token").read_text().strip()
        self.authority = self.shoal.server.authority.certificate
        self.context = ssl.create_default_context(cadata=self.authority.decode())

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(HANG)

    def stop(self) -> None:
        self.call(self.shoal.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(HANG)
        self.loop.close()

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=HANG)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def __getitem__(self, key: str) -> Any:
        return self.json[key]

    def ok(self) -> Any:
        """The body of a success; the server's words otherwise."""
        assert self.status < 300, f"{self.status}: {self.body.decode(errors='replace')}"
        return self.json


class Cluster:
    """One logical cluster and a client of it: plain HTTP, so that every byte of a request is the test's."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.prefix = f"/clusters/{name}"
        self._connection = server.connect()
        self._used = time.monotonic()

    def request(
        self, method: str, path: str, body: object = None, *, token: str | None = None, **headers: str
    ) -> Answer:
        """`path` is below the cluster. A dict body is sent as JSON; header names use `_` for `-`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        token = self.server.token if token is None else token
        if token:
            sent.setdefault("Authorization", f"Bearer {token}")
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        if time.monotonic() - self._used > REUSED_SECONDS:
            self._connection.close()
        self._used = time.monotonic()
        try:
            self._connection.request(method, self.prefix + path, data, sent)
            answer = self._connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        except (http.client.HTTPException, OSError):
            self._connection.close()
            raise

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, **headers)

    def post(self, path: str, body: object, **headers: str) -> Answer:
        return self.request("POST", path, body, **headers)

    def put(self, path: str, body: object, **headers: str) -> Answer:
        return self.request("PUT", path, body, **headers)

    def patch(self, path: str, body: object, kind: str = "merge", **headers: str) -> Answer:
        content = "apply-patch+yaml" if kind == "apply" else f"{kind}-patch+json"
        return self.request("PATCH", path, body, Content_Type=f"application/{content}", **headers)

    def delete(self, path: str, body: object = None, **headers: str) -> Answer:
        return self.request("DELETE", path, body, **headers)

    def watch(self, path: str, **headers: str) -> Watch:
        return Watch(self, path, headers)

    def eventually(self, look: Callable[[], T]) -> T:
        """Looks again until the answer is true."""
        end = time.monotonic() + HANG
        while time.monotonic() < end:
            found = look()
            if found:
                return found
            time.sleep(0.01)
        raise AssertionError(f"still {look()!r} after {HANG:.0f} s")

    def kubeconfig(self, path: Path, token: str | None = None) -> Path:
        """A kubeconfig of this logical cluster, for real clients."""
        url = f"https://127.0.0.1:{self.server.port}{self.prefix}"
        write_private_file(path, render_kubeconfig(url, self.server.authority, token or self.server.token))
        return path

    def close(self) -> None:
        self._connection.close()


class Watch:
    """An open watch: iterate for events; `next()` waits for one."""

    def __init__(self, cluster: Cluster, path: str, headers: dict[str, str]) -> None:
        self._connection = cluster.server.connect()
        joiner = "&" if "?" in path else "?"
        sent = {"Authorization": f"Bearer {cluster.server.token}"}
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        self._connection.request("GET", f"{cluster.prefix}{path}{joiner}watch=true", headers=sent)
        self.answer = self._connection.getresponse()

    def __iter__(self) -> Iterator[Object]:
        for line in self.answer:
            if line.strip():
                yield json.loads(line)

    def next(self) -> Object:
        return next(iter(self))

    def take(self, count: int) -> list[Object]:
        return [self.next() for _ in range(count)]

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


@contextmanager
def running_server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="shoal-test-") as directory:
        server = Server(Path(directory))
        try:
            yield server
        finally:
            server.stop()


def fresh_cluster(server: Server, profile: str = "hub") -> Cluster:
    name = f"t{next(_numbers)}"
    root = Cluster(server, "root")
    body = {
        "apiVersion": "core.shoal.dev/v1alpha1",
        "kind": "LogicalCluster",
        "metadata": {"name": name},
        "spec": {"profile": profile},
    }
    root.post("/apis/core.shoal.dev/v1alpha1/logicalclusters", body).ok()
    root.close()
    return Cluster(server, name)


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def widget_definition(**version: object) -> Object:
    """A CRD with the features most tests need; `version` overrides fields of its one version."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1},
                    "replicas": {"type": "integer", "default": 1},
                    "color": {"type": "string", "enum": ["red", "blue"]},
                    "parts": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
                        },
                    },
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    served: Object = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }
    names = {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [served | version]},
    }


def widget(name: str, size: int = 1, **metadata: object) -> Object:
    meta = {"name": name, **metadata}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta, "spec": {"size": size}}


def config_map(name: str, data: dict[str, str] | None = None, **metadata: object) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {}}
