"""A small model of hub, leases and two workers that runs the real decisions of all of them, and the real fence.

Each step is one event that may happen between two others: a renewal is started, arrives, is answered; something is
read, then written by compare-and-swap. Clocks of workers may run slower than the hub's, within the allowed skew.
"""

from __future__ import annotations

from typing import Any

from shoal.fleet.bus.interface import message_of
from shoal.fleet.moving.decide import Obstacle, Source, planned, rebound, sent_source, source, taken_back
from shoal.fleet.moving.settings import Settings
from shoal.fleet.moving.silence import Seen, ended, seen
from shoal.fleet.worker.fence.decide import FROZEN, HELD, is_leaving, not_ours
from shoal.fleet.worker.fence.fence import Fence
from shoal.fleet.worker.shipping.decide import Step
from shoal.fleet.worker.shipping.decide import step as shipping_step
from shoal.fleet.worker.subscriber.decide import annotations_of, copy_of, is_to_be_restored, mark_of
from shoal.fleet.worker.yielding.decide import Verdict, verdict
from shoal.kinds import fleet, moving

Object = dict[str, Any]
NOW = "2026-11-15T12:00:00Z"
HOSTED = "default.east"
SOMETHING = f"core/configmaps/{HOSTED}/default/something"
"""The key of an object in it, as the store has keys."""
SETTINGS = Settings(grace=0.0)


class World:
    """Time, and what the hub's API holds."""

    def __init__(self, policy: str = "Move") -> None:
        self.time = 1000.0
        self.revision = 10
        spec = {"onWorkerLost": policy, "infrastructure": "embedded"}
        metadata = {"name": "east", "namespace": "default", "uid": "u", "generation": 1, "resourceVersion": "10"}
        given = {"type": "Scheduled", "status": "True", "reason": "Bound", "message": "", "observedGeneration": 1}
        status = {"assignedWorker": "a", "lastWorker": "a", "epoch": 1, "conditions": [given]}
        self.managed: Object = {"metadata": metadata, "spec": spec, "status": status}
        self.leases: dict[str, Object] = {}
        self.shipped: dict[int, int] = {}
        """What the log of each epoch holds."""
        self.workers = {name: Worker(name, self, rate) for name, rate in (("a", 0.9), ("b", 1.0))}
        self.hub = Hub(self)

    def read(self) -> Object:
        """Nobody changes what was read: all decisions are pure."""
        return self.managed

    def write(self, read: Object, status: Object) -> bool:
        """False: it is not as it was read."""
        if read["metadata"]["resourceVersion"] != self.managed["metadata"]["resourceVersion"]:
            return False
        self._changed({**self.managed, "status": status})
        return True

    def set_policy(self, policy: str) -> None:
        metadata = {**self.managed["metadata"], "generation": self.managed["metadata"]["generation"] + 1}
        spec = {**self.managed["spec"], "onWorkerLost": policy}
        self._changed({**self.managed, "metadata": metadata, "spec": spec})

    def _changed(self, managed: Object) -> None:
        self.revision += 1
        metadata = {**managed["metadata"], "resourceVersion": str(self.revision)}
        self.managed = {**managed, "metadata": metadata}

    def renew(self, worker: str) -> None:
        self.revision += 1
        metadata = {"uid": worker, "resourceVersion": str(self.revision), "annotations": {fleet.FENCES: "true"}}
        self.leases[worker] = {"metadata": metadata, "spec": {"leaseDurationSeconds": 40, "renewTime": NOW}}

    def check(self) -> None:
        """Whoever may change it is the one who has it, in the epoch it has it."""
        for worker in self.workers.values():
            if worker.may_write:
                holder = fleet.assigned_worker(self.managed), fleet.epoch(self.managed)
                assert (worker.name, mark_of(worker.copy or {"metadata": {}}).epoch) == holder


