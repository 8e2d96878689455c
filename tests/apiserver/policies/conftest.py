from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apiserver.policies import cases
from tests.serving import Cluster, Server, fresh_cluster


@pytest.fixture(scope="module")
def ruled(server: Server) -> Iterator[Cluster]:
    """With all policies of the cases."""
    found = fresh_cluster(server, "cluster")
    cases.surroundings(found)
    for sort, table in (("validating", cases.VALIDATING), ("mutating", cases.MUTATING)):
        for name, case in table.items():
            cases.register(found, name, case, sort)
    yield found
    found.close()


@pytest.fixture
def whole(server: Server) -> Iterator[Cluster]:
    found = fresh_cluster(server, "cluster")
    yield found
    found.close()
