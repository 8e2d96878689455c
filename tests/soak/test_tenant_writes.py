"""A tenant that writes for ten minutes (`make soak`; SHOAL_TENANT_MINUTES): memory and file of the server stay bounded,
and another tenant is served meanwhile. The server is a process of its own.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.processes import Client, Refused, Up
from tests.soak.tenants import MAPS, OtherTenant, add_tenant, rss

pytestmark = pytest.mark.soak

MINUTES = float(os.environ.get("SHOAL_TENANT_MINUTES", "10"))
RSS_LIMIT = 768
"""MiB of the server's process. Its limits allow the tenant 64 MiB of objects, 16 MiB of Events and 32 MiB of history;
a server without clients needs about 130 MiB, and requests under way the rest."""
FILE_LIMIT = 2 << 30
"""Bytes of the store and its log: objects, history of at most 256 MiB, and pages that are free to be used again."""
LIMITS: dict[str, object] = {"objects": 2000, "bytes": "64Mi", "history": "32Mi"}
WRITERS = 8


def file_size(data: Path) -> int:
    return sum(file.stat().st_size for file in data.glob("shoal.db*"))


def config_map(name: str, text: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}}


def event(name: str, text: str) -> dict[str, object]:
    about = {"kind": "ConfigMap", "name": "a", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": about, "message": text}


class Tenant:
    """Writes as fast as it can: rewrites of large objects, many small ones, names that never come back."""

    def __init__(self, up: Up, token: str) -> None:
        self._up, self._token = up, token
        self._ends = threading.Event()
        self.answers: Counter[int] = Counter()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def _write(self, number: int) -> None:
        dice, client, count = random.Random(number), self._up.client(self._token), 0
        path, events = f"/clusters/loud{MAPS}", "/clusters/loud/api/v1/namespaces/default/events"
        while not self._ends.is_set():
            count += 1
            kind = number % 4
            size = dice.choice((100, 10_000, 1_000_000)) if kind else 1_040_000
            text = dice.choice("abcdefgh") * size
            if kind == 0:
                self._try(client, "PUT", f"{path}/large-{number}", config_map(f"large-{number}", text))
                self._try(client, "POST", path, config_map(f"large-{number}", text))
            elif kind == 1:
                name = f"small-{number}-{dice.randrange(3000)}"
                self._try(client, "POST", path, config_map(name, text))
                self._try(client, "DELETE", f"{path}/small-{number}-{dice.randrange(3000)}", None)
            elif kind == 2:
                name = f"once-{number}-{count}"
                self._try(client, "POST", path, config_map(name, "x" * 50))
                self._try(client, "DELETE", f"{path}/{name}", None)
            else:
                self._try(client, "POST", events, event(f"event-{number}-{count}", text[:20_000]))

    def _try(self, client: Client, method: str, path: str, body: object) -> None:
        try:
            client.request(method, path, body)
            self.answers[200] += 1
        except Refused as error:
            self.answers[error.status] += 1
        except (OSError, http.client.HTTPException):
            self.answers[0] += 1


def test_a_tenant_that_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    up = Up(tmp_path / "data", verb="hub")
    try:
        admin = up.client()
        tenant, other = Tenant(up, add_tenant(admin, "loud", LIMITS)), OtherTenant(up, admin)
        start, files = rss(up.pid), [file_size(up.data)]
        with other.at_work():
            tenant.start()
            try:
                end = time.monotonic() + 60 * MINUTES
                while time.monotonic() < end:
                    time.sleep(0.05)
                    files.append(file_size(up.data))
            finally:
                tenant.stop()
        used = [line for line in _metrics(up) if line.startswith("shoal_logical_cluster") and '"loud"' in line]
        with capsys.disabled():
            print(f"\n{MINUTES:g} minutes, answers {dict(tenant.answers)}")
            print(f"RSS in MiB: start {start:.0f}, peak {other.largest:.0f}, end {rss(up.pid):.0f}")
            print(f"store in MiB: peak {max(files) >> 20}, end {files[-1] >> 20}")
            print(other.figures())
            print("\n".join(used))
        assert other.largest < RSS_LIMIT
        assert not other.failures
        assert max(files) < FILE_LIMIT
        assert tenant.answers[200] > 100
    finally:
        up.close()


def _metrics(up: Up) -> list[str]:
    connection = http.client.HTTPSConnection("127.0.0.1", up.port, context=up.context, timeout=60)
    with suppress(json.JSONDecodeError):
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {up.token}"})
    text = connection.getresponse().read().decode()
    connection.close()
    return text.splitlines()
