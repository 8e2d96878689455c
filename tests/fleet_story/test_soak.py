"""Minutes of kill -9, cut links and drains: every ManagedCluster is on one Worker, none is leaked, no acknowledged
write is lost, and none ever has two writable copies.

SHOAL_SOAK is the duration in seconds, SHOAL_SOAK_SEED the random seed, SHOAL_SOAK_MOVING how many clusters may be
migrated.
"""

from __future__ import annotations

import base64
import itertools
import os
import random
import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.fleet_story.convergence import unsettled
from tests.fleet_story.load import Holders, Load, Witness, Working, Writers, missing_writes
from tests.fleet_story.netns import Network, missing
from tests.fleet_story.single_writer import conflict
from tests.fleet_story.soak_processes import CAPACITY, WORKERS, Processes
from tests.serving import config_map
from tests.story.api import Api, eventually
from tests.story.story import FLEET, MANAGED, SECRETS, phase

SECONDS = float(os.environ.get("SHOAL_SOAK", "300"))
SEED = int(os.environ.get("SHOAL_SOAK_SEED", "8"))
MOVING = int(os.environ.get("SHOAL_SOAK_MOVING", "3"))
"""Clusters with onWorkerLost Move that are there from the beginning. With 0 none has it, and nobody is drained."""
DRAINS = os.environ.get("SHOAL_SOAK_DRAINS", "1") == "1"
SHORT, LONG = (0.0, 8.0), (52.0, 70.0)
"""Seconds somebody is away. After the long time a worker has lost what may be moved: a lease is 40 s."""
SHIPPED = 10.0
"""Seconds: a change is shipped in half a second, if the hub has not just come back itself."""
PATIENCE = {"grace": "0", "skew": "2"}
"""Of the hub, after a lease has ended."""


@pytest.mark.soak
def test_a_fleet_that_is_shaken(tmp_path: Path) -> None:
    lacking = missing()
    if lacking:
        pytest.skip(lacking)
    with Network(list(WORKERS)) as network, closing(Processes(tmp_path, network)) as processes:
        processes.join()
        Soak(network, processes).run()


@dataclass(frozen=True, slots=True)
class Due:
    """What was done to somebody, and when that ends."""

    what: str
    at: float
    long: bool = False


