"""fieldValidation: Strict rejects, Warn warns, Ignore does neither."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving import WIDGETS, Cluster, config_map, widget, widget_definition

MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TWICE = (
    b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":1,"color":"red","size":2}}'
)


def unknown(name: str = "a") -> dict[str, Any]:
    return widget(name, 1) | {"extra": 1, "spec": {"size": 1, "weight": 2, "parts": [{"name": "p", "more": 3}]}}


def test_strict_refuses_unknown_fields(widgets: Cluster) -> None:
    answer = widgets.post(f"{WIDGETS}?fieldValidation=Strict", unknown())
    assert (answer.status, answer["reason"]) == (400, "BadRequest")
    head, _, said = answer["message"].partition("strict decoding error: ")
    assert head == 'Widget in version "v1" cannot be handled as a Widget: '
    assert set(said.split(", ")) == {
        'unknown field "extra"',
        'unknown field "spec.weight"',
        'unknown field "spec.parts[0].more"',
    }
    assert widgets.get(f"{WIDGETS}/a").status == 404


def test_warn_is_usual_and_drops_them(widgets: Cluster) -> None:
    for name, query in (("a", ""), ("b", "?fieldValidation=Warn")):
        answer = widgets.post(WIDGETS + query, unknown(name))
        made = answer.ok()
        assert made["spec"] == {"size": 1, "replicas": 1, "parts": [{"name": "p"}]}
        assert "extra" not in made
        assert '299 - "unknown field \\"' in answer.headers["warning"]


def test_ignore_is_silent(widgets: Cluster) -> None:
    answer = widgets.post(f"{WIDGETS}?fieldValidation=Ignore", unknown())
    assert "extra" not in answer.ok()
    assert "warning" not in answer.headers


def test_duplicate_keys(widgets: Cluster) -> None:
    answer = widgets.request("POST", f"{WIDGETS}?fieldValidation=Strict", TWICE)
    assert (answer.status, answer["message"]) == (
        400,
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: duplicate field "spec.size"',
    )
    answer = widgets.request("POST", WIDGETS, TWICE)
    assert answer.ok()["spec"]["size"] == 2, "the last one wins"
    assert answer.headers["warning"] == '299 - "duplicate field \\"spec.size\\""'
    widgets.delete(f"{WIDGETS}/a").ok()
    answer = widgets.request("POST", f"{WIDGETS}?fieldValidation=Ignore", TWICE)
    assert answer.ok()["spec"]["size"] == 2
    assert "warning" not in answer.headers


def test_duplicates_and_unknown_fields_are_told_together(widgets: Cluster) -> None:
    text = TWICE.replace(b'"color":"red"', b'"weight":1')
    answer = widgets.request("POST", f"{WIDGETS}?fieldValidation=Strict", text)
    assert answer["message"].endswith('strict decoding error: duplicate field "spec.size", unknown field "spec.weight"')


def test_duplicates_in_yaml(widgets: Cluster) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: '1'\n  k: '2'\n"
    headers = {"Content_Type": "application/yaml"}
    answer = widgets.request("POST", f"{MAPS}?fieldValidation=Strict", text, **headers)
    assert (answer.status, answer["reason"]) == (400, "BadRequest")
    assert 'line 7: key "k" already set in map' in answer["message"]
    answer = widgets.request("POST", MAPS, text, **headers)
    assert answer.ok()["data"] == {"k": "2"}
    assert 'line 7: key \\"k\\" already set in map' in answer.headers["warning"]


def test_an_update_is_checked_alike(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a")).ok()
    answer = widgets.put(f"{WIDGETS}/a?fieldValidation=Strict", made | {"extra": 1})
    assert (answer.status, answer["message"]) == (
        400,
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "extra"',
    )
    answer = widgets.put(f"{WIDGETS}/a", made | {"extra": 1})
    assert answer.ok() == made
    assert answer.headers["warning"] == '299 - "unknown field \\"extra\\""'


def test_a_patch_is_checked_by_what_it_leaves(widgets: Cluster) -> None:
    made = widgets.post(WIDGETS, widget("a")).ok()
    for body, form in (
        ({"spec": {"weight": 1}}, "merge"),
        ([{"op": "add", "path": "/spec/weight", "value": 1}], "json"),
    ):
        answer = widgets.patch(f"{WIDGETS}/a?fieldValidation=Strict", body, form)
        assert (answer.status, answer["reason"]) == (422, "Invalid")
        assert answer["message"].startswith(' "" is invalid: patch: Invalid value: ')
        assert answer["message"].endswith('strict decoding error: unknown field "spec.weight"')
        answer = widgets.patch(f"{WIDGETS}/a", body, form)
        assert answer.ok() == made
        assert answer.headers["warning"] == '299 - "unknown field \\"spec.weight\\""'


def test_duplicates_in_a_patch(widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("a")).ok()
    text = b'{"spec":{"size":5,"size":6}}'
    merge = {"Content_Type": "application/merge-patch+json"}
    answer = widgets.request("PATCH", f"{WIDGETS}/a?fieldValidation=Strict", text, **merge)
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["message"].endswith('strict decoding error: duplicate field "spec.size"')
    answer = widgets.request("PATCH", f"{WIDGETS}/a", text, **merge)
    assert answer.ok()["spec"]["size"] == 6
    assert answer.headers["warning"] == '299 - "duplicate field \\"spec.size\\""'


def test_a_strategic_patch_of_a_builtin(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map("a")).ok()
    answer = cluster.patch(f"{MAPS}/a?fieldValidation=Strict", {"extra": "x"}, "strategic-merge")
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    assert answer["message"].endswith('strict decoding error: unknown field "extra"')


def test_duplicates_in_an_applied_text(widgets: Cluster) -> None:
    text = b"apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: a\nspec:\n  size: 1\n  size: 2\n"
    headers = {"Content_Type": "application/apply-patch+yaml"}
    path = f"{WIDGETS}/a?fieldManager=x"
    answer = widgets.request("PATCH", f"{path}&fieldValidation=Strict", text, **headers)
    assert (answer.status, answer["reason"]) == (400, "BadRequest")
    assert answer["message"] == (
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
        '  line 7: key "size" already set in map'
    )
    answer = widgets.request("PATCH", path, text, **headers)
    assert answer.ok()["spec"]["size"] == 2
    assert 'line 7: key \\"size\\" already set in map' in answer.headers["warning"]


def test_builtins(cluster: Cluster) -> None:
    answer = cluster.post(f"{MAPS}?fieldValidation=Strict", config_map("a") | {"extra": 1})
    assert (answer.status, answer["message"]) == (
        400,
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "extra"',
    )
    answer = cluster.post(MAPS, config_map("a") | {"extra": 1})
    assert "extra" not in answer.ok()
    assert answer.headers["warning"] == '299 - "unknown field \\"extra\\""'


def test_metadata_is_checked_too(widgets: Cluster) -> None:
    answer = widgets.post(f"{WIDGETS}?fieldValidation=Strict", widget("a", 1, unheard="of"))
    assert answer["message"].endswith('strict decoding error: unknown field "metadata.unheard"')


def test_what_may_be_unknown_is_not_told(cluster: Cluster) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    cluster.post(DEFINITIONS, widget_definition(schema={"openAPIV3Schema": schema})).ok()
    answer = cluster.post(f"{WIDGETS}?fieldValidation=Strict", unknown())
    assert answer.ok()["extra"] == 1
    assert answer.ok()["spec"]["weight"] == 2


def test_a_wrong_type_is_refused_however_lax(cluster: Cluster) -> None:
    for body in (config_map("a") | {"data": {"k": 1}}, config_map("a") | {"data": []}):
        answer = cluster.post(f"{MAPS}?fieldValidation=Ignore", body)
        assert (answer.status, answer["reason"]) == (400, "BadRequest")
        assert answer["message"].startswith('ConfigMap in version "v1" cannot be handled as a ConfigMap: ')


@pytest.mark.parametrize("kind", ["CreateOptions", "UpdateOptions", "PatchOptions"])
def test_there_are_three_ways(widgets: Cluster, kind: str) -> None:
    made = widgets.post(WIDGETS, widget("a")).ok()
    answer = {
        "CreateOptions": lambda: widgets.post(f"{WIDGETS}?fieldValidation=Some", widget("b")),
        "UpdateOptions": lambda: widgets.put(f"{WIDGETS}/a?fieldValidation=Some", made),
        "PatchOptions": lambda: widgets.patch(f"{WIDGETS}/a?fieldValidation=Some", {}),
    }[kind]()
    assert (answer.status, answer["message"]) == (
        422,
        (
            f'{kind}.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Some": '
            'supported values: "", "Ignore", "Strict", "Warn"'
        ),
    )


def test_the_cli_finds_the_parameter(widgets: Cluster) -> None:
    """kubectl asks the published paths whether the server checks fields."""
    index = widgets.get("/openapi/v3").ok()["paths"]
    url = index["apis/example.com/v1"]["serverRelativeURL"]
    document = widgets.get(url.removeprefix(widgets.prefix)).ok()
    found = [
        parameter["name"]
        for path in document["paths"].values()
        if "patch" in path
        for parameter in path["patch"].get("parameters", ())
    ]
    assert "fieldValidation" in found
