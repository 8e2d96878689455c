"""A hub process that was paused writes nothing to other clusters until it holds its lease again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.server import embedded_controllers as module
from shoal.assemble.server.embedded_controllers import EmbeddedControllers
from shoal.assemble.storage.datadir import render_kubeconfig
from tests.leases import Stale
from tests.serving import Cluster, Server, config_map, fresh_cluster
from tests.sync.sync_environment import WORKLOAD_CLUSTERS, workload_cluster

MAPS = "/api/v1/namespaces/default/configmaps"
ASSIGNED = {"workloads.kcp.dev/cluster": "member"}


def test_copies_are_written_only_while_the_lease_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = EmbeddedControllers.start

    def paused(loops: EmbeddedControllers, *places: Any, **given: Any) -> None:
        start(loops, *places, **given | {"lease_identity": "me", "url": "https://elsewhere"})

    monkeypatch.setattr(EmbeddedControllers, "start", paused)
    monkeypatch.setattr(module, "LeaderElector", Stale)
    server = Server(tmp_path)
    try:
        hub, member = Cluster(server, "root"), fresh_cluster(server, profile="cluster")
        url = f"https://127.0.0.1:{server.port}{member.prefix}"
        text = render_kubeconfig(url, server.authority, server.token)
        hub.post(WORKLOAD_CLUSTERS, workload_cluster("member", {"kubeconfig": text})).ok()
        hub.post(MAPS, config_map("synced", labels=ASSIGNED)).ok()
        hub.eventually(lambda: Stale.looks > 3)
        assert member.get(f"{MAPS}/synced").status == 404
        Stale.valid = True
        hub.eventually(lambda: member.get(f"{MAPS}/synced").status == 200)
        member.close()
        hub.close()
    finally:
        server.stop()
