"""Imports, their negotiation and the APIs the hub serves for them, against the real server."""

from __future__ import annotations

from shoal.assemble.storage.datadir import render_kubeconfig
from shoal.kinds.apiextensions.openapi_import import schema_digest
from shoal.sync.controllers import SyncSettings
from tests.serving import DEFINITIONS, WIDGETS, Cluster, Server, fresh_cluster, widget, widget_definition
from tests.sync.hub_server import own_hub
from tests.sync.sync_environment import (
    IMPORTS,
    NEGOTIATED,
    SCHEMAS,
    WORKLOAD_CLUSTERS,
    Object,
    World,
    condition,
    deployment,
    workload_cluster,
)
from tests.sync.test_negotiated_builtins import own_schema

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def register(hub: Cluster, member: Cluster, name: str) -> None:
    url = f"https://127.0.0.1:{hub.server.port}{member.prefix}"
    text = render_kubeconfig(url, hub.server.authority, hub.server.token)
    hub.post(WORKLOAD_CLUSTERS, workload_cluster(name, {"kubeconfig": text})).ok()


def ready(hub: Cluster, name: str) -> Object:
    hub.eventually(lambda: condition(hub.get(f"{WORKLOAD_CLUSTERS}/{name}").json, "Ready").get("status") == "True")
    found: Object = hub.get(f"{WORKLOAD_CLUSTERS}/{name}").json
    return found


def row(hub: Cluster, path: str) -> list[object]:
    """The first, as kubectl shows it."""
    cells: list[object] = hub.get(path, Accept=TABLE).ok()["rows"][0]["cells"]
    return cells


def synced(hub: Cluster, path: str, resource: str) -> None:
    hub.eventually(lambda: resource in hub.get(path).ok()["status"]["syncedResources"])


def told(hub: Cluster, path: str, kind: str, status: str) -> Object:
    def look() -> Object:
        found = hub.get(path)
        told = condition(found.json, kind) if found.status == 200 else {}
        return told if told.get("status") == status else {}

    return hub.eventually(look)


def test_a_kind_kubernetes_knows_is_learned_as_the_built_in_it_is(server: Server) -> None:
    with own_hub(server, SyncSettings()) as hub:
        assert hub.get(DEPLOYMENTS).status == 404
        member = fresh_cluster(server, profile="cluster")
        register(hub, member, "east")
        assert ready(hub, "east")["status"]["syncedResources"] == [
            *("configmaps", "deployments.apps", "persistentvolumeclaims", "secrets", "serviceaccounts", "services")
        ]
        offered = hub.get(f"{IMPORTS}/deployments.east.v1.apps").ok()
        assert condition(offered, "Compatible")["status"] == condition(offered, "Available")["status"] == "True"
        assert offered["spec"]["subResources"] == [{"name": "scale"}, {"name": "status"}]
        assert offered["metadata"]["annotations"] == {"apiresource.kcp.dev/apiVersion": "apps/v1"}
        # A cluster of Shoal has what the hub has: there is nothing to restrict.
        assert offered["spec"]["schemaDigest"] == schema_digest(own_schema("apps", "Deployment"))
        agreed = hub.get(f"{NEGOTIATED}/deployments.v1.apps").ok()
        assert [condition(agreed, kind)["status"] for kind in ("Submitted", "Published", "Enforced")] == [
            "True",
            "True",
            "False",
        ]
        assert "description" not in agreed["spec"]["openAPIV3Schema"]["properties"]["spec"]

        made = hub.post(DEPLOYMENTS, deployment("web")).ok()
        assert made["spec"]["strategy"]["type"] == "RollingUpdate"
        container = {"name": "web", "env": [{"name": "A", "value": "1"}]}
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
        patched = hub.patch(f"{DEPLOYMENTS}/web", patch, kind="strategic-merge").ok()
        assert patched["spec"]["template"]["spec"]["containers"][0]["image"] == "web:1"
        assert hub.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 7}}).ok()["spec"]["replicas"] == 7
        table = hub.get(DEPLOYMENTS, Accept=TABLE).ok()
        assert [column["name"] for column in table["columnDefinitions"]][:3] == ["Name", "Ready", "Up-to-date"]
        assert hub.get(DEPLOYMENTS, Accept="application/vnd.kubernetes.protobuf").body[:4] == b"k8s\0"
        assert "io.k8s.api.apps.v1.Deployment" in hub.get("/openapi/v3/apis/apps/v1").ok()["components"]["schemas"]
        assert hub.get("/apis/apps/v1/namespaces/default/statefulsets").status == 404

        assert row(hub, WORKLOAD_CLUSTERS)[:3] == ["east", "True", "WorkloadClusterReady"]
        assert row(hub, IMPORTS)[:6] == ["deployments.east.v1.apps", "east", "apps/v1", "deployments", "True", "True"]
        assert row(hub, NEGOTIATED)[:6] == ["deployments.v1.apps", True, "apps/v1", "deployments", "True", "False"]
        assert "deployments.v1.apps" in {each["spec"]["firstFor"] for each in hub.get(SCHEMAS).ok()["items"]}

        # No cluster offers it any more: it stays as long as there are objects of it.
        hub.delete(f"{WORKLOAD_CLUSTERS}/east").ok()
        hub.eventually(lambda: hub.get(IMPORTS).ok()["items"] == [])
        assert hub.get(f"{DEPLOYMENTS}/web").status == 200
        hub.delete(f"{DEPLOYMENTS}/web").ok()
        hub.eventually(lambda: hub.get(NEGOTIATED).ok()["items"] == [])
        hub.eventually(lambda: hub.get(SCHEMAS).ok()["items"] == [])
        assert hub.get(DEPLOYMENTS).status == 404
        assert "apps" not in {group["name"] for group in hub.get("/apis").ok()["groups"]}
        member.close()


