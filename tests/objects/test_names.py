"""Validation of names and metadata, with exact messages."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.objects.names import (
    NameRule,
    is_config_map_key,
    is_dns1035_label,
    is_dns1123_label,
    is_dns1123_subdomain,
    is_path_segment_name,
    is_qualified_name,
    is_valid_label_value,
    validate_object_meta,
    validate_object_meta_update,
)

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
CONFIG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


@pytest.mark.parametrize(
    ("rule", "value", "said"),
    [
        (is_dns1123_label, "web-1", []),
        (is_dns1123_label, "a" * 63, []),
        (is_dns1123_label, "a" * 64, ["must be no more than 63 characters"]),
        (is_dns1123_label, "a.b", ["must not contain dots"]),
        (is_dns1123_label, "Web", [LABEL]),
        (is_dns1123_label, "web\n", [LABEL]),
        (is_dns1123_label, "", [LABEL]),
        (is_dns1123_subdomain, "a.b-c.d", []),
        (is_dns1123_subdomain, "a..b", [SUBDOMAIN]),
        (is_dns1123_subdomain, "A" * 254, ["must be no more than 253 characters", SUBDOMAIN]),
        (is_dns1035_label, "a1", []),
        (is_qualified_name, "example.com/My_name", []),
        (is_qualified_name, "a" * 63, []),
        (is_qualified_name, "/a", ["prefix part must be non-empty"]),
        (is_qualified_name, "Up.io/a", [f"prefix part {SUBDOMAIN}"]),
        (is_qualified_name, "a.io/", ["name part must be non-empty", f"name part {KEY}"]),
        (is_qualified_name, "a" * 64, ["name part must be no more than 63 bytes"]),
        (is_qualified_name, "-a", [f"name part {KEY}"]),
        (
            is_qualified_name,
            "a/b/c",
            [f"a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
        ),
        (is_valid_label_value, "", []),
        (is_valid_label_value, "a_B.c-1", []),
        (is_valid_label_value, "a b", [VALUE]),
        (is_valid_label_value, "ü" * 32, ["must be no more than 63 bytes", VALUE]),
        (is_path_segment_name, "system:node-proxier", []),
        (is_path_segment_name, "..", ["may not be '..'"]),
        (is_path_segment_name, "a/b%c", ["may not contain '/'", "may not contain '%'"]),
        (is_config_map_key, ".bashrc_1", []),
        (is_config_map_key, "", [CONFIG_KEY]),
        (is_config_map_key, "..", ["must not be '..'"]),
        (is_config_map_key, "..a", ["must not start with '..'"]),
    ],
)
def test_rules(rule: NameRule, value: str, said: list[str]) -> None:
    assert rule(value) == said


def test_a_dns_1035_label_starts_with_a_letter() -> None:
    assert is_dns1035_label("1a")[0].startswith("a DNS-1035 label must consist of lower case alphanumeric characters")


def meta(**changes: Any) -> dict[str, Any]:
    return {"name": "web", "namespace": "default"} | changes


def error_messages(
    metadata: dict[str, Any], namespaced: bool = True, rule: NameRule = is_dns1123_subdomain
) -> list[str]:
    return [cause.message for cause in validate_object_meta(metadata, namespaced=namespaced, name_rule=rule)]


def test_a_good_object_has_nothing_to_complain_about() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
    assert not error_messages(
        meta(
            generateName="web-",
            labels={"app.kubernetes.io/name": "web", "empty": ""},
            annotations={"Example.com/Note": "anything, ü"},
            ownerReferences=[owner, owner | {"controller": False}],
            finalizers=["example.com/hold", "kubernetes"],
        )
    )


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"namespace": "default"}, ["metadata.name: Required value: name or generateName is required"]),
        ({"name": "web"}, ["metadata.namespace: Required value"]),
        (meta(name="Web"), [f'metadata.name: Invalid value: "Web": {SUBDOMAIN}']),
        (meta(name=7), ["metadata.name: Invalid value: 7: must be a string"]),
        (meta(generateName="Web-"), [f'metadata.generateName: Invalid value: "Web-": {SUBDOMAIN}']),
        (meta(namespace="a.b"), ['metadata.namespace: Invalid value: "a.b": must not contain dots']),
        (meta(generation=-1), ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]),
        (meta(labels={"-a": "b c"}), [
            f'metadata.labels: Invalid value: "-a": name part {KEY}',
            f'metadata.labels: Invalid value: "b c": {VALUE}',
        ]),
        (meta(labels={"a": 1}), ["metadata.labels: Invalid value: 1: must be a string"]),
        (meta(labels=["a"]), ['metadata.labels: Invalid value: ["a"]: must be an object']),
        (meta(annotations={"a b": "x"}), [f'metadata.annotations: Invalid value: "a b": name part {KEY}']),
        (meta(annotations={"a": "x" * 262143}), []),
        (meta(annotations={"a": "x" * 262144}), [
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ]),
        (meta(annotations={"a": "ü" * 131072}), [
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ]),
        (meta(annotations={"a": None}), ["metadata.annotations: Invalid value: null: must be a string"]),
        (meta(ownerReferences=[{"apiVersion": "a/b/c"}]), [
            'metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty',
            'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
            'metadata.ownerReferences.name: Invalid value: "": must not be empty',
            'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
        ]),
        (meta(ownerReferences="x"), ['metadata.ownerReferences: Invalid value: "x": must be a list of objects']),
        (meta(finalizers=["a b"]), [f'metadata.finalizers: Invalid value: "a b": name part {KEY}']),
        (meta(finalizers=["orphan", "foregroundDeletion"]), [
            ('metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
            "finalizer orphan and foregroundDeletion cannot be both set"),
        ]),
    ],
)  # fmt: skip
def test_complaints_about_metadata(metadata: dict[str, Any], said: list[str]) -> None:
    assert error_messages(metadata) == said


def test_only_one_owner_controls() -> None:
    def owner(name: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}

    (said,) = error_messages(meta(ownerReferences=[owner("a"), owner("b")]))
    assert said.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for Pod/a and Pod/b'
    )


def test_an_event_owns_nothing() -> None:
    (said,) = error_messages(meta(ownerReferences=[{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "b"}]))
    assert said.endswith("/v1, Kind=Event is disallowed from being an owner")


def test_a_cluster_scoped_object_has_no_namespace() -> None:
    assert error_messages(meta(), namespaced=False) == ["metadata.namespace: Forbidden: not allowed on this type"]
    assert not error_messages({"name": "node"}, namespaced=False)


def test_a_generated_path_segment_may_start_with_dots() -> None:
    assert not error_messages({"name": "..x", "generateName": ".."}, namespaced=False, rule=is_path_segment_name)


OLD = {"name": "a", "namespace": "n", "uid": "u", "creationTimestamp": "t", "generation": 2}


def test_an_update_may_change_labels() -> None:
    assert not validate_object_meta_update(OLD | {"labels": {"a": "b"}, "generation": 3}, OLD)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "b"}, 'metadata.name: Invalid value: "b": field is immutable'),
        ({"namespace": ""}, 'metadata.namespace: Invalid value: "": field is immutable'),
        ({"uid": "v"}, 'metadata.uid: Invalid value: "v": field is immutable'),
        ({"creationTimestamp": None}, "metadata.creationTimestamp: Invalid value: null: field is immutable"),
        ({"deletionTimestamp": "t"}, 'metadata.deletionTimestamp: Invalid value: "t": field is immutable'),
        (
            {"deletionGracePeriodSeconds": 0},
            "metadata.deletionGracePeriodSeconds: Invalid value: 0: field is immutable",
        ),
        ({"generation": 1}, "metadata.generation: Invalid value: 1: must not be decremented"),
        ({"labels": {"a": "b c"}}, f'metadata.labels: Invalid value: "b c": {VALUE}'),
    ],
)
def test_what_an_update_may_not_change(changes: dict[str, Any], said: str) -> None:
    assert [cause.message for cause in validate_object_meta_update(OLD | changes, OLD)] == [said]


def test_no_new_finalizers_on_the_way_out() -> None:
    old = OLD | {"deletionTimestamp": "t", "finalizers": ["a", "b"]}
    assert not validate_object_meta_update(old | {"finalizers": ["b"]}, old)
    (cause,) = validate_object_meta_update(old | {"finalizers": ["b", "y", "x"]}, old)
    assert cause.reason == "FieldValueForbidden"
    assert cause.message == (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"x", "y"}'
    )
