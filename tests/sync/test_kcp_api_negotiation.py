"""kcp's example of API negotiation, with logical clusters in place of physical ones, and cases it lacks."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.sync.controllers import SyncSettings
from tests.serving import DEFINITIONS, WIDGETS, Cluster, Server, fresh_cluster, widget, widget_definition
from tests.sync.hub_server import own_hub
from tests.sync.sync_environment import IMPORTS, NEGOTIATED, SCHEMAS, WORKLOAD_CLUSTERS, condition
from tests.sync.test_apis import ready, register, told

Object = dict[str, Any]

NAME = "widgets.example.com"
AGREED = f"{NEGOTIATED}/widgets.v1.example.com"
WIDGETS_ONLY = (NAME,)


def imported(cluster: str) -> str:
    return f"{IMPORTS}/widgets.{cluster}.v1.example.com"


def spec_of(definition: Object) -> Object:
    found: Object = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def without(*names: str) -> Object:
    """The Widget definition without some fields of its spec."""
    made = widget_definition()
    for name in names:
        del spec_of(made)["properties"][name]
    return made


def member(server: Server, definition: Object | None = None) -> Cluster:
    made = fresh_cluster(server, profile="cluster")
    if definition is not None:
        made.post(DEFINITIONS, definition).ok()
    return made


def fields(hub: Cluster) -> set[str]:
    """What the hub's own definition has in its spec."""
    found = hub.get(f"{DEFINITIONS}/{NAME}")
    return set(spec_of(found.json)["properties"]) if found.status == 200 else set()


def vanished(hub: Cluster, path: str) -> None:
    hub.eventually(lambda: hub.get(path).status == 404)


def test_the_originals_transcript(server: Server) -> None:
    with own_hub(server, SyncSettings(WIDGETS_ONLY, auto_publish=False)) as hub:
        west, east = member(server, widget_definition()), member(server, without("color"))
        register(hub, west, "us-west1")
        told(hub, imported("us-west1"), "Compatible", "True")
        assert told(hub, imported("us-west1"), "Available", "False")["reason"] == "NotAsked"
        assert hub.get(f"{DEFINITIONS}/{NAME}").status == 404
        hub.patch(AGREED, {"spec": {"publish": True}}).ok()
        for kind in ("Submitted", "Published"):
            told(hub, AGREED, kind, "True")
        told(hub, imported("us-west1"), "Available", "True")
        assert "color" in fields(hub)

        # The second cluster knows less: what is published is not changed unless it may be.
        register(hub, east, "us-east1")
        refused = told(hub, imported("us-east1"), "Compatible", "False")
        assert refused["reason"] == "IncompatibleSchema"
        assert refused["message"] == "spec.color: is missing (schemaUpdateStrategy is UpdateUnpublished)"
        assert "color" in fields(hub)
        hub.patch(imported("us-east1"), {"spec": {"schemaUpdateStrategy": "UpdatePublished"}}).ok()
        told(hub, imported("us-east1"), "Compatible", "True")
        hub.eventually(lambda: "color" not in fields(hub))
        red = widget("red")
        red["spec"]["color"] = "red"
        assert "color" not in hub.post(WIDGETS, red).ok()["spec"]
        assert 'unknown field "spec.color"' in hub.post(f"{WIDGETS}?fieldValidation=Strict", red)["message"]
        hub.delete(f"{WIDGETS}/red").ok()

        # Clusters leave: the schema widens again, then everything goes.
        hub.delete(f"{WORKLOAD_CLUSTERS}/us-east1").ok()
        hub.eventually(lambda: "color" in fields(hub))
        hub.delete(f"{WORKLOAD_CLUSTERS}/us-west1").ok()
        for path in (imported("us-west1"), AGREED, f"{DEFINITIONS}/{NAME}"):
            vanished(hub, path)
        hub.eventually(lambda: hub.get(SCHEMAS).ok()["items"] == [])

        # A definition made by hand decides, and imports are only looked at.
        hub.post(DEFINITIONS, widget_definition()).ok()
        register(hub, east, "us-east1")
        told(hub, AGREED, "Enforced", "True")
        refused = told(hub, imported("us-east1"), "Compatible", "False")
        assert refused["message"] == "spec.color: is missing (a manually created CRD defines the schema)"
        agreed = hub.get(AGREED).ok()["spec"]["openAPIV3Schema"]
        assert "color" in agreed["properties"]["spec"]["properties"]
        hub.delete(f"{DEFINITIONS}/{NAME}").ok()
        told(hub, imported("us-east1"), "Compatible", "True")
        told(hub, AGREED, "Enforced", "False")
        agreed = hub.get(AGREED).ok()["spec"]["openAPIV3Schema"]
        assert "color" not in agreed["properties"]["spec"]["properties"]
        for each in (west, east):
            each.close()


