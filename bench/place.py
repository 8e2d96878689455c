"""Where pods are benchmarked: one API, of a hosted cluster or of a whole server, asked over several connections."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import yaml

from bench.servers import BenchmarkFailed, BenchServer, Shoal

Object = dict[str, Any]
CONNECTIONS = 8
LONGEST = 600.0


class BenchTarget:
    def __init__(self, server: BenchServer, path: str = "") -> None:
        self.server, self.path = server, path

    def must(self, method: str, path: str, body: Any = None) -> Any:
        return self.server.must(method, self.path + path, body)

    def create(self, path: str, objects: Iterator[Object]) -> None:
        turn = threading.Lock()

        def work(_: int) -> None:
            connection = self.connect()
            while True:
                with turn:
                    body = next(objects, None)
                if body is None:
                    break
                headers = {**self.headers(), "Content-Type": "application/json"}
                connection.request("POST", self.path + path, orjson.dumps(body), headers)
                answer = connection.getresponse()
                said = answer.read()
                if answer.status >= 300:
                    raise BenchmarkFailed(f"{path}: {answer.status} {said[:500].decode()}")
            connection.close()

        with ThreadPoolExecutor(CONNECTIONS) as threads:
            list(threads.map(work, range(CONNECTIONS)))

    def kubeconfig(self, file: Path) -> Path:
        server = f"https://{self.server.host}:{self.server.port}{self.path}"
        text = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "u", "user": {"token": self.server.token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        file.write_text(yaml.safe_dump(text))
        return file

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.server.token}"}

    def connect(self) -> http.client.HTTPSConnection:
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection(self.server.host, self.server.port, timeout=LONGEST, context=context)


class HostedTarget(BenchTarget):
    """A hosted cluster, made for the occasion."""

    def __init__(self, server: Shoal, name: str) -> None:
        super().__init__(server, f"/clusters/{name}")
        body = {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": name}}
        clusters = "/apis/core.shoal.dev/v1alpha1/logicalclusters"
        server.must("POST", clusters, {**body, "spec": {"profile": "cluster"}})
        for _ in range(1000):
            if server.ask("GET", f"{self.path}/api/v1/namespaces/default/serviceaccounts/default")[0] == 200:
                return
            time.sleep(0.02)
        raise BenchmarkFailed(f"{name} did not become ready")