def test_a_kind_kubernetes_does_not_know_becomes_a_definition(server: Server) -> None:
    with own_hub(server, SyncSettings(resources_to_sync=("widgets.example.com",))) as hub:
        member = fresh_cluster(server, profile="cluster")
        member.post(DEFINITIONS, widget_definition()).ok()
        register(hub, member, "east")
        assert "widgets.example.com" in ready(hub, "east")["status"]["syncedResources"]
        definition = hub.get(f"{DEFINITIONS}/widgets.example.com").ok()
        assert definition["spec"]["names"]["shortNames"] == ["wd"]
        assert set(definition["spec"]["versions"][0]["subresources"]) == {"status", "scale"}
        hub.post(WIDGETS, widget("one", 3, labels={"workloads.kcp.dev/cluster": "east"})).ok()
        member.eventually(lambda: member.get(f"{WIDGETS}/one").status == 200)
        member.patch(f"{WIDGETS}/one/status", {"status": {"parts": 4}}).ok()
        hub.eventually(lambda: hub.get(f"{WIDGETS}/one").ok().get("status") == {"parts": 4})
        hub.delete(f"{WIDGETS}/one").ok()
        hub.eventually(lambda: hub.get(f"{WIDGETS}/one").status == 404)
        assert member.get(f"{WIDGETS}/one").status == 404
        hub.delete(f"{WORKLOAD_CLUSTERS}/east").ok()
        hub.eventually(lambda: hub.get(f"{DEFINITIONS}/widgets.example.com").status == 404)
        member.close()


