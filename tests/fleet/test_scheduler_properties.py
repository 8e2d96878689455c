"""The scheduler's incremental cache, compared with a full evaluation after each event."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shoal.client.reflector import Key
from shoal.fleet.scheduler.cache import ASSUME_TIMEOUT_SECONDS, SchedulerCache
from shoal.fleet.scheduler.decide import Unschedulable, fits, select_worker
from shoal.fleet.scheduler.queue import SchedulingQueue
from shoal.fleet.scheduler.ranking import WorkerRankings
from shoal.fleet.scheduler.snapshot import take_snapshot
from shoal.kinds.fleet import infrav1

Object = dict[str, Any]

NAMES = "abcd"
LOCATIONS = ["", "north", "south"]
SPECS: list[Object] = [
    {"nodes": 1},
    {"nodes": 3},
    {"nodes": 1, "location": "north"},
    {"nodes": 1, "preferredLocations": ["south", "north"]},
    {"nodes": 1, "version": "v1.35.1"},
    {"nodes": 1, "workerSelector": {"matchLabels": {"disk": "ssd"}}},
    {"nodes": 1, "tolerations": [{"key": "t", "operator": "Exists"}]},
    {"nodes": 1, "workerSelector": {"matchLabels": {"not a label!": ""}}},
]
often = st.sampled_from([True, True, True, False])
workers_ = st.fixed_dictionaries(
    {
        "capacity": st.sampled_from([2, 1, 3, 0]),
        "location": st.sampled_from(LOCATIONS),
        "versions": st.sampled_from([[], ["v1.35"], ["v1.36"]]),
        "allocatable": st.sampled_from([{}, {"nodes": 4}, {"cpu": "8"}]),
        "cost": st.sampled_from(["0", "0", "1", "2.5"]),
        "taints": st.sampled_from(
            [[], [], [{"key": "t", "effect": "NoSchedule"}], [{"key": "t", "effect": "PreferNoSchedule"}]]
        ),
    }
)
worker_steps = st.tuples(st.just("worker"), st.sampled_from(NAMES), workers_, often, st.booleans())
cluster_steps = st.tuples(
    st.just("cluster"), st.integers(0, 5), st.sampled_from([*SPECS[:2], *SPECS]), st.sampled_from(["x", "y"])
)
later_steps = st.one_of(
    worker_steps,
    cluster_steps,
    cluster_steps,
    st.tuples(st.just("gone"), st.integers(0, 5)),
    st.tuples(st.just("unbind"), st.integers(0, 5)),
    st.tuples(st.just("move"), st.integers(0, 5), st.sampled_from(NAMES)),
    st.tuples(st.just("moved"), st.integers(0, 5)),
    st.tuples(st.just("no worker"), st.sampled_from(NAMES)),
    st.tuples(st.just("fail"), st.integers(1, 3)),
    st.tuples(st.just("late")),
)
steps = st.builds(
    lambda first, more, rest: [*first, *more, *rest],
    st.lists(worker_steps, max_size=4),
    st.lists(cluster_steps, max_size=8),
    st.lists(later_steps, max_size=25),
)

ROOM = {"capacity": 1, "location": "", "allocatable": {}, "versions": [], "taints": [], "cost": "0"}
EAST: Key = ("", "x", "c0")


class World:
    """The objects, and a scheduler that is told of them as the real one is."""

    def __init__(self) -> None:
        self.workers: dict[str, Object] = {}
        self.managed: dict[Key, Object] = {}
        self.ledger = SchedulerCache()
        self.rankings, self.room = WorkerRankings(self.ledger), SchedulingQueue(self.ledger)
        self.revision, self.now = 0, 0.0

    def worker(self, name: str, spec: Object, ready: bool, labelled: bool) -> None:
        self.workers[name] = {
            "metadata": {"name": name, "namespace": infrav1.NAMESPACE, "labels": {"disk": "ssd"} if labelled else {}},
            "spec": {**spec, "provides": ["embedded"]},
            "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]},
        }
        self.ledger.observe_worker(("", infrav1.NAMESPACE, name), self.workers[name])

    def put(self, number: int, spec: Object, group: str, status: Object) -> None:
        key = "", group, f"c{number}"
        self.revision += 1
        metadata = {"name": key[2], "namespace": group, "resourceVersion": str(self.revision)}
        self.managed[key] = {"metadata": metadata, "spec": {"infrastructure": "embedded", **spec}, "status": status}
        self.see(key)

    def see(self, key: Key) -> None:
        record = self.ledger.observe_managed_cluster(key, self.managed.get(key))
        if record is not None and record.is_unscheduled:
            self.room.add(record)
        else:
            self.room.remove(key)

    def free(self) -> list[tuple[Any, Any]]:
        return take_snapshot(self.workers.values(), self.managed.values()).candidates_with_usage()

    def settle(self, failures: int = 0) -> None:
        """Everybody who fits somewhere is bound; each choice is the one of the plain scheduler."""
        while (record := self.room.pop_head()) is not None:
            there = take_snapshot(self.workers.values(), self.managed.values())
            managed = self.managed[record.key]
            plain = select_worker(there.scoring_context(managed), there.candidates_with_usage())
            best = self.rankings.best_worker(record)
            if isinstance(plain, Unschedulable):
                assert best == ""
                self.room.block(record)
                continue
            assert best == plain
            self.room.remove(record.key)
            self.ledger.assume(record, best, self.now)
            if failures:
                failures -= 1
                self.ledger.forget_assumption(record)
                self.room.add(record)
                continue
            self.revision += 1
            metadata = {**managed["metadata"], "resourceVersion": str(self.revision)}
            status = {"assignedWorker": best, "lastWorker": best}
            self.managed[record.key] = {**managed, "metadata": metadata, "status": status}
            self.ledger.confirm_binding(record, best, self.revision)
            self.see(record.key)

    def check(self) -> None:
        there = take_snapshot(self.workers.values(), self.managed.values())
        for name in NAMES:
            kept, plain = self.ledger.usage_of(name), there.usage_of(name)
            assert (kept.clusters, +kept.amounts) == (plain.clusters, +plain.amounts)
        for key, managed in self.managed.items():
            if not infrav1.assigned_worker(managed):
                assert self.room.queue_of(key) is not None
                asked = there.scoring_context(managed).requirements
                assert not any(fits(asked, worker, used) for worker, used in there.candidates_with_usage()), (
                    "left waiting"
                )


def play(told: list[Any]) -> World:
    world = World()
    for step in told:
        match step:
            case "worker", name, spec, ready, labelled:
                world.worker(name, spec, ready, labelled)
            case "no worker", name:
                world.workers.pop(name, None)
                world.ledger.observe_worker(("", infrav1.NAMESPACE, name), None)
            case "cluster", number, spec, group:
                old = world.managed.get(("", group, f"c{number}"))
                world.put(number, spec, group, (old or {}).get("status") or {})
            case "gone", number:
                for group in "xy":
                    world.managed.pop(("", group, f"c{number}"), None)
                    world.see(("", group, f"c{number}"))
            case "unbind", number:
                for group in "xy":
                    if (old := world.managed.get(("", group, f"c{number}"))) is not None:
                        kept = {name: value for name, value in old["status"].items() if name != "assignedWorker"}
                        world.put(number, old["spec"], group, kept)
            case "move", number, name:
                for group in "xy":
                    if (old := world.managed.get(("", group, f"c{number}"))) is not None:
                        world.put(number, old["spec"], group, {**old["status"], "move": {"to": name}})
            case "moved", number:
                for group in "xy":
                    old = world.managed.get(("", group, f"c{number}"))
                    if old is not None and (to := infrav1.migration_target(old)):
                        world.put(number, old["spec"], group, {"assignedWorker": to, "lastWorker": to})
            case "fail", number:
                world.settle(number)
            case ("late",):
                world.ledger.reset_log()
        world.settle()
        world.check()
    return world


@given(steps)
def test_it_is_the_plain_scheduler_at_every_step(told: list[Any]) -> None:
    """Nobody who fits waits, everybody gets the best, and what is taken is what the objects say."""
    play(told)


@given(steps)
def test_bindings_stay_within_what_there_is_and_on_workers_that_fit(told: list[Any]) -> None:
    """Of those who came while nothing changed: a Worker may say less later on, and keeps what it has."""
    world = World()
    for step in told:
        if step[0] == "worker":
            world.worker(*step[1:])
    for step in told:
        if step[0] == "cluster" and ("", step[3], f"c{step[1]}") not in world.managed:
            world.put(step[1], step[2], step[3], {})
            world.settle()
    there = take_snapshot(world.workers.values(), world.managed.values())
    for name, used in there.usage.items():
        limits = there.candidates[name]
        assert used.clusters <= limits.capacity
        assert all(used.amounts[resource] <= amount for resource, amount in limits.allocatable)
    for managed in world.managed.values():
        where = infrav1.assigned_worker(managed)
        if where:
            others = [each for each in world.managed.values() if each is not managed]
            without = take_snapshot(world.workers.values(), others)
            assert fits(
                without.scoring_context(managed).requirements, without.candidates[where], without.usage_of(where)
            )


@given(steps)
def test_the_same_events_give_the_same_bindings(told: list[Any]) -> None:
    assert play(told).managed == play(told).managed


def test_one_that_lost_its_worker_goes_back_to_it() -> None:
    world = World()
    for name in "ab":
        world.worker(name, {**ROOM, "capacity": 10}, True, False)
    world.put(0, SPECS[0], "x", {"lastWorker": "b"})
    world.settle()
    assert infrav1.assigned_worker(world.managed[EAST]) == "b"


def test_a_cheaper_worker_changes_what_the_others_are_worth() -> None:
    """Even one that takes nobody: the more expensive of the others is no longer twice as bad."""
    world = World()
    world.worker("a", {**ROOM, "capacity": 10, "cost": "4"}, True, False)
    world.worker("b", {**ROOM, "capacity": 10, "cost": "2"}, True, False)
    world.put(0, SPECS[0], "y", {"assignedWorker": "b"})
    world.put(1, SPECS[0], "x", {})
    world.settle()
    assert infrav1.assigned_worker(world.managed["", "x", "c1"]) == "b"
    world.managed.pop(("", "x", "c1"))
    world.see(("", "x", "c1"))
    world.worker("c", {**ROOM, "capacity": 0, "cost": "1"}, True, False)
    world.put(2, SPECS[0], "x", {})
    world.settle()
    assert infrav1.assigned_worker(world.managed["", "x", "c2"]) == "a"


# --- the ledger ---


def test_an_assumed_binding_takes_the_slot_until_it_is_written_or_expires() -> None:
    world = World()
    world.worker("a", ROOM, True, False)
    world.put(0, {"nodes": 1}, "x", {})
    record = world.ledger.clusters[EAST]
    world.ledger.assume(record, "a", 100.0)
    assert world.ledger.usage_of("a").clusters == 1
    world.see(EAST)
    assert world.ledger.usage_of("a").clusters == 1, "an event that does not know of it changes nothing"
    assert world.ledger.expire_assumptions(100.0 + ASSUME_TIMEOUT_SECONDS - 1) == []
    assert world.ledger.expire_assumptions(100.0 + ASSUME_TIMEOUT_SECONDS) == [record]
    assert world.ledger.usage_of("a").clusters == 0
    assert record.is_unscheduled


def test_what_went_away_while_it_was_written_does_not_come_back() -> None:
    world = World()
    world.worker("a", ROOM, True, False)
    world.put(0, {"nodes": 1}, "x", {})
    record = world.ledger.clusters[EAST]
    world.ledger.assume(record, "a", 0.0)
    world.ledger.observe_managed_cluster(EAST, None)
    world.ledger.confirm_binding(record, "a", 9)
    assert world.ledger.usage_of("a").clusters == 0
    assert EAST not in world.ledger.clusters


def test_an_older_state_is_passed_over() -> None:
    world = World()
    world.worker("a", ROOM, True, False)
    world.put(0, {"nodes": 1}, "x", {})
    record = world.ledger.clusters[EAST]
    world.ledger.assume(record, "a", 0.0)
    world.ledger.confirm_binding(record, "a", 7)
    world.see(EAST)
    assert world.ledger.usage_of("a").clusters == 1
    assert record.bound_worker == "a"


def test_more_nodes_take_more_of_the_worker_that_has_it() -> None:
    world = World()
    world.worker("a", {**ROOM, "capacity": 5, "allocatable": {"nodes": 4}}, True, False)
    world.put(0, {"nodes": 1}, "x", {})
    world.settle()
    world.put(0, {"nodes": 4}, "x", {"assignedWorker": "a"})
    assert world.ledger.usage_of("a").amounts["nodes"] == 4
    world.put(1, {"nodes": 1}, "x", {})
    world.settle()
    assert world.room.queue_of(("", "x", "c1")) is not None


def test_one_that_is_moved_has_room_on_both_until_it_is_there() -> None:
    world = World()
    for name in "ab":
        world.worker(name, ROOM, True, False)
    world.put(0, {"nodes": 1}, "x", {"assignedWorker": "a"})
    record = world.ledger.clusters[EAST]
    world.ledger.reserve(record, "b")
    assert [world.ledger.usage_of(name).clusters for name in "ab"] == [1, 1], "before anything is written"
    world.put(0, {"nodes": 1}, "x", {"assignedWorker": "a", "move": {"to": "b"}})
    world.put(1, {"nodes": 1}, "x", {})
    world.settle()
    assert world.room.queue_of(("", "x", "c1")) is not None, "neither has room"
    world.put(0, {"nodes": 1}, "x", {"assignedWorker": "b"})
    world.settle()
    assert infrav1.assigned_worker(world.managed["", "x", "c1"]) == "a"
    world.ledger.reserve(record, "a")
    world.ledger.reserve(record, "")
    assert [world.ledger.usage_of(name).clusters for name in "ab"] == [1, 1]


def test_a_worker_elsewhere_is_no_candidate() -> None:
    ledger = SchedulerCache()
    assert not ledger.observe_worker(("", "default", "a"), {"metadata": {"name": "a"}, "spec": {"capacity": 1}})
    assert list(ledger.candidates()) == []


# --- waiting ---


def test_whoever_came_first_is_first_whatever_it_asks_for() -> None:
    world = World()
    for number, spec, second in ((0, SPECS[0], "09"), (1, SPECS[3], "01"), (2, SPECS[0], "05")):
        world.put(number, spec, "x", {})
        world.room.remove(("", "x", f"c{number}"))
        record = world.ledger.clusters[("", "x", f"c{number}")]
        record.order = second, record.key
        world.room.add(record)
    taken = []
    while (head := world.room.pop_head()) is not None:
        taken.append(head.key[2])
        world.room.remove(head.key)
    assert taken == ["c1", "c2", "c0"]


def test_a_change_looks_at_each_demand_once_and_wakes_the_ones_it_helps() -> None:
    """Ten thousand wait for a slot and as many for a label: what frees one slot touches neither list."""
    world = World()
    world.worker("a", {**ROOM, "capacity": 1}, True, False)
    world.put(0, SPECS[0], "x", {})
    world.settle()
    for number in range(1, 200):
        world.put(number, SPECS[0], "x", {})
        world.put(number + 1000, SPECS[5], "x", {})
    world.settle()
    lines = list(world.room.blocked_queues())
    assert len(lines) == 2
    assert sorted(len(line.members) for line in lines) == [199, 199]
    world.managed.pop(EAST)
    world.see(EAST)
    head = world.room.pop_head()
    assert head is not None
    assert head.key[2] == "c1", "by name, as they came at the same time"
    assert [line.requirements.selector.is_empty for line in world.room.blocked_queues()] == [False]
    world.settle()
    assert len(list(world.room.blocked_queues())) == 2
