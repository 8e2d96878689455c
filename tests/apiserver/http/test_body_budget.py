"""The budget of request bodies: shares, the part for small bodies, and who is ended first."""

from __future__ import annotations

from shoal.apiserver.http.body_budget import SMALL_BODY_BYTES, BodyBudget, BodyHold

MIB = 1024 * 1024
BUDGET = 64 * MIB
BODY = 3 * MIB


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def take(budget: BodyBudget, tenant: str, flow: str = "user", size: int = BODY) -> BodyHold | None:
    """A body that has arrived. None if it was refused."""
    hold = budget.hold(0, size)
    return hold if hold.assign((tenant, flow)) and hold.grow(size) else None


def take_all(budget: BodyBudget, tenant: str, flow: str = "user", size: int = BODY) -> int:
    """Takes bodies until one is refused. Returns the bytes."""
    held = 0
    while take(budget, tenant, flow, size) is not None:
        held += size
        assert held <= BUDGET
    return held


def test_one_tenant_leaves_as_much_as_it_takes() -> None:
    budget = BodyBudget(BUDGET)
    held = sum(take_all(budget, "greedy", f"user-{number}") for number in range(50))
    assert 20 * MIB < held <= 24 * MIB
    assert take(budget, "other") is not None


def test_many_tenants_leave_room_for_one_more() -> None:
    budget = BodyBudget(BUDGET)
    for number in range(20):
        take_all(budget, f"greedy-{number}", size=MIB)
    assert budget.held_bytes <= BUDGET
    assert take(budget, "other", size=MIB // 2) is not None


def test_one_flow_leaves_room_for_others_of_its_tenant() -> None:
    budget = BodyBudget(BUDGET)
    assert take_all(budget, "tenant", "loud") <= 16 * MIB
    assert take(budget, "tenant", "quiet") is not None


def test_small_bodies_have_room_when_large_ones_have_none() -> None:
    budget = BodyBudget(BUDGET)
    for number in range(100):
        take_all(budget, f"greedy-{number}", size=100_000)
    assert take(budget, "greedy-0") is None
    assert take(budget, "greedy-0", size=SMALL_BODY_BYTES) is not None


def test_an_owner_without_a_share_is_limited_by_the_whole_budget() -> None:
    budget = BodyBudget(BUDGET)
    holds = []
    while (hold := budget.hold(0, BODY)).assign(None) and hold.grow(BODY):
        holds.append(hold)
    assert len(holds) == BUDGET // BODY
    assert budget.rejected_total == 1
    for each in holds:
        each.release()
    assert budget.held_bytes == 0


def test_nothing_is_left_of_bodies_that_are_released() -> None:
    budget = BodyBudget(BUDGET)
    holds = [take(budget, f"tenant-{number % 7}", f"user-{number}", 1000 * number) for number in range(50)]
    for hold in holds:
        assert hold is not None
        hold.release()
        hold.release()
    assert budget.held_bytes == 0
    for pool in (budget.small, budget.large):
        assert not pool.tenants
        assert not pool.flows


def test_bodies_whose_client_is_silent_are_ended_for_others() -> None:
    clock = Clock()
    budget = BodyBudget(BUDGET, clock)
    ended: list[int] = []
    stalled: list[BodyHold] = []

    def receive(number: int) -> BodyHold | None:
        hold = budget.hold(0, BODY)
        assert hold.assign(("tenant", "user"))

        def end() -> None:
            ended.append(number)
            hold.release()

        hold.start_reception(end)
        return hold if hold.grow(BODY - 1) else None

    while (held := receive(len(stalled))) is not None:
        stalled.append(held)
        clock.seconds += 0.01
    assert not ended
    clock.seconds += 5
    assert stalled[0].grow(1)  # the first one is not silent any more
    newcomer = receive(99)
    assert newcomer is not None
    assert ended == [1]
    assert budget.rejected_total == 2


def test_a_body_that_drips_is_slow_too() -> None:
    clock = Clock()
    budget = BodyBudget(BUDGET, clock)
    ended: list[BodyHold] = []
    dripping = budget.hold(0, None)
    assert dripping.assign(("tenant", "user"))

    def end() -> None:
        ended.append(dripping)
        dripping.release()

    dripping.start_reception(end)
    for _ in range(20):
        clock.seconds += 1
        assert dripping.grow(1000)
    take_all(budget, "tenant")
    assert ended == [dripping]


def test_no_room_is_found_by_ending_a_body_that_comes_at_a_normal_rate() -> None:
    clock = Clock()
    budget = BodyBudget(BUDGET, clock)
    hold = budget.hold(0, BODY)
    assert hold.assign(("tenant", "user"))
    hold.start_reception(lambda: (_ for _ in ()).throw(AssertionError))
    for _ in range(30):
        clock.seconds += 1
        assert hold.grow(100_000)
    take_all(budget, "tenant")
    assert hold.size == 30 * 100_000
