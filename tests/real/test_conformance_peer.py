"""The same specs against a real control plane, to be read beside Shoal's: SHOAL_PEER=1, ten minutes.

etcd, kube-apiserver, kube-controller-manager and kube-scheduler as the tests start them, with `shoal nodes` for
nodes; all lanes on one cluster, for there is only one. Nothing has to pass: it is the peer's result that is printed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tests.real.commands import items, shoal, until
from tests.real.hubs import KubectlAt
from tests.real.kubernetes import Kubernetes, needs_kubernetes
from tests.real.lanes import Lanes, chosen, names, needs_programs, report

pytestmark = [
    needs_programs,
    needs_kubernetes,
    pytest.mark.skipif("SHOAL_PEER" not in os.environ, reason="conformance of the peer (SHOAL_PEER=1 runs it)"),
]
NODES = 3


class OneCluster(Lanes):
    def _cluster(self, home: Path) -> Path:
        file = home / "kubeconfig"
        file.write_text(yaml.safe_dump(self.hub.config))
        return file


class Peer:
    """What lanes need of a hub."""

    def __init__(self, server: Kubernetes) -> None:
        self.config = yaml.safe_load(server.kubeconfig.read_text())
        cluster = self.config["clusters"][0]["cluster"]
        cluster["certificate-authority"] = str(server.directory / cluster["certificate-authority"])


def test_conformance_of_the_peer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wanted = chosen(names("server.txt") + names("loops.txt"))
    with Kubernetes(tmp_path / "kubernetes") as server:
        server.start()
        kubectl = KubectlAt(server.kubeconfig, tmp_path / "home")
        with shoal("nodes", "--kubeconfig", str(server.kubeconfig), "--count", str(NODES)):
            until(lambda: len(items(kubectl, "nodes")) == NODES)
            lanes = OneCluster(Peer(server), tmp_path, tuple({} for _ in range(NODES)))  # type: ignore[arg-type]
            failing = lanes.run(wanted, set(wanted))
    with capfd.disabled():
        report(wanted, failing, set(), print)
