"""An operator on kopf: handlers, finalizers, status patches, retries and events, observed from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving import HANG, WIDGETS, Cluster, widget

FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture
def operator(widgets: Cluster, kubeconfig: str, tmp_path: Path) -> Iterator[Path]:
    """A running operator; its log."""
    log = tmp_path / "operator.log"
    program = Path(__file__).with_name("widget_operator.py")
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace=default", "--verbose", str(program)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env={**os.environ, "KUBECONFIG": kubeconfig}, stdout=out, stderr=out)
        try:
            yield log
        finally:
            process.terminate()
            process.wait(HANG)


def _get(cluster: Cluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get(f"{WIDGETS}/{name}").json
    return found


def _reasons(cluster: Cluster, name: str) -> list[str]:
    events = cluster.get(f"{EVENTS}?fieldSelector=involvedObject.name={name}").ok()["items"]
    return [event["reason"] for event in events]


def test_life_of_a_widget(operator: Path, widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("one", 1)).ok()
    widgets.eventually(lambda: _get(widgets, "one").get("status", {}).get("phase") == "Built")
    built = _get(widgets, "one")
    assert built["metadata"]["finalizers"] == [FINALIZER]
    assert built["spec"]["color"] == "red"
    assert built["status"]["build"] == {"size": 1}
    assert "kopf.zalando.org/last-handled-configuration" in built["metadata"]["annotations"]

    widgets.patch(f"{WIDGETS}/one", {"spec": {"size": 4}}).ok()
    widgets.eventually(lambda: _get(widgets, "one")["status"].get("resized") == "1 to 4")

    deleted = widgets.delete(f"{WIDGETS}/one").ok()
    assert deleted["metadata"]["finalizers"] == [FINALIZER]
    widgets.eventually(lambda: widgets.get(f"{WIDGETS}/one").status == 404)
    widgets.eventually(lambda: "Dismantled" in _reasons(widgets, "one"))
    assert "Building" in _reasons(widgets, "one")
    assert "Traceback" not in operator.read_text()


def test_what_was_there_before(widgets: Cluster, request: pytest.FixtureRequest) -> None:
    """An operator that comes late handles all there is."""
    for number in range(3):
        widgets.post(WIDGETS, widget(f"w{number}", number + 1)).ok()
    request.getfixturevalue("operator")

    def built() -> bool:
        items = widgets.get(WIDGETS).ok()["items"]
        return [item.get("status", {}).get("build") for item in items] == [{"size": n + 1} for n in range(3)]

    widgets.eventually(built)
    widgets.delete(WIDGETS).ok()
    widgets.eventually(lambda: widgets.get(WIDGETS).ok()["items"] == [])
