"""Upstream's own end-to-end specs (e2e.test) against a `shoal hub --root-profile cluster` process.

`specs/server.txt` needs the API server alone, `specs/loops.txt` its loops too, `specs/passing.txt` is the ratchet of
both: what it names has to pass. `specs/workloads.txt` needs simulated nodes as well, `specs/others.txt` is of the API
beside conformance; they name only what passes.
SHOAL_SPECS=TEXT runs only the specs whose name contains TEXT; SHOAL_ALL=1 tries those too that are known not to pass:
they wait until their time is up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.lanes import Hub, Lanes, Object, chosen, names, needs_programs, report

pytestmark = needs_programs


def simulated(name: str, zone: str) -> Object:
    labels = {"shoal.dev/simulated": "true", "topology.kubernetes.io/zone": zone}
    labels |= {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


NODES = tuple(simulated(f"node-{zone}", f"zone-{zone}") for zone in "abc")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path)
    yield hub
    hub.close()


def test_conformance(hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    every, passing = chosen(names("server.txt") + names("loops.txt")), set(names("passing.txt"))
    wanted = every if os.environ.get("SHOAL_ALL") else [name for name in every if name in passing]
    failing = Lanes(hub, tmp_path, NODES).run(wanted, passing)
    with capfd.disabled():
        if left := len(every) - len(wanted):
            print(f"\nNOT RUN: {left} specs that do not pass yet (SHOAL_ALL=1 tries them)")
        assert report(wanted, failing, passing, print) == {}


def test_workloads_on_simulated_nodes(hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    passing = names("workloads.txt") + names("others.txt")
    wanted = chosen(passing)
    failing = Lanes(hub, tmp_path, NODES).run(wanted, set(passing))
    with capfd.disabled():
        assert report(wanted, failing, set(passing), print) == {}
