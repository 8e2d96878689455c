"""The single-writer check of the soak test detects violations."""

from __future__ import annotations

import pytest

from tests.fleet_story.single_writer import Given, Written, conflict

HELD = [Given(1, "a", 0.0), Given(2, "b", 10.0), Given(3, "a", 20.0)]


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        ([("a", 1, 2), ("b", 11, 12), ("a", 21, 22)], None),
        ([("a", 9, 10.5), ("b", 9.5, 10.6)], None),  # the hub's word is seen later than it holds
        ([("b", 8, 9), ("b", 9.5, 9.7)], None),
        ([("a", 11, 12)], None),  # early news of epoch 3
        ([("a", 1, 2), ("b", 3, 4), ("a", 5, 6), ("b", 7, 8)], 3),  # four holds, where three were given
        ([("b", 11, 12), ("a", 13, 14), ("b", 15, 16)], 2),  # a got it back; b must not write then
        ([("b", 21, 22)], 0),  # begun after it was seen to be another's
        ([("c", 1, 2)], 0),
    ],
)
def test_what_no_order_of_holds_explains(written: list[tuple[str, float, float]], wrong: int | None) -> None:
    writes = [Written(*each) for each in written]
    assert conflict(HELD, reversed(writes)) == (None if wrong is None else writes[wrong])
