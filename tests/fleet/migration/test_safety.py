"""Never two writers of a cluster: the steps of workers and hub in any order, with the real decisions of both.

First all interleavings of the steps that meet when a worker comes back while the hub migrates its cluster; then long
random runs with crashes, lost responses, cancelled decisions and planned migrations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.fleet.migration.model import World

Act = Callable[[], object]


def held_and_shipped() -> World:
    """Worker a has it, in the fence, and all of it is at the hub; b is there too."""
    world = World()
    for worker in world.workers.values():
        worker.renew_begin()
        worker.renew_arrive()
        worker.renew_answer()
    world.hub.observe()
    a = world.workers["a"]
    for act in (a.hear, a.confirm_read, a.confirm_write, a.confirm_answer, a.write, a.hear, a.ship_read, a.ship_write):
        act()
    assert a.may_write
    assert world.shipped == {1: 1}
    return world


def in_any_order(first: int, second: int) -> Iterator[list[int]]:
    """Which of two lines is next, in every way they can be merged."""
    for chosen in combinations(range(first + second), first):
        yield [0 if index in chosen else 1 for index in range(first + second)]


def play(world: World, lines: Sequence[Sequence[Act]], order: Sequence[int]) -> None:
    at = [0] * len(lines)
    for which in order:
        lines[which][at[which]]()
        at[which] += 1
        world.check()


RETURN = ("renew_begin", "renew_arrive", "renew_answer", "confirm_read", "confirm_write", "confirm_answer", "write")


def lines(world: World, hub: Sequence[str], crash: int | None = None) -> tuple[list[Act], list[Act]]:
    a = world.workers["a"]
    coming: list[Act] = [getattr(a, name) for name in RETURN]
    if crash is not None:
        coming.insert(crash, a.crash)
    return coming, [getattr(world.hub, name) for name in hub]


@pytest.mark.parametrize(("crash", "restart"), [(None, True), (None, False), *((n, False) for n in range(len(RETURN)))])
def test_a_worker_that_comes_back_while_it_is_moved(crash: int | None, restart: bool) -> None:
    ends = set()
    steps = ("restart", "observe", "read", "lease", "write") if restart else ("read", "lease", "write")
    for order in in_any_order(len(RETURN) + (crash is not None), len(steps)):
        world = held_and_shipped()
        world.time += 46.0
        play(world, lines(world, steps, crash), order)
        ends.add(world.managed["status"]["assignedWorker"])
        b = world.workers["b"]
        for act in (b.hear, b.renew_begin, b.renew_arrive, b.renew_answer, b.confirm_read, b.confirm_write):
            act()
            world.check()
        b.confirm_answer()
        world.check()
        world.workers["a"].give_way()
        world.check()
        if world.managed["status"]["assignedWorker"] == "b":
            assert b.may_write
            assert b.data == 1
    # A hub that has just started does not know yet; a renewal that was not sent keeps nothing.
    assert ends == ({"a"} if restart else {"b"} if crash == 1 else {"a", "b"})


@pytest.mark.parametrize(("silence", "moves"), [(40.0, False), (44.9, False), (45.0, True)])
def test_the_hub_waits_for_lease_and_skew(silence: float, moves: bool) -> None:
    world = held_and_shipped()
    world.time += silence
    for act in lines(world, ("read", "lease", "write"))[1]:
        act()
        world.check()
    assert (world.managed["status"]["assignedWorker"] == "b") is moves


def test_the_order_of_the_hubs_steps_is_what_makes_it_safe() -> None:
    """The other way round, with the Lease read before the ManagedCluster, the model finds two who may change it."""
    found = 0
    for order in in_any_order(len(RETURN), 4):
        world = held_and_shipped()
        world.time += 46.0
        try:
            play(world, lines(world, ("read", "lease", "read_again", "write")), order)
        except AssertionError:
            found += 1
    assert found


def test_a_planned_move_that_is_taken_back_and_wanted_again_while_the_worker_sends_it() -> None:
    """What was the last word for one move is none for the next."""
    sends = ("hear", "ship_read", "ship_write", "write", "hear", "ship_read", "ship_read", "ship_write")
    ends = set()
    for order in in_any_order(len(sends), 6):
        world = held_and_shipped()
        a, hub = world.workers["a"], world.hub
        for act in (hub.read, hub.plan, hub.write, a.hear, a.ship_read, a.ship_read, a.ship_write):
            act()
        decided: list[Act] = [
            act for name in ("take_back", "plan", "finish") for act in (hub.read, partial(hub.at_once, name))
        ]
        play(world, ([getattr(a, name) for name in sends], decided), order)
        ends.add((world.managed["status"]["assignedWorker"], a.data))
    assert ends == {("a", 1), ("a", 2), ("b", 1), ("b", 2)}


STEPS = ("hear", "confirm_read", "confirm_write", "confirm_answer", "write", "hear", "ship_read", "ship_write")


class Lives(RuleBasedStateMachine):
    """Most rules are several steps that make sense in a row, cut off anywhere; what was cut off may go on later."""

    @initialize(policy=st.sampled_from(["Move", "Move", "Move", "Stay"]))
    def begin(self, policy: str) -> None:
        self.world = held_and_shipped() if policy == "Move" else World(policy)

    def _go(self, of: object, acts: Sequence[str], upto: int) -> None:
        for act in acts[:upto]:
            getattr(of, act)()
            self.world.check()

    @rule(seconds=st.sampled_from([1.0, 20.0, 46.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.time += seconds

    @rule(name=st.sampled_from("ab"), upto=st.integers(1, 3))
    def renews(self, name: str, upto: int) -> None:
        self._go(self.world.workers[name], RETURN[:3], upto)

    @rule(name=st.sampled_from("ab"), upto=st.integers(3, len(RETURN)))
    def comes_back(self, name: str, upto: int) -> None:
        self._go(self.world.workers[name], RETURN, upto)

    @rule(name=st.sampled_from("ab"), upto=st.integers(1, len(STEPS)))
    def gets_on(self, name: str, upto: int) -> None:
        self._go(self.world.workers[name], STEPS, upto)

    @rule(name=st.sampled_from("ab"), act=st.sampled_from(["crash", "give_way", "stop_holding", *RETURN, *STEPS[-3:]]))
    def one_step(self, name: str, act: str) -> None:
        self._go(self.world.workers[name], (act,), 1)

    @rule(name=st.sampled_from("ab"))
    def sends_it_on(self, name: str) -> None:
        self._go(self.world.workers[name], ("hear", "ship_read", "ship_read", "ship_write"), 4)

    @rule(act=st.sampled_from(["observe", "read", "lease", "plan", "finish", "take_back", "write", "restart"]))
    def hub_step(self, act: str) -> None:
        self._go(self.world.hub, (act,), 1)

    @rule(act=st.sampled_from(["lease", "plan", "plan", "finish", "take_back"]), upto=st.integers(2, 3))
    def hub_decides(self, act: str, upto: int) -> None:
        self._go(self.world.hub, ("read", act, "write"), upto)

    @rule(upto=st.integers(1, 3))
    def silence(self, upto: int) -> None:
        self.world.hub.observe()
        self.world.time += 46.0
        self._go(self.world.hub, ("read", "lease", "write"), upto)

    @rule(policy=st.sampled_from(["Move", "Stay"]))
    def changes_its_mind(self, policy: str) -> None:
        self.world.set_policy(policy)

    @invariant()
    def only_one_may_change_it(self) -> None:
        if hasattr(self, "world"):
            self.world.check()


QUICK = settings(max_examples=50, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck))


def test_lives() -> None:
    run_state_machine_as_test(Lives, settings=QUICK)


@pytest.mark.soak
def test_many_lives() -> None:
    run_state_machine_as_test(Lives, settings=settings(QUICK, max_examples=3000, stateful_step_count=80))
