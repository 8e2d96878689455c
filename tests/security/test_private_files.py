"""Every directory that a server makes is for its owner only, and so is every file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.isolation.tenants import MANAGED, Hub, eventually, phase
from tests.serving import Cluster


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(directory: Path) -> dict[str, str]:
    """What other users may do, by path."""
    paths = [directory, *directory.rglob("*")]
    modes = {str(path.relative_to(directory.parent)): path.lstat().st_mode for path in paths}
    return {path: stat.filemode(mode) for path, mode in modes.items() if mode & 0o077}


def use(hub: Hub) -> None:
    """Has all kinds of keys made: of the server, of the worker, of a hosted cluster."""
    root = Cluster(hub, "root")
    kind = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "ManagedCluster"}
    if root.get(f"{MANAGED}/east").status == 404:
        root.post(MANAGED, {**kind, "metadata": {"name": "east"}, "spec": {"nodes": 0}}).ok()
    eventually(lambda: phase(root.get(f"{MANAGED}/east").ok()) == "Running")
    root.close()


@pytest.mark.usefixtures("usual_umask")
def test_a_data_directory_with_a_worker(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    hub = Hub(directory)
    try:
        use(hub)
        assert open_to_others(directory) == {}
    finally:
        hub.stop()
    found = {path.name for path in directory.rglob("*")}
    assert {"pki", "ca.key", "cluster-keys.key", "worker-1", "admin-token", "kubeconfig"} <= found
    assert open_to_others(directory) == {}
    loosened = [path for path in directory.rglob("*") if "pki" in path.parts]
    assert len(loosened) > 8
    for path in loosened:
        path.chmod(0o755 if path.is_dir() else 0o644)
    directory.chmod(0o755)
    hub = Hub(directory)
    try:
        use(hub)
        assert open_to_others(directory) == {}, "also what an earlier version has left open"
    finally:
        hub.stop()
