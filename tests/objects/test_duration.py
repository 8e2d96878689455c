"""Durations as Go writes them."""

from __future__ import annotations

import pytest

from shoal.objects.duration import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30), ("1m30s", 90), ("1.5h", 5400), ("500ms", 0.5), (".5s", 0.5), ("0", 0), ("0s", 0),
        ("", None), ("soon", None), ("30", None), ("-1s", None), ("1s x", None), (None, None), (5, None),
    ],
)  # fmt: skip
def test_durations(text: object, seconds: float | None) -> None:
    assert parse_duration(text) == seconds
