"""Logical clusters with limits, closed after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.apiserver.limits.limited import set_limits
from tests.serving import Cluster, Server, fresh_cluster

LimitedCluster = Callable[..., Cluster]


@pytest.fixture
def limited() -> Iterator[LimitedCluster]:
    """Makes a logical cluster of a server with the given limits."""
    made: list[Cluster] = []

    def make(server: Server, profile: str = "hub", **limits: int | str | None) -> Cluster:
        made.append(fresh_cluster(server, profile))
        set_limits(made[-1], **limits).ok()
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()
