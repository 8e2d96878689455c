"""The processes of one story: `shoal up` with its workers inside, or a hub and two `shoal worker` beside it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.etcd import Etcd
from tests.faults.processes import Up
from tests.story.api import Api

WORKERS = ("worker-1", "worker-2")
HUB = "hub"
WORKER_READY = "the worker's own API is at "


class Fleet:
    """Started when constructed. A process that is killed and started again has its data and its address."""

    def __init__(self, directory: Path, *, apart: bool, etcd: Etcd | None = None) -> None:
        self._directory, self._apart, self._etcd = directory, apart, etcd
        self.processes: dict[str, Up] = {}
        self._apis: dict[str, Api] = {}
        try:
            self.start(HUB)
            with ThreadPoolExecutor() as both:
                list(both.map(self.start, WORKERS if apart else ()))
        except BaseException:
            self.close()
            raise

    def start(self, name: str) -> None:
        data = self.data(name)
        if name == HUB:
            self.processes[name] = Up(data, *self._store(name), "--workers", "0" if self._apart else "2")
            return
        flags = ("--name", name, "--hub-kubeconfig", str(self.data(HUB) / "kubeconfig"))
        self.processes[name] = Up(data, *flags, *self._store(name), verb="worker", ready=WORKER_READY)

    def _store(self, name: str) -> tuple[str, ...]:
        if self._etcd is None:
            return ()
        prefix = f"/{self._directory.name}/{name}"
        return ("--etcd-servers", self._etcd.endpoint, "--etcd-prefix", prefix)

    @property
    def on_etcd(self) -> bool:
        """Which counts the writes of all its stores on one line."""
        return self._etcd is not None

    def data(self, name: str) -> Path:
        inside = self._directory / HUB / "workers" / name
        return inside if name != HUB and not self._apart else self._directory / name

    def restart(self, name: str) -> None:
        """kill -9, and the same command again."""
        self.processes[name].kill()
        self.start(name)

    def api(self, name: str = HUB) -> Api:
        """The administrator of the hub's or of a worker's own root."""
        if name not in self._apis:
            self._apis[name] = Api.of(self.data(name))
        return self._apis[name]

    def said(self) -> dict[str, str]:
        """What each process said since it was ready."""
        return {name: process.said_since_ready for name, process in self.processes.items()}

    def stop(self) -> dict[str, tuple[int, str]]:
        """By SIGTERM, workers first: each one's exit code, and what it said since it was ready."""
        for api in self._apis.values():
            api.close()
        return {name: self.processes[name].terminate() for name in reversed(self.processes)}

    def close(self) -> None:
        for api in self._apis.values():
            api.close()
        for process in self.processes.values():
            process.close()
