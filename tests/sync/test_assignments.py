"""Objects that users assign to a cluster that does not exist, or that does not take their kind, say so."""

from __future__ import annotations

from shoal.sync.controllers import SyncSettings
from tests.serving import DEFINITIONS, WIDGETS, Cluster, Server, config_map, fresh_cluster, widget, widget_definition
from tests.sync.hub_cluster_pair import ASSIGNED, CONFIG_MAPS
from tests.sync.hub_server import own_hub
from tests.sync.test_apis import ready, register

EVENTS = "/api/v1/namespaces/default/events"


def problem(hub: Cluster, path: str) -> str:
    annotations = hub.get(path).ok()["metadata"].get("annotations") or {}
    return str(annotations.get("workloads.kcp.dev/problem", ""))


def test_an_assignment_that_cannot_be_followed_is_reported_until_it_can(server: Server) -> None:
    with own_hub(server, SyncSettings(("widgets.example.com",))) as hub:
        east, west = (fresh_cluster(server, profile="cluster") for _ in range(2))
        east.post(DEFINITIONS, widget_definition()).ok()
        for name, member in (("east", east), ("west", west)):
            register(hub, member, name)
            ready(hub, name)
        hub.eventually(lambda: hub.get(WIDGETS).status == 200)
        for name in ("east", "west"):
            hub.post(WIDGETS, widget(name, labels={ASSIGNED: name})).ok()
        hub.post(CONFIG_MAPS, config_map("lost", {}, labels={ASSIGNED: "nowhere"})).ok()
        hub.eventually(lambda: problem(hub, f"{CONFIG_MAPS}/lost") == "workload Cluster nowhere does not exist")
        refused = "workload Cluster west does not serve widgets.example.com v1"
        hub.eventually(lambda: problem(hub, f"{WIDGETS}/west") == refused)
        hub.eventually(lambda: {refused} <= {event["message"] for event in hub.get(EVENTS).ok()["items"]})
        east.eventually(lambda: east.get(f"{WIDGETS}/east").status == 200)
        assert not problem(hub, f"{WIDGETS}/east")

        west.post(DEFINITIONS, widget_definition()).ok()
        west.eventually(lambda: west.get(f"{WIDGETS}/west").status == 200)
        hub.eventually(lambda: not problem(hub, f"{WIDGETS}/west"))
        hub.patch(f"{CONFIG_MAPS}/lost", {"metadata": {"labels": {ASSIGNED: None}}}).ok()
        hub.eventually(lambda: not problem(hub, f"{CONFIG_MAPS}/lost"))
    for member in (east, west):
        member.close()


def test_what_leaves_a_cluster_that_dropped_its_kind_is_not_held(server: Server) -> None:
    with own_hub(server, SyncSettings(("widgets.example.com",))) as hub:
        members = {name: fresh_cluster(server, profile="cluster") for name in ("east", "north", "west")}
        for name, member in members.items():
            member.post(DEFINITIONS, widget_definition()).ok()
            register(hub, member, name)
            ready(hub, name)
        hub.eventually(lambda: hub.get(WIDGETS).status == 200)
        for name in members:
            hub.post(WIDGETS, widget(name, labels={ASSIGNED: name})).ok()
        hub.eventually(lambda: all(each.get(f"{WIDGETS}/{name}").status == 200 for name, each in members.items()))

        members["west"].delete(f"{DEFINITIONS}/widgets.example.com").ok()
        refused = "workload Cluster west does not serve widgets.example.com v1"
        hub.eventually(lambda: problem(hub, f"{WIDGETS}/west") == refused)
        hub.delete(f"{WIDGETS}/west").ok()
        hub.eventually(lambda: hub.get(f"{WIDGETS}/west").status == 404)

        # Its copy is still there, and is deleted though the schemas do not agree any more.
        narrow = widget_definition()
        del narrow["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["color"]
        members["north"].patch(f"{DEFINITIONS}/widgets.example.com", {"spec": narrow["spec"]}).ok()
        refused = "workload Cluster north serves widgets.example.com v1 with an incompatible schema"
        hub.eventually(lambda: problem(hub, f"{WIDGETS}/north").startswith(refused))
        hub.delete(f"{WIDGETS}/north").ok()
        hub.eventually(lambda: hub.get(f"{WIDGETS}/north").status == 404)
        assert members["north"].get(f"{WIDGETS}/north").status == 404
        assert members["east"].get(f"{WIDGETS}/east").status == 200
    for member in members.values():
        member.close()
