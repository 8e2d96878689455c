"""Assigned objects of the hub are synced to clusters, and their status back, against the real server."""

from __future__ import annotations

from tests.serving import Cluster, config_map
from tests.sync.sync_environment import NAMESPACES, Object, Proxy, World, condition, deployment

ASSIGNED = "workloads.kcp.dev/cluster"
PROBLEM = "workloads.kcp.dev/problem"


def there(member: Cluster, path: str, unlike: str = "") -> Object:
    """Once it is there, and not the one of that uid."""

    def look() -> Object | None:
        found = member.get(path)
        return found.json if found.status == 200 and found["metadata"]["uid"] != unlike else None

    found = member.eventually(look)
    assert found is not None
    return found


def gone(cluster: Cluster, path: str) -> None:
    cluster.eventually(lambda: cluster.get(path).status == 404)


def test_a_labelled_deployment_is_there_and_its_status_returns(world: World) -> None:
    member = world.member()
    name = world.register(member)
    path = f"{world.path()}/web"
    synced = {"configmaps", "deployments.apps", "secrets", "serviceaccounts"}
    assert synced <= set(world.cluster(name)["status"]["syncedResources"])
    made = world.hub.post(world.path(), deployment("web", name, replicas=2)).ok()
    copy = there(member, path)
    assert copy["spec"] == made["spec"]
    assert copy["metadata"]["labels"] == made["metadata"]["labels"]
    assert "finalizers" not in copy["metadata"]
    assert "shoal-syncer" in {entry["manager"] for entry in copy["metadata"]["managedFields"]}
    assert member.get(f"{NAMESPACES}/{world.namespace}").ok()["metadata"]["labels"][ASSIGNED] == name

    status = world.hub.eventually(lambda: world.hub.get(path).ok().get("status"))
    assert status["observedGeneration"] == 1

    def settled() -> bool:
        up, down = world.hub.get(path).ok(), member.get(path).ok()
        return bool(up["status"].get("replicas") == 2 and up["status"] == down["status"])

    world.hub.eventually(settled)
    world.hub.patch(path, {"spec": {"replicas": 3}}).ok()
    member.eventually(lambda: member.get(path).ok()["spec"]["replicas"] == 3)
    world.hub.eventually(lambda: world.hub.get(path).ok()["status"].get("replicas") == 3)


def test_the_hubs_generation_is_the_observed_one(world: World) -> None:
    member, other = world.member(), world.member()
    world.register(other)
    path, name = f"{world.path()}/web", f"{world.namespace}-later"
    world.hub.post(world.path(), deployment("web", name)).ok()
    for replicas in (2, 3, 4):
        world.hub.patch(path, {"spec": {"replicas": replicas}}).ok()
    assert "finalizers" not in world.hub.get(path)["metadata"]
    world.register(member, name)

    def is_observed() -> bool:
        found = world.hub.get(path).ok()
        reported = "workloads.kcp.dev/problem" in found["metadata"].get("annotations", {})
        return not reported and (found.get("status") or {}).get("observedGeneration") == found["metadata"]["generation"]

    world.hub.eventually(is_observed)
    assert world.hub.get(path)["metadata"]["generation"] >= 4
    assert there(member, path)["metadata"]["generation"] == 1


def test_what_is_deleted_on_the_hub_goes_there_first(world: World) -> None:
    member = world.member()
    name = world.register(member)
    path = f"{world.path()}/web"
    world.hub.post(world.path(), deployment("web", name)).ok()
    there(member, path)
    found = world.hub.get(path).ok()
    assert found["metadata"]["finalizers"] == [f"workloads.kcp.dev/syncer-{name}"]
    world.hub.delete(path).ok()
    gone(world.hub, path)
    assert member.get(path).status == 404
    gone(member, f"{NAMESPACES}/{world.namespace}")


def test_what_is_deleted_or_changed_there_comes_back(world: World) -> None:
    member = world.member()
    name = world.register(member)
    path = f"{world.path('configmaps')}/settings"
    world.hub.post(world.path("configmaps"), config_map("settings", {"a": "1"}, labels={ASSIGNED: name})).ok()
    first = there(member, path)
    member.delete(path).ok()
    again = there(member, path, unlike=first["metadata"]["uid"])
    assert again["data"] == {"a": "1"}
    member.patch(path, {"data": {"a": "2", "b": "theirs"}}).ok()
    member.eventually(lambda: member.get(path)["data"] == {"a": "1", "b": "theirs"})
    member.patch(path, {"metadata": {"labels": None}}).ok()
    member.eventually(lambda: member.get(path)["metadata"].get("labels") == {ASSIGNED: name})
    world.hub.patch(path, {"data": {"a": None, "c": "3"}}).ok()
    member.eventually(lambda: member.get(path)["data"] == {"b": "theirs", "c": "3"})


