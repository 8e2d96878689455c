"""Events recorded on status changes, and the objects they are about."""

from __future__ import annotations

from typing import Any

from shoal.capi.controllers import MACHINE_EVENT_RULE
from shoal.fleet.controllers import MANAGED_CLUSTER_EVENTS
from shoal.placement.splitter.events import PLACEMENT_EVENTS as ABOUT_PLACEMENTS
from shoal.placement.splitter.events import placed_message
from shoal.placement.splitter.leaf_changes import LeafChanges
from shoal.runtime.status_events.decide import NORMAL, WARNING, EventRule, StatusEvent, events_between, status_snapshot
from shoal.sync.controllers import CLUSTER_EVENT_RULE
from tests.serving import Cluster, Server
from tests.sync.sync_environment import World

Object = dict[str, Any]


def obj(phase: str = "", worker: str = "", **conditions: tuple[str, str, str]) -> Object:
    listed = [
        {"type": type_, "status": status, "reason": reason, "message": message}
        for type_, (status, reason, message) in conditions.items()
    ]
    return {"status": {"phase": phase, "assignedWorker": worker, "conditions": listed}}


def told(before: Object, now: Object, telling: EventRule) -> list[StatusEvent]:
    return list(events_between(status_snapshot(before, telling), status_snapshot(now, telling), telling))


def test_a_cluster_that_waits_is_told_why_then_where_it_went() -> None:
    waits = obj("Pending", Scheduled=("False", "NoRoom", "0 of 2 Workers fit"))
    assert told(obj(), waits, MANAGED_CLUSTER_EVENTS) == [
        StatusEvent(WARNING, "NoRoom", "Scheduled is False: 0 of 2 Workers fit")
    ]
    given = obj("Scheduled", "w1", Scheduled=("True", "Bound", "to w1"), Ready=("False", "Provisioning", ""))
    assert told(waits, given, MANAGED_CLUSTER_EVENTS) == [
        StatusEvent(NORMAL, "Assigned", "assignedWorker: w1"),
        StatusEvent(NORMAL, "Bound", "Scheduled is True: to w1"),
    ]
    ready = obj("Running", "w1", Scheduled=("True", "Bound", "to w1"), Ready=("True", "Running", ""))
    assert told(given, ready, MANAGED_CLUSTER_EVENTS) == [StatusEvent(NORMAL, "Running", "Ready is True")]
    assert told(ready, ready, MANAGED_CLUSTER_EVENTS) == []
    silent = obj("Unknown", "w1", Scheduled=("True", "Bound", "to w1"), Ready=("Unknown", "Silent", "no heartbeat"))
    assert told(ready, silent, MANAGED_CLUSTER_EVENTS) == [
        StatusEvent(WARNING, "Silent", "Ready is Unknown: no heartbeat")
    ]
    moved = obj("Running", "w2", Scheduled=("True", "Bound", "to w1"), Ready=("True", "Running", ""))
    assert told(ready, moved, MANAGED_CLUSTER_EVENTS) == [
        StatusEvent(NORMAL, "Assigned", "assignedWorker: from w1 to w2")
    ]
    moving = obj("Running", "w2", Moving=("True", "Restoring", "from worker w1 to w2"))
    arrived = obj("Running", "w2", Moving=("False", "Moved", "from worker w1 to w2"))
    assert told(moving, arrived, MANAGED_CLUSTER_EVENTS) == [
        StatusEvent(NORMAL, "Moved", "Moving is False: from worker w1 to w2")
    ]
    given_up = obj("Running", "w2", Moving=("False", "TookTooLong", "after 300 s"))
    assert [each.type for each in told(moving, given_up, MANAGED_CLUSTER_EVENTS)] == [WARNING]


def test_a_condition_that_is_bad_while_it_is_true() -> None:
    held = obj(DeletionsHeld=("True", "Guard", "3 objects"))
    assert told(obj(), held, CLUSTER_EVENT_RULE) == [StatusEvent(WARNING, "Guard", "DeletionsHeld is True: 3 objects")]
    let_go = obj(DeletionsHeld=("False", "Allowed", ""))
    assert told(held, let_go, CLUSTER_EVENT_RULE) == [StatusEvent(NORMAL, "Allowed", "DeletionsHeld is False")]
    never = obj(Superseded=("False", "NotSuperseded", ""))
    assert told(obj(), never, ABOUT_PLACEMENTS) == []


def test_phases_that_matter_are_told() -> None:
    assert told(obj("Provisioning"), obj("Provisioned"), MACHINE_EVENT_RULE) == []
    running = StatusEvent(NORMAL, "Running", "phase changed from Provisioned to Running")
    assert told(obj("Provisioned"), obj("Running"), MACHINE_EVENT_RULE) == [running]
    assert told(obj("Running"), obj("Failed"), MACHINE_EVENT_RULE)[0].type == WARNING


def test_where_replicas_went_is_one_sentence() -> None:
    def leaf(cluster: str, replicas: int) -> Object:
        return {"metadata": {"labels": {"workloads.kcp.dev/cluster": cluster}}, "spec": {"replicas": replicas}}

    split = LeafChanges.__new__(LeafChanges)
    for name, value in (("create", (leaf("east", 3),)), ("update", (leaf("west", 2),)), ("delete", (leaf("old", 1),))):
        object.__setattr__(split, name, value)
    assert placed_message(split) == "east: 3, west: 2, removed from old"


def test_events_of_a_placed_deployment_and_its_cluster(server: Server) -> None:
    world = World(server)
    member = world.member()
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "100"}
    node = {"metadata": {"name": "n1", "labels": {"shoal.dev/simulated": "true"}}, "status": {"capacity": capacity}}
    member.post("/api/v1/nodes", node).ok()
    name = world.register(member)
    body = {"metadata": {"name": "web", "labels": {"app": "web"}}, "apiVersion": "apps/v1", "kind": "Deployment"}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    world.hub.post(world.path(), {**body, "spec": spec}).ok()

    def messages(hub: Cluster, namespace: str, about: str, reason: str) -> list[str]:
        found = hub.get(f"/api/v1/namespaces/{namespace}/events").ok()["items"]
        return [one["message"] for one in found if one["involvedObject"]["name"] == about and one["reason"] == reason]

    said = world.hub.eventually(lambda: messages(world.hub, world.namespace, "web", "Placed"))
    assert any(f"{name}: " in message for message in said)
    ready = world.hub.eventually(
        lambda: [
            one
            for one in world.hub.get("/api/v1/namespaces/default/events").ok()["items"]
            if one["involvedObject"]["name"] == name and one["message"].startswith("Ready is True")
        ]
    )
    assert (ready[0]["involvedObject"]["kind"], ready[0]["type"]) == ("Cluster", "Normal")
    world.close()
