"""Watches and connections of a logical cluster: counted, refused above the limit, given back, shown by the metrics."""

from __future__ import annotations

import json
from contextlib import ExitStack

from tests.apiserver.limits.conftest import LimitedCluster
from tests.apiserver.limits.limited import CONFIG_MAPS, fill
from tests.serving import Cluster, Server, config_map, fresh_cluster


def metric(cluster: Cluster, name: str, of: Cluster, limit: str = "") -> int | None:
    """As the cluster is told; None if the line is missing."""
    labels = f'cluster="{of.name}"' + (f',limit="{limit}"' if limit else "")
    prefix = f"shoal_logical_cluster_{name}{{{labels}}} "
    for line in cluster.get("/metrics").body.decode().splitlines():
        if line.startswith(prefix):
            return int(line.removeprefix(prefix))
    return None


def open_watches(cluster: Cluster) -> int:
    async def read() -> int:
        return cluster.server.shoal.server.core.limits.watches.count(cluster.name)

    return cluster.server.call(read())


def open_connections(cluster: Cluster) -> int:
    async def read() -> int:
        return cluster.server.shoal.server.core.limits.connections.count(cluster.name)

    return cluster.server.call(read())


def test_a_watch_above_the_limit_is_told_to_come_back(server: Server, limited: LimitedCluster) -> None:
    # Controllers of the server watch every cluster and are not counted.
    cluster = limited(server, "cluster", watches=3)
    with ExitStack() as watches:
        for _ in range(3):
            assert watches.enter_context(cluster.watch(CONFIG_MAPS)).answer.status == 200
        cluster.eventually(lambda: open_watches(cluster) == 3)
        refused = cluster.get(f"{CONFIG_MAPS}?watch=true")
        assert refused.status == 429
        assert refused.headers["retry-after"] == "1"
        assert refused["message"] == (
            f'too many watches: exceeded limits of logical cluster "{cluster.name}", requested: watches=1, '
            "used: watches=3, limited: watches=3 (spec.limits.watches of the cluster)"
        )
        assert metric(cluster, "watches", cluster) == 3
        assert metric(cluster, "watches_limit", cluster) == 3
        assert metric(cluster, "refusals_total", cluster, "watches") == 1
        # Others are not concerned.
        other = limited(server)
        with other.watch(CONFIG_MAPS) as watch:
            assert watch.answer.status == 200
    cluster.eventually(lambda: open_watches(cluster) == 0)
    with cluster.watch(CONFIG_MAPS) as watch:
        assert watch.answer.status == 200


def test_a_watch_that_fails_at_its_start_is_not_counted(still_server: Server, limited: LimitedCluster) -> None:
    cluster = limited(still_server, watches=1)

    async def forget_history() -> None:
        cache = still_server.shoal.server.core.cache
        cache.history.trim(cache.revision)

    still_server.call(forget_history())
    for _ in range(3):
        with cluster.watch(f"{CONFIG_MAPS}?resourceVersion=1") as watch:
            assert watch.next()["object"]["code"] == 410
    cluster.eventually(lambda: open_watches(cluster) == 0)


def test_a_connection_above_the_limit_is_refused_and_closed(still_server: Server, limited: LimitedCluster) -> None:
    cluster, other = limited(still_server, connections=3), fresh_cluster(still_server)
    headers = {"Authorization": f"Bearer {still_server.token}"}
    connections = [still_server.connect() for _ in range(4)]
    answers = []
    for connection in connections:
        connection.request("GET", f"{cluster.prefix}{CONFIG_MAPS}", headers=headers)
        answer = connection.getresponse()
        answers.append((answer.status, answer.getheader("Connection"), json.loads(answer.read())))
    assert [status for status, _, _ in answers] == [200, 200, 200, 429]
    assert answers[3][1] == "close"
    assert "exceeded limits" in answers[3][2]["message"]
    assert "limited: connections=3 (spec.limits.connections of the cluster)" in answers[3][2]["message"]
    assert open_connections(cluster) == 3
    # A connection counts for the cluster of its last request, and for none when it is closed.
    connections[0].request("GET", f"{other.prefix}{CONFIG_MAPS}", headers=headers)
    assert connections[0].getresponse().read()
    assert (open_connections(cluster), open_connections(other)) == (2, 1)
    # Without a credential it is not one of the cluster.
    connections[3].request("GET", f"{cluster.prefix}{CONFIG_MAPS}", headers={"Authorization": "Bearer wrong"})
    assert connections[3].getresponse().status == 401
    assert open_connections(cluster) == 2
    for connection in connections:
        connection.close()
    cluster.eventually(lambda: open_connections(cluster) == 0)
    other.close()


def test_the_metrics_of_a_cluster_are_its_own(still_server: Server, limited: LimitedCluster) -> None:
    cluster, other = limited(still_server, objects=10, bytes="1Mi"), limited(still_server, objects=20)
    fill(cluster)
    other.post(CONFIG_MAPS, config_map("a")).ok()
    assert metric(cluster, "objects", cluster) == 10
    assert metric(cluster, "objects_limit", cluster) == 10
    assert metric(cluster, "bytes_limit", cluster) == 1 << 20
    assert (metric(cluster, "bytes", cluster) or 0) > 1000
    assert (metric(cluster, "history_bytes", cluster) or 0) > 1000
    assert metric(cluster, "refusals_total", cluster, "objects") == 1
    assert metric(cluster, "objects", other) is None
    root = Cluster(still_server, "root")
    assert metric(root, "objects", cluster) == 10
    assert metric(root, "objects", root) is not None
    assert metric(root, "objects_limit", root) is None
    root.close()
