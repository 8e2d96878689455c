"""Go's unmarshal errors, and omitempty."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.builtin_schemas import builtin_schema, schema_name
from shoal.objects import gotypes
from shoal.objects.schema.omitempty import OmitEmpty

STRUCT = "json: cannot unmarshal {} into Go struct field {} of type {}"


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("ConfigMap", {"metadata": {"name": 7}}, STRUCT.format("number", "ObjectMeta.metadata.name", "string")),
        ("ConfigMap", {"metadata": []}, STRUCT.format("array", "ConfigMap.metadata", "v1.ObjectMeta")),
        ("ConfigMap", {"data": []}, STRUCT.format("array", "ConfigMap.data", "map[string]string")),
        ("ConfigMap", {"data": {"k": True}}, STRUCT.format("bool", "ConfigMap.data", "string")),
        ("ConfigMap", {"binaryData": {"k": "no base64"}}, "illegal base64 data at input byte 2"),
        ("ConfigMap", {"data": None, "immutable": "x"}, STRUCT.format("string", "ConfigMap.immutable", "bool")),
        ("Pod", {"spec": {"containers": {}}}, STRUCT.format("object", "PodSpec.spec.containers", "[]v1.Container")),
        (
            "Pod",
            {"spec": {"containers": [{"name": "a"}, {"image": 1}]}},
            STRUCT.format("number", "Container.spec.containers.image", "string"),
        ),
        (
            "Pod",
            {"spec": {"activeDeadlineSeconds": 1.5}},
            STRUCT.format("number 1.5", "PodSpec.spec.activeDeadlineSeconds", "int64"),
        ),
        (
            "Pod",
            {"metadata": {"creationTimestamp": "now"}},
            'parsing time "now" as "2006-01-02T15:04:05Z07:00": cannot parse "now" as "2006"',
        ),
        (
            # A self-unmarshaling type stops the decoder. A type error is reported only if no such stop follows.
            "Pod",
            {"metadata": {"name": 7, "creationTimestamp": "now"}},
            'parsing time "now" as "2006-01-02T15:04:05Z07:00": cannot parse "now" as "2006"',
        ),
        (
            "Pod",
            {"spec": {"containers": {}, "overhead": {"cpu": {}}}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "Event",
            {"eventTime": "2024-01-02T03:04:05Z"},
            'parsing time "2024-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"',
        ),
        ("Event", {"eventTime": 7}, STRUCT.format("number", "Event.eventTime", "string")),
        ("Event", {"eventTime": "2024-01-02T03:04:05.123456+01:00"}, ""),
        ("Pod", {"metadata": {"name": "a"}, "spec": {"containers": []}}, ""),
    ],
)
def test_the_first_that_cannot_be_read(kind: str, body: dict[str, Any], said: str) -> None:
    schema = builtin_schema(schema_name("", "v1", kind))
    assert gotypes.unmarshal_error(body, kind, schema, builtin_schema) == said


def test_a_list_that_has_a_name() -> None:
    schema = builtin_schema(schema_name("authentication.k8s.io", "v1", "TokenReview"))
    body = {"status": {"user": {"extra": {"none": None, "k": 1}}}}
    said = STRUCT.format("number", "UserInfo.status.user.extra", "v1.ExtraValue")
    assert gotypes.unmarshal_error(body, "TokenReview", schema, builtin_schema) == said


def test_empties_of_a_builtin_are_not_kept() -> None:
    pod: dict[str, Any] = {
        "metadata": {"labels": {}, "annotations": {"a": None}, "finalizers": [], "managedFields": []},
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "a", "env": [], "resources": {"limits": {}}}],
            "tolerations": [],
            "nodeSelector": [],
        },
    }
    OmitEmpty(builtin_schema(schema_name("", "v1", "Pod")), builtin_schema).apply(pod)
    assert pod == {
        "metadata": {"annotations": {"a": ""}, "managedFields": []},
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "a", "resources": {}}],
            # A value that is not a map is kept for validation to reject.
            "nodeSelector": [],
        },
    }


def test_nulls_in_lists_are_empty() -> None:
    pod: dict[str, Any] = {"spec": {"containers": [None, {"name": "a", "args": ["x", None]}]}}
    OmitEmpty(builtin_schema(schema_name("", "v1", "Pod")), builtin_schema).apply(pod)
    assert pod == {"spec": {"containers": [{}, {"name": "a", "args": ["x", ""]}]}}