class Worker:
    def __init__(self, name: str, world: World, rate: float) -> None:
        self.name, self.world, self.rate = name, world, rate
        self.copy: Object | None = None
        self.data = 0
        """How often it was changed; durable, as the copy is."""
        self.crash()

    def crash(self) -> None:
        """And start again: what was under way is forgotten here, though it may arrive yet."""
        self.fence = Fence(lambda: self.world.time * self.rate)
        self.fence.begin()
        self._keep(self.copy)
        self.renewal: float | None = None
        self.arrived = False
        self.confirming: tuple[Object, int, int] | None = None
        self.confirmed: tuple[int, int] | None = None
        self.shipping: tuple[Object, Step, int] | None = None
        self.message: Object | None = None

    @property
    def may_write(self) -> bool:
        return self.copy is not None and not self.fence.judge(SOMETHING, b"{}")

    def _keep(self, copy: Object | None) -> None:
        self.copy = copy
        self.fence.copy_changed(HOSTED, copy)

    def _annotate(self, key: str, value: str | None) -> None:
        assert self.copy is not None
        metadata = self.copy["metadata"]
        kept = {name: each for name, each in metadata["annotations"].items() if name != key}
        self._keep({**self.copy, "metadata": {**metadata, "annotations": kept | ({key: value} if value else {})}})

    # --- its lease ---

    def renew_begin(self) -> None:
        self.renewal, self.arrived = self.fence.now(), False

    def renew_arrive(self) -> None:
        if self.renewal is not None and not self.arrived:
            self.world.renew(self.name)
            self.arrived = True

    def renew_answer(self) -> None:
        if self.renewal is not None and self.arrived:
            self.fence.renewed(self.renewal)
            self.renewal = None

    # --- what it is told ---

    def hear(self) -> None:
        managed = self.world.read()
        if fleet.assigned_worker(managed) != self.name:
            self.message = None
            return
        self.message, message = managed, message_of(managed)
        if is_to_be_restored(message, self.copy):
            self.data = self.world.shipped[moving.restore_from(managed)["epoch"]]
            self._keep(copy_of(message, "hub"))
        elif self.copy is None:
            self._keep(copy_of(message, "hub"))
        else:
            notes = {**self.copy["metadata"]["annotations"], **annotations_of(message.mark, "hub")}
            self._keep(
                {**self.copy, "metadata": {**self.copy["metadata"], "annotations": notes}, "spec": managed["spec"]}
            )

    def give_way(self) -> None:
        managed = self.world.read()
        if self.copy is None or fleet.assigned_worker(managed) == self.name:
            return
        found = verdict(managed, self.copy, self.name)
        if found is not Verdict.OURS:
            self.fence.close(HOSTED, "yielding", "another has it")
        if found is Verdict.LEAVE:
            self._keep(None)
            self.fence.open(HOSTED, "yielding")

    # --- its word that it holds it ---

    def confirm_read(self) -> None:
        if self.copy is None or not moving.moves_when_lost(self.copy):
            return
        if not self.fence.hold(HOSTED).guarded or self.fence.is_confirmed(HOSTED) or not self.fence.is_live:
            return
        self._annotate(HELD, "yes")
        self.confirming = self.world.read(), mark_of(self.copy).epoch, self.fence.lapses

    def confirm_write(self) -> None:
        if self.confirming is None or self.copy is None:
            return
        (managed, epoch, lapses), self.confirming = self.confirming, None
        if not_ours(managed, self.name, self.copy) or is_leaving(managed, self.name):
            return
        held = {"worker": self.name, "epoch": epoch, "time": str(self.world.revision)}
        if self.world.write(managed, {**fleet.status_of(managed), "held": held}):
            self.confirmed = epoch, lapses

    def confirm_answer(self) -> None:
        if self.confirmed is not None:
            self.fence.confirm(HOSTED, *self.confirmed)
            self.confirmed = None

    def stop_holding(self) -> None:
        """It is to stay after all: the hub knows that before the fence is taken down."""
        if self.copy is None or moving.moves_when_lost(self.copy) or HELD not in self.copy["metadata"]["annotations"]:
            return
        managed = self.world.read()
        if not not_ours(managed, self.name, self.copy) and not moving.moves_when_lost(managed):
            status = {key: value for key, value in fleet.status_of(managed).items() if key != "held"}
            if self.world.write(managed, status):
                self._annotate(HELD, None)

    # --- its data ---

    def write(self) -> None:
        if self.may_write:
            self.data += 1

    def ship_read(self) -> None:
        if self.copy is None or self.message is None:
            return
        what = shipping_step(message_of(self.message), self.copy, self.name, "")
        if what is Step.FREEZE:
            self._annotate(FROZEN, "yes")
        elif what is Step.THAW or (what is Step.SHIP and (self.fence.is_confirmed(HOSTED) or self._is_frozen)):
            self.shipping = self.world.read(), what, self.data

    @property
    def _is_frozen(self) -> bool:
        return self.copy is not None and FROZEN in self.copy["metadata"]["annotations"]

    def ship_write(self) -> None:
        if self.shipping is None or self.copy is None:
            return
        (managed, what, data), self.shipping = self.shipping, None
        status, final = fleet.status_of(managed), self._is_frozen
        if not_ours(managed, self.name, self.copy):
            return
        if what is Step.THAW:
            said = {key: value for key, value in moving.backup(managed).items() if key != "final"}
            if not is_leaving(managed, self.name) and self.world.write(managed, {**status, "backup": said or None}):
                self._annotate(FROZEN, None)
            return
        if final and not is_leaving(managed, self.name):
            return
        epoch = mark_of(self.copy).epoch
        backup: Object = {"worker": self.name, "epoch": epoch, "revision": data, "time": NOW, "complete": True}
        if self.world.write(managed, {**status, "backup": backup | ({"final": True} if final else {})}):
            self.world.shipped[epoch] = data


