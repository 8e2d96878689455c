"""The values of the chart and their schema: what the chart has fits, and what is typed wrongly is refused where it is
wrong. That Helm says so is in tests/real/test_chart.py."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs
import pytest
import yaml

from shoal import __version__
from tests.packages.chart_values import WRONG
from tests.packages.manifests import CHART, OWN_IMAGE, Object

SCHEMA: Object = json.loads((CHART / "values.schema.json").read_text())


@pytest.fixture(scope="module")
def schema() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(SCHEMA)


@pytest.fixture
def values() -> Object:
    found: Object = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


def merged(values: Object, more: Object) -> Object:
    """As Helm merges them: maps by key, everything else replaced."""
    result = copy.deepcopy(values)
    for key, value in more.items():
        before = result.get(key)
        result[key] = merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return result


def refusals(schema: jsonschema_rs.Validator, values: Object) -> dict[str, str]:
    """By the place."""
    found = {}
    for error in schema.iter_errors(values):
        found["".join(f"/{part}" for part in error.instance_path)] = error.message
    return found


def test_the_chart_is_of_this_release(values: Object) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert f"{values['image']['repository']}:{values['image']['tag'] or chart['appVersion']}" == OWN_IMAGE


def test_values_as_they_are_fit_their_schema(schema: jsonschema_rs.Validator, values: Object) -> None:
    assert refusals(schema, values) == {}
    assert set(SCHEMA["properties"]) == {*values, "global"}, "global is Helm's own"


def test_the_values_in_comments_fit_their_schema(schema: jsonschema_rs.Validator, values: Object) -> None:
    text = (CHART / "values.yaml").read_text()
    commented = text.partition("workers: []\n")[2].partition("\n\n")[0]
    example = yaml.safe_load("\n".join(line.removeprefix("# ").removeprefix("#") for line in commented.splitlines()))
    assert set(example[0]) == set(SCHEMA["properties"]["workers"]["items"]["properties"])
    assert refusals(schema, {**values, "workers": example}) == {}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_refused_where_it_is(schema: jsonschema_rs.Validator, values: Object, wrong: str) -> None:
    given, place, _ = WRONG[wrong]
    assert place in refusals(schema, merged(values, given))


@pytest.mark.parametrize(
    "given",
    [
        {"hub": {"resources": {"requests": {"cpu": 0.5, "memory": "1.5Gi", "example.com/gpu": 1}}}},
        {"hub": {"disruptionBudget": {"maxUnavailable": "50%"}}},
        {
            "hub": {
                "service": {"loadBalancerSourceRanges": ["2001:db8::/32"]},
                "tlsSANs": ["2001:db8::1", "*.example.com"],
            }
        },
        {"hub": {"enabled": False}, "workers": [{"name": "far", "hubSecret": "far"}]},
        {"hub": {"allowFrom": [{"podSelector": {}, "namespaceSelector": {"matchLabels": {"team": "a"}}}]}},
        {"global": {"anything": True}},
    ],
    ids=str,
)
def test_what_is_right_is_taken(schema: jsonschema_rs.Validator, values: Object, given: Object) -> None:
    assert refusals(schema, merged(values, given)) == {}


def places(part: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    """Every schema of an object within this one, each by its path."""
    if "$ref" in part:
        yield from places(SCHEMA["definitions"][part["$ref"].rpartition("/")[2]], path)
        return
    if part.get("type") == "object":
        yield path, part
    for name, inner in part.get("properties", {}).items():
        yield from places(inner, f"{path}/{name}")
    if isinstance(part.get("items"), Mapping):
        yield from places(part["items"], f"{path}/0")


def test_no_object_takes_a_key_that_nobody_knows() -> None:
    found = dict(places(SCHEMA))
    assert {"", "/hub", "/hub/etcd", "/workers/0", "/tolerations/0", "/hub/allowFrom/0/ipBlock"} <= set(found)
    open_ = {path for path, part in found.items() if part.get("additionalProperties", True) is True}
    assert open_ == {"/global"}, "which are the values of a chart that has this one as a part"


def leaves(values: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name)


def test_every_value_has_a_type(schema: jsonschema_rs.Validator, values: Object) -> None:
    """None of them takes all of these."""
    wrongs: tuple[Any, ...] = (-1, [[]], {"a": []})
    for path in leaves(values):
        for wrong in wrongs:
            given = wrong
            for name in reversed(path):
                given = {name: given}
            found = refusals(schema, merged(values, given))
            where = "".join(f"/{name}" for name in path)
            assert any(place.startswith(where) for place in found), (where, wrong, found)