def test_a_cluster_whose_schema_does_not_fit_is_told_which_field(server: Server) -> None:
    with own_hub(server, SyncSettings(resources_to_sync=("widgets.example.com",))) as hub:
        east, west, north = (fresh_cluster(server, profile="cluster") for _ in range(3))
        narrow = widget_definition()
        del narrow["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["color"]
        east.post(DEFINITIONS, widget_definition()).ok()
        west.post(DEFINITIONS, narrow).ok()
        register(hub, east, "east")
        ready(hub, "east")
        register(hub, west, "west")
        found = told(hub, f"{IMPORTS}/widgets.west.v1.example.com", "Compatible", "False")
        said = "spec.color: is missing (schemaUpdateStrategy is UpdateUnpublished)"
        assert (found["reason"], found["message"]) == ("IncompatibleSchema", said)
        assert "widgets.example.com" not in ready(hub, "west")["status"]["syncedResources"]
        assert "widgets.example.com" in ready(hub, "east")["status"]["syncedResources"]
        register(hub, north, "north")
        assert condition(ready(hub, "north"), "APIImporterReady")["message"] == "not offered: widgets.example.com"
        for member in (east, west, north):
            member.close()


def test_a_definition_made_by_hand_decides(server: Server) -> None:
    with own_hub(server, SyncSettings(resources_to_sync=("widgets.example.com",))) as hub:
        hub.post(DEFINITIONS, widget_definition()).ok()
        before = hub.get(f"{DEFINITIONS}/widgets.example.com").ok()
        member = fresh_cluster(server, profile="cluster")
        member.post(DEFINITIONS, widget_definition()).ok()
        register(hub, member, "east")
        told(hub, f"{NEGOTIATED}/widgets.v1.example.com", "Enforced", "True")
        told(hub, f"{IMPORTS}/widgets.east.v1.example.com", "Available", "True")
        ready(hub, "east")
        hub.delete(f"{WORKLOAD_CLUSTERS}/east").ok()
        hub.eventually(lambda: hub.get(NEGOTIATED).ok()["items"] == [])
        assert hub.get(f"{DEFINITIONS}/widgets.example.com").ok() == before
        member.close()


def test_publishing_can_wait(server: Server) -> None:
    with own_hub(server, SyncSettings(("deployments.apps",), auto_publish=False)) as hub:
        members = [fresh_cluster(server, profile="cluster") for _ in range(2)]
        for number, member in enumerate(members):
            register(hub, member, f"m{number}")
            assert ready(hub, f"m{number}")["status"]["syncedResources"] == ["configmaps", "secrets", "serviceaccounts"]
        first, second = (hub.get(f"{IMPORTS}/deployments.m{n}.v1.apps").ok()["spec"] for n in range(2))
        assert ("openAPIV3Schema" in first, "openAPIV3Schema" in second) == (False, False)
        [schema] = hub.get(SCHEMAS).ok()["items"]
        assert first["schemaDigest"] == second["schemaDigest"] == schema["metadata"]["name"]
        assert hub.get(DEPLOYMENTS).status == 404
        hub.patch(f"{NEGOTIATED}/deployments.v1.apps", {"spec": {"publish": True}}).ok()
        assert hub.get(DEPLOYMENTS).status == 200
        for path in (f"{WORKLOAD_CLUSTERS}/m0", f"{WORKLOAD_CLUSTERS}/m1"):
            synced(hub, path, "deployments.apps")
        hub.delete(f"{NEGOTIATED}/deployments.v1.apps").ok()
        hub.eventually(lambda: hub.get(f"{NEGOTIATED}/deployments.v1.apps").status == 200)
        # Somebody deletes the schema: it comes back, and nothing is lost meanwhile.
        hub.delete(f"{SCHEMAS}/{first['schemaDigest']}").ok()
        hub.patch(f"{IMPORTS}/deployments.m0.v1.apps", {"spec": {"schemaUpdateStrategy": "UpdateNever"}}).ok()
        told(hub, f"{IMPORTS}/deployments.m0.v1.apps", "Compatible", "True")
        for member in members:
            member.close()


def test_clusters_alone_means_workload_clusters(world: World) -> None:
    groups = [group["name"] for group in world.hub.get("/apis").ok()["groups"]]
    assert groups.index("workload.kcp.dev") < groups.index("cluster.x-k8s.io")
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    found = [group["metadata"]["name"] for group in world.hub.get("/apis", Accept=aggregated).ok()["items"]]
    assert found.index("workload.kcp.dev") < found.index("cluster.x-k8s.io")


def test_a_running_managed_cluster_is_registered(server: Server) -> None:
    managed = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/{}/managedclusters"
    with own_hub(server, SyncSettings(mode="none")) as hub:
        hub.post("/api/v1/namespaces", {"metadata": {"name": "team"}}).ok()
        for namespace, name in (("default", "east"), ("team", "east"), ("default", "taken"), ("default", "alone")):
            body: Object = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "ManagedCluster"}
            body |= {"metadata": {"name": name}, "spec": {"register": name != "alone"}}
            hub.post(managed.format(namespace), body).ok()
            if name == "taken":
                hub.post(WORKLOAD_CLUSTERS, workload_cluster("taken", {})).ok()
            running = {"status": {"phase": "Running"}}
            hub.patch(f"{managed.format(namespace)}/{name}/status", running).ok()
        for namespace, name in (("default", "east"), ("team", "team.east")):
            told(hub, f"{managed.format(namespace)}/east", "Registered", "True")
            made = hub.get(f"{WORKLOAD_CLUSTERS}/{name}").ok()
            reference = {"namespace": namespace, "name": "east-kubeconfig", "key": "value"}
            assert made["spec"] == {"kubeconfigSecretRef": reference, "unschedulable": False}
            assert made["metadata"]["labels"] == {"shoal.dev/managedcluster": f"{namespace}.east"}
        taken = told(hub, f"{managed.format('default')}/taken", "Registered", "False")
        assert taken["reason"] == "NameTaken"
        assert told(hub, f"{managed.format('default')}/alone", "Registered", "False")["reason"] == "NotRegistered"
        assert hub.get(f"{WORKLOAD_CLUSTERS}/alone").status == 404

        hub.patch(f"{managed.format('team')}/east", {"metadata": {"finalizers": ["example.com/held"]}}).ok()
        hub.delete(f"{managed.format('team')}/east").ok()
        hub.eventually(lambda: hub.get(f"{WORKLOAD_CLUSTERS}/team.east").status == 404)
        assert hub.get(f"{managed.format('team')}/east").status == 200
        hub.delete(f"{managed.format('default')}/east").ok()
        hub.eventually(lambda: hub.get(f"{WORKLOAD_CLUSTERS}/east").status == 404)
        hub.delete(f"{managed.format('default')}/taken").ok()
        hub.patch(f"{managed.format('team')}/east", {"metadata": {"finalizers": None}}).ok()
        assert hub.get(f"{WORKLOAD_CLUSTERS}/taken").status == 200
