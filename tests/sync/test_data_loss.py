"""Whatever breaks between a hub and a cluster, objects in the cluster stay, and a condition reports the reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.kinds.workload import workloadcluster
from shoal.sync.controllers import SyncSettings
from tests.serving import DEFINITIONS, WIDGETS, Cluster, Server, config_map, fresh_cluster, widget, widget_definition
from tests.sync.hub_cluster_pair import ASSIGNED, CONFIG_MAPS, DEPLOYMENTS, Pair
from tests.sync.hub_server import Forgetful, Hurried, Process, hub_loops, make_hub, own_hub
from tests.sync.pull_mode import identity, pull_syncer
from tests.sync.sync_environment import WORKLOAD_CLUSTERS, Proxy, World, deployment

SETTINGS = SyncSettings(("deployments.apps", "configmaps", "widgets.example.com"))


@pytest.fixture
def member(server: Server) -> Iterator[Cluster]:
    found = fresh_cluster(server, profile="cluster")
    yield found
    found.close()


@pytest.fixture
def clock() -> Hurried:
    return Hurried()


def test_the_hub_goes_and_comes_back(tmp_path: Path, member: Cluster) -> None:
    server = Server(tmp_path)
    pair = Pair(Cluster(server, "root"), member)
    pair.register()
    pair.fill()
    pair.hub.close()
    server.stop()
    pair.all_there()

    again = Server(tmp_path, port=server.port)
    pair.hub = Cluster(again, "root")
    pair.still_synced()
    pair.ready()
    pair.hub.close()
    again.stop()


def test_the_hub_is_killed(tmp_path: Path, member: Cluster) -> None:
    hub = Process(tmp_path)
    try:
        pair = Pair(Cluster(hub, "root"), member)
        pair.register()
        pair.fill()
        held = [workloadcluster.syncer_finalizer(pair.name)]
        pair.hub.eventually(lambda: pair.hub.get(f"{DEPLOYMENTS}/web")["metadata"].get("finalizers") == held)
        before = _as_written(pair)
        pair.hub.close()
    finally:
        hub.kill()
    pair.all_there()
    assert _as_written(pair) == before

    again = Process(tmp_path)
    try:
        pair.hub = Cluster(again, "root")
        # When new objects have come down, the old ones have been looked at.
        pair.hub.post(CONFIG_MAPS, config_map("then", {"a": "1"}, labels={ASSIGNED: pair.name})).ok()
        pair.hub.post(DEPLOYMENTS, deployment("then", pair.name)).ok()
        for path in (f"{CONFIG_MAPS}/then", f"{DEPLOYMENTS}/then"):
            member.eventually(lambda path=path: pair.uid_of(path))  # type: ignore[misc]
        pair.ready()
        pair.all_there()
        assert _as_written(pair) == before, "nothing had changed, and nothing is written"
        pair.still_synced()
        pair.hub.close()
    finally:
        again.kill()


def _as_written(pair: Pair) -> dict[str, object]:
    """What a syncer left there: the revision, or, where others write the status, what it applied and when."""
    found: dict[str, object] = {}
    for path in pair.uids:
        metadata = pair.member.get(path).ok()["metadata"]
        applied = [entry for entry in metadata["managedFields"] if entry["manager"] == "shoal-syncer"]
        assert applied, path
        is_map = path.startswith(CONFIG_MAPS)
        found[path] = metadata["resourceVersion"] if is_map else (metadata["generation"], applied)
    return found


def test_the_hub_comes_back_empty(tmp_path: Path, member: Cluster) -> None:
    server = Server(tmp_path / "first")
    pair = Pair(Cluster(server, "root"), member)
    pair.register()
    pair.fill()
    before = str(pair.hub.get("/api/v1/namespaces/kube-system").ok()["metadata"]["uid"])
    pair.hub.close()
    server.stop()

    empty = Server(tmp_path / "second", port=server.port)
    pair.hub = Cluster(empty, "root")
    pair.register()
    said = pair.told("HubChanged")
    assert said["reason"] == "CopiesOfOthers"
    assert f"configmaps default/settings of hub {before}" in said["message"]
    pair.all_there()
    # What the new hub says about an object of that name is not about the copy that is there.
    path = f"{CONFIG_MAPS}/settings"
    pair.hub.post(CONFIG_MAPS, config_map("settings", {"a": "new"}, labels={ASSIGNED: pair.name})).ok()
    problem = pair.hub.eventually(
        lambda: (pair.hub.get(path)["metadata"].get("annotations") or {}).get(workloadcluster.PROBLEM_ANNOTATION)
    )
    assert "was not synced from this hub" in str(problem)
    assert member.get(path)["data"] == {"a": "1"}
    pair.hub.delete(path).ok()
    assert pair.hub.get(path).status == 404
    pair.all_there()

    # Unless somebody says that this hub is the other's heir.
    pair.hub.post(CONFIG_MAPS, config_map("settings", {"a": "new"}, labels={ASSIGNED: pair.name})).ok()
    heir = {"metadata": {"annotations": {workloadcluster.ADOPT_FROM_ANNOTATION: before}}}
    pair.hub.patch(f"{WORKLOAD_CLUSTERS}/{pair.name}", heir).ok()
    member.eventually(lambda: member.get(path)["data"] == {"a": "new"})
    pair.all_there()
    pair.hub.close()
    empty.stop()


def test_the_network_is_cut(server: Server, member: Cluster, clock: Hurried) -> None:
    proxy = Proxy(server.port)
    with own_hub(server, SETTINGS, clock) as hub:
        pair = Pair(hub, member)
        pair.register(port=proxy.port)
        pair.fill()
        proxy.cut()
        said = pair.told("HeartbeatHealthy", "False")
        assert said["reason"] == "WorkloadClusterUnreachable"
        assert pair.condition("Ready")["status"] == "False"
        pair.all_there()
        hub.patch(f"{CONFIG_MAPS}/settings", {"data": {"a": "2"}}).ok()
        proxy.mend()
        member.eventually(lambda: member.get(f"{CONFIG_MAPS}/settings")["data"] == {"a": "2"})
        pair.told("HeartbeatHealthy")
        pair.all_there()
    proxy.cut()


def test_a_syncer_that_does_not_see_everything_deletes_nothing(server: Server, member: Cluster, clock: Hurried) -> None:
    hub = make_hub(server)
    pair = Pair(hub, member)
    with hub_loops(server, hub, SETTINGS, clock):
        pair.register()
        pair.fill()
    # It was told to forget the ConfigMap while it was away, and now does not see who else may need it.
    with hub_loops(server, hub, SETTINGS, clock, lambda transport: Forgetful(transport, "/deployments")):
        said = "informers have not synced yet: deployments.apps"
        hub.eventually(lambda: pair.condition("SyncerReady", "False").get("message") == said)
        pair.still_synced()
    with hub_loops(server, hub, SETTINGS, clock):
        pair.told("SyncerReady")
        pair.still_synced()
    hub.close()


def test_a_definition_is_deleted_and_made_again(server: Server, member: Cluster, clock: Hurried) -> None:
    member.post(DEFINITIONS, widget_definition()).ok()
    with own_hub(server, SETTINGS, clock) as hub:
        pair = Pair(hub, member)
        # By hand, so that nobody makes it anew at once.
        hub.post(DEFINITIONS, widget_definition()).ok()
        pair.register()
        synced = f"{WORKLOAD_CLUSTERS}/{pair.name}"
        hub.eventually(lambda: "widgets.example.com" in hub.get(synced).ok()["status"]["syncedResources"])
        one = f"{WIDGETS}/one"
        hub.post(WIDGETS, widget("one", 3, labels={ASSIGNED: pair.name})).ok()
        pair.uids[one] = str(member.eventually(lambda: pair.uid_of(one)))
        hub.eventually(lambda: hub.get(one).ok()["metadata"].get("finalizers"))
        hub.delete(f"{DEFINITIONS}/widgets.example.com").ok()
        hub.eventually(lambda: hub.get(f"{DEFINITIONS}/widgets.example.com").status == 404 or _is_new(hub, one))
        assert "widgets.example.com default/one" in pair.told("Orphans")["message"]
        pair.all_there()
        hub.eventually(lambda: hub.post(DEFINITIONS, widget_definition()).status in (201, 409))
        made = widget("one", 4, labels={ASSIGNED: pair.name})
        hub.eventually(lambda: hub.post(WIDGETS, made).status == 201)
        member.eventually(lambda: member.get(one)["spec"]["size"] == 4)
        pair.all_there()


def _is_new(hub: Cluster, path: str) -> bool:
    """The kind is served, and the object is not there."""
    return hub.get(WIDGETS).status == 200 and hub.get(path).status == 404


def test_the_cluster_is_registered_under_another_name(server: Server, member: Cluster, clock: Hurried) -> None:
    with own_hub(server, SETTINGS, clock) as hub:
        pair = Pair(hub, member)
        pair.register("east")
        pair.fill()
        hub.delete(f"{WORKLOAD_CLUSTERS}/east").ok()
        hub.eventually(lambda: "finalizers" not in hub.get(f"{CONFIG_MAPS}/settings")["metadata"])
        pair.register("orient")
        said = pair.told("HubChanged")
        assert "configmaps default/settings made for east" in said["message"]
        pair.all_there()
        for path in (f"{CONFIG_MAPS}/settings", f"{DEPLOYMENTS}/web"):
            hub.patch(path, {"metadata": {"labels": {ASSIGNED: "orient"}}}).ok()
        pair.still_synced()
        hub.eventually(lambda: not pair.condition("HubChanged"))
        pair.all_there()


def test_twice_registered_neither_deletes_what_the_other_made(server: Server, member: Cluster, clock: Hurried) -> None:
    with own_hub(server, SETTINGS, clock) as hub:
        pair = Pair(hub, member)
        pair.register("east")
        pair.fill()
        pair.register("orient")
        assert "made for east" in pair.told("HubChanged")["message"]
        pair.still_synced()


@pytest.mark.parametrize("years", [10, -10])
def test_the_clock_jumps(server: Server, member: Cluster, years: int) -> None:
    clock = Hurried(1.0)
    with own_hub(server, SETTINGS, clock) as hub:
        pair = Pair(hub, member)
        pair.register()
        pair.fill()
        before = pair.condition("Ready")
        clock.jump = years * 365 * 86_400.0
        pair.still_synced()
        hub.post(DEPLOYMENTS, deployment("more", pair.name)).ok()
        member.eventually(lambda: member.get(f"{DEPLOYMENTS}/more").status == 200)
        assert pair.condition("Ready") == before
        pair.all_there()


def test_the_way_of_a_pull_syncer_to_its_hub_is_cut(world: World, clock: Hurried) -> None:
    proxy = Proxy(world.server.port)
    name = f"{world.namespace}-pulled"
    pair = Pair(world.hub, world.member(), name)
    token = identity(world, name)
    path = f"{world.path('configmaps')}/settings"
    with pull_syncer(world, name, pair.member, token, hub_port=proxy.port, clock=clock):
        pair.ready()
        world.hub.post(world.path("configmaps"), config_map("settings", {"a": "1"}, labels={ASSIGNED: name})).ok()
        pair.uids[path] = str(pair.member.eventually(lambda: pair.uid_of(path)))
        proxy.cut()
        world.hub.patch(path, {"data": {"a": "2"}}).ok()
        pair.all_there()
        proxy.mend()
        pair.member.eventually(lambda: pair.member.get(path)["data"] == {"a": "2"})
        pair.all_there()
    proxy.cut()
