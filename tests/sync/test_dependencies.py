"""Dependencies of pod templates are synced and removed again; namespaces, scopes, mass deletions: against the real
server.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.workload import workloadcluster
from shoal.sync.controllers import SyncSettings
from shoal.sync.syncer.dependency_status import merged_dependency_status
from shoal.sync.syncer.namespaces import locator, name_with_suffix
from shoal.sync.syncer.object_sync import FREE_DELETIONS
from tests.serving import Cluster, Server, config_map, fresh_cluster
from tests.sync.hub_cluster_pair import Pair, with_config
from tests.sync.hub_server import own_hub
from tests.sync.sync_environment import NAMESPACES, WORKLOAD_CLUSTERS, Object, World, deployment
from tests.sync.test_sync_end_to_end import ASSIGNED, PROBLEM, gone, there

NEEDED_BY = "shoal.dev/needed-by"


def needing(name: str, cluster: str, **pod: Any) -> Object:
    made = deployment(name, cluster)
    made["spec"]["template"]["spec"] |= pod
    return made


def hub_id(world: World) -> str:
    return str(world.hub.get(f"{NAMESPACES}/kube-system").ok()["metadata"]["uid"])


def test_what_a_deployment_names_comes_and_goes_with_it(world: World) -> None:
    member = world.member()
    name = world.register(member)
    settings, word = f"{world.path('configmaps')}/settings", f"{world.path('secrets')}/word"
    world.hub.post(world.path("configmaps"), config_map("settings", {"a": "1"})).ok()
    world.hub.post(world.path("configmaps"), config_map("other", {"a": "1"})).ok()
    world.hub.post(world.path("secrets"), {"metadata": {"name": "word"}, "stringData": {"w": "x"}}).ok()
    volumes = [{"name": "v", "configMap": {"name": "settings"}}, {"name": "late", "configMap": {"name": "late"}}]
    account = {"metadata": {"name": "runner"}, "imagePullSecrets": [{"name": "word"}]}
    world.hub.post(world.path("serviceaccounts"), account).ok()
    world.hub.post(world.path(), needing("web", name, volumes=volumes, serviceAccountName="runner")).ok()
    found = there(member, settings)
    assert found["data"] == {"a": "1"}
    assert found["metadata"]["annotations"][NEEDED_BY] == "deployments.apps"
    assert there(member, word)["data"] == {"w": "eA=="}
    there(member, f"{world.path('serviceaccounts')}/runner")
    up = world.hub.get(settings).ok()["metadata"]
    assert "labels" not in up
    assert "finalizers" not in up
    assert member.get(f"{world.path('configmaps')}/other").status == 404

    world.hub.post(world.path("configmaps"), config_map("late", {"b": "2"})).ok()
    there(member, f"{world.path('configmaps')}/late")
    world.hub.patch(settings, {"data": {"a": "2"}}).ok()
    member.eventually(lambda: member.get(settings)["data"] == {"a": "2"})
    member.patch(settings, {"data": {"a": "theirs"}}).ok()
    member.eventually(lambda: member.get(settings)["data"] == {"a": "2"})

    # One that is deleted on the hub while it is named stays; one that is named no more goes.
    world.hub.delete(f"{world.path('configmaps')}/late").ok()
    world.hub.post(world.path(), with_config("second", name, "settings")).ok()
    there(member, f"{world.path()}/second")
    world.hub.delete(f"{world.path()}/web").ok()
    gone(member, word)
    gone(member, f"{world.path('configmaps')}/late")
    assert member.get(settings).status == 200
    world.hub.delete(f"{world.path()}/second").ok()
    gone(member, settings)
    gone(member, f"{NAMESPACES}/{world.namespace}")
    assert world.hub.get(settings).status == 200


def test_an_edited_template_changes_what_comes_along(world: World) -> None:
    member = world.member()
    name = world.register(member)
    for each in ("one", "two"):
        world.hub.post(world.path("configmaps"), config_map(each, {})).ok()
    world.hub.post(world.path(), with_config("web", name, "one")).ok()
    there(member, f"{world.path('configmaps')}/one")
    volumes = [{"name": "v", "configMap": {"name": "two"}}]
    world.hub.patch(f"{world.path()}/web", {"spec": {"template": {"spec": {"volumes": volumes}}}}).ok()
    there(member, f"{world.path('configmaps')}/two")
    gone(member, f"{world.path('configmaps')}/one")


def test_needed_objects_of_others_are_left_alone_and_reported(world: World) -> None:
    member = world.member()
    name = world.register(member)
    member.post(NAMESPACES, {"metadata": {"name": world.namespace}}).ok()
    path = f"{world.path('configmaps')}/settings"
    member.post(world.path("configmaps"), config_map("settings", {"a": "theirs"})).ok()
    world.hub.post(world.path("configmaps"), config_map("settings", {"a": "1"})).ok()
    world.hub.post(world.path(), with_config("web", name, "settings")).ok()
    said = world.hub.eventually(lambda: (world.hub.get(path)["metadata"].get("annotations") or {}).get(PROBLEM))
    assert "was not synced from this hub" in str(said)
    assert member.get(path)["data"] == {"a": "theirs"}
    told = world.told(name, "NotSynced")
    assert told["message"].startswith(f"not synced to the cluster: configmaps {world.namespace}/settings: ")
    events = world.hub.eventually(lambda: world.hub.get(world.path("events")).ok()["items"])
    assert [(e["reason"], e["involvedObject"]["name"]) for e in events] == [("NotSynced", "settings")]
    world.hub.delete(f"{world.path()}/web").ok()
    gone(world.hub, f"{world.path()}/web")
    assert member.get(path)["data"] == {"a": "theirs"}
    world.hub.eventually(lambda: PROBLEM not in (world.hub.get(path)["metadata"].get("annotations") or {}))


def test_two_clusters_that_refuse_the_same_do_not_quarrel(world: World) -> None:
    members = [world.member() for _ in range(2)]
    names = [world.register(member) for member in members]
    path = f"{world.path('configmaps')}/settings"
    for member in members:
        member.post(NAMESPACES, {"metadata": {"name": world.namespace}}).ok()
        member.post(world.path("configmaps"), config_map("settings", {"a": "theirs"})).ok()
    world.hub.post(world.path("configmaps"), config_map("settings", {"a": "1"})).ok()
    for name in names:
        world.hub.post(world.path(), with_config(name, name, "settings")).ok()
    for name in names:
        assert "settings" in world.told(name, "NotSynced")["message"]
    said = world.hub.get(path).ok()
    for name in names:  # both have looked at it again
        world.hub.patch(f"{world.path()}/{name}", {"metadata": {"annotations": {"seen": "yes"}}}).ok()
    for member, name in zip(members, names, strict=True):
        there = f"{world.path()}/{name}"
        member.eventually(lambda there=there, member=member: _seen(member, there))  # type: ignore[misc]
    assert world.hub.get(path).ok() == said


def _seen(member: Cluster, path: str) -> bool:
    found = member.get(path)
    return found.status == 200 and "seen" in found["metadata"]["annotations"]


def test_a_labelled_object_that_is_needed_too_stays_when_its_label_goes(world: World) -> None:
    member = world.member()
    name = world.register(member)
    path = f"{world.path('configmaps')}/settings"
    world.hub.post(world.path("configmaps"), config_map("settings", {"a": "1"}, labels={ASSIGNED: name})).ok()
    uid = there(member, path)["metadata"]["uid"]
    world.hub.post(world.path(), with_config("web", name, "settings")).ok()
    there(member, f"{world.path()}/web")
    world.hub.patch(path, {"metadata": {"labels": None}}).ok()
    member.eventually(lambda: NEEDED_BY in member.get(path)["metadata"]["annotations"])
    world.hub.eventually(lambda: "finalizers" not in world.hub.get(path)["metadata"])
    assert member.get(path)["metadata"]["uid"] == uid


def test_a_namespace_another_hub_has_gets_a_suffix(world: World) -> None:
    member = world.member()
    name = world.register(member)
    annotations = {workloadcluster.NAMESPACE_LOCATOR_ANNOTATION: locator("another-hub", world.namespace)}
    theirs = {"metadata": {"name": world.namespace, "annotations": annotations}}
    member.post(NAMESPACES, theirs).ok()
    world.hub.post(world.path("configmaps"), config_map("settings", {"a": "1"}, labels={ASSIGNED: name})).ok()
    there_ns = name_with_suffix(hub_id(world), world.namespace)
    path = f"/api/v1/namespaces/{there_ns}/configmaps/settings"
    there(member, path)
    made = member.get(f"{NAMESPACES}/{there_ns}").ok()["metadata"]
    assert made["annotations"][workloadcluster.NAMESPACE_LOCATOR_ANNOTATION] == locator(hub_id(world), world.namespace)
    world.hub.post(world.path(), deployment("web", name)).ok()
    ready = f"/apis/apps/v1/namespaces/{there_ns}/deployments/web"
    there(member, ready)
    world.hub.eventually(lambda: world.hub.get(f"{world.path()}/web").ok().get("status"))
    member.delete(path).ok()
    there(member, path)
    assert member.get(f"{world.path('configmaps')}/settings").status == 404
    for each in ("web", "settings"):
        world.hub.delete(f"{world.path('deployments' if each == 'web' else 'configmaps')}/{each}").ok()
    gone(member, f"{NAMESPACES}/{there_ns}")
    assert member.get(f"{NAMESPACES}/{world.namespace}").status == 200


def test_objects_of_system_namespaces_do_not_travel(world: World) -> None:
    member = world.member()
    name = world.register(member)
    path = f"/api/v1/namespaces/kube-system/configmaps/{name}"
    world.hub.post(path.rpartition("/")[0], config_map(name, {}, labels={ASSIGNED: name})).ok()
    said = world.hub.eventually(lambda: (world.hub.get(path)["metadata"].get("annotations") or {}).get(PROBLEM))
    assert said == "objects of the namespace kube-system are not synced"
    world.hub.delete(path).ok()
    assert member.get(path).status == 404


def _fill(world: World, member: Cluster, name: str, count: int) -> None:
    for number in range(count):
        made = config_map(f"c{number}", {}, labels={ASSIGNED: name, "mass": "yes"})
        world.hub.post(world.path("configmaps"), made).ok()
    selected = f"{world.path('configmaps')}?labelSelector=mass"
    member.eventually(lambda: len(member.get(selected).ok()["items"]) == count)


def test_much_at_once_waits_for_a_word(world: World) -> None:
    member = world.member()
    name = world.register(member)
    count = FREE_DELETIONS * 2
    _fill(world, member, name, count)
    selected = f"{world.path('configmaps')}?labelSelector=mass"
    world.hub.delete(selected).ok()
    told = world.told(name, "DeletionsHeld")
    assert "annotate this Cluster workloads.kcp.dev/allow-deletions=true to allow it" in told["message"]
    left = len(member.get(selected).ok()["items"])
    assert left >= count - FREE_DELETIONS
    assert len(world.hub.get(selected).ok()["items"]) >= count - FREE_DELETIONS
    allowed = {"metadata": {"annotations": {workloadcluster.ALLOW_DELETIONS_ANNOTATION: "true"}}}
    world.hub.patch(f"{WORKLOAD_CLUSTERS}/{name}", allowed).ok()
    member.eventually(lambda: not member.get(selected).ok()["items"])
    world.hub.eventually(lambda: not world.hub.get(selected).ok()["items"])
    conditions = world.hub.eventually(
        lambda: [c["type"] for c in world.cluster(name)["status"]["conditions"] if c["type"] != "DeletionsHeld"]
    )
    assert "Ready" in conditions


def test_kinds_without_a_namespace_are_synced_too(server: Server) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    settings = SyncSettings(("clusterroles.rbac.authorization.k8s.io",))
    with own_hub(server, settings) as hub:
        member = fresh_cluster(server, profile="cluster")
        pair = Pair(hub, member)
        pair.register()
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
        hub.post(roles, {"metadata": {"name": "reader", "labels": {ASSIGNED: "east"}}, "rules": rules}).ok()
        assert there(member, f"{roles}/reader")["rules"] == rules
        member.patch(f"{roles}/reader", {"rules": []}).ok()
        member.eventually(lambda: member.get(f"{roles}/reader")["rules"] == rules)
        hub.delete(f"{roles}/reader").ok()
        gone(hub, f"{roles}/reader")
        assert member.get(f"{roles}/reader").status == 404
        member.close()


def test_a_claim_is_bound_on_the_hub_when_it_is_bound_in_every_cluster(world: World) -> None:
    members = [world.member(), world.member()]
    names = [world.register(member) for member in members]
    claim = f"{world.path('persistentvolumeclaims')}/data"
    # Of the default class the members would bind it themselves.
    spec: Object = {
        "storageClassName": "by-hand",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    world.hub.post(world.path("persistentvolumeclaims"), {"metadata": {"name": "data"}, "spec": spec}).ok()
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    for name in names:
        world.hub.post(world.path(), needing(f"web-{name}", name, volumes=volumes)).ok()
    bound = {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}

    def bind(member: Cluster) -> None:
        """Its own controller binds it to a volume."""
        there(member, claim)
        volume = {"storageClassName": "by-hand", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
        body = {"metadata": {"name": "volume"}, "spec": {**volume, "hostPath": {"path": "/data"}}}
        member.post("/api/v1/persistentvolumes", body).ok()

    def recorded() -> int:
        annotations = world.hub.get(claim)["metadata"].get("annotations") or {}
        return sum(
            "Bound" in value for key, value in annotations.items() if key.startswith("status.workloads.kcp.dev/")
        )

    bind(members[0])
    world.hub.eventually(lambda: recorded() == 1)
    assert world.hub.get(claim)["status"] == {"phase": "Pending"}
    bind(members[1])
    world.hub.eventually(lambda: world.hub.get(claim)["status"] == bound)
    assert not [key for key in there(members[0], claim)["metadata"]["annotations"] if "status.workloads" in key]
    world.hub.delete(f"{world.path()}/web-{names[0]}").ok()
    world.hub.eventually(lambda: recorded() == 1)
    assert world.hub.get(claim)["status"] == bound
    world.hub.delete(f"{world.path()}/web-{names[1]}").ok()
    world.hub.eventually(lambda: recorded() == 0 and world.hub.get(claim)["status"] == {"phase": "Pending"})


def test_what_is_no_status_counts_as_none() -> None:
    def claim(**values: str) -> Object:
        annotations = {f"status.workloads.kcp.dev/{cluster}": value for cluster, value in values.items()}
        return {"metadata": {"annotations": annotations}, "status": {"phase": "Pending"}}

    for text in ("", "[]", "{", '{"phase": {}}', '{"other": 1}'):
        status, stale = merged_dependency_status(claim(east=text, west='{"phase": "Bound"}'), ["east", "west"])
        assert (status, stale) == (None, []), text
    only = '{"phase": "Bound", "secret": 1}'
    assert merged_dependency_status(claim(east=only, gone=only), ["east"]) == (
        {"phase": "Bound"},
        ["status.workloads.kcp.dev/gone"],
    )
    assert merged_dependency_status({"metadata": {}}, ["east"]) == (None, [])
