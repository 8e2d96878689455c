"""What every test may use: the server of this process, a fresh logical cluster of it, reproducible properties."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.serving import DEFINITIONS, Cluster, Server, fresh_cluster, running_server, widget_definition

settings.register_profile("shoal", derandomize=True, deadline=None, print_blob=False)
settings.load_profile("shoal")
# Here, because tests of several folders import it.
pytest.register_assert_rewrite("tests.store.contract")


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = {str(report.longrepr[2]) for report in terminalreporter.getreports("skipped")}
    for reason in sorted(reasons):
        terminalreporter.write_line(f"NOT RUN: {reason.removeprefix('Skipped: ')}")
