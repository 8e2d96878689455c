"""Unmodified client libraries against the server of this process."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import Cluster


@pytest.fixture
def kubeconfig(widgets: Cluster, tmp_path: Path) -> str:
    """Of a cluster that serves Widgets."""
    return str(widgets.kubeconfig(tmp_path / "kubeconfig"))


@pytest.fixture(autouse=True)
def left_open() -> Iterator[None]:
    """Some libraries leave connections to the collector: it runs here, so that no later test is blamed."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
