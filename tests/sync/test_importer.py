"""The importer concludes nothing from missing responses; which kinds `*` matches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client
from shoal.kinds.workload.apiresource import GVR
from shoal.objects.errors import NotFound, Unauthorized, Unavailable
from shoal.sync.controllers import SyncSettings
from shoal.sync.discovery import discover_resource, discover_resources, find_native_resource
from shoal.sync.importer.api_discovery import discover_apis, needs_crd_watch
from tests.controlplane.world import world
from tests.serving import Server, fresh_cluster
from tests.sync.hub_server import own_hub
from tests.sync.sync_environment import IMPORTS, NEGOTIATED, condition
from tests.sync.test_apis import ready, register

Object = dict[str, Any]

pytestmark = pytest.mark.anyio

VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def resource(name: str, kind: str, **more: object) -> Object:
    return {"name": name, "kind": kind, "namespaced": True, "verbs": VERBS, **more}


def widgets(kind: str = "Widget") -> Object:
    gvk = {"group": "example.com", "version": "v1", "kind": kind}
    return {"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-group-version-kind": [gvk]}


class Pretended(Client):
    """A server that answers what a real one could; what it does not know is not found."""

    def __init__(self, **answers: object) -> None:
        self.read_paths: list[str] = []
        self.answers: dict[str, object] = {
            "/api": {"versions": ["v1"]},
            "/api/v1": {"resources": [resource("pods", "Pod"), resource("bindings", "Binding", verbs=["create"])]},
            "/apis": {"groups": [group("example.com", "v1", "v1beta1"), group("broken.io", "v1")]},
            "/apis/example.com/v1": {
                "resources": [resource("widgets", "Widget"), resource("widgets/status", "Widget")]
            },
            "/apis/example.com/v1beta1": {"resources": [resource("widgets", "Widget"), resource("old", "Old")]},
            "/apis/broken.io/v1": Unavailable("no endpoints"),
            "/openapi/v3/apis/example.com/v1": {"components": {"schemas": {"W": widgets()}}},
            **answers,
        }

    async def get_path(self, path: str) -> Object:
        self.read_paths.append(path)
        found = self.answers.get(path, NotFound("no such path"))
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, dict)
        return found

    async def get(self, gvr: object, name: str, namespace: str = "") -> Object:
        raise NotFound("no CRD")


def group(name: str, *versions: str) -> Object:
    listed = [{"version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


async def test_the_preferred_version_first_and_subresources() -> None:
    found = await discover_resources(Pretended())
    assert found.resources["widgets", "example.com"].api == GVR("example.com", "v1", "widgets")
    assert found.resources["widgets", "example.com"].subresources == ("status",)
    assert found.resources["old", "example.com"].api.version == "v1beta1"
    assert ("widgets/status", "example.com") not in found.resources


async def test_a_group_that_does_not_answer_is_not_empty() -> None:
    client = Pretended()
    assert (await discover_resources(client)).unknown_groups == {"broken.io"}
    with pytest.raises(Exception, match="cannot discover the API group"):
        await discover_resource(client, "gadgets", "broken.io")
    assert await discover_resource(client, "gadgets", "example.com") is None
    assert await discover_resource(client, "gadgets", "nobody.io") is None
    pulled = await discover_apis(client, [("gadgets", "broken.io"), ("widgets", "example.com")], set())
    assert pulled.missing == ()
    assert pulled.is_unknown(GVR("broken.io", "v1", "gadgets"))
    assert not pulled.is_unknown(GVR("example.com", "v1", "widgets"))
    assert pulled.message == "API groups that do not answer: broken.io"


async def test_a_server_that_refuses_is_told_and_not_read_as_empty() -> None:
    with pytest.raises(Unauthorized):
        await discover_resources(Pretended(**{"/apis/example.com/v1": Unauthorized("who are you?")}))
    with pytest.raises(NotFound):
        await discover_resources(Pretended(**{"/apis": NotFound("no such cluster")}))


async def test_openapi_v2_where_there_is_no_v3() -> None:
    older = Pretended(
        **{"/openapi/v3/apis/example.com/v1": NotFound("none"), "/openapi/v2": {"definitions": {"W": widgets()}}}
    )
    [offer] = (await discover_apis(older, [("widgets", "example.com")], set())).offers
    assert offer.schema == {"type": "object", "properties": {"a": {"type": "string"}}}


async def test_a_kind_whose_schema_cannot_be_read_is_said_and_kept() -> None:
    pulled = await discover_apis(
        Pretended(**{"/openapi/v3/apis/example.com/v1": {"components": {}}}), [("widgets", "example.com")], set()
    )
    assert (pulled.offers, pulled.missing) == ((), ())
    assert pulled.is_unknown(GVR("example.com", "v1", "widgets"))
    assert pulled.message == "widgets.example.com: its OpenAPI document of example.com/v1 has no Widget"


async def test_what_all_means() -> None:
    documents = {
        "/openapi/v3/api/v1": {"components": {"schemas": {}}},
        "/openapi/v3/apis/example.com/v1beta1": {"components": {}},
    }
    pulled = await discover_apis(Pretended(**documents), [("*", "*")], set())
    assert [offer.api.plural for offer in pulled.offers] == ["widgets"]
    assert {one for one, _ in pulled.unreadable} == {("pods", ""), ("old", "example.com")}
    only = await discover_apis(Pretended(**documents), [("*", "example.com")], {("old", "example.com")})
    assert ([offer.api.plural for offer in only.offers], only.unreadable) == (["widgets"], ())


def test_crds_are_watched_where_they_matter() -> None:
    assert not needs_crd_watch([("deployments", "apps"), ("services", "")])
    assert needs_crd_watch([("deployments", "apps"), ("widgets", "example.com")])
    assert needs_crd_watch([("*", "*")])


def test_all_of_a_cluster_is_imported(server: Server) -> None:
    with own_hub(server, SyncSettings(("*",), mode="none")) as hub:
        member = fresh_cluster(server, profile="cluster")
        register(hub, member, "east")
        assert condition(ready(hub, "east"), "APIImporterReady")["message"] == ""
        found = {each["spec"]["plural"]: each for each in hub.get(IMPORTS).ok()["items"]}
        assert {"deployments", "statefulsets", "jobs", "pods", "services", "ingresses", "storageclasses"} <= set(found)
        assert not {"nodes", "events", "configmaps", "leases", "endpointslices", "namespaces"} & set(found)
        assert found["storageclasses"]["spec"]["scope"] == "Cluster"
        wrong = {name: condition(each, "Available") for name, each in found.items()}
        assert {name: said for name, said in wrong.items() if said["status"] != "True"} == {}
        assert len(hub.get(NEGOTIATED).ok()["items"]) == len(found)
        member.close()


async def test_the_importers_account_may_tell_native_resources_from_imported_ones(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        account = "system:serviceaccount:kube-system:api-importer"
        importer = given.client.in_cluster("root").impersonate(account, "system:serviceaccounts:kube-system")
        found = await find_native_resource(importer, "clusterroles", "rbac.authorization.k8s.io")
        assert found is not None
        assert found.resource["kind"] == "ClusterRole"
        assert await find_native_resource(importer, "placements", "placement.shoal.dev") is None, "a CRD serves them"
