"""A logical cluster under attack, and a bystander that must never notice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.quiet import errors_logged
from tests.serving import DEFINITIONS, Cluster, Server, fresh_cluster, widget_definition


@pytest.fixture
def cluster(server: Server, bystander: Cluster, quiet: None) -> Iterator[Cluster]:
    """A cluster that serves Widgets. After the test, somebody else is still served and nothing was logged."""
    cluster = fresh_cluster(server)
    cluster.post(DEFINITIONS, widget_definition()).ok()
    yield cluster
    cluster.close()
    assert bystander.get("/api/v1/namespaces/default").ok()["kind"] == "Namespace"


@pytest.fixture(scope="session")
def bystander(server: Server) -> Iterator[Cluster]:
    """A second client, in a cluster of its own."""
    cluster = fresh_cluster(server)
    yield cluster
    cluster.close()


@pytest.fixture
def quiet() -> Iterator[None]:
    """The server logs no error meanwhile."""
    with errors_logged() as records:
        yield
    assert [record.getMessage() for record in records] == []
