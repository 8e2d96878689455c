"""Idle logical clusters drop derived state without any write, and a request reactivates them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shoal.apiserver.idle import IdleClusterEvictor
from tests.serving import DEFINITIONS, WIDGETS, Cluster, Server, config_map, fresh_cluster, widget, widget_definition

MAPS = "/api/v1/namespaces/default/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
LOGICAL = "/apis/core.shoal.dev/v1alpha1/logicalclusters"


@pytest.fixture
def hosted(still_server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(still_server, profile="cluster")
    yield cluster
    cluster.close()


def put_to_sleep(server: Server) -> None:
    """Two looks without a request between them."""

    async def nap() -> None:
        sleep = IdleClusterEvictor(server.shoal.server.core)
        await sleep.evict_idle()
        await sleep.evict_idle()

    server.call(nap())


def held(server: Server, cluster: str) -> list[str]:
    """Objects in memory, by kind."""
    return sorted(
        f"{key}{entry_key}"
        for key, kind in server.shoal.server.core.cache.resource_caches.items()
        if cluster in kind.tables
        for entry_key in kind.tables[cluster].entries
    )


def remembered(core: Any, cluster: str) -> list[object]:
    """What the parts know of a cluster by its name, besides its objects."""
    clusters, authorizer = core.clusters, core.authorizer
    places = (
        clusters._clusters,
        clusters._registries,
        clusters._crds._cache,
        authorizer._decision_cache,
        authorizer._roles._indexes,
        authorizer._roles._roles,
    )
    return [place[cluster] for place in places if cluster in place]


def test_a_cluster_asleep_holds_what_was_written_and_nothing_else(hosted: Cluster, still_server: Server) -> None:
    core = still_server.shoal.server.core
    hosted.post(MAPS, config_map("a")).ok()
    before = hosted.get(ROLES).ok()
    assert len(before["items"]) > 50
    revision = core.store.revision
    put_to_sleep(still_server)
    assert held(still_server, hosted.name) == ["_shoal/keys/ca", "core/configmapsdefault/a"]
    assert remembered(core, hosted.name) == []
    assert core.store.revision == revision
    assert hosted.get(ROLES).ok() == before
    assert hosted.get(f"{MAPS}/a").ok()["metadata"]["name"] == "a"
    names = [item["metadata"]["name"] for item in hosted.get(MAPS).ok()["items"]]
    assert names == ["a", "kube-root-ca.crt"]


def test_one_that_was_only_looked_at_leaves_nothing(hosted: Cluster, still_server: Server) -> None:
    for path in ("/api/v1/namespaces", ROLES, DEFINITIONS, "/api/v1/services", "/apis", "/openapi/v3"):
        hosted.get(path).ok()
    assert held(still_server, hosted.name)
    put_to_sleep(still_server)
    assert held(still_server, hosted.name) == []
    assert not any(hosted.name in kind.tables for kind in still_server.shoal.server.core.cache.resource_caches.values())


def test_what_is_asked_stays_awake(hosted: Cluster, still_server: Server) -> None:
    async def look(sleep: IdleClusterEvictor) -> None:
        await sleep.evict_idle()

    sleep = IdleClusterEvictor(still_server.shoal.server.core)
    for _ in range(3):
        hosted.get("/api/v1/namespaces").ok()
        still_server.call(look(sleep))
    assert held(still_server, hosted.name)
    still_server.call(look(sleep))
    assert held(still_server, hosted.name) == []


def test_definitions_users_and_deleted_bootstrap_objects_are_as_they_were(
    hosted: Cluster, still_server: Server
) -> None:
    definition = widget_definition()
    hosted.post(DEFINITIONS, definition).ok()
    conditions = [{"type": kind, "status": "True"} for kind in ("NamesAccepted", "Established")]
    names = {"kind": "Widget", "plural": "widgets", "listKind": "WidgetList", "singular": "widget"}
    status = {"status": {"conditions": conditions, "acceptedNames": names, "storedVersions": ["v1"]}}
    hosted.patch(f"{DEFINITIONS}/widgets.example.com/status", status).ok()
    hosted.post(WIDGETS, widget("a")).ok()
    hosted.delete(f"{ROLES}/view").ok()
    hosted.post(ACCOUNTS, {"metadata": {"name": "robot"}}).ok()
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    hosted.post(BINDINGS, {"metadata": {"name": "robot"}, "roleRef": reference, "subjects": [subject]}).ok()
    token = hosted.post(f"{ACCOUNTS}/robot/token", {"spec": {}}).ok()["status"]["token"]
    for _ in range(2):
        assert hosted.request("GET", MAPS, token=token).status == 200
        assert hosted.request("GET", ROLES, token=token).status == 403
        assert hosted.get(f"{ROLES}/view").status == 404
        assert hosted.get(f"{WIDGETS}/a").ok()["spec"]["size"] == 1
        assert hosted.post(WIDGETS, widget("b", size=0)).status == 422
        put_to_sleep(still_server)


def test_an_open_watch_goes_on(hosted: Cluster, still_server: Server) -> None:
    with hosted.watch(ROLES + "?fieldSelector=metadata.name%3Dview") as watch:
        assert watch.next()["type"] == "ADDED"
        put_to_sleep(still_server)
        hosted.patch(f"{ROLES}/view", {"metadata": {"labels": {"seen": "yes"}}}).ok()
        event = watch.next()
        assert (event["type"], event["object"]["metadata"]["labels"]["seen"]) == ("MODIFIED", "yes")


def test_an_exact_list_of_before_the_sleep(hosted: Cluster, still_server: Server) -> None:
    revision = hosted.get(ROLES).ok()["metadata"]["resourceVersion"]
    hosted.delete(f"{ROLES}/view").ok()
    put_to_sleep(still_server)
    exact = hosted.get(f"{ROLES}?resourceVersion={revision}&resourceVersionMatch=Exact").ok()["items"]
    assert "view" in [role["metadata"]["name"] for role in exact]
    assert "view" not in [role["metadata"]["name"] for role in hosted.get(ROLES).ok()["items"]]


def test_root_does_not_sleep(still_server: Server) -> None:
    root = Cluster(still_server, "root")
    root.get("/api").ok()
    put_to_sleep(still_server)
    assert "root" in still_server.shoal.server.core.clusters._clusters
    root.close()


def test_the_wildcard_lays_nothing(hosted: Cluster, still_server: Server) -> None:
    """Whoever lists a kind over all clusters gets what is stored, and wakes nobody."""
    hosted.post(MAPS, config_map("a")).ok()
    put_to_sleep(still_server)
    everywhere = Cluster(still_server, "*")
    limited = everywhere.get("/api/v1/configmaps?limit=1").ok()
    everywhere.get(f"/api/v1/configmaps?limit=500&continue={limited['metadata'].get('continue', '')}").ok()
    everywhere.close()
    assert held(still_server, hosted.name) == ["_shoal/keys/ca", "core/configmapsdefault/a"]


def test_how_many_are_awake(hosted: Cluster, still_server: Server) -> None:
    root = Cluster(still_server, "root")

    def counted() -> tuple[int, int]:
        lines = root.get("/metrics").body.decode().splitlines()
        name = 'shoal_logical_clusters{state="%s"} '
        found = [line for line in lines if line.startswith("shoal_logical_clusters{")]
        values = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in found}
        return values[name.strip() % "awake"], values[name.strip() % "asleep"]

    hosted.get("/api").ok()
    awake, asleep = counted()
    assert awake >= 2
    assert awake + asleep == len(root.get(LOGICAL).ok()["items"])
    root.close()


def test_a_cluster_that_is_gone_is_forgotten(server: Server) -> None:
    """Also what was decided in it: one made anew under its name starts without."""
    cluster = fresh_cluster(server, profile="cluster")
    cluster.post(DEFINITIONS, widget_definition()).ok()
    cluster.eventually(lambda: cluster.get(WIDGETS).status == 200)
    cluster.post(ACCOUNTS, {"metadata": {"name": "robot"}}).ok()
    token = cluster.post(f"{ACCOUNTS}/robot/token", {"spec": {}}).ok()["status"]["token"]
    assert cluster.request("GET", MAPS, token=token).status == 403
    cluster.delete(f"{ROLES}/cluster-admin").ok()
    root, core = Cluster(server, "root"), server.shoal.server.core
    assert remembered(core, cluster.name)
    root.delete(f"{LOGICAL}/{cluster.name}").ok()
    root.eventually(lambda: root.get(f"{LOGICAL}/{cluster.name}").status == 404)
    assert remembered(core, cluster.name) == []
    assert cluster.name not in core.authorizer._roles._generations  # type: ignore[attr-defined]
    assert not any(
        cluster.name in kind.tables or cluster.name in kind.tombstones for kind in core.cache.resource_caches.values()
    )
    assert cluster.name not in core.clusters.recently_used
    body = {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": cluster.name}}
    root.post(LOGICAL, {**body, "spec": {"profile": "cluster"}}).ok()
    assert cluster.get(f"{ROLES}/cluster-admin").status == 200
    assert cluster.request("GET", MAPS, token=token).status == 401
    for each in (root, cluster):
        each.close()
