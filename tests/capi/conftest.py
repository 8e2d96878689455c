"""Fixtures: a management cluster for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.capi.management_cluster import Management
from tests.serving import Server


@pytest.fixture
def management(server: Server) -> Iterator[Management]:
    management = Management(server)
    yield management
    management.root.close()
