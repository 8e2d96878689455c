"""Tenants of a server: a logical cluster each, and a ServiceAccount that may do everything in it.

`OtherTenant` is a process of its own: whoever drives a crowd is too busy to tell the time.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from tests.faults.growth.run import account
from tests.faults.processes import HANG, Client, Up

CLUSTERS = "/apis/core.shoal.dev/v1alpha1/logicalclusters"
MAPS = "/api/v1/namespaces/default/configmaps"
PAUSE = 0.02


def add_tenant(admin: Client, name: str, limits: dict[str, object] | None = None) -> str:
    """Returns the token of the tenant."""
    body = {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": name}}
    admin.request("POST", CLUSTERS, body | {"spec": {"profile": "cluster", "limits": limits or {}}})
    return account(lambda method, path, body: admin.request(method, f"/clusters/{name}{path}", body), "tenant")


class OtherTenant:
    """Writes and reads one object again and again."""

    def __init__(self, up: Up, admin: Client, name: str = "other") -> None:
        token, authority = add_tenant(admin, name), str(up.data / "pki" / "ca.crt")
        self._context = multiprocessing.get_context("spawn")
        self._arguments = up.port, authority, token, f"/clusters/{name}{MAPS}", up.pid
        self.gets: list[float] = []
        self.puts: list[float] = []
        self.failures: list[str] = []
        self.largest = 0.0
        """The most memory that the server had, in MiB."""

    @contextmanager
    def at_work(self) -> Iterator[None]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, *self._arguments), daemon=True)
        process.start()
        try:
            assert ours.poll(HANG)
            ours.recv()
            yield
            ours.send(None)
            assert ours.poll(HANG)
            self.gets, self.puts, self.failures, self.largest = ours.recv()
        finally:
            process.terminate()
            process.join()

    def figures(self) -> str:
        return (
            f"another tenant, {len(self.gets)} rounds, p50 / p99 / max: GET {milliseconds(self.gets)}, "
            f"PUT {milliseconds(self.puts)}, {len(self.failures)} failures"
        )


def milliseconds(times: list[float]) -> str:
    ordered = sorted(times)
    picked = (ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)], ordered[-1])
    return " / ".join(f"{1000 * seconds:.0f}" for seconds in picked) + " ms"


def rss(pid: int) -> float:
    """Resident memory of a process, in MiB."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024


def _work(pipe: Connection, port: int, authority: str, token: str, path: str, pid: int) -> None:
    context = ssl.create_default_context(cafile=authority)
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=HANG)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    times: dict[str, list[float]] = {"GET": [], "PUT": []}
    failures: list[str] = []
    largest = 0.0

    def ask(method: str, path: str, text: str = "") -> None:
        body = json.dumps({"metadata": {"name": "a"}, "data": {"text": text}}) if method != "GET" else None
        began = time.monotonic()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status >= 300:
                failures.append(f"{method} {answer.status}: {content.decode(errors='replace')}")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            failures.append(f"{method}: {error}")
        times.setdefault(method, []).append(time.monotonic() - began)

    ask("POST", path)
    pipe.send(None)
    while not pipe.poll(PAUSE):
        ask("GET", f"{path}/a")
        ask("PUT", f"{path}/a", str(time.monotonic()))
        largest = max(largest, rss(pid))
    pipe.send((times["GET"], times["PUT"], failures, largest))