def test_a_moved_label_moves_the_copy(world: World) -> None:
    east, west = world.member(), world.member()
    names = [world.register(member) for member in (east, west)]
    path = f"{world.path('configmaps')}/settings"
    world.hub.post(world.path("configmaps"), config_map("settings", {"a": "1"}, labels={ASSIGNED: names[0]})).ok()
    there(east, path)
    world.hub.patch(path, {"metadata": {"labels": {ASSIGNED: names[1]}}}).ok()
    there(west, path)
    gone(east, path)
    held = [f"workloads.kcp.dev/syncer-{names[1]}"]
    world.hub.eventually(lambda: world.hub.get(path)["metadata"]["finalizers"] == held)
    world.hub.patch(path, {"metadata": {"labels": None}}).ok()
    gone(west, path)
    world.hub.eventually(lambda: "finalizers" not in world.hub.get(path)["metadata"])


def test_an_object_of_others_is_left_alone(world: World) -> None:
    member = world.member()
    name = world.register(member)
    member.post(NAMESPACES, {"metadata": {"name": world.namespace}}).ok()
    path = f"{world.path('configmaps')}/settings"
    member.post(world.path("configmaps"), config_map("settings", {"a": "theirs"})).ok()
    world.hub.post(world.path("configmaps"), config_map("settings", {"a": "1"}, labels={ASSIGNED: name})).ok()
    said = world.hub.eventually(lambda: (world.hub.get(path)["metadata"].get("annotations") or {}).get(PROBLEM))
    assert said == (
        f"{name} has an object with this name that was not synced from this hub; "
        "annotate this object workloads.kcp.dev/force=true to take it over"
    )
    assert member.get(path)["data"] == {"a": "theirs"}
    assert "finalizers" not in world.hub.get(path)["metadata"]
    world.hub.patch(path, {"metadata": {"annotations": {"workloads.kcp.dev/force": "true"}}}).ok()
    member.eventually(lambda: member.get(path)["data"] == {"a": "1"})
    world.hub.eventually(lambda: PROBLEM not in world.hub.get(path)["metadata"]["annotations"])
    world.hub.delete(path).ok()
    gone(member, path)
    gone(world.hub, path)
    assert member.get(f"{NAMESPACES}/{world.namespace}").status == 200


def test_a_namespace_that_others_use_stays(world: World) -> None:
    member = world.member()
    name = world.register(member)
    path = f"{world.path('configmaps')}/settings"
    world.hub.post(world.path("configmaps"), config_map("settings", {}, labels={ASSIGNED: name})).ok()
    there(member, path)
    member.post(world.path("configmaps"), config_map("theirs", {})).ok()
    world.hub.delete(path).ok()
    gone(member, path)
    gone(world.hub, path)
    assert "deletionTimestamp" not in member.get(f"{NAMESPACES}/{world.namespace}").ok()["metadata"]


def test_service_account_tokens_do_not_travel(world: World) -> None:
    member = world.member()
    name = world.register(member)
    annotations = {"kubernetes.io/service-account.name": "default"}
    metadata = {"name": "token", "labels": {ASSIGNED: name}, "annotations": annotations}
    secret = {"metadata": metadata, "type": "kubernetes.io/service-account-token"}
    world.hub.post(world.path("secrets"), secret).ok()
    path = f"{world.path('secrets')}/token"
    said = world.hub.eventually(lambda: (world.hub.get(path)["metadata"]["annotations"] or {}).get(PROBLEM))
    assert said == "service account tokens of this hub are not synced"
    assert member.get(path).status == 404


