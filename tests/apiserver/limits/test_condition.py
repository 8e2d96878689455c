"""The condition WithinLimits of a LogicalCluster."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.limits.conftest import LimitedCluster
from tests.apiserver.limits.limited import CLUSTERS, CONFIG_MAPS, fill
from tests.serving import Cluster, Server, config_map


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.assemble.server.limit_conditions.INTERVAL_SECONDS", 0.05)


def condition(cluster: Cluster) -> dict[str, Any]:
    root = Cluster(cluster.server, "root")
    status = root.get(f"{CLUSTERS}/{cluster.name}").ok()["status"]
    root.close()
    return next((each for each in status.get("conditions", ()) if each["type"] == "WithinLimits"), {})


def test_a_cluster_reports_that_it_comes_near_its_limits(server: Server, limited: LimitedCluster) -> None:
    cluster = limited(server, objects=10)
    for number in range(7):
        cluster.post(CONFIG_MAPS, config_map(f"n{number}")).ok()
    assert condition(cluster) == {}
    cluster.post(CONFIG_MAPS, config_map("eighth")).ok()
    cluster.eventually(lambda: condition(cluster).get("reason") == "NearLimits")
    near = condition(cluster)
    assert (near["status"], near["message"]) == ("True", "objects 8 of 10; spec.limits raises them")
    fill(cluster)
    cluster.eventually(lambda: condition(cluster).get("reason") == "LimitsReached")
    assert condition(cluster)["status"] == "False"
    for name in ("eighth", "n0", "n1", "n2"):
        cluster.delete(f"{CONFIG_MAPS}/{name}").ok()
    cluster.eventually(lambda: condition(cluster).get("reason") == "WithinLimits")
    assert condition(cluster)["status"] == "True"
