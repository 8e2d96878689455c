"""A hosted cluster for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.provision.hosted import Hosted
from tests.serving import Server


@pytest.fixture
def hosted(server: Server) -> Iterator[Hosted]:
    hosted = Hosted(server)
    yield hosted
    hosted.close()
