"""Pull mode: the syncer is a process beside its cluster; its identity can do what it needs and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from shoal.kinds.workload import workloadcluster
from shoal.sync.syncer.syncer import Syncer
from tests.serving import Cluster, Server, config_map
from tests.sync.hub_cluster_pair import with_config
from tests.sync.pull_mode import identity, pull_syncer
from tests.sync.sync_environment import IMPORTS, NAMESPACES, NEGOTIATED, WORKLOAD_CLUSTERS, World, condition, deployment
from tests.sync.test_sync_end_to_end import ASSIGNED, PROBLEM, gone, there

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def test_the_same_syncer_with_other_clients(world: World) -> None:
    member, name = world.member(), f"{world.namespace}-pulled"
    token = identity(world, name)
    said = world.hub.eventually(lambda: condition(world.cluster(name), "HeartbeatHealthy"))
    assert (said["reason"], said["message"]) == ("ErrorHeartbeat", "No heartbeat yet seen")
    with pull_syncer(world, name, member, token):
        found = world.ready(name)
        assert found["status"]["lastSyncerHeartbeatTime"]
        settings = f"{world.path('configmaps')}/settings"
        world.hub.post(world.path("configmaps"), config_map("settings", {"a": "1"})).ok()
        world.hub.post(world.path(), with_config("web", name, "settings")).ok()
        path = f"{world.path()}/web"
        there(member, path)
        there(member, settings)
        world.hub.eventually(lambda: (world.hub.get(path).ok().get("status") or {}).get("replicas") == 1)
        label = workloadcluster.dependency_label(name)
        assert label in world.hub.get(settings).ok()["metadata"]["labels"]
        assert label not in (member.get(settings).ok()["metadata"].get("labels") or {})
        world.hub.patch(settings, {"data": {"a": "2"}}).ok()
        member.eventually(lambda: member.get(settings)["data"] == {"a": "2"})
        world.hub.patch(path, {"spec": {"replicas": 3}}).ok()
        world.hub.eventually(lambda: world.hub.get(path).ok()["status"].get("replicas") == 3)
        world.hub.delete(path).ok()
        gone(world.hub, path)
        gone(member, path)
        gone(member, settings)
        world.hub.eventually(lambda: not world.hub.get(settings).ok()["metadata"].get("labels"))
        gone(member, f"{NAMESPACES}/{world.namespace}")


def test_in_mode_none_the_cluster_is_ready_without_a_syncer_and_syncs_when_one_is_started(world: World) -> None:
    member, name = world.member(), f"{world.namespace}-none"
    world.put_kubeconfig(member, name)
    reference = {"namespace": world.namespace, "name": f"{name}-kubeconfig"}
    world.add_cluster(name, {"kubeconfigSecretRef": reference, "syncMode": "none"})
    assert condition(world.ready(name), "SyncerReady") == {}
    path = f"{world.path('configmaps')}/settings"
    world.hub.post(world.path("configmaps"), config_map("settings", {"a": "1"}, labels={ASSIGNED: name})).ok()
    with pull_syncer(world, name, member, world.server.token):
        there(member, path)
        assert world.told(name, "SyncerReady")["status"] == "True"


def test_a_moved_label_moves_the_copy_from_pull_to_push(world: World) -> None:
    east, west = world.member(), world.member()
    name, other = f"{world.namespace}-pulled", world.register(west)
    token = identity(world, name)
    path = f"{world.path('configmaps')}/settings"
    with pull_syncer(world, name, east, token):
        world.hub.post(world.path("configmaps"), config_map("settings", {"a": "1"}, labels={ASSIGNED: name})).ok()
        there(east, path)
    # It moves while the syncer is away, and is gone from there when it is back.
    world.hub.patch(path, {"metadata": {"labels": {ASSIGNED: other}}}).ok()
    there(west, path)
    assert east.get(path).status == 200
    with pull_syncer(world, name, east, token):
        gone(east, path)
        held = [f"workloads.kcp.dev/syncer-{other}"]
        world.hub.eventually(lambda: world.hub.get(path)["metadata"]["finalizers"] == held)


# --- what it may not do ---


@pytest.fixture(scope="module")
def caged(server: Server) -> Iterator[Caged]:
    world = World(server)
    caged = Caged(world)
    yield caged
    world.close()


class Caged:
    """A syncer's identity, and a hub with things for it and things for others."""

    def __init__(self, world: World) -> None:
        self.world = world
        other = world.register(world.member())
        self.name, self.other = f"{world.namespace}-caged", other
        self.token = identity(world, self.name)
        for name, labels in (
            ("mine", {ASSIGNED: self.name}),
            ("theirs", {ASSIGNED: other}),
            ("nobodys", {}),
            ("needed", {}),
        ):
            world.hub.post(world.path("configmaps"), config_map(name, {"a": "1"}, labels=labels)).ok()
            body = {"metadata": {"name": name, "labels": labels}, "stringData": {"a": "1"}}
            world.hub.post(world.path("secrets"), body).ok()
        mine = with_config("mine", self.name, "needed")
        mine["spec"]["template"]["spec"]["volumes"].append({"name": "s", "secret": {"secretName": "needed"}})
        world.hub.post(world.path(), mine).ok()
        world.hub.post(world.path(), deployment("theirs", other)).ok()
        for plural in ("configmaps", "secrets"):
            self._is_labelled(f"{world.path(plural)}/needed")
        # The other's pods are shown; the caged one may show its own.
        for cluster in (self.name, other):
            world.hub.patch(f"{WORKLOAD_CLUSTERS}/{cluster}", {"spec": {"mirror": ["pods"]}}).ok()
        shown = world.hub.eventually(lambda: world.hub.get(world.path("pods")).ok()["items"])
        self.shown = str(shown[0]["metadata"]["name"])

    def pod(self, name: str, owner: str = "mine", **metadata: Any) -> dict[str, Any]:
        """As the caged one would show it."""
        uid = self.world.hub.get(f"{self.world.path()}/{owner}").ok()["metadata"]["uid"]
        owners = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": uid}]
        labels = {workloadcluster.MIRRORED_FROM_LABEL: self.name}
        metadata = {"name": name, "labels": labels, "ownerReferences": owners, **metadata}
        return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}

    def _is_labelled(self, path: str) -> None:
        hub, label = self.world.hub, workloadcluster.dependency_label(self.name)
        hub.eventually(lambda: label in (hub.get(path)["metadata"].get("labels") or {}))

    def ask(self, method: str, path: str, body: object = None, content: str = "") -> int:
        hub: Cluster = self.world.hub
        more = {"Content_Type": content} if content else {}
        return hub.request(method, path, body, token=self.token, **more).status


