"""Validation of CustomResourceDefinitions: recorded answers of upstream's code, and Shoal's own rules.

`apiextensions_golden.json` holds the recorded cases (v1.36.4) in which Shoal answers the same. The others print a value
in another form, and are written out below.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import orjson
import pytest

from shoal.kinds.apiextensions.customresourcedefinition import default_crd
from shoal.kinds.apiextensions.validation import validate_crd
from shoal.objects.schema import MAX_DEPTH

Object = dict[str, Any]
CASES: list[Object] = orjson.loads((Path(__file__).parent / "apiextensions_golden.json").read_bytes())
SCHEMA = "spec.validation.openAPIV3Schema"


def crd(schema: Any = None, **spec: Any) -> Object:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or {"type": "object"}},
    }
    made = {
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [version],
            **spec,
        },
    }
    default_crd(made)
    return made


def messages(made: Object, old: Object | None = None) -> list[str]:
    return [cause.message for cause in validate_crd(made, old)]


def test_golden() -> None:
    for case in CASES:
        given = case["crd"]
        made = {"metadata": {"name": given["name"], "annotations": given["annotations"]}, "spec": given["spec"]}
        default_crd(made)
        told = sorted({f"{cause.reason}|{cause.message}" for cause in validate_crd(made)})
        assert told == case["causes"], case


def test_the_record_is_there() -> None:
    assert len(CASES) > 100
    assert 10 < sum(not case["causes"] for case in CASES) < 40


def test_a_good_one() -> None:
    assert messages(crd()) == []


def test_versions() -> None:
    one = crd()["spec"]["versions"][0]
    assert messages(crd(versions=[one | {"storage": False}])) == [
        'spec.versions: Invalid value: ["v1"]: must have exactly one version marked as storage version',
        "status.storedVersions: Invalid value: null: must have at least one stored version",
    ]
    assert messages(crd(versions=[one, one | {"storage": False}])) == [
        'spec.versions: Invalid value: ["v1","v1"]: must contain unique version names'
    ]


def test_problems_are_told_per_version_when_versions_differ() -> None:
    one = crd()["spec"]["versions"][0]
    bad = {"openAPIV3Schema": {"type": "object", "properties": {"x": {}}}}
    told = messages(crd(versions=[one, one | {"name": "v2", "storage": False, "schema": bad}]))
    where = "spec.versions[1].schema.openAPIV3Schema.properties[x].type"
    assert told == [f"{where}: Required value: must not be empty for specified object fields"]


def test_status_needs_a_plain_root() -> None:
    made = crd({"type": "object", "maxProperties": 3})
    made["spec"]["versions"][0]["subresources"] = {"status": {}}
    (told,) = messages(made)
    assert told.startswith(
        f'{SCHEMA}: Invalid value: {{"type":"object","maxProperties":3}}: only [Description Type Format'
    )
    assert told.endswith(
        "XValidations] fields are allowed at the root of the schema if the status subresource is enabled"
    )


def test_conversion() -> None:
    assert messages(crd(conversion={"strategy": "Webhook"})) == [
        "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
        "spec.conversion.conversionReviewVersions: Required value",
    ]
    webhook = {"clientConfig": {"url": "http://x"}, "conversionReviewVersions": ["v7"]}
    assert messages(crd(conversion={"strategy": "Webhook", "webhook": webhook})) == [
        (
            'spec.conversion.webhookClientConfig.url: Invalid value: "http": '
            "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        ),
        'spec.conversion.conversionReviewVersions: Invalid value: ["v7"]: must include at least one of v1, v1beta1',
    ]
    assert messages(crd(conversion={"strategy": "X"})) == [
        'spec.conversion.strategy: Unsupported value: "X": supported values: "None", "Webhook"'
    ]


@pytest.mark.parametrize("pattern", ["[", "(?=a)b", "(a{1000}){1000}"])
def test_patterns_run_in_linear_time_or_not_at_all(pattern: str) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}}
    assert messages(crd(schema)) == [
        (
            f'{SCHEMA}.properties[x].pattern: Invalid value: "{pattern}": must be a valid regular expression,'
            " but isn't: error parsing regexp"
        )
    ]


def with_established(made: Object) -> Object:
    made["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    return made


def test_updates() -> None:
    old = with_established(crd())
    for path, value in (("group", "other.com"), ("scope", "Cluster")):
        new = copy.deepcopy(old)
        new["spec"][path] = value
        assert messages(new, old) == [f'spec.{path}: Invalid value: "{value}": field is immutable']
    for key, value in (("plural", "bars"), ("kind", "Bar")):
        new = copy.deepcopy(old)
        new["spec"]["names"][key] = value
        assert messages(new, old) == [f'spec.names.{key}: Invalid value: "{value}": field is immutable']
    fresh = crd()
    new = copy.deepcopy(fresh)
    new["spec"]["scope"] = "Cluster"
    assert messages(new, fresh) == []


def test_a_stored_version_stays() -> None:
    old = crd()
    new = copy.deepcopy(old)
    new["spec"]["versions"][0]["name"] = "v2"
    assert messages(new, old) == [
        'status.storedVersions: Invalid value: ["v1"]: must have the storage version v2',
        (
            'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage'
            " version, and must remain in spec.versions until a storage migration ensures no data remains persisted"
            " in v1 and removes v1 from status.storedVersions"
        ),
    ]


def test_an_unchanged_approval_is_not_asked_for_again() -> None:
    made = crd(group="foo.k8s.io")
    made["metadata"]["name"] = "foos.foo.k8s.io"
    assert messages(made) == [
        (
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval"
            ' annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111'
        )
    ]
    assert messages(made, copy.deepcopy(made)) == []


def test_a_bottomless_schema_is_refused() -> None:
    schema: Object = {"type": "object"}
    for _ in range(20_000):
        schema = {"type": "object", "properties": {"a": schema}}
    assert messages(crd(schema)) == [f'{SCHEMA}: Invalid value: "": must not be nested deeper than {MAX_DEPTH} levels']


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"versions": "x"}, 'spec.versions: Invalid value: "x": must be a list'),
        ({"versions": [1]}, "spec.versions[0]: Invalid value: 1: must be an object"),
        ({"names": []}, "spec.names: Invalid value: []: must be an object"),
    ],
)
def test_other_shapes_are_told(spec: Object, told: str) -> None:
    made = {"metadata": {"name": "x"}, "spec": {"group": "g.io"} | spec}
    assert told in messages(made)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"properties": []}, ".properties: Invalid value: []: must be an object of schemas"),
        ({"properties": {"a": 1}}, ".properties[a]: Invalid value: 1: must be a schema object"),
        ({"items": {"pattern": 5}}, ".items.pattern: Invalid value: 5: must be a string"),
        ({"maxItems": True}, ".maxItems: Invalid value: true: must be an integer"),
        ({"required": ["a", 1]}, ".required[1]: Invalid value: 1: must be a string"),
        ({"x-kubernetes-validations": ["x"]}, '.x-kubernetes-validations[0]: Invalid value: "x": must be an object'),
        ({"anyOf": {}}, ".anyOf: Invalid value: {}: must be a list of schemas"),
        ({"additionalProperties": "x"}, '.additionalProperties: Invalid value: "x": must be a schema object'),
    ],
)
def test_schemas_of_other_shapes_are_told(schema: Object, told: str) -> None:
    assert messages(crd(schema)) == [SCHEMA + told]


def test_the_status_alone_is_not_held_against_the_versions() -> None:
    old = crd()
    new = copy.deepcopy(old)
    new["status"] = {"storedVersions": ["v1", "v9"]}
    assert validate_crd(new, old) == []
