"""managedFields after create, update and patch."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from shoal.objects.apply import TypeSchema, fields_v1, managed_fields_on_update
from shoal.objects.errors import BadRequest
from tests.objects.apply.samples import (
    CONFIG_MAP,
    DEPLOYMENT,
    LATER,
    NOW,
    THING,
    V1,
    apply_config,
    owners,
    thing,
    update,
)

DEPLOYED: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default", "uid": "1", "labels": {"app": "nginx"}},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "nginx"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
        "template": {
            "metadata": {"labels": {"app": "nginx"}},
            "spec": {
                "containers": [
                    {
                        "name": "nginx",
                        "image": "nginx:1",
                        "args": ["-g", "x"],
                        "ports": [{"containerPort": 443}, {"containerPort": 80, "protocol": "TCP"}],
                        "resources": {},
                    }
                ],
                "nodeSelector": {"disk": "ssd"},
            },
        },
    },
}


def wire(fields: Any) -> str:
    return json.dumps(fields, separators=(",", ":"))


def test_created_deployment_is_owned_as_a_real_server_writes_it() -> None:
    assert wire(fields_v1(DEPLOYED, DEPLOYMENT)) == (
        '{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:replicas":{},"f:selector":{},'
        '"f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{}},"f:type":{}},'
        '"f:template":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{'
        '"k:{\\"name\\":\\"nginx\\"}":{".":{},"f:args":{},"f:image":{},"f:name":{},'
        '"f:ports":{".":{},"k:{\\"containerPort\\":80,\\"protocol\\":\\"TCP\\"}":{".":{},"f:containerPort":{},'
        '"f:protocol":{}},"k:{\\"containerPort\\":443,\\"protocol\\":\\"TCP\\"}":{".":{},"f:containerPort":{}}},'
        '"f:resources":{}}},"f:nodeSelector":{}}}}}'
    )


def test_created_config_map() -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"key": "value", "a": "b"}}
    assert wire(fields_v1(obj, CONFIG_MAP)) == '{"f:data":{".":{},"f:a":{},"f:key":{}}}'


def test_metadata_is_known_for_every_kind() -> None:
    obj = thing(
        generateName="t-",
        labels={},
        finalizers=["b", "a"],
        ownerReferences=[{"uid": "7", "name": "o", "kind": "K", "apiVersion": "v1"}],
        creationTimestamp=NOW,
        generation=2,
        resourceVersion="9",
        uid="u",
    )
    for schema in (THING, TypeSchema(None)):
        assert fields_v1(obj, schema) == {
            "f:metadata": {
                "f:finalizers": {".": {}, 'v:"a"': {}, 'v:"b"': {}},
                "f:generateName": {},
                "f:labels": {},
                "f:ownerReferences": {".": {}, 'k:{"uid":"7"}': {}},
            }
        }


def test_without_a_schema_maps_are_granular_and_lists_atomic() -> None:
    assert fields_v1(thing({"a": {"b": 1}, "l": [{"name": "x"}]}), TypeSchema(None)) == {
        "f:spec": {".": {}, "f:a": {".": {}, "f:b": {}}, "f:l": {}}
    }


def test_embedded_resources_and_free_parts() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    schema = TypeSchema({"type": "object", "properties": {"spec": {"type": "object", "properties": {"t": embedded}}}})
    obj = thing({"t": {"kind": "Pod", "metadata": {"name": "p", "finalizers": ["x"]}, "spec": {"c": [1]}}})
    assert fields_v1(obj, schema)["f:spec"]["f:t"] == {
        ".": {},
        "f:kind": {},
        "f:metadata": {".": {}, "f:finalizers": {".": {}, 'v:"x"': {}}, "f:name": {}},
        "f:spec": {".": {}, "f:c": {}},
    }


def test_a_recursive_schema_is_compiled_as_far_as_the_object_goes() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}, "v": {"type": "integer"}}}
    schema = TypeSchema({"type": "object", "properties": {"spec": {"$ref": "x/Node"}}}, {"Node": node}.get)
    assert fields_v1(thing({"next": {"next": {"v": 1}}}), schema) == {
        "f:spec": {".": {}, "f:next": {".": {}, "f:next": {".": {}, "f:v": {}}}}
    }


def test_create_gives_one_entry() -> None:
    obj = thing({"replicas": 1})
    assert managed_fields_on_update(
        None, obj, manager="kubectl", api_version=V1, schema=THING, now=NOW, subresource="status"
    ) == [
        {
            "manager": "kubectl",
            "operation": "Update",
            "apiVersion": V1,
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {".": {}, "f:replicas": {}}},
            "subresource": "status",
        }
    ]
    assert owners(update(None, obj, "")) == {"unknown/Update": {"f:spec": {".": {}, "f:replicas": {}}}}
    assert managed_fields_on_update(None, thing(), manager="m", api_version=V1, schema=THING, now=NOW) is None


def test_an_update_takes_what_it_changed_from_updaters_and_appliers() -> None:
    live = update(None, thing({"replicas": 1, "size": "S"}), "creator")
    live = apply_config(live, thing({"replicas": 1, "options": {"a": "1"}}), "applier", now=NOW)
    live = update(live, thing({"replicas": 2, "size": "S", "options": {"a": "2", "b": "3"}}), "editor", now=LATER)
    assert owners(live) == {
        "creator/Update": {"f:spec": {".": {}, "f:size": {}}},
        "editor/Update": {"f:spec": {"f:options": {"f:a": {}, "f:b": {}}, "f:replicas": {}}},
    }
    assert [entry["time"] for entry in live["metadata"]["managedFields"]] == [NOW, LATER]


def test_removed_fields_leave_everybody_and_empty_entries_go() -> None:
    live = update(None, thing({"replicas": 1, "size": "S"}), "one")
    live = apply_config(live, thing({"size": "S"}), "two", now=NOW)
    live = update(live, thing({"replicas": 1}), "three", now=LATER)
    assert owners(live) == {"one/Update": {"f:spec": {".": {}, "f:replicas": {}}}}
    assert live["metadata"]["managedFields"][0]["time"] == NOW


def test_an_update_is_merged_into_the_entry_of_the_same_manager_version_and_subresource() -> None:
    live = update(None, thing({"replicas": 1}), "m")
    live = update(live, thing({"replicas": 1, "size": "L"}), "m", now=LATER)
    assert owners(live) == {"m/Update": {"f:spec": {".": {}, "f:replicas": {}, "f:size": {}}}}
    live = update(live, {**live, "status": {"phase": "Up"}}, "m", subresource="status")
    assert owners(live)["m/Update/status"] == {"f:status": {".": {}, "f:phase": {}}}


def test_items_of_lists_are_owned_by_key_value_or_as_one() -> None:
    spec = {"containers": [{"name": "a"}, {"name": "b"}], "tags": ["x"], "steps": ["1"], "selector": {"k": "v"}}
    live = update(None, thing(spec), "one")
    changed = {
        "containers": [{"name": "b", "image": "i"}, {"name": "c"}],
        "tags": ["y", "x"],
        "steps": ["1", "2"],
        "selector": {"k": "w"},
    }
    assert owners(update(live, thing(changed), "two")) == {
        "one/Update": {
            "f:spec": {
                ".": {},
                "f:containers": {".": {}, 'k:{"name":"b"}': {".": {}, "f:name": {}}},
                "f:tags": {".": {}, 'v:"x"': {}},
            }
        },
        "two/Update": {
            "f:spec": {
                "f:containers": {'k:{"name":"b"}': {"f:image": {}}, 'k:{"name":"c"}': {".": {}, "f:name": {}}},
                "f:selector": {},
                "f:steps": {},
                "f:tags": {'v:"y"': {}},
            }
        },
    }


def test_nothing_changed_gives_back_the_stored_list() -> None:
    live = update(None, thing({"replicas": 1}), "m")
    same = thing({"replicas": 1}, resourceVersion="12", generation=3)
    entries = managed_fields_on_update(live, same, manager="other", api_version=V1, schema=THING, now=LATER)
    assert entries is live["metadata"]["managedFields"]


def test_status_is_ignored_where_the_endpoint_resets_it() -> None:
    live = update(None, thing({"replicas": 1}), "m")
    new = {**thing({"replicas": 1}), "status": {"phase": "Up"}}
    entries = managed_fields_on_update(
        live, new, manager="n", api_version=V1, schema=THING, now=LATER, reset={"f:status": {}}
    )
    assert entries is live["metadata"]["managedFields"]


@pytest.mark.parametrize("cleared", [[], [{}]])
def test_managed_fields_can_be_cleared_and_then_nobody_is_tracked(cleared: list[Any]) -> None:
    live = update(None, thing({"replicas": 1}, uid="u"), "m")
    cleaned = update(live, thing({"replicas": 2}, uid="u", managedFields=cleared), "m")
    assert "managedFields" not in cleaned["metadata"]
    assert "managedFields" not in update(cleaned, thing({"replicas": 3}, uid="u"), "m")["metadata"]
    assert owners(update(None, thing({"replicas": 1}, managedFields=cleared), "m")) == {
        "m/Update": {"f:spec": {".": {}, "f:replicas": {}}}
    }


def entry(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "manager": "mine",
        "operation": "Apply",
        "apiVersion": V1,
        "time": "2024-05-01T12:00:00+02:00",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:size": {}}},
    }
    return {name: value for name, value in (made | changes).items() if value is not None}


def test_edited_managed_fields_are_taken_over() -> None:
    live = update(None, thing({"replicas": 1, "size": "S"}), "m")
    edited = update(live, thing({"replicas": 1, "size": "S"}, managedFields=[entry()]), "m", now=LATER)
    assert edited["metadata"]["managedFields"] == [entry(time=NOW)]


@pytest.mark.parametrize(
    "broken",
    [
        entry(operation="Delete"),
        entry(apiVersion=None),
        entry(fieldsType=None),
        entry(fieldsType="FieldsV2"),
        entry(fieldsV1=[1]),
        entry(fieldsV1={"bogus": {}}),
        entry(fieldsV1={"f:a": {"f:b": 3}}),
        entry(time="yesterday"),
        entry(time=5),
        entry(manager=5),
        entry(subresource=[1]),
        "text",
    ],
)
def test_malformed_managed_fields_are_ignored(broken: Any) -> None:
    live = update(None, thing({"replicas": 1}), "m")
    again = thing({"replicas": 1}, managedFields=[broken])
    assert update(live, again, "m")["metadata"]["managedFields"] == live["metadata"]["managedFields"]
    assert owners(update(None, again, "m")) == {"m/Update": {"f:spec": {".": {}, "f:replicas": {}}}}
    # and in a store that somebody else wrote
    assert "managedFields" not in update(again, thing({"replicas": 2}, managedFields=[broken]), "m")["metadata"]


@pytest.mark.parametrize("shape", ["text", 5, {}, None])
def test_managed_fields_that_are_no_list_are_ignored(shape: Any) -> None:
    live = update(None, thing({"replicas": 1}), "m")
    assert owners(update(live, thing({"replicas": 1}, managedFields=shape), "m")) == owners(live)


def test_a_million_entries_are_refused() -> None:
    with pytest.raises(BadRequest) as refused:
        update(None, thing({}, managedFields=[entry()] * 1_000_000), "m")
    assert refused.value.message == "metadata.managedFields: Too many: 1000000: must have at most 1000 items"


def test_the_status_endpoint_does_not_take_managed_fields() -> None:
    live = update(None, thing({"replicas": 1}), "m")
    assert owners(update(live, thing({"replicas": 1}, managedFields=[entry()]), "m", subresource="status")) == owners(
        live
    )


def test_the_eleventh_updater_makes_the_oldest_ancient() -> None:
    live = update(None, thing({"replicas": 0}), "m00", now="2024-05-01T10:00:00Z")
    for number in range(1, 12):
        options = {f"o{index:02}": "x" for index in range(number)}
        live = update(
            live, thing({"replicas": 0, "options": options}), f"m{number:02}", now=f"2024-05-01T10:00:{number:02}Z"
        )
    assert len(owners(live)) == 10
    assert owners(live)["ancient-changes/Update"] == {
        "f:spec": {".": {}, "f:options": {".": {}, "f:o00": {}, "f:o01": {}}, "f:replicas": {}}
    }
    assert [name for name in owners(live) if name.startswith("m")] == [
        f"m{number:02}/Update" for number in range(3, 12)
    ]
    assert live["metadata"]["managedFields"][0]["time"] == "2024-05-01T10:00:02Z"


def test_entries_are_sorted_applies_first_then_by_time_and_name() -> None:
    live = update(None, thing({"replicas": 1}), "z", now=LATER)
    live = apply_config(live, thing({"size": "S"}), "y", now=LATER)
    live = apply_config(live, thing({"options": {"a": "b"}}), "x", now=LATER)
    live = update(live, {**live, "status": {"phase": "Up"}}, "a", now=LATER)
    assert list(owners(live)) == ["x/Apply", "y/Apply", "a/Update", "z/Update"]


def test_a_field_that_became_atomic_is_owned_as_one() -> None:
    live = update(None, thing({"options": {"a": "1"}, "size": "S"}), "old")
    atomic = TypeSchema(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "size": {"type": "string"},
                        "options": {
                            "type": "object",
                            "additionalProperties": {"type": "string"},
                            "x-kubernetes-map-type": "atomic",
                        },
                    },
                }
            },
        }
    )
    live = update(live, thing({"options": {"a": "1"}, "size": "L"}), "new", schema=atomic)
    assert owners(live)["old/Update"] == {"f:spec": {".": {}, "f:options": {}}}


def test_items_that_cannot_be_named_leave_the_object_untracked() -> None:
    live = update(None, thing({"replicas": 1}), "m")
    assert "managedFields" not in update(live, thing({"containers": [{"image": "x"}]}), "m")["metadata"]
    with pytest.raises(BadRequest, match=r'omits all key fields \["name"\]'):
        fields_v1(thing({"containers": [{"image": "x"}]}), THING)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def test_objects_nested_without_end_are_refused() -> None:
    deep = thing({"free": nested(3000)})
    calls: list[Callable[[], Any]] = [
        lambda: fields_v1(deep, THING),
        lambda: update(None, deep, "m"),
        lambda: update(update(None, thing({"size": "S"}), "m"), deep, "m"),
        lambda: apply_config(None, deep, "m"),
    ]
    for call in calls:
        with pytest.raises(BadRequest, match="nested too deeply"):
            call()
    assert fields_v1(thing({"free": nested(200)}), THING)


def test_field_sets_nested_without_end_are_ignored() -> None:
    fields: Any = {}
    for _ in range(3000):
        fields = {"f:a": fields}
    live = update(None, thing({"replicas": 1}), "m")
    assert owners(update(live, thing({"replicas": 1}, managedFields=[entry(fieldsV1=fields)]), "m")) == owners(live)