MERGE, JSON = "application/merge-patch+json", "application/json-patch+json"


def test_it_may_do_what_it_needs(caged: Caged) -> None:
    world, name = caged.world, caged.name
    maps, secrets = world.path("configmaps"), world.path("secrets")
    for path in (
        *(f"{maps}/mine", f"{maps}/needed", f"{secrets}/mine", f"{secrets}/needed", f"{world.path()}/mine"),
        f"/api/v1/configmaps?labelSelector={ASSIGNED}={name}",
        f"/api/v1/secrets?labelSelector={workloadcluster.dependency_label(name)},{ASSIGNED}!={name}",
        f"{WORKLOAD_CLUSTERS}/{name}",
        f"{WORKLOAD_CLUSTERS}?fieldSelector=metadata.name={name}",
        f"{NAMESPACES}/kube-system",
        f"{IMPORTS}?labelSelector={ASSIGNED}={name}",
        NEGOTIATED,
    ):
        assert caged.ask("GET", path) == 200, path
    held = {"metadata": {"finalizers": [workloadcluster.syncer_finalizer(name)]}}
    assert caged.ask("PATCH", f"{maps}/mine", held, MERGE) == 200
    told = {"metadata": {"annotations": {PROBLEM: "why", f"status.workloads.kcp.dev/{name}": "{}"}}}
    assert caged.ask("PATCH", f"{maps}/needed", told, MERGE) == 200
    status: Any = [{"op": "add", "path": "/status", "value": {"replicas": 1}}]
    assert caged.ask("PATCH", f"{world.path()}/mine/status", status, JSON) == 200
    pod, shown = f"p--{name}", world.path("pods")
    assert caged.ask("POST", shown, caged.pod(pod)) == 201
    assert caged.ask("PUT", f"{shown}/{pod}", {**caged.pod(pod), "status": {"phase": "Running"}}) == 200
    assert caged.ask("GET", f"{shown}/{pod}") == 200
    assert caged.ask("GET", f"/api/v1/pods?labelSelector={workloadcluster.MIRRORED_FROM_LABEL}={name}") == 200
    assert caged.ask("DELETE", f"{shown}/{pod}") == 200
    listed = world.hub.request("GET", f"/api/v1/secrets?labelSelector={ASSIGNED}={name}", token=caged.token).ok()
    assert [item["metadata"]["name"] for item in listed["items"]] == ["mine"]


