"""The server of this process, and a fresh logical cluster of it for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serving import Cluster, Server, fresh_cluster, start_server, widget_definition


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = start_server()
    yield server
    server.stop()


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server)
    yield cluster
    cluster.close()


@pytest.fixture
def widgets(cluster: Cluster) -> Cluster:
    """A cluster that serves Widgets."""
    cluster.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widget_definition()).ok()
    return cluster
