"""User load on a fleet under faults: creates, changes and deletes ManagedClusters, and writes inside them.

Each runs in a thread until it is stopped. Requested and acknowledged writes are kept for the checks.
"""

from __future__ import annotations

import base64
import random
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from tests.faults.processes import Refused
from tests.fleet.fleets import managed
from tests.fleet_story.single_writer import Given, Written
from tests.serving import config_map
from tests.story.api import HANG, LOST, Api
from tests.story.story import MANAGED, SECRETS, phase

Object = dict[str, Any]

MOST = 18
PATIENCE = 4.0
"""Seconds: who writes inside a cluster does not wait longer for an answer."""
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Working(ABC):
    """One thread; what went wrong in it is raised where it is stopped."""

    pause = 0.1

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._wrong: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(2 * HANG)
        assert not self._thread.is_alive(), f"{self._thread.name} hangs"
        self.check()

    def check(self) -> None:
        if self._wrong is not None:
            raise self._wrong

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self.pause):
                self.once()
        except BaseException as error:
            self._wrong = error

    @abstractmethod
    def once(self) -> None: ...


class Load(Working):
    """Asks again until it is answered, so that it knows what there has to be."""

    pause = 0.3

    def __init__(self, hub: Api, dice: random.Random, moving: int) -> None:
        super().__init__()
        self._hub, self._dice, self._number = hub, dice, 0
        self.wanted: dict[str, Object] = {}
        self.moving = [f"m{number}" for number in range(moving)]
        for name in self.moving:
            self._create(name, onWorkerLost="Move")

    def once(self) -> None:
        others = [name for name in self.wanted if name not in self.moving]
        what = self._dice.choice(["create", "create", "change", "change", "delete"])
        if len(others) >= MOST:
            what = "delete"
        if what == "create" or not others:
            # Names come back, a while later.
            self._number += 1
            name = f"c{self._number % (3 * MOST)}"
            if name not in self.wanted:
                lost = "Move" if self.moving and self._dice.random() < 0.3 else "Stay"
                self._create(name, register=self._dice.random() < 0.2, onWorkerLost=lost)
        elif what == "change":
            name = self._dice.choice([*others, *self.moving])
            self.wanted[name] |= {"nodes": self._dice.choice((0, 1, 2))}
            self._hub.merge(f"{MANAGED}/{name}", {"spec": {"nodes": self.wanted[name]["nodes"]}})
        else:
            name = self._dice.choice(others)
            del self.wanted[name]
            self._hub.delete(f"{MANAGED}/{name}")

    def _create(self, name: str, **spec: Any) -> None:
        """Unless one of the name is still going: that may need a worker that is away."""
        spec = {"nodes": self._dice.choice((0, 1)), **spec}
        before = self._hub.get(f"{MANAGED}/{name}")
        if before is not None:
            return
        try:
            self._hub.request("POST", MANAGED, managed(name, **spec))
        except Refused as refused:
            if refused.status != 409:  # it was created, and the answer lost
                raise
        self.wanted[name] = spec


class Writers(Working):
    """Write inside the clusters, by their kubeconfigs and through the hub."""

    pause = 0.05

    def __init__(self, hub: Api, dice: random.Random) -> None:
        super().__init__()
        self._hub, self._dice, self._number = hub, dice, 0
        self.acknowledged: dict[str, dict[str, float]] = defaultdict(dict)
        """By uid of the ManagedCluster: names, and when."""

    def once(self) -> None:
        there = [obj for obj in self._hub.items(MANAGED) if phase(obj) == "Running"]
        if not there:
            return
        chosen = self._dice.choice(there)
        name, uid = chosen["metadata"]["name"], chosen["metadata"]["uid"]
        secret = self._hub.get(f"{SECRETS}/{name}-kubeconfig")
        if secret is None or secret["metadata"]["ownerReferences"][0]["uid"] != uid:
            return
        inside = impatient(Api(base64.b64decode(secret["data"]["value"]).decode()))
        self._number += 1
        written = f"n{self._number}"
        if acknowledged(inside, CONFIG_MAPS, written):
            self.acknowledged[uid][written] = time.monotonic()
        inside.close()


class Holders(Working):
    """Write into the clusters that may be moved, at one worker's own address and whoever has them: a worker that holds
    one says yes, all others no."""

    pause = 0.05

    def __init__(self, worker: str, own: Api, names: list[str]) -> None:
        super().__init__()
        self._worker, self._own, self._names, self._number = worker, impatient(own), names, 0
        self.written: dict[str, list[Written]] = defaultdict(list)

    def once(self) -> None:
        for name in self._names:
            self._number += 1
            began = time.monotonic()
            path = f"/clusters/default.{name}{CONFIG_MAPS}"
            if acknowledged(self._own, path, f"{self._worker}-{self._number}"):
                self.written[name].append(Written(self._worker, began, time.monotonic()))


class Witness(Working):
    """Sees whom the hub gives each cluster to: one worker in each epoch."""

    def __init__(self, hub: Api) -> None:
        super().__init__()
        self._hub = hub
        self.given: dict[str, dict[int, Given]] = defaultdict(dict)
        """By uid and epoch."""
        self._why: dict[str, set[str]] = defaultdict(set)

    def was_lost(self, uid: str) -> bool:
        """It was moved away from a worker that nothing was heard of."""
        return "WorkerLost" in self._why[uid]

    def once(self) -> None:
        for obj in self._hub.items(MANAGED):
            status, name, uid = obj.get("status") or {}, obj["metadata"]["name"], obj["metadata"]["uid"]
            if not status.get("assignedWorker"):
                continue
            seen = Given(int(status["epoch"]), status["assignedWorker"], time.monotonic())
            known = self.given[uid].setdefault(seen.epoch, seen)
            assert known.worker == seen.worker, f"{name} had two workers in epoch {seen.epoch}"
            assert seen.epoch == max(self.given[uid]), f"{name} went back to epoch {seen.epoch}"
            if status.get("lastMove"):
                self._why[uid].add(status["lastMove"]["reason"])
            if obj["spec"].get("onWorkerLost") != "Move":
                assert "WorkerLost" not in self._why[uid], f"{name} was to stay"


def acknowledged(api: Api, path: str, name: str) -> bool:
    try:
        api.once("POST", path, config_map(name))
    except (Refused, *LOST):
        return False
    return True


def impatient(api: Api) -> Api:
    api._connection.timeout = PATIENCE
    return api


def missing_writes(inside: Api, written: Mapping[str, float]) -> dict[str, float]:
    there = {obj["metadata"]["name"] for obj in inside.items(CONFIG_MAPS)}
    return {name: when for name, when in written.items() if name not in there}
