"""`shoal demo` as a process: its output, and that nothing is left, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.faults.processes import HANG, command

CHAPTERS = (
    "Starting a hub and two workers",
    "Creating two ManagedClusters",
    "Applying a Deployment of 10 replicas",
    "It is divided: 5 in east, 5 in west.",
    "Scaling to 60 replicas",
    "has provisioned",
    "which hosts west",
    "60 of 60 replicas are ready.",
    "Deleting everything",
    "Everything was deleted.",
)


def start(folder: Path) -> subprocess.Popen[str]:
    environ = {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command("demo"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ, cwd=folder
    )


def test_stopped_in_the_midst_it_cleans_up(tmp_path: Path) -> None:
    demo = start(tmp_path)
    assert demo.stdout is not None
    assert any("Creating two ManagedClusters" in line for line in demo.stdout)
    demo.send_signal(signal.SIGTERM)
    _, errors = demo.communicate(timeout=HANG)
    assert (demo.returncode, errors.strip()) == (130, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
def test_the_whole_story(tmp_path: Path) -> None:
    demo = start(tmp_path)
    told, errors = demo.communicate(timeout=5 * HANG)
    assert (demo.returncode, errors) == (0, "")
    assert list(tmp_path.iterdir()) == []
    places = [told.find(chapter) for chapter in CHAPTERS]
    assert -1 not in places, told
    assert places == sorted(places)
