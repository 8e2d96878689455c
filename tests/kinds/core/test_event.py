"""Validation of events, in both forms."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.core.event import from_core, to_core
from shoal.kinds.core.event_validation import validate_core_event, validate_event
from shoal.objects.errors import invalid_object

Object = dict[str, Any]
TIME = "2024-01-02T03:04:05.000000Z"
NEW: Object = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "ns"},
    "regarding": {"kind": "Pod", "name": "p", "namespace": "ns"},
    "reason": "Made",
    "type": "Normal",
    "action": "Make",
    "eventTime": TIME,
    "reportingController": "example.com/c",
    "reportingInstance": "c-1",
}
REFERENCE = '{"Kind":"Pod","Namespace":"ns","Name":"q","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}'

_NO_NAME = 'reportingComponent: Invalid value: "": name part must be non-empty'


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"eventTime": None}, ["eventTime: Required value"]),
        ({"type": "Odd"}, ['type: Invalid value: "": has invalid value: Odd']),
        ({"deprecatedCount": 2}, ['count: Invalid value: "": needs to be unset']),
        ({"deprecatedSource": {"host": "h"}}, ['source: Invalid value: "": needs to be unset']),
        ({"series": {"count": 1, "lastObservedTime": TIME}}, ['series.count: Invalid value: "": should be at least 2']),
        ({"series": {"count": 2}}, ["series.lastObservedTime: Required value"]),
        ({"action": ""}, ["action: Required value"]),
        ({"note": "x" * 1025}, ['message: Invalid value: "": can have at most 1024 characters']),
        ({"regarding": {}}, ['involvedObject.namespace: Invalid value: "": does not match event.namespace']),
    ],
)
def test_a_new_one(change: Object, said: list[str]) -> None:
    assert [cause.message for cause in validate_event(NEW | change, None)] == said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"series": {"count": 2, "lastObservedTime": TIME}}, []),
        ({"eventTime": "2024-01-02T03:04:06.000000Z"}, ['eventTime: Invalid value: "2024-01-02T03:04:06.000000Z"']),
        ({"regarding": NEW["regarding"] | {"name": "q"}}, [f"involvedObject: Invalid value: {REFERENCE}"]),
        ({"reason": "Other"}, ['reason: Invalid value: "Other"'] * 2),
        ({"deprecatedCount": 80}, ["count: Invalid value: 80"]),
        ({"reportingController": "other"}, ['reportingController: Invalid value: "other"']),
    ],
)
def test_a_change(change: Object, said: list[str]) -> None:
    found = [cause.message for cause in validate_event(NEW | change, NEW)]
    assert found == [f"{one}: field is immutable" for one in said]


def test_the_old_rules() -> None:
    event = to_core(NEW) | {"eventTime": None, "type": "Odd", "action": "", "reportingComponent": ""}
    assert validate_core_event(event, None) == []
    found = [cause.message for cause in validate_core_event(event | {"eventTime": TIME}, None)]
    assert found[:2] == ["reportingComponent: Required value", _NO_NAME]
    assert found[-1] == "action: Required value"


def test_what_is_twice_wrong_is_told_once() -> None:
    refused = invalid_object("Event", "", "e", validate_event(NEW | {"reason": "Other"}, NEW))
    assert refused.message == 'Event "e" is invalid: reason: Invalid value: "Other": field is immutable'


def test_empty_reporters_are_there_in_one_form_only() -> None:
    bare = {"apiVersion": "events.k8s.io/v1", "metadata": {"name": "e"}}
    core = to_core(bare)
    assert (core["reportingComponent"], core["reportingInstance"]) == ("", "")
    assert from_core(core) == bare