def _attempts(namespace: str, name: str, other: str) -> list[tuple[str, str, object, str]]:
    """A hundred things that are none of its business."""
    maps, secrets = f"/api/v1/namespaces/{namespace}/configmaps", f"/api/v1/namespaces/{namespace}/secrets"
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    label = {"metadata": {"labels": {ASSIGNED: name}}}
    finalizer = {"metadata": {"finalizers": [workloadcluster.syncer_finalizer(name)]}}
    body = config_map("new", {}, labels={ASSIGNED: name})
    found: list[tuple[str, str, object, str]] = []

    def get(*paths: str) -> None:
        found.extend(("GET", path, None, "") for path in paths)

    def write(method: str, path: str, given: object, content: str = "") -> None:
        found.append((method, path, given, content))

    # What is not labelled for it, by name and in lists and watches.
    for collection in (maps, secrets, deployments):
        get(f"{collection}/theirs", collection, f"{collection}?watch=1", f"{collection}?limit=1")
        get(f"{collection}?labelSelector={ASSIGNED}", f"{collection}?labelSelector={ASSIGNED}={other}")
        get(f"{collection}?labelSelector={ASSIGNED}%20in%20({name},{other})")
        get(f"{collection}?labelSelector={ASSIGNED}!={name}", f"{collection}?labelSelector=app")
        get(f"{collection}?labelSelector={workloadcluster.dependency_label(other)}")
        get(f"{collection}?fieldSelector=metadata.name=theirs&watch=1")
    get(f"{maps}/nobodys", f"{secrets}/nobodys", "/api/v1/secrets", "/api/v1/configmaps?watch=1")
    get(f"{deployments}?labelSelector={workloadcluster.dependency_label(name)}")
    get(f"/api/v1/secrets?labelSelector=!{workloadcluster.dependency_label(name)}")
    # Writes into what is its own, beyond finalizer and status.
    write("PATCH", f"{maps}/mine", {"data": {"a": "2"}}, MERGE)
    write("PATCH", f"{maps}/mine", {"metadata": {"labels": {ASSIGNED: other}}}, MERGE)
    write("PATCH", f"{maps}/mine", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    write("PATCH", f"{maps}/mine", {"metadata": {"annotations": {"x": "y"}}}, MERGE)
    theirs = {"metadata": {"annotations": {f"status.workloads.kcp.dev/{other}": "{}"}}}
    write("PATCH", f"{maps}/needed", theirs, MERGE)
    write("PATCH", f"{maps}/mine", {"metadata": {"finalizers": ["example.com/other"]}}, MERGE)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "u"}
    write("PATCH", f"{maps}/mine", {"metadata": {"ownerReferences": [owner]}}, MERGE)
    write("PATCH", f"{secrets}/mine", {"data": {"a": "Mg=="}}, MERGE)
    write("PATCH", f"{deployments}/mine", {"spec": {"replicas": 100}}, MERGE)
    write("PATCH", f"{secrets}/needed", {"data": {"a": "Mg=="}}, MERGE)
    write("PATCH", f"{maps}/needed", finalizer, MERGE)
    write("PATCH", f"{maps}/needed", label, MERGE)
    write("PUT", f"{maps}/mine", config_map("mine", {"a": "3"}, labels={ASSIGNED: name}))
    write("DELETE", f"{maps}/mine", None)
    write("DELETE", f"{deployments}/mine", None)
    write("DELETE", f"{maps}?labelSelector={ASSIGNED}={name}", None)
    write("PATCH", f"{deployments}/mine/scale", {"spec": {"replicas": 9}}, MERGE)
    write("PUT", f"{deployments}/mine/status", deployment("mine", name))
    # What is others', and what is new.
    for path in (
        f"{maps}/theirs",
        f"{maps}/nobodys",
        f"{secrets}/theirs",
        f"{secrets}/nobodys",
        f"{deployments}/theirs",
    ):
        write("PATCH", path, label, MERGE)
        write("PATCH", path, finalizer, MERGE)
        write("DELETE", path, None)
    write("PATCH", f"{deployments}/theirs/status", {"status": {"replicas": 9}}, MERGE)
    write("POST", maps, body)
    write("POST", secrets, {"metadata": {"name": "new", "labels": {ASSIGNED: name}}})
    write("POST", deployments, deployment("new", name))
    write("PATCH", f"{maps}/new?fieldManager=x", body, "application/apply-patch+yaml")
    # The hub's own things.
    get(NAMESPACES, f"{NAMESPACES}/{namespace}", f"{NAMESPACES}/default", "/api/v1/serviceaccounts")
    get(
        WORKLOAD_CLUSTERS,
        f"{WORKLOAD_CLUSTERS}/{other}",
        f"{WORKLOAD_CLUSTERS}?watch=1",
        f"{WORKLOAD_CLUSTERS}?limit=1",
    )
    get(
        f"{WORKLOAD_CLUSTERS}?fieldSelector=metadata.name={other}",
        IMPORTS,
        f"{IMPORTS}?labelSelector={ASSIGNED}={other}",
    )
    get(DEFINITIONS, "/api/v1/namespaces/kube-system/secrets", "/api/v1/namespaces/shoal-syncers/secrets")
    get(f"/api/v1/namespaces/shoal-syncers/secrets/{name}-token", f"/api/v1/namespaces/{namespace}/events")
    get("/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/workers")
    get(
        "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/managedclusters",
        "/apis/core.shoal.dev/v1alpha1/logicalclusters",
    )
    write("PATCH", f"{WORKLOAD_CLUSTERS}/{name}", {"spec": {"unschedulable": True}}, MERGE)
    write(
        "PATCH",
        f"{WORKLOAD_CLUSTERS}/{name}",
        {"metadata": {"annotations": {workloadcluster.ALLOW_DELETIONS_ANNOTATION: "true"}}},
        MERGE,
    )
    write("PATCH", f"{WORKLOAD_CLUSTERS}/{other}/status", {"status": {}}, MERGE)
    write("DELETE", f"{WORKLOAD_CLUSTERS}/{name}", None)
    write("POST", WORKLOAD_CLUSTERS, {"metadata": {"name": "new"}, "spec": {}})
    version = {"group": "", "version": "v1"}
    spec = {"location": other, "groupVersion": version, "plural": "x", "scope": "Namespaced", "kind": "X"}
    offered = {"apiVersion": "apiresource.kcp.dev/v1alpha1", "kind": "APIResourceImport", "spec": spec}
    write("POST", IMPORTS, {**offered, "metadata": {"name": f"x.{other}.v1.core"}})
    write("DELETE", f"{IMPORTS}/deployments.{other}.v1.apps", None)
    write("DELETE", f"{NEGOTIATED}/deployments.v1.apps", None)
    write("PATCH", f"{NEGOTIATED}/deployments.v1.apps", {"spec": {"publish": False}}, MERGE)
    write("POST", NAMESPACES, {"metadata": {"name": "new"}})
    write("DELETE", f"{NAMESPACES}/{namespace}", None)
    write("POST", f"/api/v1/namespaces/shoal-syncers/serviceaccounts/{other}/token", {"spec": {}})
    write("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"metadata": {"name": "x"}})
    about = {"kind": "ConfigMap", "name": "mine", "namespace": namespace}
    write("POST", f"/api/v1/namespaces/{namespace}/events", {"metadata": {"name": "e"}, "involvedObject": about})
    return found


def _with_pods(caged: Caged) -> list[tuple[str, str, object, str]]:
    """What it may not do with what the hub shows of others, and not even with its own."""
    pods, name, other, theirs = caged.world.path("pods"), caged.name, caged.other, caged.shown
    own, home = f"own--{name}", "/api/v1/namespaces/kube-system/pods"
    assert caged.ask("POST", pods, caged.pod(own)) == 201
    stranger = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobodys", "uid": "u"}
    blocking = caged.pod("x")["metadata"]["ownerReferences"][0] | {"blockOwnerDeletion": True}
    wrong = [
        caged.pod(f"x--{name}", labels={}),
        caged.pod(f"x--{name}", labels={workloadcluster.MIRRORED_FROM_LABEL: other}),
        caged.pod(f"x--{name}", labels={workloadcluster.MIRRORED_FROM_LABEL: name, ASSIGNED: name}),
        caged.pod("x", labels={workloadcluster.MIRRORED_FROM_LABEL: name}),
        caged.pod(f"x--{other}"),
        caged.pod(f"x--{name}", owner="theirs"),
        caged.pod(f"x--{name}", ownerReferences=[]),
        caged.pod(f"x--{name}", ownerReferences=[stranger]),
        caged.pod(f"x--{name}", ownerReferences=[blocking]),
        caged.pod(f"x--{name}", finalizers=["example.com/held"]),
    ]
    found: list[tuple[str, str, object, str]] = [("POST", pods, body, "") for body in wrong]
    for path in (
        pods,
        f"{pods}?watch=1",
        f"{pods}?labelSelector={workloadcluster.MIRRORED_FROM_LABEL}={other}",
        f"{pods}/{theirs}",
    ):
        found.append(("GET", path, None, ""))
    for path in (f"{pods}/{theirs}", f"{pods}/{theirs}/log", f"{pods}/{own}/log", f"{pods}/{own}/exec"):
        found.append(("GET", path, None, ""))
    found += [
        ("PUT", f"{pods}/{theirs}", caged.pod(theirs), ""),
        ("PATCH", f"{pods}/{theirs}", {"metadata": {"labels": {workloadcluster.MIRRORED_FROM_LABEL: name}}}, MERGE),
        ("DELETE", f"{pods}/{theirs}", None, ""),
        ("PUT", f"{pods}/{own}", caged.pod(own, labels={workloadcluster.MIRRORED_FROM_LABEL: other}), ""),
        ("PUT", f"{pods}/{own}", caged.pod(own, labels={}), ""),
        ("PATCH", f"{pods}/{own}", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        ("DELETE", f"{pods}?labelSelector={workloadcluster.MIRRORED_FROM_LABEL}={name}", None, ""),
        ("POST", home, caged.pod(f"x--{name}"), ""),
    ]
    return found


def test_it_may_do_nothing_else(caged: Caged) -> None:
    attempts = [*_attempts(caged.world.namespace, caged.name, caged.other), *_with_pods(caged)]
    assert len(attempts) >= 100
    wrong = []
    for method, path, body, content in attempts:
        status = caged.ask(method, path, body, content)
        if status != 403:
            wrong.append((status, method, path))
    assert wrong == []
    hub = caged.world.hub
    assert hub.get(f"{caged.world.path('configmaps')}/mine").ok()["data"] == {"a": "1"}


def test_it_has_no_rights_without_its_cluster(world: World) -> None:
    name = f"{world.namespace}-gone"
    token = identity(world, name)
    path = f"{WORKLOAD_CLUSTERS}/{name}"
    assert world.hub.request("GET", path, token=token).status == 200
    world.remove_cluster(name)
    assert world.hub.request("GET", path, token=token).status in (401, 403)
    world.hub.eventually(lambda: world.hub.request("GET", path, token=token).status == 401)


@pytest.mark.parametrize("pull", [False, True])
def test_a_syncer_that_fails_is_started_again(world: World, pull: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    member, name, runs = world.member(), f"{world.namespace}-fails", list[str]()
    report = Syncer._report

    async def fail_once(syncer: Syncer) -> None:
        if syncer.name == name:
            runs.append(name)
            if len(runs) == 1:
                raise KeyError("a defect")
        await report(syncer)

    monkeypatch.setattr(Syncer, "_report", fail_once)
    if not pull:
        world.register(member, name)
    with pull_syncer(world, name, member, identity(world, name)) if pull else nullcontext():
        world.ready(name)
        world.hub.post(world.path("configmaps"), config_map("settings", {"a": "1"}, labels={ASSIGNED: name})).ok()
        there(member, f"{world.path('configmaps')}/settings")
    assert len(runs) == 2
