"""A `shoal hub` and three `shoal worker` that joined it by token, all processes; each worker's links can be cut."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.faults.processes import Up, command
from tests.fleet.fleets import managed
from tests.fleet_story.convergence import unsettled
from tests.fleet_story.links import Link, Links
from tests.story.api import HANG, Api, eventually
from tests.story.story import FLEET, MANAGED, phase

Object = dict[str, Any]

WORKERS = ("w1", "w2", "w3")
READY = "the worker's own API is at "


class Apart:
    """`nats` is the port of a NATS server that is the bus; None: they watch the hub."""

    def __init__(self, directory: Path, links: Links, nats: int | None = None) -> None:
        self._directory, self._links = directory, links
        bus = ("--bus", f"nats://127.0.0.1:{nats}") if nats else ()
        self._processes: dict[str, Up] = {"hub": Up(directory / "hub", *bus, verb="hub")}
        self.hub = Api.of(directory / "hub")
        self.links: dict[str, list[Link]] = {}
        for worker in WORKERS:
            targets = [self._processes["hub"].port, *([nats] if nats else [])]
            self.links[worker] = [links.make(target) for target in targets]
        try:
            with ThreadPoolExecutor() as all_at_once:
                list(all_at_once.map(self._join, WORKERS))
        except BaseException:
            self.close()
            raise
        self.own = {worker: Api.of(directory / worker) for worker in WORKERS}
        eventually(lambda: [phase(obj) for obj in self.hub.items(f"{FLEET}/workers")] == ["Running"] * len(WORKERS))

    def _join(self, worker: str) -> None:
        """By the command that the hub prints, except that the way to it is the link."""
        file = str(self._directory / "hub" / "kubeconfig")
        made = subprocess.run(
            command("join-token", "create", "--name", worker, "--kubeconfig", file),
            capture_output=True,
            text=True,
            check=True,
            timeout=HANG,
        )
        flags = shlex.split(made.stdout)[2:]
        hub, *bus = (f"127.0.0.1:{link.port}" for link in self.links[worker])
        flags[flags.index("--hub") + 1] = f"https://{hub}"
        more = ("--bus", f"nats://{bus[0]}") if bus else ()
        self._processes[worker] = Up(self._directory / worker, *flags, *more, verb="worker", ready=READY)

    def create(self, name: str, **spec: Any) -> None:
        """Not registered: what the hub's syncer says through the tunnel is not the bus's."""
        self.hub.request("POST", MANAGED, managed(name, nodes=0, register=False, **spec))

    def change(self, name: str, word: str) -> None:
        """Something the worker has to take over and to answer, and no more than that."""
        self.hub.merge(f"{MANAGED}/{name}", {"spec": {"preferredLocations": [word]}})

    def delete(self, name: str) -> None:
        self.hub.delete(f"{MANAGED}/{name}")

    def cut(self, *workers: str) -> None:
        for worker in workers:
            self._links.cut(*self.links[worker])

    def restore(self) -> None:
        for links in self.links.values():
            self._links.restore(*links)

    def carried(self) -> int:
        return sum(link.carried for links in self.links.values() for link in links)

    def settled(self, names: Sequence[str]) -> dict[str, str]:
        """Until these and no others run, each as it was last changed, and on one worker; answers on which."""
        wanted = set(names)
        eventually(
            lambda: not unsettled(self.hub, self.own, wanted),
            lambda: (unsettled(self.hub, self.own, wanted), self.said()),
        )
        return {obj["metadata"]["name"]: obj["status"]["assignedWorker"] for obj in self.hub.items(MANAGED)}

    def said(self) -> dict[str, str]:
        return {name: process.said_since_ready for name, process in self._processes.items()}

    def close(self) -> None:
        for api in (self.hub, *getattr(self, "own", {}).values()):
            api.close()
        for process in self._processes.values():
            process.close()
