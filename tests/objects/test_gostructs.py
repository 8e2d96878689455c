"""Go's omitempty: empty fields are dropped, and always-written fields are not owned."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.builtin_schemas import builtin_schema, schema_name
from shoal.objects.apply import TypeSchema, managed_fields_on_update
from shoal.objects.gostructs import struct_of, struct_of_kind
from shoal.objects.schema.omitempty import OmitEmpty

CONTROLLER = ("", "v1", "ReplicationController")
PRIORITY = ("scheduling.k8s.io", "v1", "PriorityClass")
SLICE = ("discovery.k8s.io", "v1", "EndpointSlice")


def schema_of(group: str, version: str, kind: str) -> dict[str, Any]:
    return builtin_schema(schema_name(group, version, kind))


def test_what_is_left_out_and_what_is_always_there() -> None:
    found = struct_of("io.k8s.api.core.v1.ReplicationControllerSpec")
    assert found is not None
    assert found.omitempty == {"minReadySeconds": int, "selector": dict}
    assert found.nullable == {"replicas", "minReadySeconds", "selector", "template"}
    assert found.always_written == {}
    bound = struct_of("io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec")
    assert bound is not None
    assert bound.omitempty["validationActions"] is list
    sliced = struct_of_kind(schema_of(*SLICE))
    assert sliced is not None
    assert sliced.always_written == {"addressType": "", "endpoints": None, "ports": None}


def test_of_what_is_inlined() -> None:
    found = struct_of("io.k8s.api.core.v1.EphemeralContainer")
    assert found is not None
    assert found.omitempty["stdin"] is bool
    assert found.omitempty["targetContainerName"] is str


def test_what_is_not_known() -> None:
    assert struct_of("Node") is None
    assert struct_of("com.example.v1.Widget") is None
    assert struct_of_kind({"x-kubernetes-group-version-kind": [{"group": "x", "version": "v1", "kind": "X"}]}) is None
    assert struct_of_kind({}) is None


@pytest.mark.parametrize(
    ("kind", "given", "left"),
    [
        (CONTROLLER, {"spec": {"minReadySeconds": 0, "replicas": 0}}, {"spec": {"replicas": 0}}),
        (CONTROLLER, {"spec": {"replicas": None, "minReadySeconds": 1}}, {"spec": {"minReadySeconds": 1}}),
        (PRIORITY, {"globalDefault": False, "value": 0}, {"value": 0}),
        (PRIORITY, {"globalDefault": True, "description": ""}, {"globalDefault": True}),
        (("", "v1", "Pod"), {"spec": {"hostNetwork": False, "hostUsers": False}}, {"spec": {"hostUsers": False}}),
        # A value that is not the zero of the field's type is kept for validation to reject.
        (("", "v1", "Pod"), {"spec": {"hostNetwork": 0}}, {"spec": {"hostNetwork": 0}}),
        (SLICE, {"ports": None, "endpoints": []}, {"ports": None, "endpoints": []}),
        (PRIORITY, {"metadata": {"managedFields": None, "uid": ""}}, {"metadata": {"managedFields": None}}),
    ],
)  # fmt: skip
def test_dropped(kind: tuple[str, str, str], given: dict[str, Any], left: dict[str, Any]) -> None:
    OmitEmpty(schema_of(*kind), builtin_schema).apply(given)
    assert given == left


def owned_fields(kind: tuple[str, str, str], obj: dict[str, Any], live: dict[str, Any] | None = None) -> dict[str, Any]:
    types = TypeSchema(schema_of(*kind), builtin_schema)
    found = managed_fields_on_update(
        live, obj, manager="me", api_version="v1", schema=types, now="2024-05-01T10:00:00Z"
    )
    assert found is not None
    return dict(found[0]["fieldsV1"])


def test_nobody_owns_the_zero_of_what_is_always_there() -> None:
    assert owned_fields(PRIORITY, {"metadata": {}, "value": 0, "description": "x"}) == {"f:description": {}}
    assert owned_fields(PRIORITY, {"metadata": {}, "value": 7}) == {"f:value": {}}


def test_who_empties_a_list_that_is_always_there_owns_it() -> None:
    obj = {"metadata": {}, "addressType": "IPv4", "ports": [{"port": 80}]}
    types = TypeSchema(schema_of(*SLICE), builtin_schema)
    entries = managed_fields_on_update(
        None, obj, manager="me", api_version="v1", schema=types, now="2024-05-01T10:00:00Z"
    )
    live = {**obj, "metadata": {"managedFields": entries}}
    assert owned_fields(SLICE, {"metadata": {}, "addressType": "IPv4"}, live) == {"f:addressType": {}, "f:ports": {}}


def test_a_list_that_may_be_left_out_is_introduced() -> None:
    kind = ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding")
    fields = owned_fields(kind, {"metadata": {}, "spec": {"validationActions": ["Deny"]}})
    assert fields == {"f:spec": {"f:validationActions": {".": {}, 'v:"Deny"': {}}}}
