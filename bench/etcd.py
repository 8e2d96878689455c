"""An etcd for a server, with the same flags for every one; and Shoal with its objects in etcd.

There are two variants: an etcd cluster that other servers may write to, which a consistent read has to query, and a
local etcd that Shoal starts for itself alone.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.measure import Make
from bench.processes import tree
from bench.servers import START_SECONDS, BenchmarkFailed, BenchServer, Shoal, free_port


class EtcdProcess:
    """Its port and data stay the same over restarts; it belongs to the processes of that server."""

    def __init__(self, program: Path, server: BenchServer) -> None:
        self._program, self._server = program, server
        self._port = self._peer_port = 0

    @property
    def endpoint(self) -> str:
        self._port = self._port or free_port()
        return f"http://127.0.0.1:{self._port}"

    @contextmanager
    def first(self) -> Iterator[None]:
        """It is started before what comes in this block, and stopped after that."""
        self._peer_port = self._peer_port or free_port()
        peer = f"http://127.0.0.1:{self._peer_port}"
        command = [str(self._program), "--name=bench", f"--data-dir={self._server.directory / 'etcd'}"]
        command += [f"--listen-client-urls={self.endpoint}", f"--advertise-client-urls={self.endpoint}"]
        command += [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"]
        self._server.launch("etcd", [*command, f"--initial-cluster=bench={peer}", "--log-level=warn"])
        self._wait()
        try:
            yield
        finally:
            processes = self._server.processes
            processes["etcd"] = processes.pop("etcd")

    def _wait(self) -> None:
        """Its port, before the server is started: that one's retries would be counted as its own slowness."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if _accepts(self._port):
                return
            if self._server.processes["etcd"].poll() is not None:
                break
            time.sleep(0.005)
        raise BenchmarkFailed("etcd did not start")


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


class ShoalOnEtcd(Shoal):
    """`shoal hub --etcd-servers`, as one of several servers would be."""

    name = "Shoal on etcd"

    def __init__(self, directory: Path, etcd: Path) -> None:
        super().__init__(directory)
        self._etcd = EtcdProcess(etcd, self)
        self.command = ("hub", "--etcd-servers", self._etcd.endpoint)

    def start(self) -> float:
        began = time.perf_counter()
        with self._etcd.first():
            super().start()
        return time.perf_counter() - began


class ShoalWithLocalEtcd(Shoal):
    """`shoal hub --store etcd`, which starts the etcd it finds on PATH."""

    name = "Shoal with a local etcd"
    command = ("hub", "--store", "etcd")

    def __init__(self, directory: Path, etcd: Path) -> None:
        super().__init__(directory)
        self._program = etcd

    def environ(self) -> dict[str, str]:
        found = super().environ()
        return found | {"PATH": os.pathsep.join([str(self._program.parent), found.get("PATH", "")])}

    def pids(self) -> dict[str, list[int]]:
        etcd = tree(int((self.data / "etcd" / "pid").read_text()))
        ours = [pid for pid in super().pids()["shoal"] if pid not in etcd]
        return {"shoal": ours, "etcd": etcd}


def ways(etcd: Path) -> dict[str, Make]:
    return {
        "shared etcd": lambda directory: ShoalOnEtcd(directory, etcd),
        "local etcd": lambda directory: ShoalWithLocalEtcd(directory, etcd),
    }
