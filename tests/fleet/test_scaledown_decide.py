"""When an auto-created Worker is deleted, and which settings are valid."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fleet.scaledown.controller import ScaleDownDecision, decide
from shoal.fleet.scheduler.scaleup import AutoWorkerSettings, parse_auto_worker_settings
from shoal.kinds.fleet import infrav1

Object = dict[str, Any]

ALLOWED = AutoWorkerSettings(1, 10, 600.0)


def worker(**metadata: Any) -> Object:
    return {
        "metadata": {
            "name": "auto",
            "namespace": "shoal-system",
            "labels": {infrav1.AUTO_WORKER_LABEL: "x"},
            **metadata,
        }
    }


@pytest.mark.parametrize(
    ("obj", "hosted", "since", "allowed", "found"),
    [
        (worker(), False, None, ALLOWED, ScaleDownDecision(5000.0, False, 600.0)),
        (worker(), False, 4500.0, ALLOWED, ScaleDownDecision(4500.0, False, 100.0)),
        (worker(), False, 4400.0, ALLOWED, ScaleDownDecision(4400.0, True)),
        (worker(), True, 4400.0, ALLOWED, ScaleDownDecision()),
        (worker(labels={}), False, 1.0, ALLOWED, ScaleDownDecision()),
        (worker(namespace="default"), False, 1.0, ALLOWED, ScaleDownDecision()),
        (worker(deletionTimestamp="x"), False, 1.0, ALLOWED, ScaleDownDecision()),
        (worker(), False, 1.0, AutoWorkerSettings(), ScaleDownDecision()),
        (worker(), False, 1.0, AutoWorkerSettings(settings_error="max is not a number"), ScaleDownDecision()),
    ],
)
def test_decide(
    obj: Object, hosted: bool, since: float | None, allowed: AutoWorkerSettings, found: ScaleDownDecision
) -> None:
    assert decide(obj, hosted, since, allowed, 5000.0) == found


@pytest.mark.parametrize(
    ("data", "seconds"),
    [({}, 600.0), ({"emptyFor": "90s"}, 90.0), ({"emptyFor": "1h30m"}, 5400.0), ({"emptyFor": "never"}, None)],
)
def test_the_setting(data: dict[str, str], seconds: float | None) -> None:
    found = parse_auto_worker_settings({"data": {"max": "1", **data}})
    assert (found.empty_seconds, found.settings_error) == (seconds, "")


@pytest.mark.parametrize("text", ["", "0", "soon", "-1m", "10"])
def test_a_setting_that_is_none(text: str) -> None:
    found = parse_auto_worker_settings({"data": {"max": "1", "emptyFor": text}})
    said = f"emptyFor is neither a duration such as 10m nor never: {text!r}"
    assert found.settings_error == f"ConfigMap shoal-system/auto-workers: {said}"
    assert (found.max_workers, found.empty_seconds) == (0, None)
