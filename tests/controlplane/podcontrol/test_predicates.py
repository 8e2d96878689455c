"""Tests of the predicate for relevant changes of pod owners."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.controlplane.podcontrol.predicates import spec_or_metadata_changed

Object = dict[str, Any]
BEFORE: Object = {"metadata": {"uid": "u", "generation": 1, "resourceVersion": "1"}, "status": {}}


def changed_owner(status: Object | None = None, **metadata: object) -> Object:
    return {"metadata": {**BEFORE["metadata"], "resourceVersion": "2", **metadata}, "status": status or {}}


@pytest.mark.parametrize(
    ("before", "now", "wanted"),
    [
        (None, BEFORE, True),
        (BEFORE, None, True),
        (BEFORE, changed_owner({"replicas": 1}), False),
        (BEFORE, changed_owner(generation=2), True),
        (BEFORE, changed_owner(uid="another"), True),
        (BEFORE, changed_owner(deletionTimestamp="now"), True),
        (BEFORE, changed_owner(annotations={"a": "b"}), True),
    ],
)
def test_news(before: Object | None, now: Object | None, wanted: bool) -> None:
    assert spec_or_metadata_changed(before, now) is wanted
