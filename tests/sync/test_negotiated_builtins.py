"""A negotiated built-in kind is the built-in, restricted by the negotiated schema (decision 9)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from shoal.apiserver.registry import builtins
from shoal.apiserver.registry.negotiated import RestrictedSchema, restrict_schema
from shoal.kinds.apiextensions.openapi_import import schema_of
from shoal.kinds.builtin_schemas import schema_closure, schema_name
from shoal.kinds.shoal_crds import shoal_crds
from tests.apiserver.test_every_kind import KINDS, paths, sample
from tests.serving import DEFINITIONS, Cluster, Server, fresh_cluster
from tests.sync.sync_environment import NEGOTIATED, deployment

Object = dict[str, Any]

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SERVICES = "/api/v1/namespaces/default/services"


def own_schema(group: str, kind: str, version: str = "v1") -> Object:
    return deepcopy(schema_of(schema_closure([schema_name(group, version, kind)]), group, version, kind))


def learned(server: Server, group: str, plural: str, kind: str, schema: Object) -> Cluster:
    """A hub that is told what was negotiated; nobody negotiates there."""
    hub = fresh_cluster(server)
    [own] = [crd for crd in shoal_crds("root") if crd["metadata"]["name"].startswith("negotiatedapiresources.")]
    definition = {key: own[key] for key in ("apiVersion", "kind", "spec")}
    hub.post(DEFINITIONS, {**definition, "metadata": {"name": own["metadata"]["name"]}}).ok()
    spec = {"groupVersion": {"group": group, "version": "v1"}, "scope": "Namespaced", "plural": plural, "kind": kind}
    body = {
        "apiVersion": "apiresource.kcp.dev/v1alpha1",
        "kind": "NegotiatedAPIResource",
        "metadata": {"name": f"{plural}.v1.{group or 'core'}"},
        "spec": {**spec, "publish": True, "openAPIV3Schema": schema},
    }
    hub.eventually(lambda: hub.get(NEGOTIATED).status == 200)
    hub.post(NEGOTIATED, body).ok()
    return hub


def narrow_schema() -> Object:
    """Deployments of a cluster that knows no pausing and no affinity, and one strategy."""
    schema = own_schema("apps", "Deployment")
    spec = schema["properties"]["spec"]["properties"]
    del spec["paused"]
    del spec["template"]["properties"]["spec"]["properties"]["affinity"]
    spec["strategy"]["properties"]["type"]["enum"] = ["RollingUpdate"]
    return schema


def test_what_the_hub_has_itself_restricts_nothing() -> None:
    whole = builtins.builtin_resource("apps", "v1", "deployments")
    assert whole is not None
    assert restrict_schema(whole, own_schema("apps", "Deployment")) is restrict_schema(whole, None) is whole
    assert restrict_schema(whole, narrow_schema()) is restrict_schema(whole, narrow_schema()) is not whole


def test_every_builtin_is_accepted_by_its_own_schema(still_server: Server) -> None:
    """What is created is known and valid: a restriction that leaves nothing out refuses nothing."""
    cluster = fresh_cluster(still_server, profile="cluster")
    wrong = {}
    for builtin in KINDS:
        made = cluster.post(f"{paths(builtin)[0]}?dryRun=All", sample(builtin)).ok()
        found = builtins.builtin_resource(builtin.group, builtin.version, builtin.plural)
        assert found is not None
        model = RestrictedSchema(found.kind_schema(), own_schema(builtin.group, builtin.kind, builtin.version))
        complaints = [*model.prune(made, collect=True), *model.validate(made, None, status=False)]
        if complaints:
            wrong[builtin.plural] = complaints
    assert wrong == {}
    cluster.close()


def test_a_field_that_was_not_negotiated_is_unknown(server: Server) -> None:
    hub = learned(server, "apps", "deployments", "Deployment", narrow_schema())
    web = deployment("web")
    web["spec"]["paused"] = True
    web["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": {}}
    refused = hub.post(f"{DEPLOYMENTS}?fieldValidation=Strict", web)
    assert refused.status == 400
    assert 'strict decoding error: unknown field "spec.paused"' in refused["message"]
    assert 'unknown field "spec.template.spec.affinity"' in refused["message"]
    made = hub.post(f"{DEPLOYMENTS}?fieldValidation=Warn", web)
    assert "spec.template.spec.affinity" in made.headers["warning"]  # the last of two
    assert "paused" not in made.ok()["spec"]
    assert "affinity" not in made.ok()["spec"]["template"]["spec"]
    patched = hub.patch(f"{DEPLOYMENTS}/web?fieldValidation=Ignore", {"spec": {"paused": True, "replicas": 4}}).ok()
    assert ("paused" in patched["spec"], patched["spec"]["replicas"]) == (False, 4)
    applied = {**web, "metadata": {"name": "web"}}
    refused = hub.patch(f"{DEPLOYMENTS}/web?fieldManager=t&force=true", applied, kind="apply")
    assert refused.status == 400
    assert 'failed to create typed patch object (Deployment): unknown field "spec.paused"' in refused["message"]
    applied = {**deployment("web"), "metadata": {"name": "web"}}
    hub.patch(f"{DEPLOYMENTS}/web?fieldManager=t&force=true", applied, kind="apply").ok()
    hub.close()


def test_a_value_that_was_not_negotiated_is_refused(server: Server) -> None:
    hub = learned(server, "apps", "deployments", "Deployment", narrow_schema())
    web = deployment("web")
    web["spec"]["strategy"] = {"type": "Recreate"}
    refused = hub.post(DEPLOYMENTS, web)
    assert refused.status == 422
    assert 'spec.strategy.type: Unsupported value: "Recreate": supported values: "RollingUpdate"' in refused["message"]
    hub.close()


def test_it_is_the_built_in_all_the_same(server: Server) -> None:
    hub = learned(server, "apps", "deployments", "Deployment", narrow_schema())
    made = hub.post(DEPLOYMENTS, deployment("web")).ok()
    assert made["spec"]["revisionHistoryLimit"] == 10
    # What a second `kubectl apply` sends.
    container = {"name": "web", "image": "web:2"}
    patch = {
        "spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "web"}], "containers": [container]}}}
    }
    patched = hub.patch(f"{DEPLOYMENTS}/web?fieldValidation=Strict", patch, kind="strategic-merge").ok()
    assert [one["image"] for one in patched["spec"]["template"]["spec"]["containers"]] == ["web:2"]
    status = {"status": {"replicas": 2, "readyReplicas": 2}}
    assert hub.patch(f"{DEPLOYMENTS}/web/status", status).ok()["status"]["readyReplicas"] == 2
    assert hub.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 7}}).ok()["spec"]["replicas"] == 7
    assert hub.get(DEPLOYMENTS, Accept="application/vnd.kubernetes.protobuf").body[:4] == b"k8s\0"
    hub.close()


def test_what_is_negotiated_can_change_while_it_is_served(server: Server) -> None:
    hub = learned(server, "apps", "deployments", "Deployment", narrow_schema())
    hub.post(DEPLOYMENTS, deployment("web")).ok()
    path = f"{NEGOTIATED}/deployments.v1.apps"
    hub.patch(path, {"spec": {"openAPIV3Schema": own_schema("apps", "Deployment")}}).ok()
    hub.eventually(lambda: hub.patch(f"{DEPLOYMENTS}/web", {"spec": {"paused": True}}).ok()["spec"].get("paused"))
    # Narrower again: what is stored stays until somebody writes it.
    agreed = hub.get(path).ok()
    agreed["spec"]["openAPIV3Schema"] = narrow_schema()
    hub.put(path, agreed).ok()
    assert hub.get(f"{DEPLOYMENTS}/web").ok()["spec"]["paused"] is True
    hub.eventually(lambda: "paused" not in hub.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 3}}).ok()["spec"])
    hub.close()


def test_the_hub_gives_services_no_address(server: Server) -> None:
    hub = learned(server, "", "services", "Service", own_schema("", "Service"))
    body = {"metadata": {"name": "web"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    made = hub.post(SERVICES, body).ok()
    assert "clusterIP" not in made["spec"]
    assert "nodePort" not in made["spec"]["ports"][0]
    assert hub.patch(f"{SERVICES}/web", {"spec": {"ports": [{"port": 81}]}}).ok()["spec"]["ports"][0]["port"] == 81
    hub.close()
