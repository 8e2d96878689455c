"""A small model of hub, leases and two workers that runs the real decisions of all of them, and the real fence.

Each step is one event that may happen between two others: a renewal is started, arrives, is answered; something is
read, then written by compare-and-swap. Clocks of workers may run slower than the hub's, within the allowed skew.
"""

from __future__ import annotations

from typing import Any

from shoal.fleet.bus.interface import message_of
from shoal.fleet.migration.decide import (
    LeaseObservation,
    MigrationObstacle,
    RestoreSource,
    cancelled_status,
    final_source,
    has_expired,
    observe_lease,
    planned_status,
    reassigned_status,
    restore_source_of,
)
from shoal.fleet.migration.settings import MigrationSettings
from shoal.fleet.worker.fence.decide import FROZEN_ANNOTATION, HELD_ANNOTATION, is_leaving, ownership_error
from shoal.fleet.worker.fence.fence import WriteFence
from shoal.fleet.worker.handover.controller import HandoverAction, decide_handover
from shoal.fleet.worker.replication.decide import ReplicationAction
from shoal.fleet.worker.replication.decide import next_action as shipping_step
from shoal.fleet.worker.subscriber.decide import needs_restore, new_copy, version_annotations, version_of
from shoal.kinds.fleet import infrav1, migration

Object = dict[str, Any]
NOW = "2026-11-15T12:00:00Z"
HOSTED = "default.east"
SOMETHING = f"core/configmaps/{HOSTED}/default/something"
"""The key of an object in it, as the store has keys."""
SETTINGS = MigrationSettings(grace=0.0)


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
        metadata = {
            "uid": worker,
            "resourceVersion": str(self.revision),
            "annotations": {infrav1.FENCES_ANNOTATION: "true"},
        }
        self.leases[worker] = {"metadata": metadata, "spec": {"leaseDurationSeconds": 40, "renewTime": NOW}}

    def check(self) -> None:
        """Whoever may change it is the one who has it, in the epoch it has it."""
        for worker in self.workers.values():
            if worker.may_write:
                holder = infrav1.assigned_worker(self.managed), infrav1.epoch(self.managed)
                assert (worker.name, version_of(worker.copy or {"metadata": {}}).epoch) == holder


class Worker:
    def __init__(self, name: str, world: World, rate: float) -> None:
        self.name, self.world, self.rate = name, world, rate
        self.copy: Object | None = None
        self.data = 0
        """How often it was changed; durable, as the copy is."""
        self.crash()

    def crash(self) -> None:
        """And start again: what was under way is forgotten here, though it may arrive yet."""
        self.fence = WriteFence(lambda: self.world.time * self.rate)
        self.fence.mark_synced()
        self._keep(self.copy)
        self.renewal: float | None = None
        self.arrived = False
        self.confirming: tuple[Object, int, int] | None = None
        self.confirmed: tuple[int, int] | None = None
        self.shipping: tuple[Object, ReplicationAction, int] | None = None
        self.message: Object | None = None

    @property
    def may_write(self) -> bool:
        return self.copy is not None and not self.fence.check_write(SOMETHING, b"{}")

    def _keep(self, copy: Object | None) -> None:
        self.copy = copy
        self.fence.on_copy(HOSTED, copy)

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
            self.fence.on_lease_renewed(self.renewal)
            self.renewal = None

    # --- what it is told ---

    def hear(self) -> None:
        managed = self.world.read()
        if infrav1.assigned_worker(managed) != self.name:
            self.message = None
            return
        self.message, message = managed, message_of(managed)
        if needs_restore(message, self.copy):
            self.data = self.world.shipped[migration.restore_source(managed)["epoch"]]
            self._keep(new_copy(message, "hub"))
        elif self.copy is None:
            self._keep(new_copy(message, "hub"))
        else:
            notes = {**self.copy["metadata"]["annotations"], **version_annotations(message.version, "hub")}
            self._keep(
                {**self.copy, "metadata": {**self.copy["metadata"], "annotations": notes}, "spec": managed["spec"]}
            )

    def give_way(self) -> None:
        managed = self.world.read()
        if self.copy is None or infrav1.assigned_worker(managed) == self.name:
            return
        found = decide_handover(managed, self.copy, self.name)
        if found is not HandoverAction.KEEP:
            self.fence.close(HOSTED, "yielding", "another has it")
        if found is HandoverAction.LEAVE:
            self._keep(None)
            self.fence.open(HOSTED, "yielding")

    # --- its word that it holds it ---

    def confirm_read(self) -> None:
        if self.copy is None or not migration.migrates_on_worker_loss(self.copy):
            return
        if not self.fence.hold(HOSTED).is_guarded or self.fence.is_confirmed(HOSTED) or not self.fence.is_live:
            return
        self._annotate(HELD_ANNOTATION, "yes")
        self.confirming = self.world.read(), version_of(self.copy).epoch, self.fence.lapses

    def confirm_write(self) -> None:
        if self.confirming is None or self.copy is None:
            return
        (managed, epoch, lapses), self.confirming = self.confirming, None
        if ownership_error(managed, self.name, self.copy) or is_leaving(managed, self.name):
            return
        held = {"worker": self.name, "epoch": epoch, "time": str(self.world.revision)}
        if self.world.write(managed, {**infrav1.status_of(managed), "held": held}):
            self.confirmed = epoch, lapses

    def confirm_answer(self) -> None:
        if self.confirmed is not None:
            self.fence.confirm(HOSTED, *self.confirmed)
            self.confirmed = None

    def stop_holding(self) -> None:
        """It is to stay after all: the hub knows that before the fence is taken down."""
        if (
            self.copy is None
            or migration.migrates_on_worker_loss(self.copy)
            or HELD_ANNOTATION not in self.copy["metadata"]["annotations"]
        ):
            return
        managed = self.world.read()
        if not ownership_error(managed, self.name, self.copy) and not migration.migrates_on_worker_loss(managed):
            status = {key: value for key, value in infrav1.status_of(managed).items() if key != "held"}
            if self.world.write(managed, status):
                self._annotate(HELD_ANNOTATION, None)

    # --- its data ---

    def write(self) -> None:
        if self.may_write:
            self.data += 1

    def ship_read(self) -> None:
        if self.copy is None or self.message is None:
            return
        what = shipping_step(message_of(self.message), self.copy, self.name, "")
        if what is ReplicationAction.FREEZE:
            self._annotate(FROZEN_ANNOTATION, "yes")
        elif what is ReplicationAction.THAW or (
            what is ReplicationAction.SHIP and (self.fence.is_confirmed(HOSTED) or self._is_frozen)
        ):
            self.shipping = self.world.read(), what, self.data

    @property
    def _is_frozen(self) -> bool:
        return self.copy is not None and FROZEN_ANNOTATION in self.copy["metadata"]["annotations"]

    def ship_write(self) -> None:
        if self.shipping is None or self.copy is None:
            return
        (managed, what, data), self.shipping = self.shipping, None
        status, final = infrav1.status_of(managed), self._is_frozen
        if ownership_error(managed, self.name, self.copy):
            return
        if what is ReplicationAction.THAW:
            said = {key: value for key, value in migration.backup_status(managed).items() if key != "final"}
            if not is_leaving(managed, self.name) and self.world.write(managed, {**status, "backup": said or None}):
                self._annotate(FROZEN_ANNOTATION, None)
            return
        if final and not is_leaving(managed, self.name):
            return
        epoch = version_of(self.copy).epoch
        backup: Object = {"worker": self.name, "epoch": epoch, "revision": data, "time": NOW, "complete": True}
        if self.world.write(managed, {**status, "backup": backup | ({"final": True} if final else {})}):
            self.world.shipped[epoch] = data


