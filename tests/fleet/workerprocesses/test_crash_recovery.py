"""kill -9 of a hub and of its worker processes in turns: every cluster stays on its Worker, with exactly one
process.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.processes import Client, Up
from tests.fleet.fleets import condition, managed, phase
from tests.fleet.workerprocesses.test_processes import (
    CLUSTERS,
    WORKERS,
    eventually,
    is_locked,
    is_there,
    pid_of,
    worker,
)

NAMES = ("one", "two")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_killed_in_turns(tmp_path: Path, seed: int) -> None:
    dice, up = random.Random(seed), Up(tmp_path, "--workers", "0")
    try:
        client = up.client()
        eventually(lambda: is_there(client, "/api/v1/namespaces/shoal-system"))
        for name in NAMES:
            client.request("POST", WORKERS, worker(name))
        for number in range(6):
            client.request("POST", CLUSTERS, managed(f"c{number}", nodes=1))
        eventually(lambda: set(phases(client)) == {"Running"})
        hosts = homes(client)
        for turn in range(8):
            victim = dice.choice(["hub", *NAMES])
            if victim == "hub":
                up.close()
                up = Up(tmp_path, "--workers", "0")
                client = up.client()
            else:
                for pid in pids(tmp_path / "workers" / victim):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            come_and_go(client, f"turn{turn}")
        eventually(lambda: all(ready(client, tmp_path, name) for name in NAMES))
        eventually(lambda: set(phases(client)) == {"Running"} and homes(client) == hosts)
        code, _ = up.terminate()
        assert code == 0
        assert not any(is_locked(tmp_path / "workers" / name) for name in NAMES)
    finally:
        up.close()


def come_and_go(client: Client, name: str) -> None:
    client.request("POST", CLUSTERS, managed(name, nodes=1))
    eventually(lambda: phase(client.request("GET", f"{CLUSTERS}/{name}")) == "Running")
    client.request("DELETE", f"{CLUSTERS}/{name}")


def phases(client: Client) -> list[str]:
    return [phase(each) for each in client.request("GET", CLUSTERS)["items"]]


def homes(client: Client) -> dict[str, str]:
    found = client.request("GET", CLUSTERS)["items"]
    return {each["metadata"]["name"]: each["status"].get("assignedWorker", "") for each in found}


def ready(client: Client, hub: Path, name: str) -> bool:
    found = client.request("GET", f"{WORKERS}/{name}")
    return condition(found, "Ready").get("status") == "True" and pid_of(found, hub / "workers" / name) > 0


def pids(directory: Path) -> Iterator[int]:
    """All processes on that data, by their arguments."""
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with suppress(OSError):
                if str(directory).encode() in (each / "cmdline").read_bytes().split(b"\0"):
                    yield int(each.name)
