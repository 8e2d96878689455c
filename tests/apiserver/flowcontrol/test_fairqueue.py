"""Fair queuing: shares by weight, no starvation, no saved-up credit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from hypothesis import given
from hypothesis import strategies as st

from shoal.apiserver.flowcontrol.fairqueue import MAX_IDLE_CHILDREN, FairQueue

Path = tuple[tuple[Hashable, float], ...]


def path(cluster: str, level: str = "l", flow: str = "f", shares: float = 1.0) -> Path:
    return (cluster, 1.0), ((cluster, level), shares), (flow, 1.0)


def pop_many(order: FairQueue[str], count: int) -> list[str]:
    found = []
    for _ in range(count):
        popped = order.pop()
        assert popped is not None
        found.append(popped[0])
    return found


def test_one_flow_is_served_in_its_order() -> None:
    order: FairQueue[str] = FairQueue()
    for item in "abc":
        order.push(path("root"), item)
    assert pop_many(order, 3) == ["a", "b", "c"]
    assert order.pop() is None
    assert order.size == 0


def test_a_flow_of_many_does_not_hold_up_a_flow_of_one() -> None:
    order: FairQueue[str] = FairQueue()
    for _ in range(1000):
        order.push(path("root", flow="loud"), "loud")
    order.push(path("root", flow="quiet"), "quiet")
    assert "quiet" in pop_many(order, 2)


def test_clusters_share_evenly_however_many_flows_they_have() -> None:
    order: FairQueue[str] = FairQueue()
    for flow in range(100):
        for _ in range(10):
            order.push(path("many", flow=str(flow)), "many")
    for _ in range(100):
        order.push(path("one"), "one")
    assert Counter(pop_many(order, 100))["one"] in (49, 50, 51)


def test_levels_share_by_their_weight() -> None:
    order: FairQueue[str] = FairQueue()
    for _ in range(400):
        order.push(path("root", "high", shares=40), "high")
        order.push(path("root", "low", shares=10), "low")
    assert Counter(pop_many(order, 100))["high"] in (79, 80, 81)


def test_who_costs_more_comes_less_often() -> None:
    order: FairQueue[str] = FairQueue()
    dear, cheap = (order.push(path("root", flow=flow), flow) for flow in ("dear", "cheap"))
    dear.cost, cheap.cost = 0.1, 0.01
    for _ in range(200):
        order.push(path("root", flow="dear"), "dear")
        order.push(path("root", flow="cheap"), "cheap")
    assert 8 <= Counter(pop_many(order, 110))["dear"] <= 12


def test_nobody_saves_up_while_nothing_of_theirs_waits() -> None:
    order: FairQueue[str] = FairQueue()
    for _ in range(500):
        order.push(path("root", flow="steady"), "steady")
    pop_many(order, 300)
    for _ in range(100):
        order.push(path("root", flow="late"), "late")
    assert Counter(pop_many(order, 100))["late"] in (49, 50, 51)


def test_a_level_that_may_not_go_is_passed_over_and_keeps_its_place() -> None:
    order: FairQueue[str] = FairQueue()
    order.push(path("a", "shut"), "shut")
    order.push(path("a", "open"), "open")
    order.push(path("b", "shut"), "other")
    found = order.pop(lambda key: key == ("a", "open"))
    assert found is not None
    assert found[0] == "open"
    assert order.pop(lambda key: key == ("a", "open")) is None
    assert order.size == 2
    assert sorted(pop_many(order, 2)) == ["other", "shut"]


def test_flows_that_have_gone_are_forgotten_in_the_end() -> None:
    order: FairQueue[str] = FairQueue()
    for flow in range(MAX_IDLE_CHILDREN * 3):
        order.push(path("root", flow=str(flow)), "x")
        pop_many(order, 1)
    level = order.push(path("root", flow="last"), "x")
    assert level.key == "last"
    root = next(iter(order._root.children.values()))
    assert len(next(iter(root.children.values())).children) <= MAX_IDLE_CHILDREN + 1


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ab"), st.sampled_from("hl"), st.sampled_from("xyz")),
        st.sets(st.sampled_from([(cluster, level) for cluster in "ab" for level in "hl"])),
    ),
    max_size=60,
)


@given(steps)
def test_everything_that_waits_comes_out_once_and_each_flow_in_order(
    done: list[tuple[str, str, str] | set[tuple[str, str]]],
) -> None:
    order: FairQueue[tuple[tuple[str, str, str], int]] = FairQueue()
    waiting: dict[tuple[str, str, str], list[int]] = {}
    for number, step in enumerate(done):
        if isinstance(step, tuple):
            order.push(path(*step), (step, number))
            waiting.setdefault(step, []).append(number)
            continue
        allowed = {flow for flow, numbers in waiting.items() if numbers and flow[:2] in step}
        found = order.pop(lambda key, step=step: key in step)  # type: ignore[misc]
        assert (found is not None) == bool(allowed)
        if found is not None:
            flow, first = found[0]
            assert flow in allowed
            assert waiting[flow].pop(0) == first
    assert order.size == sum(map(len, waiting.values()))
    assert sorted(number for _, number in order.items()) == sorted(n for each in waiting.values() for n in each)
    while (left := order.pop()) is not None:
        assert waiting[left[0][0]].pop(0) == left[0][1]
    assert not any(waiting.values())
