"""Write fencing by the worker's own clock: tables, and a model of the whole argument with a hub that migrates."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from shoal.fleet.worker.fence.decide import FROZEN, HELD, Hold, Lease, not_ours, of_copy, refusal
from shoal.fleet.worker.fence.fence import Fence
from shoal.fleet.worker.subscriber.decide import EPOCH, UID
from shoal.fleet.worker.yielding.decide import Verdict, verdict

Object = dict[str, Any]

SECONDS = 40.0
LAPSED = "its worker has not reached the hub for 40 s and may have lost it"
UNCONFIRMED = "the hub has not confirmed yet that it is still this worker's"


def copy_of(lost: str = "Move", infrastructure: str = "embedded", note: str = "") -> Object:
    annotations = {UID: "u", EPOCH: "1", note: "x"}
    metadata = {"name": "east", "namespace": "default", "annotations": annotations}
    return {"metadata": metadata, "spec": {"onWorkerLost": lost, "infrastructure": infrastructure}}


def said(hold: Hold, lease: Lease, now: float) -> str:
    return refusal("default.east", hold, lease, now, SECONDS).removeprefix("cluster default.east is read-only: ")


@pytest.mark.parametrize(
    ("hold", "lease", "now", "expected"),
    [
        (Hold(), Lease(), 0, ""),
        (Hold(epoch=1, guarded=True), Lease(), 0, LAPSED),
        (Hold(epoch=1, guarded=True), Lease(100, 1), 100, UNCONFIRMED),
        (Hold(epoch=1, guarded=True, confirmed=(1, 1)), Lease(100, 1), 139.9, ""),
        (Hold(epoch=1, guarded=True, confirmed=(1, 1)), Lease(100, 1), 140, LAPSED),
        (Hold(epoch=1, guarded=True, confirmed=(1, 1)), Lease(150, 2), 151, UNCONFIRMED),
        (Hold(epoch=2, guarded=True, confirmed=(1, 2)), Lease(150, 2), 151, UNCONFIRMED),
        (Hold(epoch=1, frozen=True), Lease(150, 2), 151, "it is being moved to another worker"),
        (Hold(epoch=1, closed=(("me", "so it is"),)), Lease(150, 2), 151, "so it is"),
    ],
)
def test_why_it_may_not_be_changed(hold: Hold, lease: Lease, now: float, expected: str) -> None:
    assert said(hold, lease, now) == expected


def test_a_lease_counts_from_the_start_of_its_renewal_and_a_gap_is_a_lapse() -> None:
    first = Lease().after_renewal(10, 12, SECONDS)
    assert (first.renewed, first.lapses) == (10, 1)
    in_time = first.after_renewal(48, 49.9, SECONDS)
    assert (in_time.renewed, in_time.lapses) == (48, 1)
    too_late = first.after_renewal(48, 50, SECONDS)
    assert (too_late.renewed, too_late.lapses) == (48, 2), "between 50 and the answer nothing could be written"
    assert first.after_renewal(5, 20, SECONDS).renewed == 10, "an answer that was overtaken takes nothing back"


@pytest.mark.parametrize(
    ("copy", "fences", "guarded", "frozen"),
    [
        (copy_of(), True, True, False),
        (copy_of(lost="Stay"), True, False, False),
        (copy_of(lost="Stay", note=HELD), True, True, False),
        (copy_of(lost="Stay", note=FROZEN), True, False, True),
        (copy_of(), False, False, False),
        (copy_of(infrastructure="kind"), True, False, False),
    ],
)
def test_which_copies_are_guarded(copy: Object, fences: bool, guarded: bool, frozen: bool) -> None:
    found = of_copy(Hold(), copy, fences=fences)
    assert (found.guarded, found.frozen, found.epoch) == (guarded, frozen, 1)


def test_what_is_deleted_is_not_guarded() -> None:
    """Its teardown has to write, and nobody moves it any more."""
    for copy in (copy_of(), copy_of(note=FROZEN)):
        copy["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        assert of_copy(Hold(), copy, fences=True).is_free


def test_a_copy_that_goes_leaves_only_what_was_closed() -> None:
    hold = Hold(3, guarded=True, frozen=True, confirmed=(3, 1))
    assert of_copy(hold, None, fences=True).is_free
    closed = (("me", "so it is"),)
    assert of_copy(Hold(closed=closed), None, fences=True).closed == closed


def managed(worker: str = "w1", epoch: int = 1, uid: str = "u", **status: Any) -> Object:
    return {"metadata": {"uid": uid}, "status": {"assignedWorker": worker, "epoch": epoch, **status}}


def test_whose_it_is() -> None:
    assert not_ours(managed(), "w1", copy_of()) == ""
    assert not_ours(managed(uid="v"), "w1", copy_of()) == "the hub has another one of that name"
    assert not_ours(managed("w2"), "w1", copy_of()) == "it is not assigned to this worker"
    assert not_ours(managed(epoch=2), "w1", copy_of()) == "it was given to this worker anew"


RESTORED: Object = {"conditions": [{"type": "Restored", "status": "True"}]}
FROM: Object = {"restoreFrom": {"epoch": 1, "revision": 7}}


@pytest.mark.parametrize(
    ("managed", "expected"),
    [
        (managed(), Verdict.OURS),
        (managed("w2"), Verdict.OURS),
        (managed("", 2), Verdict.OURS),
        (managed("w1", 2), Verdict.OURS),
        (managed("w2", 2, uid="v", **FROM), Verdict.OURS),
        (managed("w2", 2, **FROM), Verdict.CLOSE),
        (managed("w2", 2, **FROM, **RESTORED), Verdict.LEAVE),
        (managed("w2", 2), Verdict.LEAVE),
    ],
)
def test_when_to_give_way(managed: Object, expected: Verdict) -> None:
    assert verdict(managed, copy_of(), "w1") is expected


def test_a_fence_judges_what_is_of_a_hosted_cluster_wherever_it_lies() -> None:
    now = [0.0]
    fence = Fence(lambda: now[0], SECONDS)
    inside, machine = "core/pods/default.east/default/p", "cluster.x-k8s.io/machines/root/default/m"
    belongs = b'{"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"east"}}}'
    assert "the worker is starting" in fence.judge(inside, b"{}")
    assert fence.judge("core/secrets/root/default/s", b"{}") == ""
    fence.copy_changed("default.east", copy_of())
    fence.begin()
    assert LAPSED in fence.judge(inside, b"{}")
    assert LAPSED in fence.judge(machine, belongs)
    assert LAPSED in fence.judge("core.shoal.dev/logicalclusters/root//default.east", None)
    assert fence.judge(machine, b'{"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"west"}}}') == ""
    assert fence.judge("infrastructure.cluster.x-k8s.io/managedclusters/root/default/east", b"{}") == ""
    assert fence.judge("core/pods/default.west/default/p", b"{}") == ""
    fence.owner = {machine: "default.east"}.get  # type: ignore[assignment]
    assert LAPSED in fence.judge(machine, None), "a deletion has no labels"
    told = []
    fence.on_lapse = lambda: told.append(fence.lapses)
    fence.renewed(0)
    assert told == [1]
    assert UNCONFIRMED in fence.judge(inside, None)
    assert not fence.confirm("default.east", 2, 1), "of another epoch"
    assert fence.confirm("default.east", 1, 1)
    assert fence.judge(inside, None) == ""
    now[0] = 40
    assert LAPSED in fence.judge(inside, None)
    assert not fence.confirm("default.east", 1, 1)
    fence.renewed(40)
    assert told == [1, 2]
    assert not fence.confirm("default.east", 1, 1), "asked before the lapse"
    assert UNCONFIRMED in fence.judge(inside, None)
    fence.copy_changed("default.east", copy_of(lost="Stay"))
    assert fence.judge(inside, None) == ""


# --- the argument of docs/moving.md: never two who may write; all states of a small model, not a sample ---

LEASE, WAIT = 2.0, 3.0
"""Units of time: a lease, and a lease with skew. Grace only adds to that."""


@dataclass
class World:
    """A worker, a hub, and messages between them that take as long as they like. One clock, for skew is waited for."""

    wait: float = WAIT
    now: float = 0.0
    lease: Lease = field(default_factory=Lease)
    hold: Hold = field(default_factory=lambda: Hold(epoch=1, guarded=True))
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
        return not refusal("east", self.hold, self.lease, self.now, LEASE)

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
                self.hold = Hold(1, guarded=True, confirmed=(1, lapses))
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
            age(self.lease.renewed),
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
        patch.setattr(Hold, "is_confirmed", lambda self, lease: True)
        assert reached(World())[2] is not None, "who comes back asks first"
    with monkeypatch.context() as patch:
        patch.setattr(Lease, "after_renewal", lambda self, start, now, _: Lease(start, 1))
        assert reached(World())[2] is not None, "a lapse takes back what was confirmed"
    with monkeypatch.context() as patch:
        proper = Lease.after_renewal
        patch.setattr(Lease, "after_renewal", lambda self, start, now, seconds: proper(self, now, now, seconds))
        assert reached(World())[2] is not None, "a lease counts from the start of its renewal"

    def regardless(self: World) -> None:
        self.moved = self.moved or self.may_move

    with monkeypatch.context() as patch:
        patch.setattr(World, "hub_moves", regardless)
        assert reached(World())[2] is not None, "the hub compares and swaps"
