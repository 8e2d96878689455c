"""Tests of the predicate for relevant changes of pod owners."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.controlplane.podcontrol.changes import is_new

Object = dict[str, Any]
BEFORE: Object = {"metadata": {"uid": "u", "generation": 1, "resourceVersion": "1"}, "status": {}}


def changed(status: Object | None = None, **metadata: object) -> Object:
    return {"metadata": {**BEFORE["metadata"], "resourceVersion": "2", **metadata}, "status": status or {}}


@pytest.mark.parametrize(
    ("before", "now", "wanted"),
    [
        (None, BEFORE, True),
        (BEFORE, None, True),
        (BEFORE, changed({"replicas": 1}), False),
        (BEFORE, changed(generation=2), True),
        (BEFORE, changed(uid="another"), True),
        (BEFORE, changed(deletionTimestamp="now"), True),
        (BEFORE, changed(annotations={"a": "b"}), True),
    ],
)
def test_news(before: Object | None, now: Object | None, wanted: bool) -> None:
    assert is_new(before, now) is wanted