class Soak:
    def __init__(self, network: Network, processes: Processes) -> None:
        self._network, self._processes = network, processes
        self._dice = random.Random(SEED)
        self._down: dict[str, Due] = {}
        self._lost: list[float] = []
        """When somebody went for long."""
        self._hub = processes.api("hub")
        eventually(lambda: [phase(obj) for obj in self._hub.items(f"{FLEET}/workers")] == ["Running"] * len(WORKERS))
        self._load = Load(processes.api("hub"), random.Random(SEED + 1), MOVING)
        self._writers = Writers(processes.api("hub"), random.Random(SEED + 2))
        self._witness = Witness(processes.api("hub"))
        self._holders = [Holders(name, processes.api(name), self._load.moving) for name in WORKERS]
        self._working: list[Working] = [self._load, self._writers, self._witness, *self._holders]

    def run(self) -> None:
        if MOVING:
            body = config_map("moving", PATIENCE)
            self._hub.request("POST", "/api/v1/namespaces/shoal-system/configmaps", body)
        for name in self._load.moving:
            eventually(partial(self._is_backed_up, name), self._processes.said)
        for each in self._working:
            each.start()
        end = time.monotonic() + SECONDS
        victims = itertools.cycle(("hub", *WORKERS))
        while time.monotonic() < end:
            self._bring_back(time.monotonic())
            self._take_down(next(victims))
            for each in self._working:
                each.check()
            time.sleep(self._dice.uniform(0.5, 4.0))
        self._bring_back(float("inf"))
        self._load.stop()
        calm = time.monotonic()
        self._settles()
        print(f"\nsettled {time.monotonic() - calm:.0f} s after everybody was back")
        for each in self._working[1:]:
            each.stop()
        self._judge()

    def _is_backed_up(self, name: str) -> bool:
        status = (self._hub.get(f"{MANAGED}/{name}") or {}).get("status") or {}
        return status.get("phase") == "Running" and bool((status.get("backup") or {}).get("complete"))

    def _take_down(self, victim: str) -> None:
        """Everybody in turns, by kill -9 or a cut link or, as far as anything is moved, by a drain; one for long."""
        if victim in self._down:
            return
        now, one_is_away = time.monotonic(), any(due.long for due in self._down.values())
        if victim == "hub":
            # A hub that has just started does not know how long a worker has been silent.
            if not one_is_away or self._dice.random() < 0.05:
                self._processes.kill("hub")
                self._down[victim] = Due("kill", now + self._dice.uniform(0.0, 3.0))
            return
        long = bool(MOVING) and not one_is_away and self._dice.random() < 0.5
        what = self._dice.choice(("kill", "cut"))
        if MOVING and DRAINS and not long and "hub" not in self._down and self._dice.random() < 0.3:
            what = "drain"
        self._down[victim] = Due(what, now + self._dice.uniform(*(LONG if long else SHORT)), long)
        if long:
            self._lost.append(now)
        if what == "kill":
            self._processes.kill(victim)
        elif what == "cut":
            self._network.cut(victim)
        else:
            self._drain(victim, True)

    def _bring_back(self, now: float) -> None:
        for victim, due in sorted(self._down.items()):  # the hub is the first, and is needed for a drain
            if due.at > now or (due.what == "drain" and "hub" in self._down):
                continue
            del self._down[victim]
            if due.what == "kill":
                self._processes.start(victim)
            elif due.what == "cut":
                self._network.restore(victim)
            else:
                self._drain(victim, False)

    def _drain(self, worker: str, drain: bool) -> None:
        self._hub.merge(
            f"{FLEET}/namespaces/shoal-system/workers/{worker}", {"spec": {"drain": drain, "drainBudget": 3}}
        )

    def _settles(self) -> None:
        own = {name: self._processes.api(name) for name in WORKERS}
        wanted = set(self._load.wanted)
        eventually(
            lambda: not unsettled(self._hub, own, wanted),
            lambda: (unsettled(self._hub, own, wanted), self._processes.said()),
        )
        eventually(lambda: not self._uneven(), lambda: (self._uneven(), self._processes.said()))

    def _uneven(self) -> set[object]:
        """What is not counted right: nodes of clusters, and slots of Workers."""
        found = self._hub.items(MANAGED)
        wrong: set[object] = {
            (obj["metadata"]["name"], obj["status"].get("nodes"))
            for obj in found
            if obj["status"].get("nodes", 0) != self._load.wanted[obj["metadata"]["name"]]["nodes"]
        }
        for worker in self._hub.items(f"{FLEET}/workers"):
            taken = sum(obj["status"]["assignedWorker"] == worker["metadata"]["name"] for obj in found)
            if worker["status"].get("availableCapacity") != CAPACITY - taken:
                wrong.add((worker["metadata"]["name"], worker["status"].get("availableCapacity"), taken))
        return wrong

    def _was_on_its_way(self, when: float) -> bool:
        """Whether somebody was lost soon after that."""
        return any(gone - SHIPPED < when < gone + SHIPPED for gone in self._lost)

    def _judge(self) -> None:
        moved = lost = 0
        for obj in self._hub.items(MANAGED):
            name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
            secret = self._hub.request("GET", f"{SECRETS}/{name}-kubeconfig")
            with closing(Api(base64.b64decode(secret["data"]["value"]).decode())) as inside:
                absent = missing_writes(inside, self._writers.acknowledged[uid])
            moved += len(self._witness.given[uid]) - 1
            lost += len(absent)
            assert not absent or self._witness.was_lost(uid), f"{name} has lost {absent}"
            early = {write for write, when in absent.items() if not self._was_on_its_way(when)}
            assert not early, f"{name} has lost {early}, which were written long before its worker was gone"
        for obj in self._hub.items(MANAGED):
            name, given = obj["metadata"]["name"], self._witness.given[obj["metadata"]["uid"]]
            written = [write for each in self._holders for write in each.written[name]]
            assert written or name not in self._load.moving, f"nobody could write into {name}"
            assert conflict(given.values(), written) is None, f"{name} had two writable copies: {given}"
        counted = sum(map(len, self._writers.acknowledged.values()))
        held = sum(len(each) for holder in self._holders for each in holder.written.values())
        print(f"{len(self._load.wanted)} clusters, {counted} and {held} writes, {moved} moves, {lost} writes lost")