def test_a_workload_cluster_that_goes_leaves_its_copies_and_frees_the_hub(world: World) -> None:
    member = world.member()
    name = world.register(member)
    path = f"{world.path()}/web"
    world.hub.post(world.path(), deployment("web", name)).ok()
    before = there(member, path)
    world.remove_cluster(name)
    world.hub.eventually(lambda: "finalizers" not in world.hub.get(path)["metadata"])
    assert member.get(path)["metadata"]["uid"] == before["metadata"]["uid"]
    world.hub.delete(path).ok()
    assert world.hub.get(path).status == 404
    assert member.get(path)["metadata"]["uid"] == before["metadata"]["uid"]

    # Registered again, the copy has no object on the hub: it is named, and stays.
    world.register(member, name)
    orphans = world.told(name, "Orphans")
    assert (
        orphans["message"]
        == f"copies without an object on this hub, left unchanged: deployments.apps {world.namespace}/web"
    )
    assert member.get(path)["metadata"]["uid"] == before["metadata"]["uid"]
    world.hub.post(world.path(), deployment("web", name, replicas=4)).ok()
    member.eventually(lambda: member.get(path)["spec"]["replicas"] == 4)
    world.hub.eventually(lambda: not condition(world.cluster(name), "Orphans"))


def test_a_cluster_out_of_reach_loses_nothing_and_catches_up(world: World) -> None:
    member, proxy = world.member(), Proxy(world.server.port)
    name = world.register(member, port=proxy.port)
    kept, dropped, path = f"{world.path()}/kept", f"{world.path()}/dropped", world.path()
    for each in ("kept", "dropped"):
        world.hub.post(path, deployment(each, name)).ok()
    uid = there(member, kept)["metadata"]["uid"]
    there(member, dropped)
    proxy.cut()
    world.hub.delete(dropped).ok()
    world.hub.patch(kept, {"spec": {"replicas": 5}}).ok()
    found = world.hub.get(dropped).ok()
    assert found["metadata"]["finalizers"] == [f"workloads.kcp.dev/syncer-{name}"]
    assert member.get(dropped).status == 200
    assert member.get(kept)["spec"]["replicas"] == 1
    proxy.mend()
    gone(world.hub, dropped)
    gone(member, dropped)
    member.eventually(lambda: member.get(kept)["spec"]["replicas"] == 5)
    assert member.get(kept)["metadata"]["uid"] == uid
    assert condition(world.cluster(name), "Ready")["status"] == "True"
    proxy.cut()


def test_an_unreachable_cluster_says_so(world: World) -> None:
    member, proxy = world.member(), Proxy(world.server.port)
    proxy.cut()
    name = world.register(member, port=proxy.port, ready=False)

    def look() -> Object | None:
        found = condition(world.cluster(name), "Ready")
        return found if found.get("reason") == "WorkloadClusterUnreachable" else None

    found = world.hub.eventually(look)
    assert found is not None
    assert found["status"] == "False"
    assert f"https://127.0.0.1:{proxy.port}" in found["message"]
    assert world.server.token not in str(world.cluster(name))
    path = f"{world.path('configmaps')}/settings"
    world.hub.post(world.path("configmaps"), config_map("settings", {}, labels={ASSIGNED: name})).ok()
    proxy.mend()
    there(member, path)
    world.ready(name)
    proxy.cut()


def test_a_kubeconfig_that_is_missing_or_names_files_is_named(world: World) -> None:
    world.add_cluster(f"{world.namespace}-a", {})
    world.add_cluster(f"{world.namespace}-b", {"kubeconfigSecretRef": {"namespace": world.namespace, "name": "none"}})
    text = "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nclusters: [{name: a, cluster: "
    text += "{server: 'https://x', certificate-authority: /etc/hostname}}]\nusers: [{name: a, user: {}}]"
    world.add_cluster(f"{world.namespace}-c", {"kubeconfig": text})
    said = {
        "a": "neither spec.kubeconfigSecretRef nor spec.kubeconfig is set",
        "b": f"Secret {world.namespace}/none not found",
        "c": "the kubeconfig refers to the file '/etc/hostname'; embed its content instead",
    }
    for letter, message in said.items():
        found = world.told(f"{world.namespace}-{letter}", "HeartbeatHealthy")
        assert (found["reason"], found["message"]) == ("InvalidKubeConfig", message)


def test_a_kubeconfig_that_comes_later_is_found(world: World) -> None:
    member = world.member()
    name = f"{world.namespace}-late"
    world.add_cluster(name, {"kubeconfigSecretRef": {"namespace": world.namespace, "name": f"{name}-kubeconfig"}})
    world.told(name, "HeartbeatHealthy")
    world.put_kubeconfig(member, name)
    world.ready(name)
