"""A hub process that was paused writes nothing to other clusters until it holds its lease again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.assemble import loops as module
from shoal.assemble.datadir import kubeconfig
from shoal.assemble.loops import Loops
from tests.leases import Stale
from tests.serving import Cluster, Server, config_map, fresh_cluster
from tests.sync.world import WORKLOAD_CLUSTERS, workload_cluster

MAPS = "/api/v1/namespaces/default/configmaps"
ASSIGNED = {"workloads.kcp.dev/cluster": "member"}


def test_copies_are_written_only_while_the_lease_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Loops.start

    def paused(loops: Loops, *places: Any, **given: Any) -> None:
        start(loops, *places, **given | {"holder": "me", "url": "https://elsewhere"})

    monkeypatch.setattr(Loops, "start", paused)
    monkeypatch.setattr(module, "Lease", Stale)
    server = Server(tmp_path)
    try:
        hub, member = Cluster(server, "root"), fresh_cluster(server, profile="cluster")
        url = f"https://127.0.0.1:{server.port}{member.prefix}"
        text = kubeconfig(url, server.authority, server.token)
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
