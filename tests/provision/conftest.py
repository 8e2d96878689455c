"""A hosted cluster for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.provision.lifecycle.termination import controller as termination
from tests.provision.hosted import Hosted
from tests.serving import Server

termination.MIN_DRAIN_SECONDS = 0.0
"""Nobody waits for it on a real clock; the tests on a fake one set their own."""


@pytest.fixture
def hosted(server: Server) -> Iterator[Hosted]:
    hosted = Hosted(server)
    yield hosted
    hosted.close()
