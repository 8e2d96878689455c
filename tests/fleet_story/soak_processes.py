"""A hub and three workers as processes in network namespaces: killed, restarted, disconnected."""

from __future__ import annotations

import shlex
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import IO

from tests.faults.processes import command
from tests.fleet_story.netns import HUB, Network
from tests.story.api import HANG, Api, eventually

WORKERS = ("w1", "w2", "w3")
CAPACITY = 30
PORT = 6443


class Processes:
    """What each says goes to a file of its name."""

    def __init__(self, directory: Path, network: Network) -> None:
        self._directory, self._network = directory, network
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: dict[str, IO[bytes]] = {name: (directory / f"{name}.log").open("wb") for name in ("hub", *WORKERS)}
        self._flags: dict[str, list[str]] = {}
        self._apis: list[Api] = []

    def join(self) -> None:
        """The hub, and the workers by the commands it prints."""
        self.start("hub")
        eventually(lambda: self._has("hub", "kubeconfig"))
        for worker in WORKERS:
            self._flags[worker] = self._printed(worker)
            self.start(worker)
        for worker in WORKERS:
            eventually(partial(self._has, worker, "hub.kubeconfig"), self.said)
            self._flags[worker] = ["--name", worker]

    def _printed(self, worker: str) -> list[str]:
        file = str(self._directory / "hub" / "kubeconfig")
        create = command("join-token", "create", "--name", worker, "--kubeconfig", file)
        end = time.monotonic() + HANG
        while True:
            made = subprocess.run(create, capture_output=True, text=True, check=False, timeout=HANG)
            if not made.returncode:
                return shlex.split(made.stdout)[2:]
            assert time.monotonic() < end, made.stderr
            time.sleep(0.2)

    def start(self, name: str) -> None:
        """Does not wait for it."""
        if name in self._running:
            return
        flags = ["--data-dir", str(self._directory / name)]
        if name == "hub":
            flags += ["--listen", f"0.0.0.0:{PORT}", "--advertise-address", HUB]
        else:
            flags += ["--listen", f"{self._network.direct(name)}:{PORT}", "--capacity", str(CAPACITY)]
            flags += self._flags[name]
        verb = "hub" if name == "hub" else "worker"
        within = ["ip", "netns", "exec", self._network.namespace(name)]
        self._running[name] = subprocess.Popen([*within, *command(verb, *flags)], stderr=self._logs[name])

    def kill(self, name: str) -> None:
        process = self._running.pop(name, None)
        if process is not None:
            assert process.poll() is None, f"{name} ended with {process.returncode} by itself: {self.said()[name]}"
            process.kill()
            process.wait(HANG)

    def _has(self, name: str, file: str) -> bool:
        """A file that is there when it serves."""
        process = self._running[name]
        assert process.poll() is None, f"{name} ended with {process.returncode} by itself: {self.said()[name]}"
        return (self._directory / name / file).exists()

    def api(self, name: str) -> Api:
        """The administrator of the hub, or of a worker's own root. Closed with the processes."""
        self._apis.append(Api.of(self._directory / name))
        return self._apis[-1]

    def said(self) -> dict[str, str]:
        return {name: Path(log.name).read_text(errors="replace")[-4000:] for name, log in self._logs.items()}

    def close(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait(HANG)
        for api in self._apis:
            api.close()
        for log in self._logs.values():
            log.close()
