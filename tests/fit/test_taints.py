"""Taints and tolerations."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fit.taints import (
    HARD_EFFECTS,
    PREFER_NO_SCHEDULE,
    count_untolerated_preferred,
    first_untolerated,
    is_same_taint,
    tolerates,
)

TAINT = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        ({"key": "gpu", "value": "a100"}, TAINT, True),
        ({"key": "gpu", "operator": "Equal", "value": "a100", "effect": "NoSchedule"}, TAINT, True),
        ({"key": "gpu", "operator": "Equal", "value": "h100"}, TAINT, False),
        ({"key": "gpu", "operator": "Equal"}, TAINT, False),
        ({"key": "gpu"}, {"key": "gpu", "effect": "NoExecute"}, True),
        ({"key": "gpu", "operator": "Exists"}, TAINT, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, TAINT, False),
        ({"key": "cpu", "operator": "Exists"}, TAINT, False),
        ({"operator": "Exists"}, TAINT, True),
        ({"operator": "Exists", "effect": "NoExecute"}, TAINT, False),
        ({"key": "age", "operator": "Gt", "value": "5"}, {"key": "age", "value": "6"}, True),
        ({"key": "age", "operator": "Gt", "value": "5"}, {"key": "age", "value": "5"}, False),
        ({"key": "age", "operator": "Lt", "value": "5"}, {"key": "age", "value": "-7"}, True),
        ({"key": "age", "operator": "Lt", "value": "5"}, {"key": "age", "value": "5"}, False),
        ({"key": "age", "operator": "Lt", "value": "5"}, {"key": "age", "value": "04"}, False),
        ({"key": "age", "operator": "Lt", "value": "old"}, {"key": "age", "value": "4"}, False),
        ({"key": "gpu", "operator": "Near", "value": "a100"}, TAINT, False),
    ],
)
def test_a_toleration_meets_a_taint(toleration: dict[str, Any], taint: dict[str, Any], expected: bool) -> None:
    assert tolerates(toleration, taint) is expected


def test_the_first_taint_in_the_way_is_named() -> None:
    soft = {"key": "old", "effect": PREFER_NO_SCHEDULE}
    hard = {"key": "down", "effect": "NoExecute"}
    assert first_untolerated([soft, hard, TAINT], []) is hard
    assert first_untolerated([soft, hard, TAINT], [{"key": "down", "operator": "Exists"}]) is TAINT
    assert first_untolerated([soft, hard, TAINT], [{"operator": "Exists"}]) is None
    assert first_untolerated([soft], [], HARD_EFFECTS) is None
    assert first_untolerated([hard, soft], [], (PREFER_NO_SCHEDULE,)) is soft
    assert count_untolerated_preferred([soft, hard, TAINT], []) == 1
    assert count_untolerated_preferred([soft], [{"key": "old", "operator": "Exists", "effect": "NoSchedule"}]) == 1
    assert count_untolerated_preferred([soft], [{"key": "old", "operator": "Exists"}]) == 0


def test_a_taint_is_known_by_key_and_effect() -> None:
    assert is_same_taint(TAINT, {"key": "gpu", "value": "other", "effect": "NoSchedule"})
    assert not is_same_taint(TAINT, {**TAINT, "effect": "NoExecute"})
