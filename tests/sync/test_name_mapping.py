"""Objects with another downstream name than on the hub: `placement.shoal.dev/downstream-name`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from shoal.kinds.workload import workloadcluster
from shoal.sync.controllers import SyncSettings
from shoal.sync.syncer.decide import SyncPlan, SyncTarget, downstream_object, plan_dependency, plan_sync
from shoal.sync.syncer.transform import NEEDED_BY, SYNCED_FROM, SYNCED_NAME, downstream_name, hub_name
from tests.serving import Cluster, Server, config_map, fresh_cluster
from tests.sync.hub_cluster_pair import ASSIGNED, CONFIG_MAPS, DEPLOYMENTS, Pair, with_config
from tests.sync.hub_server import Hurried, hub_loops, make_hub
from tests.sync.pull_mode import identity, pull_syncer
from tests.sync.sync_environment import Object, World, condition, deployment
from tests.sync.test_sync_end_to_end import PROBLEM, gone, there

CALLED = "placement.shoal.dev/downstream-name"
SETTINGS = SyncSettings(("deployments.apps", "configmaps"))


def leaf(name: str, cluster: str, called: str, value: str = "1") -> Object:
    return config_map(name, {"a": value}, labels={ASSIGNED: cluster}, annotations={CALLED: called})


def problem_of(hub: Cluster, path: str) -> str:
    found = hub.eventually(lambda: (hub.get(path)["metadata"].get("annotations") or {}).get(PROBLEM))
    return str(found)


# --- decisions ---

TARGET = SyncTarget("east", "hub-1", "v1", "ConfigMap", has_status=False, plural="configmaps", name="settings")


def on_hub(name: str = "settings--east", uid: str = "h-1", **metadata: Any) -> Object:
    made = leaf(name, "east", "settings")
    held = ["workloads.kcp.dev/syncer-east"]
    made["metadata"] |= {"uid": uid, "namespace": "default", "finalizers": held, **metadata}
    return made


def copied(target: SyncTarget, obj: Object, needed_by: str = "") -> Object:
    made = downstream_object(target, obj, needed_by)
    return {**made, "metadata": {**made["metadata"], "uid": "c-1"}}


def test_a_copy_says_whose_it_is() -> None:
    made = downstream_object(TARGET, on_hub())
    assert made["metadata"]["name"] == "settings"
    assert made["metadata"]["annotations"][SYNCED_NAME] == "settings--east"
    assert CALLED not in made["metadata"]["annotations"]
    assert hub_name(made) == "settings--east"
    root = config_map("settings", annotations={CALLED: "other"})
    assert downstream_name(root) == "settings", "only what is meant for a cluster is called otherwise there"
    assert hub_name(downstream_object(TARGET, root | {"metadata": {**root["metadata"], "uid": "r"}})) == "settings"


ROOT = {"metadata": {"name": "settings", "namespace": "default", "uid": "r-1"}, "data": {"a": "1"}}
ANOTHER = copied(TARGET, on_hub("other--east", "h-2"))
NEEDED = copied(TARGET, ROOT, "deployments.apps")
THEIRS = {"metadata": {"name": "settings", "uid": "x-1"}}
FORCED: Object = {"annotations": {CALLED: "settings", workloadcluster.FORCE_ANNOTATION: "true"}}
RIVAL = "east has the copy of other--east under the name settings"


@pytest.mark.parametrize(
    ("obj", "copy", "wanted"),
    [
        (on_hub(), None, SyncPlan(apply=downstream_object(TARGET, on_hub()))),
        (on_hub(), copied(TARGET, on_hub()), SyncPlan()),
        (on_hub(), ANOTHER, SyncPlan(problem=RIVAL, name_conflict=True)),
        (on_hub(**FORCED), ANOTHER, SyncPlan(problem=RIVAL, name_conflict=True)),
        (on_hub(deletionTimestamp="now"), ANOTHER, SyncPlan(remove_finalizer=True)),
        (on_hub(deletionTimestamp="now"), copied(TARGET, on_hub()), SyncPlan(delete="c-1")),
        # What is there for others' sake only gives way to what is meant for the cluster.
        (on_hub(), NEEDED, SyncPlan(apply=downstream_object(TARGET, on_hub()))),
        (on_hub(**FORCED), THEIRS, SyncPlan(apply=downstream_object(TARGET, on_hub(**FORCED)))),
    ],
)
def test_a_name_is_given_once(obj: Object, copy: Object | None, wanted: SyncPlan) -> None:
    assert plan_sync(TARGET, obj, copy) == wanted


def test_what_is_needed_may_be_there_by_itself() -> None:
    assert plan_dependency(TARGET, ROOT, copied(TARGET, on_hub()), {"deployments.apps"}) == SyncPlan()
    assert plan_dependency(TARGET, ROOT, NEEDED, {"deployments.apps"}) == SyncPlan()
    refused = plan_sync(TARGET, on_hub(), THEIRS).problem
    assert refused.startswith("east has an object named settings that was not synced from this hub; ")


# --- between servers ---


@pytest.mark.parametrize("pull", [False, True])
def test_it_has_that_name_there_and_all_else_is_as_ever(world: World, pull: bool) -> None:
    member, hub = world.member(), world.hub
    name = f"{world.namespace}-pulled" if pull else world.register(member)
    maps = world.path("configmaps")
    with pull_syncer(world, name, member, identity(world, name)) if pull else nullcontext():
        world.ready(name)
        hub.post(maps, leaf("settings--x", name, "settings")).ok()
        first = there(member, f"{maps}/settings")
        assert first["metadata"]["annotations"][SYNCED_NAME] == "settings--x"
        assert CALLED not in first["metadata"]["annotations"]
        # What is changed or deleted there comes back; what is changed here goes there.
        member.patch(f"{maps}/settings", {"data": {"a": "theirs"}}).ok()
        member.eventually(lambda: member.get(f"{maps}/settings")["data"] == {"a": "1"})
        hub.patch(f"{maps}/settings--x", {"data": {"a": "2"}}).ok()
        member.eventually(lambda: member.get(f"{maps}/settings")["data"] == {"a": "2"})
        member.delete(f"{maps}/settings").ok()
        there(member, f"{maps}/settings", unlike=first["metadata"]["uid"])
        # A status finds its way.
        web = deployment("web--x", name)
        web["metadata"]["annotations"] = {CALLED: "web"}
        hub.post(world.path(), web).ok()
        there(member, f"{world.path()}/web")
        hub.eventually(lambda: (hub.get(f"{world.path()}/web--x").ok().get("status") or {}).get("unavailableReplicas"))
        stuck = "workloads.kcp.dev/unschedulable"
        hub.eventually(lambda: hub.get(f"{world.path()}/web--x")["metadata"]["annotations"].get(stuck) == "1")
        for path in (f"{world.path()}/web--x", f"{maps}/settings--x"):
            hub.delete(path).ok()
            gone(hub, path)
        gone(member, f"{maps}/settings")
        gone(member, f"{world.path()}/web")
        assert {one["metadata"]["name"] for one in member.get(maps).ok()["items"]} <= {"kube-root-ca.crt"}


def test_a_name_that_is_taken_is_told_and_had_when_it_is_free(world: World) -> None:
    member, hub = world.member(), world.hub
    name = world.register(member)
    maps = world.path("configmaps")
    hub.post(maps, leaf("first", name, "settings", "first")).ok()
    uid = there(member, f"{maps}/settings")["metadata"]["uid"]
    hub.post(maps, leaf("second", name, "settings", "second")).ok()
    said = f"{name} has the copy of first under the name settings"
    assert problem_of(hub, f"{maps}/second") == said
    assert f"configmaps {world.namespace}/second: {said}" in world.told(name, "NotSynced")["message"]
    reasons = hub.eventually(lambda: [event["reason"] for event in hub.get(world.path("events")).ok()["items"]])
    assert "NotSynced" in reasons
    found = member.get(f"{maps}/settings").ok()
    assert (found["data"], found["metadata"]["uid"]) == ({"a": "first"}, uid)
    hub.delete(f"{maps}/first").ok()
    member.eventually(lambda: member.get(f"{maps}/settings").json.get("data") == {"a": "second"})
    hub.eventually(lambda: PROBLEM not in hub.get(f"{maps}/second")["metadata"]["annotations"])
    hub.eventually(lambda: not condition(world.cluster(name), "NotSynced"))
    # What the cluster has by itself is not touched either.
    member.post(maps, config_map("own", {"a": "theirs"})).ok()
    hub.post(maps, leaf("third", name, "own")).ok()
    assert problem_of(hub, f"{maps}/third").startswith(f"{name} has an object named own that was not synced from")
    hub.delete(f"{maps}/third").ok()
    gone(hub, f"{maps}/third")
    assert member.get(f"{maps}/own")["data"] == {"a": "theirs"}


def test_what_is_needed_and_what_is_meant_by_one_name(world: World) -> None:
    """The root of a leaf is named by a pod template, as it always is: the leaf is what is there."""
    member, hub = world.member(), world.hub
    name = world.register(member)
    maps = world.path("configmaps")
    hub.post(maps, config_map("settings", {"a": "root"})).ok()
    hub.post(world.path(), with_config("web", name, "settings")).ok()
    first = there(member, f"{maps}/settings")
    assert (first["data"], NEEDED_BY in first["metadata"]["annotations"]) == ({"a": "root"}, True)
    hub.post(maps, leaf("settings--x", name, "settings", "leaf")).ok()
    member.eventually(lambda: member.get(f"{maps}/settings")["data"] == {"a": "leaf"})
    now = member.get(f"{maps}/settings").ok()["metadata"]
    assert (now["uid"], NEEDED_BY in now["annotations"]) == (first["metadata"]["uid"], False)
    hub.patch(f"{maps}/settings", {"data": {"b": "2"}}).ok()  # the root says something else, and its copy is not here
    hub.patch(f"{maps}/settings--x", {"data": {"a": "again"}}).ok()
    member.eventually(lambda: member.get(f"{maps}/settings")["data"] == {"a": "again"})
    hub.delete(f"{maps}/settings--x").ok()
    gone(hub, f"{maps}/settings--x")
    member.eventually(lambda: member.get(f"{maps}/settings").json.get("data") == {"a": "root", "b": "2"})


def test_a_syncer_that_starts_again_knows_them(server: Server) -> None:
    member = fresh_cluster(server, profile="cluster")
    hub = make_hub(server)
    pair, clock = Pair(hub, member), Hurried()
    settings, plain = f"{CONFIG_MAPS}/settings", f"{CONFIG_MAPS}/plain"
    with hub_loops(server, hub, SETTINGS, clock):
        pair.register()
        hub.post(CONFIG_MAPS, leaf("settings--x", pair.name, "settings")).ok()
        hub.post(CONFIG_MAPS, leaf("lost", pair.name, "kept")).ok()
        hub.post(CONFIG_MAPS, config_map("plain", {"a": "1"}, labels={ASSIGNED: pair.name})).ok()
        hub.post(DEPLOYMENTS, deployment("web", pair.name)).ok()
        for path in (settings, plain, f"{CONFIG_MAPS}/kept", f"{DEPLOYMENTS}/web"):
            pair.uids[path] = str(member.eventually(lambda path=path: pair.uid_of(path)))  # type: ignore[misc]
        held = [workloadcluster.syncer_finalizer(pair.name)]
        hub.eventually(lambda: hub.get(f"{CONFIG_MAPS}/lost")["metadata"].get("finalizers") == held)
    # While nobody looks, one goes without a word, one is told to be called otherwise, one is changed.
    hub.patch(f"{CONFIG_MAPS}/lost", {"metadata": {"finalizers": None}}).ok()
    hub.delete(f"{CONFIG_MAPS}/lost").ok()
    hub.patch(plain, {"metadata": {"annotations": {CALLED: "renamed"}}}).ok()
    hub.patch(f"{CONFIG_MAPS}/settings--x", {"data": {"a": "2"}}).ok()
    with hub_loops(server, hub, SETTINGS, clock):
        member.eventually(lambda: member.get(settings)["data"] == {"a": "2"})
        assert pair.told("Orphans")["message"].endswith(": configmaps default/lost")
        hub.patch(plain, {"data": {"a": "2"}}).ok()
        member.eventually(lambda: member.get(plain)["data"] == {"a": "2"})
        pair.all_there()
        assert member.get(f"{CONFIG_MAPS}/renamed").status == 404, "a copy keeps the name it was made with"
        origin = member.get(settings)["metadata"]["annotations"][SYNCED_FROM]
        assert origin.endswith(hub.get(f"{CONFIG_MAPS}/settings--x")["metadata"]["uid"])
        for each, copy in (("settings--x", settings), ("plain", plain)):
            hub.delete(f"{CONFIG_MAPS}/{each}").ok()
            gone(hub, f"{CONFIG_MAPS}/{each}")
            gone(member, copy)
    hub.close()
    member.close()
