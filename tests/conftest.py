"""What every test may use: the server of this process, a fresh logical cluster of it, reproducible properties."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.serving import DEFINITIONS, Cluster, Server, fresh_cluster, running_server, widget_definition

settings.register_profile("shoal", derandomize=True, deadline=None, print_blob=False)
settings.load_profile("shoal")
# Here, because tests of several folders import it.
pytest.register_assert_rewrite("tests.store.contract")

TESTS = Path(__file__).parent
LONG_FILES = (TESTS / "long_files.txt").read_text().split()
"""Those that take seconds, the longest first."""
MOST_PROCESSES = 8
"""Each of them imports and collects every test for itself."""

# A server stands in these processes as it does in its own, with the thresholds of shoal.assemble.server.process.
gc.set_threshold(50_000, 20, 100)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def still_server() -> Iterator[Server]:
    """Its loops are stopped: what a test writes stays as it was written."""
    with running_server() as server:
        server.call(server.shoal._controllers.stop())
        yield server


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server)
    yield cluster
    cluster.close()


@pytest.fixture
def widgets(cluster: Cluster) -> Cluster:
    """A cluster that serves Widgets."""
    cluster.post(DEFINITIONS, widget_definition()).ok()
    return cluster


@pytest.fixture
def impatient_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What holds a namespace that goes is looked at again at once, and not after seconds of the server's clock."""
    monkeypatch.setattr("shoal.controlplane.namespaces.controller.RETRY_SECONDS", 0.02)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: tests of processes and of watches wait."""
    return min((os.cpu_count() or 1) + 1, MOST_PROCESSES)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that no process ends with one of them while the others have nothing to do."""
    places = {TESTS / name: place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: garbage is not looked for among them."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = {str(report.longrepr[2]) for report in terminalreporter.getreports("skipped")}
    for reason in sorted(reasons):
        terminalreporter.write_line(f"NOT RUN: {reason.removeprefix('Skipped: ')}")
