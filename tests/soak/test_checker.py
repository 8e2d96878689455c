"""The checker by small histories: what must pass, and each thing that must not."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.soak.history import Followed, Outcome, Request, State, Told, problems

DONE, REFUSED, UNKNOWN = Outcome.DONE, Outcome.REFUSED, Outcome.UNKNOWN
NOTHING = Request(9, "list", "", 0.0, 0.1, DONE, 1)
"""What the follower began with."""


def create(value: str, revision: int, at: float, *, key: str = "a", outcome: Outcome = DONE) -> Request:
    return Request(1, "create", key, at, at + 0.5, outcome, revision, value)


def update(value: str, before: int, revision: int, at: float, *, key: str = "a", outcome: Outcome = DONE) -> Request:
    return Request(1, "update", key, at, at + 0.5, outcome, revision, value, before)


def delete(before: int, at: float, *, key: str = "a", outcome: Outcome = DONE) -> Request:
    return Request(1, "delete", key, at, at + 0.5, outcome, 0, "", before)


def get(revision: int, value: str, at: float, *, key: str = "a", lasts: float = 0.5) -> Request:
    return Request(2, "get", key, at, at + lasts, DONE, revision, value)


def listed(revision: int, at: float, **found: tuple[int, str]) -> Request:
    states = {key: State(*state) for key, state in found.items()}
    return Request(3, "list", "", at, at + 0.5, DONE, revision, found=states)


def added(key: str, revision: int, value: str) -> Told:
    return Told("ADDED", key, revision, value, 100.0)


def modified(key: str, revision: int, value: str) -> Told:
    return Told("MODIFIED", key, revision, value, 100.0)


def deleted(key: str, revision: int, value: str) -> Told:
    return Told("DELETED", key, revision, value, 100.0)


def bookmark(revision: int) -> Told:
    return Told("BOOKMARK", "", revision, "", 100.0)


def found(requests: Iterable[Request], *told: Told) -> set[str]:
    return {each.kind for each in problems([NOTHING, *requests], [Followed(NOTHING, list(told))])}


A_LIFE = [create("x", 10, 1.0), update("y", 10, 20, 2.0), delete(20, 3.0), create("z", 40, 4.0)]
TOLD = [added("a", 10, "x"), modified("a", 20, "y"), deleted("a", 30, "y"), added("a", 40, "z")]


def test_a_plain_life() -> None:
    reads = [
        get(10, "x", 1.6),
        get(20, "y", 2.6),
        get(0, "", 3.6),
        get(40, "z", 4.6),
        listed(20, 2.7, a=(20, "y")),
        listed(35, 3.7),
        listed(40, 4.7, a=(40, "z")),
    ]
    assert found([*A_LIFE, *reads], *TOLD, bookmark(45)) == set()


def test_reads_beside_a_write_may_see_either() -> None:
    beside = [get(10, "x", 2.1, lasts=0.2), get(20, "y", 2.1, lasts=0.3), get(0, "", 3.1, lasts=0.2)]
    assert found([*A_LIFE, *beside], *TOLD) == set()


def test_what_got_no_answer_may_have_been_done() -> None:
    both = [create("x", 10, 1.0), update("y", 10, 0, 2.0, outcome=UNKNOWN), update("w", 10, 0, 2.0, outcome=UNKNOWN)]
    assert found(both, added("a", 10, "x")) == set()
    assert found([*both, get(20, "y", 5.0)], added("a", 10, "x"), modified("a", 20, "y")) == set()
    gone = [create("x", 10, 1.0), delete(10, 2.0, outcome=UNKNOWN), get(0, "", 3.0)]
    assert found(gone, added("a", 10, "x"), deleted("a", 20, "x")) == set()


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (get(10, "x", 2.6), "stale"),
        (get(0, "", 1.6), "lost"),
        (get(0, "", 4.6), "lost"),
        (listed(10, 2.6, a=(10, "x")), "stale"),
        (listed(20, 2.6, a=(10, "x")), "stale"),
        (listed(20, 2.6), "stale"),
        (listed(45, 4.6, a=(20, "y")), "stale"),
        (listed(35, 3.6, a=(20, "y")), "order"),
        (get(20, "q", 2.6), "order"),
        (get(25, "q", 2.6), "invented"),
    ],
)
def test_reads_that_cannot_be(read: Request, kind: str) -> None:
    assert kind in found([*A_LIFE, read], *TOLD)


def test_a_read_is_not_older_than_what_another_client_was_told() -> None:
    """Of another key: revisions are one line for all of them."""
    requests = [create("x", 10, 1.0), update("y", 10, 0, 2.0, outcome=UNKNOWN), get(10, "x", 101.0)]
    told = [added("a", 10, "x"), modified("a", 20, "y")]
    assert found(requests, *told) == {"stale"}
    other = create("b", 30, 3.0, key="b")
    assert found([*requests[:2], other, get(10, "x", 4.0)], *told, added("b", 30, "b")) == {"stale"}


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ([TOLD[0], TOLD[2], TOLD[3]], "gap"),
        ([TOLD[1], TOLD[2], TOLD[3]], "gap"),
        ([TOLD[1], TOLD[0], TOLD[2], TOLD[3]], "swapped"),
        ([TOLD[0], TOLD[0], *TOLD[1:]], "repeat"),
        ([*TOLD[:2], bookmark(35), *TOLD[2:]], "swapped"),
        ([*TOLD[:2], bookmark(15), *TOLD[2:]], "bookmark"),
        ([*TOLD[:2], bookmark(30), TOLD[3]], "lost"),
        ([TOLD[0], modified("a", 20, "x"), *TOLD[2:]], "order"),
    ],
)
def test_watches_that_cannot_be(told: list[Told], kind: str) -> None:
    assert kind in found(A_LIFE, *told)


def test_one_of_two_watches_misses_something() -> None:
    whole, short = Followed(NOTHING, TOLD), Followed(NOTHING, [TOLD[0], bookmark(45)])
    kinds = [each.kind for each in problems([NOTHING, *A_LIFE], [whole, short])]
    assert kinds == ["gap"] * 3
    resumed = Followed(listed(25, 2.6, a=(20, "y")), TOLD[2:])
    assert problems([NOTHING, *A_LIFE], [whole, resumed]) == []


@pytest.mark.parametrize(
    ("requests", "told", "kind"),
    [
        # Acknowledged, and never there.
        ([*A_LIFE[:1], update("q", 10, 15, 1.6)], [TOLD[0], bookmark(45)], "lost"),
        ([*A_LIFE[:2], delete(20, 3.0)], [*TOLD[:2], bookmark(45)], "lost"),
        # An update over a state it did not name, a creation over something, a deletion of something else.
        ([*A_LIFE[:2], update("q", 10, 30, 2.6)], [*TOLD[:2], modified("a", 30, "q")], "precondition"),
        ([*A_LIFE[:1], create("q", 20, 2.0)], [TOLD[0], modified("a", 20, "q")], "precondition"),
        ([*A_LIFE[:2], delete(10, 3.0)], TOLD[:3], "invented"),
        # Done twice.
        (A_LIFE[:2], [*TOLD[:2], modified("a", 30, "y")], "twice"),
        ([*A_LIFE[:3], delete(20, 3.6)], TOLD[:3], "twice"),
        # Refused, and done; refused without a reason.
        ([*A_LIFE[:1], update("y", 10, 0, 2.0, outcome=REFUSED)], TOLD[:2], "refused"),
        ([*A_LIFE[:1], update("y", 10, 0, 2.0, outcome=REFUSED)], TOLD[:1], "refused"),
        # A revision that was given before, and one that came back.
        ([*A_LIFE[:2], create("b", 20, 3.0, key="b")], TOLD[:2], "order"),
        ([*A_LIFE[:2], create("b", 15, 3.0, key="b")], [TOLD[0], added("b", 15, "b"), TOLD[1]], "order"),
    ],
)
def test_writes_that_cannot_be(requests: list[Request], told: list[Told], kind: str) -> None:
    assert kind in found(requests, *told)


def test_a_refusal_with_a_reason() -> None:
    assert found([*A_LIFE, update("q", 10, 0, 2.6, outcome=REFUSED)], *TOLD) == set()


def test_forty_thousand_requests_are_judged() -> None:
    """As many as a short soak has; it would not end in time if it were more than sorting."""
    requests, told, revision = [], [], 1
    for number in range(20_000):
        at, key = float(number), f"k{number % 50}"
        before = revision - 49
        made = (
            create(f"v{number}", revision + 1, at, key=key)
            if number < 50
            else update(f"v{number}", before, revision + 1, at, key=key)
        )
        revision += 1
        requests += [made, get(revision, f"v{number}", at + 0.6, key=key, lasts=0.1)]
        event = (added if number < 50 else modified)(key, revision, f"v{number}")
        told.append(event._replace(at=at + 0.9))
    assert found(requests, *told) == set()
    assert found([*requests, get(0, "", 30_000.0, key="k7")], *told) == {"lost"}
