"""Logical clusters: isolated from each other, open to root's administrators, deleted completely."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from shoal.apiserver.cache.storage_form import encode
from shoal.apiserver.write import storage
from tests.serving import WIDGETS, Cluster, Server, config_map, fresh_cluster, widget, widget_definition

MAPS = "/api/v1/namespaces/default/configmaps"
CLUSTERS = "/apis/core.shoal.dev/v1alpha1/logicalclusters"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def token_of(cluster: Cluster, name: str = "robot", role: str = "cluster-admin") -> str:
    """A ServiceAccount of this cluster, with that role in it."""
    cluster.post(ACCOUNTS, {"metadata": {"name": name}}).ok()
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    cluster.post(BINDINGS, {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}).ok()
    made = cluster.post(f"{ACCOUNTS}/{name}/token", {"spec": {}}).ok()
    token: str = made["status"]["token"]
    return token


def everywhere(server: Server) -> Cluster:
    return Cluster(server, "*")


def body(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "core.shoal.dev/v1alpha1",
        "kind": "LogicalCluster",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_a_logical_cluster_is_ready_when_written(server: Server) -> None:
    root = Cluster(server, "root")
    made = root.post(CLUSTERS, body("ready-one")).ok()
    assert made["status"] == {"phase": "Ready", "url": "/clusters/ready-one"}
    assert made["spec"]["profile"] == "hub"
    assert root.get(f"{CLUSTERS}/root").ok()["status"]["phase"] == "Ready"
    inside = Cluster(server, "ready-one")
    inside.get("/api/v1/namespaces/default").ok()
    for cluster in (root, inside):
        cluster.close()


def test_objects_stay_inside(cluster: Cluster, server: Server) -> None:
    other = fresh_cluster(server)
    cluster.post(MAPS, config_map("a")).ok()
    assert other.get(f"{MAPS}/a").status == 404
    assert other.get("/api/v1/configmaps").ok()["items"] == []
    made = other.post(MAPS, config_map("a")).ok()
    cluster.delete(f"{MAPS}/a").ok()
    assert other.get(f"{MAPS}/a").ok() == made
    other.close()


def test_watches_stay_inside(cluster: Cluster, server: Server) -> None:
    other = fresh_cluster(server)
    with cluster.watch(MAPS) as watch:
        other.post(MAPS, config_map("theirs")).ok()
        cluster.post(MAPS, config_map("ours")).ok()
        assert watch.next()["object"]["metadata"]["name"] == "ours"
    other.close()


def test_kinds_stay_inside(widgets: Cluster, server: Server) -> None:
    other = fresh_cluster(server)
    assert other.get(WIDGETS).status == 404
    assert "example.com" not in [group["name"] for group in other.get("/apis").ok()["groups"]]
    assert "apis/example.com/v1" not in other.get("/openapi/v3").ok()["paths"]
    definition = widget_definition()
    properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"]["properties"]["size"] = {"type": "string"}
    other.post(DEFINITIONS, definition).ok()
    other.post(WIDGETS, widget("a") | {"spec": {"size": "big"}}).ok()
    assert widgets.post(WIDGETS, widget("a") | {"spec": {"size": "big"}}).status == 422
    other.close()


def test_tokens_stay_inside(cluster: Cluster, server: Server) -> None:
    other = fresh_cluster(server)
    token = token_of(cluster)
    assert cluster.request("GET", MAPS, token=token).status == 200
    answer = other.request("GET", MAPS, token=token)
    assert (answer.status, answer["reason"]) == (401, "Unauthorized")
    root = Cluster(server, "root")
    assert root.request("GET", MAPS, token=token).status == 401
    root.close()
    other.close()


def test_rbac_stays_inside(cluster: Cluster, server: Server) -> None:
    """The same account, bound in one cluster and not in the other."""
    other = fresh_cluster(server)
    token_of(cluster)
    other.post(ACCOUNTS, {"metadata": {"name": "robot"}}).ok()
    token = other.post(f"{ACCOUNTS}/robot/token", {"spec": {}}).ok()["status"]["token"]
    answer = other.request("GET", MAPS, token=token)
    assert (answer.status, answer["reason"]) == (403, "Forbidden")
    other.close()


def test_an_unknown_cluster_is_not_found_and_not_made(server: Server) -> None:
    nowhere = Cluster(server, "nowhere")
    message = 'logicalclusters.core.shoal.dev "nowhere" not found'
    answers = [
        nowhere.get(MAPS),
        nowhere.post(MAPS, config_map("a")),
        nowhere.get("/api"),
        nowhere.delete(f"{MAPS}/a"),
    ]
    for answer in answers:
        assert (answer.status, answer["reason"], answer["message"]) == (404, "NotFound", message)
    root = Cluster(server, "root")
    assert root.get(f"{CLUSTERS}/nowhere").status == 404
    root.close()
    nowhere.close()


def test_others_are_not_told_which_clusters_exist(cluster: Cluster, server: Server) -> None:
    root = Cluster(server, "root")
    token = token_of(root, f"visitor-of-{cluster.name}", "view")
    nowhere = Cluster(server, "nowhere")
    answer = nowhere.request("GET", MAPS, token=token)
    assert (answer.status, answer["reason"]) == (401, "Unauthorized")
    answer = nowhere.request("GET", MAPS, token="")
    assert (answer.status, answer["reason"]) == (403, "Forbidden")
    said = 'User "system:anonymous" cannot list resource "configmaps" in API group "" in the namespace "default"'
    assert answer["message"] == f"configmaps is forbidden: {said}"
    for client in (root, nowhere):
        client.close()


def test_clusters_are_declared_in_root_only(cluster: Cluster) -> None:
    assert cluster.get(CLUSTERS).status == 404
    assert cluster.post(CLUSTERS, body("inner")).status == 404


def test_root_stays(server: Server) -> None:
    root = Cluster(server, "root")
    answer = root.delete(f"{CLUSTERS}/root")
    assert (answer.status, answer["reason"]) == (403, "Forbidden")
    assert answer["message"] == 'logicalclusters.core.shoal.dev "root" is forbidden: root may not be deleted'
    root.close()


def test_a_profile_is_one_of_two(server: Server) -> None:
    root = Cluster(server, "root")
    answer = root.post(CLUSTERS, body("strange", profile="other"))
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert "spec.profile" in answer["message"]
    root.close()


def test_a_cluster_profile_serves_workload_kinds(server: Server) -> None:
    hosted, hub = fresh_cluster(server, "cluster"), fresh_cluster(server)
    path = "/apis/apps/v1/namespaces/default/deployments"
    assert hosted.get(path).ok()["kind"] == "DeploymentList"
    assert hub.get(path).status == 404
    assert hosted.get("/api/v1/nodes").ok()["items"] == []
    for client in (hosted, hub):
        client.close()


# --- all of them at once ---


def test_a_list_over_all_clusters_says_where(cluster: Cluster, server: Server) -> None:
    other = fresh_cluster(server)
    labels = {"test": cluster.name}
    cluster.post(MAPS, config_map("a", labels=labels)).ok()
    other.post(MAPS, config_map("a", labels=labels, annotations={"x": "y"})).ok()
    view = everywhere(server)
    found = view.get(f"/api/v1/configmaps?labelSelector=test%3D{cluster.name}").ok()
    places = {item["metadata"]["annotations"]["shoal.dev/cluster"]: item for item in found["items"]}
    assert places.keys() == {cluster.name, other.name}
    assert places[other.name]["metadata"]["annotations"]["x"] == "y"
    assert "annotations" not in cluster.get(f"{MAPS}/a").ok()["metadata"], "in its own cluster it is as written"
    for client in (view, other):
        client.close()


def test_pages_over_all_clusters(cluster: Cluster, server: Server) -> None:
    other = fresh_cluster(server)
    for client in (cluster, other):
        for name in ("a", "b", "c"):
            client.post(MAPS, config_map(name, labels={"test": cluster.name})).ok()
    view, found, token = everywhere(server), [], ""
    while True:
        page = view.get(f"/api/v1/configmaps?limit=2&labelSelector=test%3D{cluster.name}&continue={token}").ok()
        found += [(i["metadata"]["annotations"]["shoal.dev/cluster"], i["metadata"]["name"]) for i in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert found == sorted((client.name, name) for client in (cluster, other) for name in ("a", "b", "c"))
    for client in (view, other):
        client.close()


def test_a_watch_over_all_clusters_says_where(cluster: Cluster, server: Server) -> None:
    other, view = fresh_cluster(server), everywhere(server)
    selector = f"labelSelector=test%3D{cluster.name}"
    revision = view.get(f"/api/v1/configmaps?{selector}").ok()["metadata"]["resourceVersion"]
    labels = {"test": cluster.name}
    with view.watch(f"/api/v1/configmaps?resourceVersion={revision}&{selector}") as watch:
        cluster.post(MAPS, config_map("a", labels=labels)).ok()
        other.post(MAPS, config_map("a", labels=labels)).ok()
        cluster.delete(f"{MAPS}/a").ok()
        events = watch.take(3)
    where = [(e["type"], e["object"]["metadata"]["annotations"]["shoal.dev/cluster"]) for e in events]
    assert where == [("ADDED", cluster.name), ("ADDED", other.name), ("DELETED", cluster.name)]
    for client in (view, other):
        client.close()


def test_the_wildcard_is_for_roots_administrators(cluster: Cluster, server: Server) -> None:
    root, view = Cluster(server, "root"), everywhere(server)
    for token, status in ((token_of(root, f"admin-for-{cluster.name}"), 401), (token_of(cluster), 401), ("", 403)):
        assert view.request("GET", "/api/v1/configmaps", token=token).status == status
    for client in (root, view):
        client.close()


def test_the_wildcard_is_for_reading(server: Server) -> None:
    view = everywhere(server)
    for answer in (view.post(MAPS, config_map("a")), view.delete(f"{MAPS}/a"), view.get(f"{MAPS}/a")):
        assert (answer.status, answer["reason"]) == (405, "MethodNotAllowed")
    view.close()


# --- the end ---


def test_a_deleted_cluster_is_gone_with_all_it_held(server: Server) -> None:
    cluster = fresh_cluster(server)
    cluster.post(DEFINITIONS, widget_definition()).ok()
    cluster.post(WIDGETS, widget("a", finalizers=["example.com/nobody-left"])).ok()
    cluster.post(MAPS, config_map("a")).ok()
    cluster.delete("/apis/rbac.authorization.k8s.io/v1/clusterroles/view").ok()
    cluster.patch("/apis/rbac.authorization.k8s.io/v1/clusterroles/edit", {"metadata": {"labels": {"x": "y"}}}).ok()
    token = token_of(cluster)
    uid = cluster.get("/api/v1/namespaces/default").ok()["metadata"]["uid"]
    root = Cluster(server, "root")
    root.delete(f"{CLUSTERS}/{cluster.name}").ok()
    root.eventually(lambda: root.get(f"{CLUSTERS}/{cluster.name}").status == 404)
    assert cluster.get(MAPS).status == 404
    left = server.call(_keys(server, cluster.name))
    assert left == []
    root.post(CLUSTERS, body(cluster.name)).ok()
    assert cluster.get(MAPS).ok()["items"] == []
    assert cluster.get(WIDGETS).status == 404
    assert cluster.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/view").status == 200
    edit = cluster.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/edit").ok()
    assert "x" not in edit["metadata"]["labels"]
    assert cluster.get("/api/v1/namespaces/default").ok()["metadata"]["uid"] != uid
    assert cluster.request("GET", MAPS, token=token).status == 401, "a token of the one before opens nothing"
    for client in (root, cluster):
        client.close()


async def _keys(server: Server, cluster: str) -> list[str]:
    found, _ = await server.shoal.store.range("")
    return [item.key for item in found if item.key.split("/")[2] == cluster]


def test_a_large_cluster_goes_in_steps(still_server: Server) -> None:
    """Others get their turns in between, and what was written meanwhile goes too."""
    cluster, core, count = fresh_cluster(still_server), still_server.shoal.server.core, 3 * storage.PURGE_BATCH_SIZE

    async def emptied() -> int:
        keys = [f"core/configmaps/{cluster.name}/default/c{number}" for number in range(count)]
        await asyncio.gather(*(core.store.put(key, encode(config_map(key[-5:])), 0) for key in keys))
        work = asyncio.ensure_future(storage.purge(core, cluster.name))
        turns = set()
        while not work.done():
            await asyncio.sleep(0)
            turns.add(len(core.cache.resource_cache("", "configmaps").tables[cluster.name].entries))
            if len(turns) == 2 and f"{keys[0]}-late" not in keys:
                keys.append(f"{keys[0]}-late")
                await core.store.put(keys[-1], encode(config_map("late")), 0)
        return len(turns)

    assert still_server.call(emptied()) > count // storage.PURGE_BATCH_SIZE
    assert still_server.call(_keys(still_server, cluster.name)) == []
    cluster.close()


def test_many_clusters_go_together(server: Server) -> None:
    root, names = Cluster(server, "root"), [f"crowd-{number}" for number in range(40)]
    for name in names:
        root.post(CLUSTERS, body(name, profile="cluster")).ok()
        inside = Cluster(server, name)
        inside.post(MAPS, config_map("a")).ok()
        inside.close()
    for name in names:
        root.delete(f"{CLUSTERS}/{name}").ok()

    def left() -> set[str]:
        return {item["metadata"]["name"] for item in root.get(CLUSTERS).ok()["items"]} & set(names)

    root.eventually(lambda: not left())
    for name in names:
        assert server.call(_keys(server, name)) == []
    root.close()


def test_a_restart_keeps_everything(tmp_path: Path) -> None:
    first = Server(tmp_path / "data")
    cluster = fresh_cluster(first)
    cluster.post(DEFINITIONS, widget_definition()).ok()
    made = cluster.post(WIDGETS, widget("a", 3)).ok()
    gone = cluster.post(WIDGETS, widget("b", 3)).ok()
    cluster.delete(f"{WIDGETS}/b").ok()
    token = token_of(cluster)
    port = first.port
    cluster.close()
    first.stop()
    second = Server(tmp_path / "data")
    again = Cluster(second, cluster.name)
    try:
        assert second.port == port, "a picked port is kept"
        assert again.get(f"{WIDGETS}/a").ok() == made
        assert again.get(f"{WIDGETS}/b").status == 404
        assert again.request("GET", f"{WIDGETS}/a", token=token).ok() == made
        with again.watch(f"{WIDGETS}?resourceVersion={gone['metadata']['resourceVersion']}") as watch:
            event = watch.next()
            assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "b"), "watches go on"
        new = again.patch(f"{WIDGETS}/a", {"spec": {"size": 4}}).ok()
        assert int(new["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    finally:
        again.close()
        second.stop()
