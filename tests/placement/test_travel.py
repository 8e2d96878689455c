"""What travels with a workload into its clusters, with a splitter and syncers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.placement.synced_fleet import PLACEMENTS, Fleet, synced_fleet
from tests.serving import DEFINITIONS, Cluster, Server
from tests.sync.hub_cluster_pair import DEPLOYMENTS
from tests.sync.sync_environment import condition, deployment

Object = dict[str, Any]
AUTOSCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
CLUSTER_PLACEMENTS = "/apis/placement.shoal.dev/v1alpha1/clusterplacements"
CLASSES, VOLUMES = "/apis/scheduling.k8s.io/v1/priorityclasses", "/api/v1/persistentvolumes"
SERVICES = "/api/v1/namespaces/default/services"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
SCALED_OBJECTS = "/apis/keda.sh/v1/namespaces/default/scaledobjects"


@pytest.fixture(scope="module")
def fleet(server: Server) -> Iterator[Fleet]:
    resources = (
        *("deployments.apps", "horizontalpodautoscalers.autoscaling", "scaledobjects.keda.sh"),
        *("persistentvolumes", "priorityclasses.scheduling.k8s.io", "services", "poddisruptionbudgets.policy"),
        "ingresses.networking.k8s.io",
    )
    with synced_fleet(server, *resources) as given:
        for member in given.members.values():
            member.post(DEFINITIONS, scaled_object_definition()).ok()
        given.hub.eventually(lambda: given.hub.get(AUTOSCALERS).status == 200)
        given.hub.eventually(lambda: given.hub.get(SCALED_OBJECTS).status == 200)
        yield given


def scaled_object_definition() -> Object:
    names = {"kind": "ScaledObject", "listKind": "ScaledObjectList", "plural": "scaledobjects"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": "scaledobjects.keda.sh"},
        "spec": {"group": "keda.sh", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def autoscaler(name: str, api_version: str, kind: str, **spec: Any) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": target, **spec},
    }


def replicas(cluster: Cluster, name: str) -> int:
    found = cluster.get(f"{DEPLOYMENTS}/{name}")
    return int(found["spec"]["replicas"]) if found.status == 200 else -1


def test_an_autoscaler_of_the_hub_is_refused_only_by_clusters_that_cannot_scale(fleet: Fleet) -> None:
    hub = fleet.hub
    fleet.place("shop", "HorizontalPodAutoscaler")
    sent = autoscaler("shop", "autoscaling/v2", "HorizontalPodAutoscaler", maxReplicas=9)
    assert hub.post(AUTOSCALERS, sent).status == 201
    hub.eventually(lambda: hub.get(f"{AUTOSCALERS}/shop--east").status == 200)
    leaf = hub.get(f"{AUTOSCALERS}/shop--east")
    assert leaf["spec"]["scaleTargetRef"]["name"] == "shop--east", "the Deployment has that name there"

    def problem() -> str:
        annotations = hub.get(f"{AUTOSCALERS}/shop--east")["metadata"].get("annotations") or {}
        return str(annotations.get("workloads.kcp.dev/problem", ""))

    hub.eventually(problem)
    assert problem().startswith("east rejected it: HorizontalPodAutoscalers are not supported: pods on simulated nodes")


def test_replicas_that_an_autoscaler_of_a_cluster_sets_stay(fleet: Fleet) -> None:
    hub, east = fleet.hub, fleet.members["east"]
    hub.post(DEPLOYMENTS, deployment("auto", replicas=2)).ok()
    east.eventually(lambda: replicas(east, "auto--east") == 1)
    fleet.place("auto", "ScaledObject")
    hub.post(SCALED_OBJECTS, autoscaler("auto", "keda.sh/v1", "ScaledObject")).ok()
    east.eventually(lambda: east.get(f"{SCALED_OBJECTS}/auto").status == 200)
    east.patch(f"{DEPLOYMENTS}/auto--east/scale", {"spec": {"replicas": 3}}).ok()

    def change(replicas_of_root: int, turn: str) -> None:
        """A change of the hub arrives: whatever else was to be corrected is."""
        patch = {"spec": {"replicas": replicas_of_root, "template": {"metadata": {"labels": {"turn": turn}}}}}
        hub.patch(f"{DEPLOYMENTS}/auto", patch).ok()
        path = f"{DEPLOYMENTS}/auto--east"
        east.eventually(lambda: east.get(path)["spec"]["template"]["metadata"]["labels"].get("turn") == turn)

    change(4, "1")
    assert replicas(hub, "auto--east") == 2, "its share"
    assert replicas(east, "auto--east") == 3, "as the autoscaler set them"
    change(0, "2")
    assert replicas(east, "auto--east") == 0, "no replicas are wanted"
    change(4, "3")
    east.eventually(lambda: replicas(east, "auto--east") == 2)
    east.patch(f"{DEPLOYMENTS}/auto--east/scale", {"spec": {"replicas": 3}}).ok()
    change(4, "4")
    assert replicas(east, "auto--east") == 3
    hub.delete(f"{SCALED_OBJECTS}/auto").ok()
    east.eventually(lambda: replicas(east, "auto--east") == 2)


def test_cluster_scoped_objects_are_placed_by_a_cluster_placement_only(fleet: Fleet) -> None:
    hub, members = fleet.hub, fleet.members
    hub.eventually(lambda: hub.get(VOLUMES).status == 200)
    hub.post(CLASSES, {"metadata": {"name": "high"}, "value": 7}).ok()
    source = {"nfs": {"server": "nas", "path": "/"}, "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    hub.post(VOLUMES, {"metadata": {"name": "disk"}, "spec": source}).ok()
    fleet.place("high", "PriorityClass")
    message = hub.eventually(lambda: valid_message(hub, f"{PLACEMENTS}/high"))
    assert message == "PriorityClass cannot be placed: it is not namespaced; a ClusterPlacement can place it."
    assert all(member.get(f"{CLASSES}/high").status == 404 for member in members.values())

    selects = [{"kind": "PriorityClass", "name": "high"}, {"kind": "PersistentVolume"}]
    place_everywhere(hub, "all", selects, clusters={"names": ["east", "west"]})
    for name, member in members.items():
        for path in (f"{CLASSES}/high", f"{VOLUMES}/disk"):
            member.eventually(lambda member=member, path=path: member.get(path).status == 200)  # type: ignore[misc]
            assert member.get(path)["metadata"]["labels"]["workloads.kcp.dev/cluster"] == name
        member.eventually(lambda member=member: member.get(f"{VOLUMES}/disk")["status"].get("phase") == "Available")  # type: ignore[misc]
    assert {"high", "high--east", "high--west"} < {one["metadata"]["name"] for one in hub.get(CLASSES)["items"]}
    hub.eventually(lambda: (hub.get(f"{CLUSTER_PLACEMENTS}/all")["status"] or {}).get("placed") == 2)
    hub.patch(f"{CLUSTER_PLACEMENTS}/all", {"spec": {"clusters": {"names": ["east"]}}}).ok()
    for path in (f"{CLASSES}/high", f"{VOLUMES}/disk"):
        members["west"].eventually(lambda path=path: members["west"].get(path).status == 404)  # type: ignore[misc]
    assert members["east"].get(f"{VOLUMES}/disk").status == 200
    hub.delete(f"{CLASSES}/high").ok()
    members["east"].eventually(lambda: members["east"].get(f"{CLASSES}/high").status == 404)


def test_all_kinds_that_cannot_be_placed_are_named(fleet: Fleet) -> None:
    hub = fleet.hub
    fleet.place("many", "Lease", "Gadget", "Role", "ClusterRole", "Deployment")
    wanted = [
        "Lease cannot be placed: it belongs to one cluster",
        "The hub does not serve Gadget; no workload Cluster offers it yet",
        "Role cannot be placed: its leaves would grant rights on the hub; label it workloads.kcp.dev/cluster",
        "ClusterRole cannot be placed: its leaves would grant rights on the hub; label it workloads.kcp.dev/cluster",
    ]
    hub.eventually(lambda: valid_message(hub, f"{PLACEMENTS}/many") == "; ".join(wanted))
    place_everywhere(hub, "many", [{"kind": "Deployment"}, {"kind": "Namespace"}])
    both = (
        "Deployment cannot be placed: it is namespaced; a Placement in its namespace can place it; "
        "Namespace cannot be placed: it configures the hub itself"
    )
    hub.eventually(lambda: valid_message(hub, f"{CLUSTER_PLACEMENTS}/many") == both)


def valid_message(hub: Cluster, path: str) -> str:
    return condition_message(hub, path, "Valid")


def condition_message(hub: Cluster, path: str, kind: str) -> str:
    return str(condition(hub.get(path).ok(), kind).get("message", ""))


def condition_reason(hub: Cluster, path: str, kind: str) -> str:
    return str(condition(hub.get(path).ok(), kind).get("reason", ""))


def place_everywhere(hub: Cluster, name: str, selects: list[Object], **spec: Any) -> None:
    body = {"apiVersion": "placement.shoal.dev/v1alpha1", "kind": "ClusterPlacement", "metadata": {"name": name}}
    hub.post(CLUSTER_PLACEMENTS, {**body, "spec": {"selects": selects, **spec}}).ok()


def test_what_selects_a_placed_workload_follows_it(fleet: Fleet) -> None:
    hub, east, west = fleet.hub, fleet.members["east"], fleet.members["west"]
    hub.eventually(lambda: hub.get(SERVICES).status == 200)
    hub.eventually(lambda: hub.get(BUDGETS).status == 200)
    ports = [{"port": 80}]
    hub.post(SERVICES, {"metadata": {"name": "app"}, "spec": {"selector": {"app": "app"}, "ports": ports}}).ok()
    hub.post(SERVICES, {"metadata": {"name": "alien"}, "spec": {"selector": {"app": "alien"}, "ports": ports}}).ok()
    chosen = {"selector": {"matchLabels": {"app": "app"}}, "minAvailable": 1}
    hub.post(BUDGETS, {"metadata": {"name": "app"}, "spec": chosen}).ok()
    fleet.place("app", "Deployment", clusters={"names": ["east"]}, replicas={"strategy": "Duplicate"})
    hub.post(DEPLOYMENTS, deployment("app", replicas=1)).ok()
    both = "PodDisruptionBudget app selects pods of Deployment app; Service app selects pods of Deployment app"
    hub.eventually(lambda: condition_message(hub, f"{PLACEMENTS}/app", "LeftBehind") == both)
    wanted = (
        "It selects pods of Deployment app, placed in east, but stays on the hub. To place it there too, "
        "set spec.follow of Placement app, or label the namespace placement.shoal.dev/follow=true"
    )
    hub.eventually(lambda: wanted in event_messages(hub, "Service", "app"))
    assert east.get(f"{SERVICES}/app").status == 404

    hub.patch(f"{PLACEMENTS}/app", {"spec": {"follow": True}}).ok()
    for path in (f"{SERVICES}/app", f"{BUDGETS}/app"):
        east.eventually(lambda path=path: east.get(path).status == 200)  # type: ignore[misc]
    hub.eventually(lambda: condition_reason(hub, f"{PLACEMENTS}/app", "LeftBehind") == "NothingLeftBehind")
    assert [west.get(f"{plural}/app").status for plural in (SERVICES, BUDGETS)] == [404, 404]

    # They go where it goes, even to a cluster that takes nothing new.
    cluster = "/apis/workload.kcp.dev/v1alpha1/clusters/west"
    hub.patch(f"{PLACEMENTS}/app", {"spec": {"clusters": {"names": ["east", "west"]}}}).ok()
    west.eventually(lambda: west.get(f"{SERVICES}/app").status == 200)
    hub.patch(cluster, {"spec": {"unschedulable": True}}).ok()
    hub.post(SERVICES, {"metadata": {"name": "late"}, "spec": {"selector": {"app": "app"}, "ports": ports}}).ok()
    west.eventually(lambda: west.get(f"{SERVICES}/late").status == 200)
    hub.patch(cluster, {"spec": {"unschedulable": False}}).ok()
    hub.patch(f"{PLACEMENTS}/app", {"spec": {"clusters": {"names": ["west"]}}}).ok()
    east.eventually(lambda: east.get(f"{SERVICES}/app").status == 404)
    assert west.get(f"{SERVICES}/app").status == 200

    hub.patch(f"{SERVICES}/late", {"metadata": {"labels": {"placement.shoal.dev/follow": "false"}}}).ok()
    west.eventually(lambda: west.get(f"{SERVICES}/late").status == 404)
    hub.delete(f"{DEPLOYMENTS}/app").ok()
    west.eventually(lambda: west.get(f"{BUDGETS}/app").status == 404)
    names = {"app", "late", "alien"}
    hub.eventually(lambda: {one["metadata"]["name"] for one in hub.get(SERVICES)["items"]} == names)


def test_a_namespace_places_the_whole_application(fleet: Fleet) -> None:
    hub, east = fleet.hub, fleet.members["east"]
    hub.eventually(lambda: hub.get(INGRESSES).status == 200)
    service = {"selector": {"app": "whole"}, "ports": [{"port": 80}]}
    hub.post(SERVICES, {"metadata": {"name": "whole"}, "spec": service}).ok()
    backend = {"service": {"name": "whole", "port": {"number": 80}}}
    hub.post(INGRESSES, {"metadata": {"name": "whole"}, "spec": {"defaultBackend": backend}}).ok()
    hub.post(DEPLOYMENTS, deployment("whole", replicas=2)).ok()
    wanted = (
        "It selects pods of Deployment whole, placed in east, west, but stays on the hub. "
        "To place it there too, label the namespace placement.shoal.dev/follow=true"
    )
    hub.eventually(lambda: wanted in event_messages(hub, "Service", "whole"))
    namespace = "/api/v1/namespaces/default"
    hub.patch(namespace, {"metadata": {"labels": {"placement.shoal.dev/follow": "true"}}}).ok()
    for member in fleet.members.values():
        for plural in (SERVICES, INGRESSES):
            member.eventually(lambda member=member, plural=plural: member.get(f"{plural}/whole").status == 200)  # type: ignore[misc]
    assert hub.get(f"{SERVICES}/whole--east")["metadata"]["labels"]["kcp.dev/owned-by"] == "whole"
    hub.patch(namespace, {"metadata": {"labels": {"placement.shoal.dev/follow": None}}}).ok()
    for plural in (SERVICES, INGRESSES):
        east.eventually(lambda plural=plural: east.get(f"{plural}/whole").status == 404)  # type: ignore[misc]
    assert replicas(east, "whole--east") == 1


def event_messages(hub: Cluster, kind: str, name: str) -> set[str]:
    events = hub.get("/api/v1/namespaces/default/events").ok()["items"]
    return {
        one["message"]
        for one in events
        if (one["involvedObject"]["kind"], one["involvedObject"]["name"]) == (kind, name)
    }
