"""When an auto-created Worker is deleted, and which settings are valid."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fleet.scheduler.growth import Setting, setting
from shoal.fleet.shrinking.decide import Decision, decide
from shoal.kinds import fleet

Object = dict[str, Any]

ALLOWED = Setting(1, 10, 600.0)


def worker(**metadata: Any) -> Object:
    return {"metadata": {"name": "auto", "namespace": "shoal-system", "labels": {fleet.AUTO_WORKER: "x"}, **metadata}}


@pytest.mark.parametrize(
    ("obj", "hosted", "since", "allowed", "found"),
    [
        (worker(), False, None, ALLOWED, Decision(5000.0, False, 600.0)),
        (worker(), False, 4500.0, ALLOWED, Decision(4500.0, False, 100.0)),
        (worker(), False, 4400.0, ALLOWED, Decision(4400.0, True)),
        (worker(), True, 4400.0, ALLOWED, Decision()),
        (worker(labels={}), False, 1.0, ALLOWED, Decision()),
        (worker(namespace="default"), False, 1.0, ALLOWED, Decision()),
        (worker(deletionTimestamp="x"), False, 1.0, ALLOWED, Decision()),
        (worker(), False, 1.0, Setting(), Decision()),
        (worker(), False, 1.0, Setting(wrong="max is no number"), Decision()),
    ],
)
def test_decide(obj: Object, hosted: bool, since: float | None, allowed: Setting, found: Decision) -> None:
    assert decide(obj, hosted, since, allowed, 5000.0) == found


@pytest.mark.parametrize(
    ("data", "seconds"),
    [({}, 600.0), ({"emptyFor": "90s"}, 90.0), ({"emptyFor": "1h30m"}, 5400.0), ({"emptyFor": "never"}, None)],
)
def test_the_setting(data: dict[str, str], seconds: float | None) -> None:
    found = setting({"data": {"max": "1", **data}})
    assert (found.empty_seconds, found.wrong) == (seconds, "")


@pytest.mark.parametrize("text", ["", "0", "soon", "-1m", "10"])
def test_a_setting_that_is_none(text: str) -> None:
    found = setting({"data": {"max": "1", "emptyFor": text}})
    said = f"emptyFor is no duration such as 10m, and not never: {text!r}"
    assert found.wrong == f"ConfigMap shoal-system/auto-workers: {said}"
    assert (found.maximum, found.empty_seconds) == (0, None)
