"""Ten KINDClusters of real containers are created and deleted while the machine does much else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real.containers.engine import Engine
from tests.real.kind_fleet import KindFleet, own_prefix

pytestmark = [pytest.mark.containers, pytest.mark.soak]

CLUSTERS, AT_ONCE = 10, 3
"""Ten nodes at once do not fit into a machine of two cores; Shoal creates two at a time."""
SECONDS = 600.0
LOAD = 20
BURNER = "import os; os.nice(10)\nwhile True: pass"
"""Below the nodes: kubeadm gives up when its control plane does not answer for four minutes."""


@contextmanager
def load(processes: int) -> Iterator[None]:
    """So many processes that always want to run."""
    burners = [subprocess.Popen([sys.executable, "-SE", "-c", BURNER]) for _ in range(processes)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
        for burner in burners:
            burner.wait()


@pytest.fixture
def fleet(engine: Engine, tmp_path: Path) -> Iterator[KindFleet]:
    fleet = KindFleet(tmp_path, own_prefix("load"), dict(os.environ))
    yield fleet
    fleet.end()


def test_no_controller_restarts_and_no_creation_begins_twice(fleet: KindFleet) -> None:
    alive: list[str] = []
    created = 0
    loads = []
    with load(LOAD):
        start = time.monotonic()
        while alive or created < CLUSTERS or time.monotonic() - start < SECONDS:
            loads.append(os.getloadavg()[0])
            while created < CLUSTERS and len(alive) < AT_ONCE:
                alive.append(fleet.create())
                created += 1
            for name in fleet.ready() & set(alive):
                fleet.answers_for(name)
                fleet.delete(name)
                alive.remove(name)
            problems = [text for text in fleet.failures().values() if text]
            assert problems == []
            time.sleep(1.0)
        fleet.settles(())
    assert max(loads) >= LOAD
    assert fleet.controller_restarts() == {}
    begun = fleet.creations()
    assert (len(begun), set(begun.values())) == (CLUSTERS, {1})
    assert fleet.containers() == []
    assert list(fleet.temporary.iterdir()) == []