def test_an_import_that_cannot_be_compatible(server: Server) -> None:
    with own_hub(server, SyncSettings(WIDGETS_ONLY)) as hub:
        other = widget_definition()
        spec_of(other)["properties"]["size"] = {"type": "string"}
        west, east = member(server, widget_definition()), member(server, other)
        register(hub, west, "west")
        ready(hub, "west")
        register(hub, east, "east")
        refused = told(hub, imported("east"), "Compatible", "False")
        assert refused["message"].startswith("spec.size: the type is string, not integer")
        hub.patch(imported("east"), {"spec": {"schemaUpdateStrategy": "UpdatePublished"}}).ok()
        generation = hub.get(imported("east")).ok()["metadata"]["generation"]
        hub.eventually(
            lambda: condition(hub.get(imported("east")).ok(), "Compatible")["observedGeneration"] == generation
        )
        assert told(hub, imported("east"), "Compatible", "False")["reason"] == "IncompatibleSchema"
        assert told(hub, imported("west"), "Compatible", "True")["reason"] == "Compatible"
        for each in (west, east):
            each.close()


def test_what_a_cluster_offers_is_followed_as_it_changes(server: Server) -> None:
    with own_hub(server, SyncSettings(WIDGETS_ONLY)) as hub:
        west = member(server)
        register(hub, west, "west")
        assert condition(ready(hub, "west"), "APIImporterReady")["message"] == f"not offered: {NAME}"
        west.post(DEFINITIONS, widget_definition()).ok()
        told(hub, imported("west"), "Available", "True")
        hub.post(WIDGETS, widget("kept")).ok()

        # The cluster's definition gains a field: so does the hub's.
        definition = west.get(f"{DEFINITIONS}/{NAME}").ok()
        spec_of(definition)["properties"]["weight"] = {"type": "integer"}
        west.put(f"{DEFINITIONS}/{NAME}", definition).ok()
        hub.eventually(lambda: "weight" in fields(hub))

        # It goes, for real: the import is withdrawn; what people wrote on the hub stays readable.
        west.delete(f"{DEFINITIONS}/{NAME}").ok()
        vanished(hub, imported("west"))
        hub.eventually(lambda: condition(hub.get(AGREED).ok(), "Published").get("reason") == "ObjectsRemain")
        said = condition(hub.get(AGREED).ok(), "Published")["message"]
        assert said == "the API is withdrawn when its last object is deleted"
        assert hub.get(f"{WIDGETS}/kept").status == 200
        # And comes back.
        west.post(DEFINITIONS, {**definition, "metadata": {"name": NAME}}).ok()
        told(hub, imported("west"), "Compatible", "True")
        assert hub.get(f"{WIDGETS}/kept").status == 200
        hub.delete(f"{WIDGETS}/kept").ok()
        west.close()


def test_two_versions_of_one_kind_share_a_definition(server: Server) -> None:
    with own_hub(server, SyncSettings(WIDGETS_ONLY)) as hub:
        west, east = member(server, widget_definition()), member(server, widget_definition(name="v2"))
        register(hub, west, "west")
        ready(hub, "west")
        register(hub, east, "east")
        ready(hub, "east")
        versions = hub.get(f"{DEFINITIONS}/{NAME}").ok()["spec"]["versions"]
        assert [(one["name"], one["storage"]) for one in versions] == [("v2", True), ("v1", False)]
        told(hub, imported("west"), "Available", "True")
        told(hub, f"{IMPORTS}/widgets.east.v2.example.com", "Available", "True")
        hub.post(WIDGETS, widget("kept")).ok()
        hub.delete(f"{WORKLOAD_CLUSTERS}/east").ok()
        vanished(hub, f"{NEGOTIATED}/widgets.v2.example.com")

        def served() -> list[tuple[str, bool]]:
            found = hub.get(f"{DEFINITIONS}/{NAME}").ok()["spec"]["versions"]
            return [(one["name"], one["storage"]) for one in found if one["served"]]

        hub.eventually(lambda: served() == [("v1", True)])
        assert hub.get(f"{WIDGETS}/kept").ok()["apiVersion"] == "example.com/v1"
        for each in (west, east):
            each.close()


