"""Write fencing by the worker's own clock: tables, and a model of the whole argument with a hub that migrates."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from shoal.fleet.worker.fence.decide import (
    FROZEN_ANNOTATION,
    HELD_ANNOTATION,
    ClusterHold,
    LeaseState,
    hold_of_copy,
    ownership_error,
    write_denied_reason,
)
from shoal.fleet.worker.fence.fence import WriteFence
from shoal.fleet.worker.handover.controller import HandoverAction, decide_handover
from shoal.fleet.worker.subscriber.decide import EPOCH_ANNOTATION, UID_ANNOTATION

Object = dict[str, Any]

SECONDS = 40.0
LAPSED = "its worker has not reached the hub for 40 s and may no longer own it"
UNCONFIRMED = "the hub has not confirmed yet that this worker still owns it"


def copy_of(lost: str = "Move", infrastructure: str = "embedded", note: str = "") -> Object:
    annotations = {UID_ANNOTATION: "u", EPOCH_ANNOTATION: "1", note: "x"}
    metadata = {"name": "east", "namespace": "default", "annotations": annotations}
    return {"metadata": metadata, "spec": {"onWorkerLost": lost, "infrastructure": infrastructure}}


def said(hold: ClusterHold, lease: LeaseState, now: float) -> str:
    return write_denied_reason("default.east", hold, lease, now, SECONDS).removeprefix(
        "cluster default.east is read-only: "
    )


@pytest.mark.parametrize(
    ("hold", "lease", "now", "expected"),
    [
        (ClusterHold(), LeaseState(), 0, ""),
        (ClusterHold(epoch=1, is_guarded=True), LeaseState(), 0, LAPSED),
        (ClusterHold(epoch=1, is_guarded=True), LeaseState(100, 1), 100, UNCONFIRMED),
        (ClusterHold(epoch=1, is_guarded=True, confirmed=(1, 1)), LeaseState(100, 1), 139.9, ""),
        (ClusterHold(epoch=1, is_guarded=True, confirmed=(1, 1)), LeaseState(100, 1), 140, LAPSED),
        (ClusterHold(epoch=1, is_guarded=True, confirmed=(1, 1)), LeaseState(150, 2), 151, UNCONFIRMED),
        (ClusterHold(epoch=2, is_guarded=True, confirmed=(1, 2)), LeaseState(150, 2), 151, UNCONFIRMED),
        (ClusterHold(epoch=1, is_frozen=True), LeaseState(150, 2), 151, "it is being moved to another worker"),
        (ClusterHold(epoch=1, closures=(("me", "so it is"),)), LeaseState(150, 2), 151, "so it is"),
    ],
)
def test_why_it_may_not_be_changed(hold: ClusterHold, lease: LeaseState, now: float, expected: str) -> None:
    assert said(hold, lease, now) == expected


def test_a_lease_counts_from_the_start_of_its_renewal_and_a_gap_is_a_lapse() -> None:
    first = LeaseState().after_renewal(10, 12, SECONDS)
    assert (first.renewed_at, first.lapses) == (10, 1)
    in_time = first.after_renewal(48, 49.9, SECONDS)
    assert (in_time.renewed_at, in_time.lapses) == (48, 1)
    too_late = first.after_renewal(48, 50, SECONDS)
    assert (too_late.renewed_at, too_late.lapses) == (48, 2), "between 50 and the answer nothing could be written"
    assert first.after_renewal(5, 20, SECONDS).renewed_at == 10, "an answer that was overtaken takes nothing back"


@pytest.mark.parametrize(
    ("copy", "fences", "guarded", "frozen"),
    [
        (copy_of(), True, True, False),
        (copy_of(lost="Stay"), True, False, False),
        (copy_of(lost="Stay", note=HELD_ANNOTATION), True, True, False),
        (copy_of(lost="Stay", note=FROZEN_ANNOTATION), True, False, True),
        (copy_of(), False, False, False),
        (copy_of(infrastructure="kind"), True, False, False),
    ],
)
def test_which_copies_are_guarded(copy: Object, fences: bool, guarded: bool, frozen: bool) -> None:
    found = hold_of_copy(ClusterHold(), copy, fences=fences)
    assert (found.is_guarded, found.is_frozen, found.epoch) == (guarded, frozen, 1)


def test_what_is_deleted_is_not_guarded() -> None:
    """Its teardown has to write, and nobody moves it any more."""
    for copy in (copy_of(), copy_of(note=FROZEN_ANNOTATION)):
        copy["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        assert hold_of_copy(ClusterHold(), copy, fences=True).is_unrestricted


def test_a_copy_that_goes_leaves_only_what_was_closed() -> None:
    hold = ClusterHold(3, is_guarded=True, is_frozen=True, confirmed=(3, 1))
    assert hold_of_copy(hold, None, fences=True).is_unrestricted
    closed = (("me", "so it is"),)
    assert hold_of_copy(ClusterHold(closures=closed), None, fences=True).closures == closed


def managed(worker: str = "w1", epoch: int = 1, uid: str = "u", **status: Any) -> Object:
    return {"metadata": {"uid": uid}, "status": {"assignedWorker": worker, "epoch": epoch, **status}}


def test_whose_it_is() -> None:
    assert ownership_error(managed(), "w1", copy_of()) == ""
    assert ownership_error(managed(uid="v"), "w1", copy_of()) == "the hub has another ManagedCluster with this name"
    assert ownership_error(managed("w2"), "w1", copy_of()) == "it is not assigned to this worker"
    assert ownership_error(managed(epoch=2), "w1", copy_of()) == "it was assigned to this worker again"


RESTORED: Object = {"conditions": [{"type": "Restored", "status": "True"}]}
FROM: Object = {"restoreFrom": {"epoch": 1, "revision": 7}}


@pytest.mark.parametrize(
    ("managed", "expected"),
    [
        (managed(), HandoverAction.KEEP),
        (managed("w2"), HandoverAction.KEEP),
        (managed("", 2), HandoverAction.KEEP),
        (managed("w1", 2), HandoverAction.KEEP),
        (managed("w2", 2, uid="v", **FROM), HandoverAction.KEEP),
        (managed("w2", 2, **FROM), HandoverAction.CLOSE),
        (managed("w2", 2, **FROM, **RESTORED), HandoverAction.LEAVE),
        (managed("w2", 2), HandoverAction.LEAVE),
    ],
)
def test_when_to_give_way(managed: Object, expected: HandoverAction) -> None:
    assert decide_handover(managed, copy_of(), "w1") is expected


def test_a_fence_judges_what_is_of_a_hosted_cluster_wherever_it_lies() -> None:
    now = [0.0]
    fence = WriteFence(lambda: now[0], SECONDS)
    inside, machine = "core/pods/default.east/default/p", "cluster.x-k8s.io/machines/root/default/m"
    belongs = b'{"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"east"}}}'
    assert "the worker is starting" in fence.check_write(inside, b"{}")
    assert fence.check_write("core/secrets/root/default/s", b"{}") == ""
    fence.on_copy("default.east", copy_of())
    fence.mark_synced()
    assert LAPSED in fence.check_write(inside, b"{}")
    assert LAPSED in fence.check_write(machine, belongs)
    assert LAPSED in fence.check_write("core.shoal.dev/logicalclusters/root//default.east", None)
    assert fence.check_write(machine, b'{"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"west"}}}') == ""
    assert fence.check_write("infrastructure.cluster.x-k8s.io/managedclusters/root/default/east", b"{}") == ""
    assert fence.check_write("core/pods/default.west/default/p", b"{}") == ""
    fence.owner_of_key = {machine: "default.east"}.get  # type: ignore[assignment]
    assert LAPSED in fence.check_write(machine, None), "a deletion has no labels"
    told = []
    fence.on_lease_regained = lambda: told.append(fence.lapses)
    fence.on_lease_renewed(0)
    assert told == [1]
    assert UNCONFIRMED in fence.check_write(inside, None)
    assert not fence.confirm("default.east", 2, 1), "of another epoch"
    assert fence.confirm("default.east", 1, 1)
    assert fence.check_write(inside, None) == ""
    now[0] = 40
    assert LAPSED in fence.check_write(inside, None)
    assert not fence.confirm("default.east", 1, 1)
    fence.on_lease_renewed(40)
    assert told == [1, 2]
    assert not fence.confirm("default.east", 1, 1), "asked before the lapse"
    assert UNCONFIRMED in fence.check_write(inside, None)
    fence.on_copy("default.east", copy_of(lost="Stay"))
    assert fence.check_write(inside, None) == ""


# --- the argument of docs/moving.md: never two who may write; all states of a small model, not a sample ---

LEASE, WAIT = 2.0, 3.0
"""Units of time: a lease, and a lease with skew. Grace only adds to that."""


@dataclass
class World:
    """A worker, a hub, and messages between them that take as long as they like. One clock, for skew is waited for."""

    wait: float = WAIT
    now: float = 0.0
    lease: LeaseState = field(default_factory=LeaseState)
    hold: ClusterHold = field(default_factory=lambda: ClusterHold(epoch=1, is_guarded=True))
    # The hub's objects, by their revisions.
    renewals: int = 0
    revision: int = 0
    moved: bool = False
    # What the hub has observed: which state of the Lease, since when; and what it has read to move it.
    seen: tuple[int, float] | None = None
    read: int | None = None
    may_move: bool = False
    # What is under way: when it was begun, or at which revision and lapse; and whether the hub has done it.
    renewing: tuple[float, bool] | None = None
    confirming: tuple[int, int, bool] | None = None

    @property
    def writable(self) -> bool:
        return not write_denied_reason("east", self.hold, self.lease, self.now, LEASE)

    def tick(self) -> None:
        self.now += 1

    def renew(self) -> None:
        self.renewing = (self.now, False)

    def hub_takes_renewal(self) -> None:
        if self.renewing is not None and not self.renewing[1]:
            self.renewals += 1
            self.renewing = (self.renewing[0], True)

    def renewal_answered(self) -> None:
        if self.renewing is not None and self.renewing[1]:
            self.lease = self.lease.after_renewal(self.renewing[0], self.now, LEASE)
            self.renewing = None

    def confirm(self) -> None:
        if self.lease.is_live(self.now, LEASE) and not self.moved:
            self.confirming = (self.revision, self.lease.lapses, False)

    def hub_takes_confirmation(self) -> None:
        if self.confirming is not None and not self.confirming[2]:
            revision, lapses, _ = self.confirming
            done = revision == self.revision and not self.moved
            self.revision += done
            self.confirming = (revision, lapses, True) if done else None

    def confirmation_answered(self) -> None:
        if self.confirming is not None and self.confirming[2]:
            _, lapses, _ = self.confirming
            if lapses == self.lease.lapses and self.lease.is_live(self.now, LEASE):
                self.hold = ClusterHold(1, is_guarded=True, confirmed=(1, lapses))
            self.confirming = None

    def hub_looks(self) -> None:
        if self.seen is None or self.seen[0] != self.renewals:
            self.seen = (self.renewals, self.now)

    def hub_restarts(self) -> None:
        self.seen, self.read, self.may_move = None, None, False

    def hub_reads_cluster(self) -> None:
        self.read, self.may_move = self.revision, False

    def hub_reads_lease(self) -> None:
        self.hub_looks()
        assert self.seen is not None
        self.may_move = self.read is not None and self.now - self.seen[1] >= self.wait

    def hub_moves(self) -> None:
        if self.may_move and self.read == self.revision and not self.moved:
            self.revision += 1
            self.moved = True

    def known(self) -> tuple[object, ...]:
        """The state, but for how often things have happened and when it all began."""

        def age(then: float | None) -> float | None:
            return None if then is None else min(self.now - then, WAIT + 1)

        return (
            age(self.lease.renewed_at),
            self.hold.is_confirmed(self.lease),
            self.seen and (self.seen[0] == self.renewals, age(self.seen[1])),
            self.read is not None and self.read == self.revision,
            self.may_move,
            self.moved,
            self.renewing and (age(self.renewing[0]), self.renewing[1]),
            self.confirming
            and (
                self.confirming[0] == self.revision,
                self.confirming[1] == self.lease.lapses,
                self.confirming[2],
            ),
        )


ACTIONS = [
    name
    for name, found in vars(World).items()
    if callable(found) and not name.startswith("_") and name not in ("known", "writable")
]


def reached(start: World) -> tuple[int, bool, World | None]:
    """How many states there are, whether it was moved in one, and one in which two may write."""
    states, waiting, moved = {start.known()}, [start], False
    while waiting:
        world = waiting.pop()
        for action in ACTIONS:
            after = replace(world)
            getattr(after, action)()
            if after.known() in states:
                continue
            if after.moved and after.writable:
                return len(states), True, after
            moved = moved or after.moved
            states.add(after.known())
            waiting.append(after)
    return len(states), moved, None


def test_never_two_may_write() -> None:
    count, moved, both = reached(World())
    assert both is None
    assert moved
    assert count > 1000


def test_the_model_finds_what_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of the argument is needed."""
    assert reached(World(wait=LEASE - 1))[2] is not None, "the hub waits for the whole lease"
    with monkeypatch.context() as patch:
        patch.setattr(ClusterHold, "is_confirmed", lambda self, lease: True)
        assert reached(World())[2] is not None, "who comes back asks first"
    with monkeypatch.context() as patch:
        patch.setattr(LeaseState, "after_renewal", lambda self, start, now, _: LeaseState(start, 1))
        assert reached(World())[2] is not None, "a lapse takes back what was confirmed"
    with monkeypatch.context() as patch:
        proper = LeaseState.after_renewal
        patch.setattr(LeaseState, "after_renewal", lambda self, start, now, seconds: proper(self, now, now, seconds))
        assert reached(World())[2] is not None, "a lease counts from the start of its renewal"

    def regardless(self: World) -> None:
        self.moved = self.moved or self.may_move

    with monkeypatch.context() as patch:
        patch.setattr(World, "hub_moves", regardless)
        assert reached(World())[2] is not None, "the hub compares and swaps"