class Hub:
    def __init__(self, world: World) -> None:
        self.world = world
        self.restart()

    def restart(self) -> None:
        self.known: dict[str, Seen] = {}
        self.managed: Object | None = None
        self.wanted: tuple[Object, Object] | None = None

    def observe(self) -> None:
        for name in self.world.workers:
            self.known[name] = seen(self.known.get(name), self.world.leases.get(name), self.world.time)

    def read(self) -> None:
        self.managed, self.wanted = self.world.read(), None

    def lease(self) -> None:
        """Of the worker that has it, from the API: may it be moved?"""
        if self.managed is None or not moving.moves_when_lost(self.managed):
            return
        name = fleet.assigned_worker(self.managed)
        lease, asked = self.world.leases.get(name), self.world.time
        self.known[name] = seen(self.known.get(name), lease, self.world.time)
        found = source(self.managed, lease, SETTINGS)
        if ended(self.known[name], lease, asked, SETTINGS) and isinstance(found, Source):
            self.wanted = self.managed, rebound(self.managed, self._other(name), "WorkerLost", found, NOW)

    def read_again(self) -> None:
        """What a hub must not do: write over a state that it has read after the Lease."""
        if self.wanted is not None:
            now = self.world.read()
            self.wanted = now, rebound(now, "b", "WorkerLost", Source(None), NOW)

    def plan(self) -> None:
        if self.managed is not None and not moving.move(self.managed):
            to = self._other(fleet.assigned_worker(self.managed))
            self.wanted = self.managed, planned(self.managed, to, "Drain", NOW)

    def finish(self) -> None:
        if self.managed is not None and moving.is_final(self.managed):
            to = moving.move(self.managed)["to"]
            self.wanted = self.managed, rebound(self.managed, to, "Drain", sent_source(self.managed), NOW)

    def take_back(self) -> None:
        if self.managed is not None and moving.move(self.managed):
            self.wanted = self.managed, taken_back(self.managed, Obstacle("Cancelled", ""), NOW)

    def write(self) -> None:
        if self.wanted is None:
            return
        (read, status), self.wanted = self.wanted, None
        if self.world.write(read, status) and moving.is_final(read) and status["epoch"] != fleet.epoch(read):
            left = self.world.workers[fleet.assigned_worker(read)]
            assert left.data == moving.backup(read)["revision"], "something was changed after the last was sent"

    def at_once(self, act: str) -> None:
        getattr(self, act)()
        self.write()

    @staticmethod
    def _other(name: str) -> str:
        return "b" if name == "a" else "a"
