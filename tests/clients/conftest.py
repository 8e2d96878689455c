"""Client libraries as they are, against the server of this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.apiserver.conftest import cluster, server, widgets
from tests.serving import Cluster

__all__ = ["cluster", "server", "widgets"]


@pytest.fixture
def kubeconfig(widgets: Cluster, tmp_path: Path) -> str:
    """Of a cluster that serves Widgets."""
    return str(widgets.kubeconfig(tmp_path / "kubeconfig"))
