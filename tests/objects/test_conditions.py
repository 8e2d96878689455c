"""Conditions: the transition time, and that nothing given is changed."""

from __future__ import annotations

from typing import Any

from shoal.objects.conditions import condition_is, get_condition, remove_condition, set_condition


def test_a_first_condition() -> None:
    obj: dict[str, Any] = {"metadata": {"name": "a"}}
    new = set_condition(obj, "Ready", "False", reason="Starting", message="soon", observed_generation=2, now="t1")
    assert obj == {"metadata": {"name": "a"}}
    assert new["status"]["conditions"] == [
        {
            "type": "Ready", "status": "False", "reason": "Starting", "message": "soon",
            "observedGeneration": 2, "lastTransitionTime": "t1",
        }
    ]  # fmt: skip
    assert new["metadata"] is obj["metadata"]


def test_the_time_moves_only_with_the_status() -> None:
    first = set_condition({"status": {"phase": "x"}}, "Ready", "False", reason="A", now="t1")
    second = set_condition(first, "Ready", "False", reason="B", message="m", now="t2")
    third = set_condition(second, "Ready", "True", reason="B", now="t3")
    assert [obj["status"]["conditions"][0]["lastTransitionTime"] for obj in (first, second, third)] == [
        "t1",
        "t1",
        "t3",
    ]
    assert second["status"]["conditions"][0]["reason"] == "B"
    assert first["status"]["conditions"][0]["reason"] == "A"
    assert third["status"]["phase"] == "x"


def test_nothing_changes_nothing() -> None:
    obj = set_condition({}, "Ready", "True", reason="A", now="t1")
    assert set_condition(obj, "Ready", "True", reason="A", now="t2") is obj


def test_others_stay_where_they_are() -> None:
    obj: dict[str, Any] = {}
    for type_ in ("A", "B", "C"):
        obj = set_condition(obj, type_, "True", reason="R", now="t1")
    changed = set_condition(obj, "B", "False", reason="R", now="t2")
    assert [condition["type"] for condition in changed["status"]["conditions"]] == ["A", "B", "C"]
    assert condition_is(changed, "B", "False")
    assert not condition_is(changed, "B")
    assert condition_is(changed, "C")
    assert [c["type"] for c in remove_condition(changed, "B")["status"]["conditions"]] == ["A", "C"]
    assert remove_condition(changed, "D") is changed


def test_absent() -> None:
    assert get_condition({}, "Ready") is None
    assert get_condition({"status": {"conditions": None}}, "Ready") is None
    assert not condition_is({}, "Ready")