class Hub:
    def __init__(self, world: World) -> None:
        self.world = world
        self.restart()

    def restart(self) -> None:
        self.known: dict[str, LeaseObservation] = {}
        self.managed: Object | None = None
        self.wanted: tuple[Object, Object] | None = None

    def observe(self) -> None:
        for name in self.world.workers:
            self.known[name] = observe_lease(self.known.get(name), self.world.leases.get(name), self.world.time)

    def read(self) -> None:
        self.managed, self.wanted = self.world.read(), None

    def lease(self) -> None:
        """Of the worker that has it, from the API: may it be moved?"""
        if self.managed is None or not migration.migrates_on_worker_loss(self.managed):
            return
        name = infrav1.assigned_worker(self.managed)
        lease, asked = self.world.leases.get(name), self.world.time
        self.known[name] = observe_lease(self.known.get(name), lease, self.world.time)
        found = restore_source_of(self.managed, lease, SETTINGS)
        if has_expired(self.known[name], lease, asked, SETTINGS) and isinstance(found, RestoreSource):
            self.wanted = self.managed, reassigned_status(self.managed, self._other(name), "WorkerLost", found, NOW)

    def read_again(self) -> None:
        """What a hub must not do: write over a state that it has read after the Lease."""
        if self.wanted is not None:
            now = self.world.read()
            self.wanted = now, reassigned_status(now, "b", "WorkerLost", RestoreSource(None), NOW)

    def plan(self) -> None:
        if self.managed is not None and not migration.planned_migration(self.managed):
            to = self._other(infrav1.assigned_worker(self.managed))
            self.wanted = self.managed, planned_status(self.managed, to, "Drain", NOW)

    def finish(self) -> None:
        if self.managed is not None and migration.is_final_backup_shipped(self.managed):
            to = migration.planned_migration(self.managed)["to"]
            self.wanted = self.managed, reassigned_status(self.managed, to, "Drain", final_source(self.managed), NOW)

    def take_back(self) -> None:
        if self.managed is not None and migration.planned_migration(self.managed):
            self.wanted = self.managed, cancelled_status(self.managed, MigrationObstacle("Cancelled", ""), NOW)

    def write(self) -> None:
        if self.wanted is None:
            return
        (read, status), self.wanted = self.wanted, None
        if (
            self.world.write(read, status)
            and migration.is_final_backup_shipped(read)
            and status["epoch"] != infrav1.epoch(read)
        ):
            left = self.world.workers[infrav1.assigned_worker(read)]
            assert left.data == migration.backup_status(read)["revision"], (
                "something was changed after the last was sent"
            )

    def at_once(self, act: str) -> None:
        getattr(self, act)()
        self.write()

    @staticmethod
    def _other(name: str) -> str:
        return "b" if name == "a" else "a"
