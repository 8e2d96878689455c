"""Server-side apply: merging, removal, conflicts and their messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shoal.objects.apply import TypeSchema, apply
from shoal.objects.errors import BadRequest, Conflict
from tests.objects.apply.samples import DEPLOYMENT, LATER, NOW, THING, V1, apply_config, owners, struct, thing, update

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        (
            {"containers": [{"name": "test-container", "image": "test-image"}]},
            '{"f:spec":{"f:containers":{"k:{\\"name\\":\\"test-container\\"}":{".":{},"f:image":{},"f:name":{}}}}}',
        ),
        (
            {"containers": [{"name": "a", "ports": [{"port": 8080, "protocol": "UDP"}]}]},
            (
                '{"f:spec":{"f:containers":{"k:{\\"name\\":\\"a\\"}":{".":{},"f:name":{},'
                '"f:ports":{"k:{\\"port\\":8080,\\"protocol\\":\\"UDP\\"}":{".":{},"f:port":{},"f:protocol":{}}}}}}}'
            ),
        ),
        (
            {"options": {"b": "1"}, "free": {"x": {"y": 1}}, "network": {}, "tags": ["t"], "selector": {"a": "b"}},
            (
                '{"f:spec":{"f:free":{"f:x":{".":{},"f:y":{}}},"f:network":{},"f:options":{"f:b":{}},"f:selector":{},'
                '"f:tags":{"v:\\"t\\"":{}}}}'
            ),
        ),
    ],
)
def test_an_applied_object_is_created_and_owned(spec: dict[str, Any], fields: str) -> None:
    made = apply_config(None, thing(spec), "apply_test")
    assert made["spec"] == spec
    [entry] = made["metadata"]["managedFields"]
    assert json.dumps(entry.pop("fieldsV1"), separators=(",", ":")) == fields
    assert entry == {
        "manager": "apply_test", "operation": "Apply", "apiVersion": V1, "time": NOW, "fieldsType": "FieldsV1",
    }  # fmt: skip
    shared = apply_config(made, thing(spec), "apply_test_2")
    assert json.dumps(owners(shared)["apply_test_2/Apply"], separators=(",", ":")) == fields


def test_a_sidecar_is_applied_next_to_what_is_there() -> None:
    def deployment(containers: list[Any], **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d", "labels": {"v": "1"}},
            "spec": spec | {"template": {"spec": {"containers": containers}}},
        }

    live = deployment([{"name": "app", "image": "app:1"}], replicas=3) | {"metadata": {"name": "d", "uid": "u"}}
    merged = apply(
        live, deployment([{"name": "sidecar", "image": "s"}]), manager="c", api_version="apps/v1", schema=DEPLOYMENT,
        force=False, now=NOW,
    )  # fmt: skip
    assert merged["spec"]["template"]["spec"]["containers"] == [
        {"name": "app", "image": "app:1"},
        {"name": "sidecar", "image": "s"},
    ]
    assert json.dumps(owners(merged)["c/Apply"], separators=(",", ":")) == (
        '{"f:metadata":{"f:labels":{"f:v":{}}},"f:spec":{"f:template":{"f:spec":{"f:containers":'
        '{"k:{\\"name\\":\\"sidecar\\"}":{".":{},"f:image":{},"f:name":{}}}}}}}'
    )
    assert owners(merged)["before-first-apply/Update"]["f:spec"]["f:replicas"] == {}


def test_one_conflict() -> None:
    live = update(None, thing({"replicas": 1}), "kubectl")
    with pytest.raises(Conflict) as refused:
        apply_config(live, thing({"replicas": 2}), "me")
    assert refused.value.to_status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'Apply failed with 1 conflict: conflict with "kubectl" using {V1}: .spec.replicas',
        "reason": "Conflict",
        "details": {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": f'conflict with "kubectl" using {V1}',
                    "field": ".spec.replicas",
                }
            ]
        },
        "code": 409,
    }


def test_several_conflicts_are_listed_by_manager() -> None:
    live = apply_config(None, thing({"size": "S", "network": {"mode": "x"}, "tags": ["t"]}), "b")
    live = update(live, thing({**live["spec"], "replicas": 1, "containers": [{"name": "a", "image": "i"}]}), "a")
    live = update(live, {**live, "status": {"phase": "Up"}}, "a", subresource="status")
    config = thing({"size": "L", "network": {"mode": "y"}, "replicas": 2, "containers": [{"name": "a", "image": "j"}]})
    config["status"] = {"phase": "Down"}
    with pytest.raises(Conflict) as refused:
        apply_config(live, config, "me")
    assert refused.value.message == (
        f'Apply failed with 5 conflicts: conflicts with "a" with subresource "status" using {V1}:\n'
        "- .status.phase\n"
        f'conflicts with "a" using {V1}:\n'
        "- .spec.replicas\n"
        '- .spec.containers[name="a"].image\n'
        'conflicts with "b":\n'
        "- .spec.size\n"
        "- .spec.network.mode"
    )
    assert [(cause.message, cause.field) for cause in refused.value.causes][-1] == (
        'conflict with "b"',
        ".spec.network.mode",
    )


def test_force_takes_ownership() -> None:
    live = update(None, thing({"replicas": 1, "size": "S"}), "kubectl")
    live = apply_config(live, thing({"replicas": 2}), "me", force=True, now=LATER)
    assert live["spec"] == {"replicas": 2, "size": "S"}
    assert owners(live) == {
        "me/Apply": {"f:spec": {"f:replicas": {}}},
        "kubectl/Update": {"f:spec": {".": {}, "f:size": {}}},
    }


def test_the_same_value_is_shared_and_stays_until_the_last_owner_drops_it() -> None:
    live = apply_config(None, thing({"size": "S", "options": {"a": "1", "b": "2"}}), "one")
    live = apply_config(live, thing({"options": {"a": "1"}}), "two")
    live = apply_config(live, thing({"size": "S"}), "one", now=LATER)
    assert live["spec"] == {"size": "S", "options": {"a": "1"}}
    live = apply_config(live, thing(), "two", now=LATER)
    assert live["spec"] == {"size": "S"}
    assert owners(live) == {"one/Apply": {"f:spec": {"f:size": {}}}}


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        ({"replicas": 1, "size": "S"}, {"size": "S"}, {"size": "S"}),
        ({"options": {"a": "1", "b": "2"}}, {"options": {"b": "2"}}, {"options": {"b": "2"}}),
        ({"network": {"mode": "x", "mtu": 1}}, {"network": {"mtu": 1}}, {"network": {"mtu": 1}}),
        ({"network": {"mode": "x"}, "size": "S"}, {"size": "S"}, {"size": "S"}),
        ({"network": {"mode": "x"}}, {"network": {}}, {"network": {}}),
        ({"containers": [{"name": "a"}, {"name": "b"}], "size": "S"}, {"size": "S"}, {"size": "S"}),
        ({"tags": ["x", "y"]}, {"tags": ["y"]}, {"tags": ["y"]}),
        ({"steps": ["1", "2"]}, {"steps": ["2"]}, {"steps": ["2"]}),
        ({"selector": {"a": "1"}}, {"selector": {"b": "1"}}, {"selector": {"b": "1"}}),
        ({"free": {"a": {"b": 1, "c": 2}}}, {"free": {"a": {"c": 2}}}, {"free": {"a": {"c": 2}}}),
    ],
)  # fmt: skip
def test_what_is_not_applied_any_more_goes(before: Any, after: Any, left: Any) -> None:
    live = apply_config(None, thing(before), "me")
    assert apply_config(live, thing(after), "me", now=LATER)["spec"] == left


def test_what_others_own_and_what_nobody_owns_stays() -> None:
    live = apply_config(None, thing({"containers": [{"name": "a", "image": "i"}], "options": {"mine": "1"}}), "me")
    others = {"containers": [{"name": "a", "ports": [{"port": 1}]}], "options": {"its": "2"}}
    live = apply_config(live, thing(others), "other")
    live["spec"]["options"]["nobodys"] = "3"
    live = apply_config(live, thing({"containers": [{"name": "b"}]}), "me", now=LATER)
    assert live["spec"] == {
        "containers": [{"name": "a", "ports": [{"port": 1}]}, {"name": "b"}],
        "options": {"its": "2", "nobodys": "3"},
    }


def test_an_item_goes_with_its_last_owner_whatever_others_put_into_it() -> None:
    live = apply_config(None, thing({"containers": [{"name": "a"}, {"name": "b"}]}), "me")
    live = update(live, thing({"containers": [{"name": "a", "image": "i"}, {"name": "b"}]}), "other")
    live = apply_config(live, thing({"containers": [{"name": "b"}]}), "me", now=LATER)
    assert live["spec"] == {"containers": [{"name": "b"}]}
    assert list(owners(live)) == ["me/Apply"]


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        ("abc", "", "abc"),
        ("abc", "cba", "cba"),
        ("abc", "xb", "axbc"),
        ("abc", "bx", "abcx"),
        ("abc", "dab", "dabc"),
        ("abcd", "dx", "abcdx"),
        ("aec", "bce", "abce"),
    ],
)
def test_order_of_items(live: str, config: str, merged: str) -> None:
    there = update(None, thing({"tags": list(live)}), "one")
    assert "".join(apply_config(there, thing({"tags": list(config)}), "two")["spec"]["tags"]) == merged
    there = update(None, thing({"containers": [{"name": name, "image": "i"} for name in live]}), "one")
    items = apply_config(there, thing({"containers": [{"name": name} for name in config]}), "two")["spec"]["containers"]
    assert "".join(item["name"] for item in items) == merged
    assert all(("image" in item) == (item["name"] in live) for item in items)


def test_absent_keys_have_their_default() -> None:
    live = apply_config(None, thing({"containers": [{"name": "a", "ports": [{"port": 80}]}]}), "one")
    ports = [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]
    config = thing({"containers": [{"name": "a", "ports": ports}]})
    assert apply_config(live, config, "two")["spec"] == config["spec"]


def test_applying_again_changes_nothing_and_keeps_the_time() -> None:
    config = thing({"replicas": 1, "tags": ["a"]}, labels={"l": "x"})
    live = apply_config(None, config, "me")
    assert apply_config(live, config, "me", now=LATER) == live
    # a second manager that agrees gets an entry, but there was no write of its own
    shared = apply_config(live, config, "other", now=LATER)
    assert [entry.get("time") for entry in shared["metadata"]["managedFields"]] == [None, NOW]
    assert {**shared, "metadata": None} == {**live, "metadata": None}


def test_null_timestamps_of_printed_manifests_are_no_change() -> None:
    live = apply_config(None, thing({"replicas": 1}), "me")
    live["metadata"]["creationTimestamp"] = NOW
    assert apply_config(live, thing({"replicas": 1}, creationTimestamp=None), "me", now=LATER) == live


def test_a_changed_boolean_is_a_change() -> None:
    live = apply_config(None, thing({"free": {"a": 1}}), "me")
    assert apply_config(live, thing({"free": {"a": True}}), "me")["spec"]["free"]["a"] is True


def test_objects_nobody_tracked_get_before_first_apply() -> None:
    live = apply_config(thing({"replicas": 1, "size": "S"}, uid="u"), thing({"size": "S"}), "me")
    assert owners(live) == {
        "me/Apply": {"f:spec": {"f:size": {}}},
        "before-first-apply/Update": {"f:spec": {".": {}, "f:replicas": {}, "f:size": {}}},
    }


def test_an_applier_keeps_its_entry_across_versions() -> None:
    live = apply_config(None, thing({"replicas": 1}), "me")
    config = {**thing({"replicas": 2}), "apiVersion": "example.com/v2"}
    moved = apply(live, config, manager="me", api_version="example.com/v2", schema=THING, force=False, now=LATER)
    assert [entry["apiVersion"] for entry in moved["metadata"]["managedFields"]] == ["example.com/v2"]


def test_what_the_endpoint_resets_is_neither_owned_nor_in_conflict() -> None:
    live = update(None, {**thing({"size": "S"}), "status": {"phase": "Up"}}, "controller")
    config = {**thing({"size": "S"}), "status": {"phase": "Down"}}
    live = apply(
        live, config, manager="me", api_version=V1, schema=THING, force=False, now=LATER, reset={"f:status": {}}
    )
    assert owners(live)["me/Apply"] == {"f:spec": {"f:size": {}}}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (thing({"replicas": 1}, managedFields=[]), "metadata.managedFields must be nil"),
        ({**thing(), "apiVersion": "example.com/v2"}, "invalid object type: example.com/v2, Kind=Thing"),
        ({**thing(), "apiVersion": "v1"}, "invalid object type: /v1, Kind=Thing"),
    ],
)
def test_configurations_that_cannot_be_applied(config: Any, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        apply_config(None, config, "me")
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"bogus": 1}, ".spec.bogus: field not declared in schema"),
        ({"network": {"x": 1}}, ".spec.network.x: field not declared in schema"),
        ({"containers": [{"name": "a"}, {"name": "a"}]}, '.spec.containers: duplicate entries for key [name="a"]'),
        ({"tags": ["x", "x"]}, '.spec.tags: duplicate entries for key [="x"]'),
        ({"containers": [{"name": "a", "x": 1}]}, '.spec.containers[name="a"].x: field not declared in schema'),
        ({"containers": [None]}, ".spec.containers: element 0: associative list with keys may not have a null element"),
        (
            {"containers": [{"image": "i"}]},
            (
                ".spec.containers: element 0: associative list with keys has an element that omits all key fields"
                ' ["name"] (and doesn\'t have default values for any key fields)'
            ),
        ),
        ({"tags": [{}]}, ".spec.tags: element 0: associative list without keys has an element that's a map type"),
        ({"replicas": "3"}, ".spec.replicas: expected numeric (int or float), got string"),
        ({"size": 3}, ".spec.size: expected string, got &value.valueUnstructured{Value:3}"),
        ({"network": [1, "a"]}, ".spec.network: expected map, got &{[1 a]}"),
        ({"tags": "x"}, ".spec.tags: expected list, got &{x}"),
        (
            {"replicas": True, "steps": ["a", 1]},
            (
                "errors:\n  .spec.replicas: expected numeric (int or float), got bool\n"
                "  .spec.steps[1]: expected string, got &value.valueUnstructured{Value:1}"
            ),
        ),
    ],
)
def test_configurations_that_do_not_fit_the_schema(spec: Any, said: str) -> None:
    with pytest.raises(BadRequest) as refused:
        apply_config(None, thing(spec), "me")
    assert refused.value.message == f"failed to create typed patch object (default/t; {V1}, Kind=Thing): {said}"


def test_live_duplicates_are_left_alone_or_replaced() -> None:
    live = update(None, thing({"tags": ["a", "b", "a"]}), "one")
    assert apply_config(live, thing({"tags": ["c"]}), "two")["spec"]["tags"] == ["a", "b", "a", "c"]
    assert apply_config(live, thing({"tags": ["a"]}), "two", force=True)["spec"]["tags"] == ["a", "b"]


def test_broken_stored_entries_are_said_clearly() -> None:
    live = thing({"replicas": 1}, managedFields=[{"operation": "Update", "apiVersion": V1, "fieldsType": "FieldsV9"}])
    with pytest.raises(BadRequest) as refused:
        apply_config(live, thing({"replicas": 1}), "me")
    assert refused.value.message == (
        'failed to decode managed fields: invalid fieldsType "FieldsV9" in managed fields entry 0'
    )


def test_kubectl_takes_over_what_it_applied_client_side() -> None:
    last = json.dumps(thing({"replicas": 1, "size": "S"}))
    live = update(
        None, thing({"replicas": 1, "size": "S"}, annotations={LAST_APPLIED: last}), "kubectl-client-side-apply"
    )
    with pytest.raises(Conflict):
        apply_config(live, thing({"replicas": 2}), "another")
    moved = apply_config(live, thing({"replicas": 2}), "kubectl")
    assert moved["spec"]["replicas"] == 2
    assert json.loads(moved["metadata"]["annotations"][LAST_APPLIED]) == thing({"replicas": 2})
    # what was changed behind its back is still a conflict
    changed = update(live, thing({"replicas": 1, "size": "M"}, annotations={LAST_APPLIED: last}), "hand")
    with pytest.raises(Conflict, match=r"1 conflict: .*\.spec\.size"):
        apply_config(changed, thing({"size": "L", "replicas": 3}), "kubectl")


def test_live_and_configuration_are_not_touched() -> None:
    live = apply_config(None, thing({"containers": [{"name": "a", "image": "1"}], "tags": ["x"]}), "one")
    config = thing({"containers": [{"name": "b"}], "tags": ["y"]})
    before = json.dumps([live, config])
    apply_config(live, config, "one", now=LATER)
    update(live, config, "two", now=LATER)
    assert json.dumps([live, config]) == before


def test_without_schema_lists_are_replaced() -> None:
    schema = TypeSchema(None)
    live = apply_config(None, thing({"l": [1, 2], "m": {"a": 1}}), "one", schema=schema)
    merged = apply_config(live, thing({"l": [3], "m": {"b": 2}}), "two", schema=schema, force=True)
    assert merged["spec"] == {"l": [3], "m": {"a": 1, "b": 2}}


def test_patch_merge_keys_name_items_where_there_is_no_list_type() -> None:
    merged = {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}
    items = {"type": "array", "items": struct(name={"type": "string"}), **merged}
    schema = TypeSchema(struct(spec=struct(items=items)))
    live = apply_config(None, thing({"items": [{"name": "a"}]}), "one", schema=schema)
    assert apply_config(live, thing({"items": [{"name": "b"}]}), "two", schema=schema)["spec"]["items"] == [
        {"name": "a"},
        {"name": "b"},
    ]