def test_imports_made_by_hand(server: Server) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}
    with own_hub(server, SyncSettings(WIDGETS_ONLY)) as hub:

        def offer(location: str, **spec: object) -> None:
            spec |= {"location": location, "groupVersion": {"group": "example.com", "version": "v1"}}
            spec |= {"scope": "Namespaced", "plural": "widgets", "kind": "Widget"}
            body = {"apiVersion": "apiresource.kcp.dev/v1alpha1", "kind": "APIResourceImport", "spec": spec}
            hub.post(IMPORTS, {**body, "metadata": {"name": f"widgets.{location}.v1.example.com"}}).ok()

        offer("west", schemaDigest="d1")
        assert told(hub, imported("west"), "Compatible", "Unknown")["reason"] == "SchemaUnknown"
        stored = {"apiVersion": "apiresource.kcp.dev/v1alpha1", "kind": "APIResourceSchema"}
        hub.post(SCHEMAS, {**stored, "metadata": {"name": "d1"}, "spec": {"openAPIV3Schema": schema}}).ok()
        told(hub, imported("west"), "Available", "True")
        offer("east", openAPIV3Schema=schema)
        told(hub, imported("east"), "Compatible", "True")
        assert hub.get(WIDGETS).status == 200


def test_a_kind_of_that_name_is_there_already(server: Server) -> None:
    with own_hub(server, SyncSettings(WIDGETS_ONLY)) as hub:
        other = widget_definition()
        other["metadata"]["name"] = "gadgets.example.com"
        other["spec"]["names"] = {"kind": "Widget", "plural": "gadgets"}
        hub.post(DEFINITIONS, other).ok()
        west = member(server, widget_definition())
        register(hub, west, "west")
        hub.eventually(lambda: told(hub, AGREED, "Published", "False")["reason"] == "DefinitionRefused")
        said = condition(hub.get(AGREED).ok(), "Published")["message"]
        assert "is already in use" in said
        assert condition(ready(hub, "west"), "APIImporterReady")["status"] == "True"
        hub.delete(f"{DEFINITIONS}/gadgets.example.com").ok()
        told(hub, imported("west"), "Available", "True")
        west.close()


def test_publishing_is_taken_back_when_no_object_is_left(server: Server) -> None:
    with own_hub(server, SyncSettings(WIDGETS_ONLY)) as hub:
        west = member(server, widget_definition())
        register(hub, west, "west")
        ready(hub, "west")
        hub.post(WIDGETS, widget("kept")).ok()
        hub.patch(AGREED, {"spec": {"publish": False}}).ok()
        hub.eventually(lambda: condition(hub.get(AGREED).ok(), "Published")["reason"] == "ObjectsRemain")
        assert hub.get(f"{WIDGETS}/kept").status == 200
        hub.delete(f"{WIDGETS}/kept").ok()
        told(hub, AGREED, "Published", "False")
        vanished(hub, f"{DEFINITIONS}/{NAME}")
        west.close()


@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.soak)])
def test_clusters_with_equal_schemas_store_them_once(server: Server, count: int) -> None:
    with own_hub(server, SyncSettings(WIDGETS_ONLY, mode="none")) as hub:
        west = member(server, widget_definition())
        for number in range(count):
            register(hub, west, f"c{number}")

        def all_settled() -> list[Object]:
            found = [each for each in hub.get(IMPORTS).ok()["items"] if condition(each, "Available")]
            return found if len(found) == count else []

        imports = hub.eventually(all_settled)
        assert {condition(each, "Compatible")["status"] for each in imports} == {"True"}
        assert not any("openAPIV3Schema" in each["spec"] for each in imports)
        [schema] = hub.get(SCHEMAS).ok()["items"]
        assert {each["spec"]["schemaDigest"] for each in imports} == {schema["metadata"]["name"]}
        west.close()
