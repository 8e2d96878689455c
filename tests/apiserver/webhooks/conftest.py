"""One webhook server for all tests here, and a whole cluster per test to register webhooks in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apiserver.webhooks.receiver import Hooks, Receiver, receiving
from tests.serving import Server, fresh_cluster


@pytest.fixture(scope="session")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with receiving(tmp_path_factory.mktemp("webhooks")) as found:
        yield found


@pytest.fixture
def hooks(still_server: Server, receiver: Receiver) -> Iterator[Hooks]:
    cluster = fresh_cluster(still_server, "cluster")
    yield Hooks(cluster, receiver)
    cluster.close()
