"""Pods of a cluster mirrored to the hub on request: unchanged, read-only, and deleted with their originals."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import pytest

from shoal.clock import SystemClock
from shoal.kinds.workload import workloadcluster
from shoal.runtime.informer import Informer
from shoal.sync.controllers import SyncSettings
from shoal.sync.resources import CLUSTERS, PODS
from shoal.sync.syncer.mirror_cleanup import MirrorCleanup
from tests.serving import Cluster, Server, fresh_cluster
from tests.sync.hub_cluster_pair import Pair
from tests.sync.hub_server import Hurried, make_hub, own_hub
from tests.sync.pull_mode import identity, pull_syncer
from tests.sync.sync_environment import WORKLOAD_CLUSTERS, Object, Proxy, World, condition, deployment, workload_cluster
from tests.sync.test_kcp_multicluster import add_node


def pods(cluster: Cluster, world: World) -> dict[str, Object]:
    """By name; none where the kind is not served."""
    found = cluster.get(world.path("pods"))
    return {pod["metadata"]["name"]: pod for pod in found["items"]} if found.status == 200 else {}


def running(cluster: Cluster, world: World, count: int) -> dict[str, Object]:
    """So many, and nothing is going to change about them."""

    def look() -> dict[str, Object]:
        found = pods(cluster, world)
        settled = [condition(pod, "Ready").get("status") == "True" for pod in found.values()]
        return found if settled == [True] * count else {}

    return cluster.eventually(look)


def ask(world: World, name: str, *what: str) -> None:
    world.hub.patch(f"{WORKLOAD_CLUSTERS}/{name}", {"spec": {"mirror": list(what)}}).ok()


@pytest.mark.parametrize("pull", [False, True])
def test_pods_are_shown_as_they_are(world: World, pull: bool) -> None:
    member, hub = world.member(), world.hub
    add_node(member)
    name = f"{world.namespace}-pulled" if pull else world.register(member)
    web = f"{world.path()}/web"
    with pull_syncer(world, name, member, identity(world, name)) if pull else nullcontext():
        world.ready(name)
        hub.post(world.path(), deployment("web", name, replicas=2)).ok()
        running(member, world, 2)
        lone = {"metadata": {"name": "lone"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        member.post(world.path("pods"), lone).ok()
        assert pods(hub, world) == {}
        ask(world, name, "pods")
        shown, there = running(hub, world, 2), pods(member, world)
        parts = {f"{pod}--{name}": (it["spec"], it["status"]) for pod, it in there.items() if pod != "lone"}
        hub.eventually(lambda: {pod: (it["spec"], it["status"]) for pod, it in pods(hub, world).items()} == parts)
        uid = hub.get(web).ok()["metadata"]["uid"]
        for title, pod in shown.items():
            source, metadata = there[title.removesuffix(f"--{name}")], pod["metadata"]
            assert metadata["labels"] == source["metadata"]["labels"] | {workloadcluster.MIRRORED_FROM_LABEL: name}
            assert (
                metadata["annotations"][workloadcluster.MIRRORED_POD_ANNOTATION]
                == f"{world.namespace}/{source['metadata']['name']}"
            )
            owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid, "controller": True}
            assert metadata["ownerReferences"] == [owner]
        seen = hub.get(world.path("pods"), Accept="application/json;as=Table;v=v1;g=meta.k8s.io").ok()
        assert {row["cells"][2] for row in seen["rows"]} == {"Running"}
        # What comes and goes there comes and goes here.
        hub.patch(web, {"spec": {"replicas": 1}}).ok()
        running(hub, world, 1)
        ask(world, name)
        hub.eventually(lambda: not pods(hub, world))
        ask(world, name, "events", "pods")
        running(hub, world, 1)
        hub.delete(web).ok()
        hub.eventually(lambda: not pods(hub, world))
        member.eventually(lambda: set(pods(member, world)) == {"lone"})


def test_nobody_else_writes_them(world: World) -> None:
    member, hub = world.member(), world.hub
    add_node(member)
    name = world.register(member)
    ask(world, name, "pods")
    hub.post(world.path(), deployment("web", name)).ok()
    [(title, pod)] = running(hub, world, 1).items()
    path = f"{world.path('pods')}/{title}"
    why = f"it is a read-only mirror of a pod in workload Cluster {name}; change the pod there, or its owner"
    changed = {**pod, "spec": {**pod["spec"], "nodeName": "other"}}
    relabelled = {
        "metadata": {"labels": {workloadcluster.MIRRORED_FROM_LABEL: None, workloadcluster.CLUSTER_LABEL: name}}
    }
    fresh = {"metadata": {"name": "new", "labels": {workloadcluster.MIRRORED_FROM_LABEL: name}}, "spec": pod["spec"]}
    for answer in (
        hub.put(path, changed),
        hub.patch(path, relabelled),
        hub.patch(path, pod | {"metadata": {"name": title, "labels": {"a": "b"}}}, kind="merge"),
        hub.delete(path),
    ):
        assert (answer.status, answer["message"]) == (403, f'pods "{title}" is forbidden: {why}')
    assert hub.delete(world.path("pods")).status == 403
    assert hub.post(world.path("pods"), fresh)["message"] == f'pods "new" is forbidden: {why}'
    plain = hub.post(world.path("pods"), {"metadata": {"name": "new"}, "spec": pod["spec"]})
    assert plain["message"] == (
        'pods "new" is forbidden: a hub runs no pods; it only has read-only mirrors of pods of its workload Clusters'
    )
    there = f"{world.namespace}/{title.removesuffix(f'--{name}')}"
    for what in ("log", "exec", "portforward"):
        answer = hub.get(f"{path}/{what}")
        said = f"mirrored pod: access pod {there} in workload Cluster {name}, with a kubeconfig of that cluster"
        said += f" (shoal kubeconfig {name} if it is a ManagedCluster)"
        assert (answer.status, answer["message"]) == (501, said)
    assert hub.get(f"{path}/status").status == 404
    assert hub.get(path).ok() == {"apiVersion": "v1", "kind": "Pod"} | pod, "and nothing acts on it"


def test_pods_stay_while_their_cluster_is_not_heard_of_and_go_with_it(world: World) -> None:
    member, hub = world.member(), world.hub
    add_node(member)
    proxy, name = Proxy(world.server.port), f"{world.namespace}-pulled"
    with pull_syncer(world, name, member, identity(world, name), port=proxy.port, clock=Hurried()):
        world.ready(name)
        ask(world, name, "pods")
        hub.post(world.path(), deployment("web", name)).ok()
        shown = running(hub, world, 1)
        proxy.cut()
        world.ready(name, "False")
        assert pods(hub, world) == shown
        world.remove_cluster(name)
        hub.eventually(lambda: not pods(hub, world))
    assert hub.get(f"{world.path()}/web").status == 200
    assert len(pods(member, world)) == 1


def test_what_is_shown_of_a_cluster_that_went_while_nobody_looked_goes(server: Server) -> None:
    hub = make_hub(server)
    made = workload_cluster("east", {"mirror": ["pods"]})
    hub.post(WORKLOAD_CLUSTERS, made).ok()
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p--east", "labels": {workloadcluster.MIRRORED_FROM_LABEL: "east"}},
    }

    async def look() -> list[str]:
        client, names = server.shoal.controller_client("syncer").in_cluster(hub.name), list[str]()
        await client.create(PODS, {**pod, "spec": spec}, "default")
        await client.delete(CLUSTERS, "east")
        clusters = Informer(client, CLUSTERS, SystemClock())
        watch = asyncio.create_task(clusters.run())
        sweep = MirrorCleanup(client, SystemClock(), clusters, names.append)
        await sweep.run()
        watch.cancel()
        assert [found["metadata"]["name"] for found in (await client.list_all(PODS))[0]] == ["p--east"]
        await sweep.reconcile("east", None)
        assert (await client.list_all(PODS))[0] == []
        return names

    assert server.call(look()) == ["east"]
    hub.close()


def test_a_hub_that_syncs_pods_shows_none(server: Server) -> None:
    member = fresh_cluster(server, profile="cluster")
    with own_hub(server, SyncSettings(("pods", "deployments.apps"))) as hub:
        pair = Pair(hub, member)
        pair.register()
        assert hub.get("/api/v1/pods").status == 200
        hub.patch(f"{WORKLOAD_CLUSTERS}/{pair.name}", {"spec": {"mirror": ["pods"]}}).ok()
        said = pair.told("NotShown")["message"]
        assert said == "requested by spec.mirror but not mirrored: pods, because this hub has Pods of its own"
        spec = {"containers": [{"name": "c", "image": "i"}]}
        posed = {"metadata": {"name": "p", "labels": {workloadcluster.MIRRORED_FROM_LABEL: pair.name}}, "spec": spec}
        refused = hub.post("/api/v1/namespaces/default/pods", posed)
        why = "this hub syncs Pods, so it does not mirror pods of its workload Clusters"
        assert (refused.status, refused["message"]) == (403, f'pods "p" is forbidden: {why}')
        hub.patch(f"{WORKLOAD_CLUSTERS}/{pair.name}", {"spec": {"mirror": []}}).ok()
        hub.eventually(lambda: not pair.condition("NotShown"))
    member.close()
