"""CustomResourceDefinitions: from acceptance to the deletion of the last instance, without a restart."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving import WIDGETS, Cluster, widget, widget_definition

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = f"{DEFINITIONS}/widgets.example.com"
V2 = "/apis/example.com/v2/namespaces/default/widgets"


def schema_of(definition: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def spec_properties(definition: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = schema_of(definition)["properties"]["spec"]["properties"]
    return properties


def conditions(definition: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in definition["status"]["conditions"]}


def simple(plural: str, kind: str, *, scope: str = "Namespaced", **names: Any) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {"plural": plural, "kind": kind, **names},
            "versions": [version],
        },
    }


# --- acceptance ---


def test_a_definition_is_served_as_soon_as_it_is_acknowledged(cluster: Cluster) -> None:
    made = cluster.post(DEFINITIONS, widget_definition()).ok()
    assert conditions(made) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert made["status"]["storedVersions"] == ["v1"]
    assert made["status"]["acceptedNames"] == made["spec"]["names"]
    assert made["spec"]["names"] == {
        "kind": "Widget",
        "plural": "widgets",
        "singular": "widget",
        "listKind": "WidgetList",
        "shortNames": ["wd"],
    }
    assert made["spec"]["conversion"] == {"strategy": "None"}
    cluster.post(WIDGETS, widget("a")).ok()


def test_discovery_shows_it(widgets: Cluster) -> None:
    assert "example.com" in [group["name"] for group in widgets.get("/apis").ok()["groups"]]
    found = widgets.get("/apis/example.com/v1").ok()
    assert found["groupVersion"] == "example.com/v1"
    by_name = {resource["name"]: resource for resource in found["resources"]}
    assert by_name.keys() == {"widgets", "widgets/status", "widgets/scale"}
    assert by_name["widgets"]["kind"] == "Widget"
    assert by_name["widgets"]["shortNames"] == ["wd"]
    assert by_name["widgets"]["namespaced"] is True
    assert by_name["widgets/scale"]["kind"] == "Scale"
    assert by_name["widgets/scale"]["group"] == "autoscaling"


def test_a_definition_must_be_named_after_what_it_defines(cluster: Cluster) -> None:
    body = widget_definition()
    body["metadata"]["name"] = "things.example.com"
    answer = cluster.post(DEFINITIONS, body)
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["message"] == (
        'CustomResourceDefinition.apiextensions.k8s.io "things.example.com" is invalid: metadata.name: '
        'Invalid value: "things.example.com": must be spec.names.plural+"."+spec.group'
    )


def test_a_schema_must_be_structural(cluster: Cluster) -> None:
    body = widget_definition(schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": {}}}})
    answer = cluster.post(DEFINITIONS, body)
    assert answer.status == 422
    causes = [(cause["field"], cause["message"]) for cause in answer["details"]["causes"]]
    field = "spec.validation.openAPIV3Schema.properties[spec].type"
    assert (field, "Required value: must not be empty for specified object fields") in causes


def test_a_definition_has_one_storage_version(cluster: Cluster) -> None:
    answer = cluster.post(DEFINITIONS, widget_definition(storage=False))
    assert answer.status == 422
    assert "must have exactly one version marked as storage version" in answer["message"]


def test_scope_and_group_do_not_change(widgets: Cluster) -> None:
    answer = widgets.patch(NAME, {"spec": {"scope": "Cluster"}})
    assert (answer.status, answer["message"]) == (
        422,
        (
            'CustomResourceDefinition.apiextensions.k8s.io "widgets.example.com" is invalid: '
            'spec.scope: Invalid value: "Cluster": field is immutable'
        ),
    )


def test_protected_groups_need_approval(cluster: Cluster) -> None:
    body = widget_definition()
    body["metadata"]["name"] = "widgets.example.k8s.io"
    body["spec"]["group"] = "example.k8s.io"
    answer = cluster.post(DEFINITIONS, body)
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert "protected groups must have approval annotation" in answer["message"]


# --- names ---


def test_a_taken_name_is_accepted_when_its_holder_goes(cluster: Cluster) -> None:
    cluster.post(DEFINITIONS, simple("widgets", "Widget", shortNames=["wd"])).ok()
    second = cluster.post(DEFINITIONS, simple("wodgets", "Wodget", shortNames=["wd"])).ok()
    assert conditions(second) == {
        "NamesAccepted": ("False", "ShortNamesConflict"),
        "Established": ("False", "NotAccepted"),
    }
    (told,) = [c for c in second["status"]["conditions"] if c["type"] == "NamesAccepted"]
    assert told["message"] == '"wd" is already in use'
    assert cluster.get("/apis/example.com/v1/wodgets").status == 404
    cluster.delete(NAME).ok()
    found = cluster.eventually(lambda: cluster.get("/apis/example.com/v1/wodgets").status == 200)
    assert found
    second = cluster.get(f"{DEFINITIONS}/wodgets.example.com").ok()
    assert conditions(second)["NamesAccepted"] == ("True", "NoConflicts")


def test_a_kind_belongs_to_one_definition_of_the_group(cluster: Cluster) -> None:
    cluster.post(DEFINITIONS, simple("widgets", "Widget")).ok()
    second = cluster.post(DEFINITIONS, simple("wodgets", "Widget")).ok()
    assert conditions(second)["NamesAccepted"][0] == "False"
    fixed = cluster.patch(
        f"{DEFINITIONS}/wodgets.example.com", {"spec": {"names": {"kind": "Wodget", "listKind": "WodgetList"}}}
    ).ok()
    fixed = cluster.patch(f"{DEFINITIONS}/wodgets.example.com", {"spec": {"names": {"singular": "wodget"}}}).ok()
    assert conditions(fixed)["Established"][0] == "True"


# --- schemas ---


def test_unknown_fields_are_pruned(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a") | {"spec": {"size": 1, "unknown": {"deep": 1}}}).ok()
    assert made["spec"] == {"size": 1, "replicas": 1}
    assert widgets.get(f"{WIDGETS}/a").ok() == made


def test_new_defaults_appear_on_read(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a")).ok()
    definition = widgets.get(NAME).ok()
    spec_properties(definition)["shape"] = {"type": "string", "default": "round"}
    widgets.put(NAME, definition).ok()
    found = widgets.get(f"{WIDGETS}/a").ok()
    assert found["spec"]["shape"] == "round"
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"], "nothing was written"
    assert widgets.get(WIDGETS).ok()["items"][0]["spec"]["shape"] == "round"
    with widgets.watch(WIDGETS) as watch:
        assert watch.next()["object"]["spec"]["shape"] == "round"
    new = widgets.patch(f"{WIDGETS}/a", {"spec": {"size": 5}}).ok()
    assert new["spec"]["shape"] == "round"


def test_a_removed_field_disappears_on_read(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a") | {"spec": {"size": 1, "color": "red"}}).ok()
    definition = widgets.get(NAME).ok()
    del spec_properties(definition)["color"]
    widgets.put(NAME, definition).ok()
    assert widgets.get(f"{WIDGETS}/a").ok()["spec"] == {"size": 1, "replicas": 1}


def test_validation_follows_the_schema_at_once(widgets: Cluster) -> None:
    definition = widgets.get(NAME).ok()
    spec_properties(definition)["size"]["maximum"] = 3
    widgets.put(NAME, definition).ok()
    answer = widgets.post(WIDGETS, widget("a", 4))
    assert (answer.status, answer["message"]) == (
        422,
        (
            'Widget.example.com "a" is invalid: spec.size: Invalid value: 4: '
            "spec.size in body should be less than or equal to 3"
        ),
    )


def test_what_did_not_change_is_not_judged_by_a_stricter_schema(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a", 9)).ok()
    definition = widgets.get(NAME).ok()
    spec_properties(definition)["size"]["maximum"] = 3
    widgets.put(NAME, definition).ok()
    widgets.patch(f"{WIDGETS}/a", {"spec": {"color": "red"}}).ok()
    assert widgets.patch(f"{WIDGETS}/a", {"spec": {"size": 8}}).status == 422


def test_the_published_schema_follows(widgets: Cluster) -> None:
    def published() -> tuple[str, dict[str, Any]]:
        url = widgets.get("/openapi/v3").ok()["paths"]["apis/example.com/v1"]["serverRelativeURL"]
        document = widgets.get(url.removeprefix(widgets.prefix)).ok()
        (found,) = [s for s in document["components"]["schemas"].values() if _is_widget(s)]
        return url, found

    before, schema = published()
    assert "shape" not in schema["properties"]["spec"]["properties"]
    definition = widgets.get(NAME).ok()
    spec_properties(definition)["shape"] = {"type": "string", "description": "Of the whole."}
    widgets.put(NAME, definition).ok()
    after, schema = published()
    assert before != after, "the address carries a hash of its content"
    assert schema["properties"]["spec"]["properties"]["shape"] == {"type": "string", "description": "Of the whole."}
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "example.com", "kind": "Widget", "version": "v1"}]


def _is_widget(schema: dict[str, Any]) -> bool:
    return any(gvk["kind"] == "Widget" for gvk in schema.get("x-kubernetes-group-version-kind", ()))


# --- versions ---


def two_versions(**second: Any) -> dict[str, Any]:
    body = widget_definition()
    first = body["spec"]["versions"][0]
    body["spec"]["versions"].append({**first, "name": "v2", "storage": False, **second})
    return body


def test_written_in_one_version_read_in_the_other(cluster: Cluster) -> None:
    cluster.post(DEFINITIONS, two_versions()).ok()
    made = cluster.post(V2, widget("a", 3) | {"apiVersion": "example.com/v2"}).ok()
    assert made["apiVersion"] == "example.com/v2"
    found = cluster.get(f"{WIDGETS}/a").ok()
    assert (found["apiVersion"], found["spec"]) == ("example.com/v1", made["spec"])
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    listed = cluster.get(V2).ok()
    assert (listed["apiVersion"], listed["items"][0]["apiVersion"]) == ("example.com/v2", "example.com/v2")
    with cluster.watch(V2) as watch:
        assert watch.next()["object"]["apiVersion"] == "example.com/v2"
        cluster.patch(f"{WIDGETS}/a", {"spec": {"size": 4}}).ok()
        event = watch.next()
        assert (event["object"]["apiVersion"], event["object"]["spec"]["size"]) == ("example.com/v2", 4)
    new = cluster.put(f"{V2}/a", cluster.get(f"{V2}/a").ok() | {"spec": {"size": 6}}).ok()
    assert new["apiVersion"] == "example.com/v2"
    assert cluster.get(f"{WIDGETS}/a").ok()["spec"]["size"] == 6


def test_versions_are_ordered_as_kubernetes_orders_them(cluster: Cluster) -> None:
    cluster.post(DEFINITIONS, two_versions()).ok()
    group = cluster.get("/apis/example.com").ok()
    assert [version["version"] for version in group["versions"]] == ["v2", "v1"]
    assert group["preferredVersion"]["version"] == "v2"


def test_stored_versions_are_remembered(cluster: Cluster) -> None:
    cluster.post(DEFINITIONS, two_versions()).ok()
    definition = cluster.get(NAME).ok()
    for version in definition["spec"]["versions"]:
        version["storage"] = version["name"] == "v2"
    new = cluster.put(NAME, definition).ok()
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    new["spec"]["versions"] = [version for version in new["spec"]["versions"] if version["name"] == "v2"]
    answer = cluster.put(NAME, new)
    assert answer.status == 422
    assert answer["message"].endswith(
        'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage '
        "version, and must remain in spec.versions until a storage migration ensures no data remains persisted in "
        "v1 and removes v1 from status.storedVersions"
    )
    status = cluster.patch(f"{NAME}/status", {"status": {"storedVersions": ["v2"]}}).ok()
    assert status["status"]["storedVersions"] == ["v2"]
    new["metadata"]["resourceVersion"] = status["metadata"]["resourceVersion"]
    cluster.put(NAME, new).ok()
    assert cluster.get(WIDGETS).status == 404


def test_a_version_may_stop_being_served(cluster: Cluster) -> None:
    cluster.post(DEFINITIONS, two_versions()).ok()
    cluster.post(V2, widget("a") | {"apiVersion": "example.com/v2"}).ok()
    definition = cluster.get(NAME).ok()
    definition["spec"]["versions"][1]["served"] = False
    cluster.put(NAME, definition).ok()
    assert cluster.get(V2).status == 404
    cluster.get(f"{WIDGETS}/a").ok()


def test_a_deprecated_version_warns(cluster: Cluster) -> None:
    body = two_versions()
    body["spec"]["versions"][0]["deprecated"] = True
    cluster.post(DEFINITIONS, body).ok()
    said = '299 - "example.com/v1 Widget is deprecated; use example.com/v2 Widget"'
    for answer in (cluster.get(WIDGETS), cluster.post(WIDGETS, widget("a")), cluster.get(f"{WIDGETS}/a")):
        assert answer.headers["warning"] == said
    assert "warning" not in cluster.get(V2).headers
    definition = cluster.get(NAME).ok()
    definition["spec"]["versions"][0]["deprecationWarning"] = "no more"
    cluster.put(NAME, definition).ok()
    assert cluster.patch(f"{WIDGETS}/a", {"spec": {"size": 2}}).headers["warning"] == '299 - "no more"'


# --- more of what a definition says ---


def test_selectable_fields(cluster: Cluster) -> None:
    cluster.post(DEFINITIONS, widget_definition(selectableFields=[{"jsonPath": ".spec.color"}])).ok()
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        cluster.post(WIDGETS, widget(name) | {"spec": {"size": 1, "color": color}}).ok()
    found = cluster.get(f"{WIDGETS}?fieldSelector=spec.color%3Dred").ok()
    assert [item["metadata"]["name"] for item in found["items"]] == ["a", "c"]
    found = cluster.get(f"{WIDGETS}?fieldSelector=spec.color!%3Dred,metadata.name!%3Dc").ok()
    assert [item["metadata"]["name"] for item in found["items"]] == ["b"]
    with cluster.watch(f"{WIDGETS}?fieldSelector=spec.color%3Dblue") as watch:
        assert watch.next()["object"]["metadata"]["name"] == "b"
        cluster.patch(f"{WIDGETS}/a", {"spec": {"color": "blue"}}).ok()
        event = watch.next()
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")


def test_cluster_scoped_kinds(cluster: Cluster) -> None:
    cluster.post(DEFINITIONS, simple("globes", "Globe", scope="Cluster")).ok()
    body = {"apiVersion": "example.com/v1", "kind": "Globe", "metadata": {"name": "a"}}
    made = cluster.post("/apis/example.com/v1/globes", body).ok()
    assert "namespace" not in made["metadata"]
    assert cluster.get("/apis/example.com/v1/globes/a").ok() == made
    assert cluster.get("/apis/example.com/v1/namespaces/default/globes").status == 404
    cluster.delete("/apis/example.com/v1/globes/a").ok()


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ({"name": "C", "type": "string", "jsonPath": ".spec.color"}, "red"),
        ({"name": "C", "type": "integer", "jsonPath": ".spec.parts[0].count"}, 4),
        ({"name": "C", "type": "string", "jsonPath": '.spec.parts[?(@.name=="y")].count'}, "5"),
        ({"name": "C", "type": "date", "jsonPath": ".metadata.creationTimestamp"}, "0s"),
        ({"name": "C", "type": "string", "jsonPath": ".spec.nothing"}, None),
    ],
)
def test_printer_columns(cluster: Cluster, column: dict[str, Any], expected: object) -> None:
    cluster.post(DEFINITIONS, widget_definition(additionalPrinterColumns=[column])).ok()
    parts = [{"name": "x", "count": 4}, {"name": "y", "count": 5}]
    cluster.post(WIDGETS, widget("a") | {"spec": {"size": 1, "color": "red", "parts": parts}}).ok()
    table = cluster.get(WIDGETS, Accept="application/json;as=Table;g=meta.k8s.io;v=v1").ok()
    cell = table["rows"][0]["cells"][1]
    assert cell == expected or (column["type"] == "date" and cell.endswith("s"))


# --- the end ---


def test_a_deleted_definition_takes_its_instances_along(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a")).ok()
    marked = widgets.delete(NAME).ok()
    assert marked["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    widgets.eventually(lambda: widgets.get(NAME).status == 404)
    assert widgets.get(WIDGETS).status == 404
    widgets.post(DEFINITIONS, widget_definition()).ok()
    assert widgets.get(WIDGETS).ok()["items"] == []


def test_a_definition_waits_for_the_finalizers_of_its_instances(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a", finalizers=["example.com/hold"])).ok()
    widgets.delete(NAME).ok()
    widgets.eventually(lambda: "deletionTimestamp" in widgets.get(f"{WIDGETS}/a").ok()["metadata"])
    definition = widgets.get(NAME).ok()
    assert conditions(definition)["Terminating"] == ("True", "InstanceDeletionInProgress")
    said = 'widgets.example.com "b" is forbidden: create not allowed while custom resource definition is terminating'
    answer = widgets.post(WIDGETS, widget("b"))
    assert (answer.status, answer["reason"], answer["message"]) == (403, "Forbidden", said)
    answer = widgets.patch(f"{WIDGETS}/b?fieldManager=x", widget("b"), "apply")
    assert (answer.status, answer["message"]) == (403, said)
    widgets.patch(f"{WIDGETS}/a", {"metadata": {"finalizers": None}}).ok()
    widgets.eventually(lambda: widgets.get(NAME).status == 404)


def test_a_definition_that_is_not_served_goes_too(widgets: Cluster) -> None:
    definition = widget_definition()
    for version in definition["spec"]["versions"]:
        del version["served"]
    path = f"{DEFINITIONS}/{definition['metadata']['name']}"
    found = widgets.get(path).ok()
    found["spec"] = definition["spec"]
    assert [version["served"] for version in widgets.put(path, found).ok()["spec"]["versions"]] == [False]
    widgets.delete(path).ok()
    widgets.eventually(lambda: widgets.get(path).status == 404)


def test_a_watch_of_a_deleted_kind_sees_its_objects_go(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a")).ok()
    with widgets.watch(f"{WIDGETS}?resourceVersion={made['metadata']['resourceVersion']}") as watch:
        widgets.delete(NAME).ok()
        event = watch.next()
    assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "a")


def test_other_clusters_keep_theirs(widgets: Cluster) -> None:
    other = Cluster(widgets.server, "root")
    assert other.get(NAME).status == 404
    other.close()
