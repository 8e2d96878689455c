from __future__ import annotations

import json
from typing import Any

import pytest

from shoal.apiserver.registry import builtins
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.response.table import make_table
from shoal.kinds.column import Column
from shoal.objects.errors import BadRequest

Object = dict[str, Any]

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
OBJECT: Object = {
    "apiVersion": "stable.example.com/v1",
    "kind": "CronTab",
    "metadata": {"name": "nightly", "namespace": "jobs", "creationTimestamp": "2025-12-31T23:00:00Z"},
    "spec": {"cron": "0 1 * * *", "replicas": 3, "share": 0.5, "paused": False, "none": None, "empty": ""},
    "status": {
        "names": ["a", "b"],
        "counts": {"z": 1, "a": [True, None]},
        "conditions": [{"type": "Stale", "status": "False"}, {"type": "Ready", "status": "True"}],
    },
}


def crontab(*columns: Column) -> Resource:
    return Resource("stable.example.com", "v1", "crontabs", "CronTab", "crontab", True, custom=True, columns=columns)


def table(resource: Resource, *objects: Object, include: str = "", **given: Any) -> Object:
    metadata = {"resourceVersion": "7"}
    return make_table(
        resource, list(objects), version="v1", include_object=include, now=NOW, metadata=metadata, **given
    )


def cell(path: str, kind: str) -> object:
    (row,) = table(crontab(Column("It", type=kind, path=path)), OBJECT)["rows"]
    assert row["cells"][0] == "nightly"
    return row["cells"][1]


def test_a_table() -> None:
    column = Column("Cron", "string", "", "When it runs.", 1, ".spec.cron")
    found = table(crontab(column, Column("N", type="integer", path=".spec.replicas")), OBJECT)
    assert (found["kind"], found["apiVersion"], found["metadata"]) == (
        "Table",
        "meta.k8s.io/v1",
        {"resourceVersion": "7"},
    )
    name, *others = found["columnDefinitions"]
    assert name["description"].startswith("Name must be unique within a namespace.")
    assert {**name, "description": ""} == {
        "name": "Name",
        "type": "string",
        "format": "name",
        "description": "",
        "priority": 0,
    }
    described = "Custom resource definition column (in JSONPath format): .spec.replicas"
    assert others == [
        {"name": "Cron", "type": "string", "format": "", "description": "When it runs.", "priority": 1},
        {"name": "N", "type": "integer", "format": "", "description": described, "priority": 0},
    ]
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": OBJECT["metadata"]}
    assert found["rows"] == [{"cells": ["nightly", "0 1 * * *", 3], "object": partial}]


def test_an_empty_table_has_its_columns() -> None:
    found = table(crontab())
    assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Age"]
    assert found["rows"] == []


def test_later_events_of_a_watch_repeat_no_columns() -> None:
    assert table(crontab(), OBJECT, headers=False)["columnDefinitions"] is None


def test_without_columns_the_age_is_shown() -> None:
    assert table(crontab(), OBJECT)["rows"][0]["cells"] == ["nightly", "60m"]


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        ("Object", OBJECT),
        ("None", None),
        (
            "Metadata",
            {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": OBJECT["metadata"]},
        ),
    ],
)
def test_what_goes_with_a_row(include: str, expected: object) -> None:
    (row,) = table(crontab(), OBJECT, include=include)["rows"]
    assert row["object"] == expected


def test_an_unknown_include() -> None:
    with pytest.raises(
        BadRequest, match=r"includeObject: Invalid value: \"All\": must be 'Metadata', 'Object', 'None', or empty$"
    ):
        table(crontab(), OBJECT, include="All")


@pytest.mark.parametrize(
    ("path", "kind", "expected"),
    [
        (".spec.cron", "string", "0 1 * * *"),
        (".spec.replicas", "string", "3"),
        (".spec.share", "string", "0.5"),
        (".spec.paused", "string", "false"),
        (".spec.none", "string", "<no value>"),
        (".spec.empty", "string", ""),
        (".spec.missing", "string", None),
        (".status.names", "string", '["a","b"]'),
        (".status.names[*]", "string", "a"),
        (".status.counts", "string", '{"a":[true,null],"z":1}'),
        ('.status.conditions[?(@.type=="Ready")].status', "string", "True"),
        ('.status.conditions[?(@.type=="Gone")].status', "string", None),
        (".spec.replicas", "integer", 3),
        (".spec.share", "integer", 0),
        (".spec.paused", "integer", None),
        (".spec.cron", "integer", None),
        (".spec.none", "integer", None),
        (".spec.share", "number", 0.5),
        (".spec.replicas", "number", 3),
        (".spec.paused", "number", None),
        (".spec.paused", "boolean", False),
        (".spec.replicas", "boolean", None),
        (".metadata.creationTimestamp", "date", "60m"),
        (".spec.cron", "date", "<invalid>"),
        (".spec.empty", "date", "<unknown>"),
        (".spec.replicas", "date", None),
        (".spec.missing", "date", None),
    ],
)
def test_cells_by_type(path: str, kind: str, expected: object) -> None:
    found = cell(path, kind)
    assert found == expected
    assert type(found) is type(expected)


def test_a_built_in_kind() -> None:
    (namespaces,) = [r for r in builtins.profile_resources("hub") if r.plural == "namespaces"]
    created = {"name": "default", "creationTimestamp": "2025-12-25T00:00:00Z"}
    found = table(namespaces, {"metadata": created, "status": {"phase": "Active"}})
    assert [(c["name"], c["description"][:4]) for c in found["columnDefinitions"]] == [
        ("Name", "Name"),
        ("Status", ""),
        ("Age", ""),
    ]
    assert found["rows"][0]["cells"] == ["default", "Active", "7d"]


@pytest.mark.parametrize(
    "resource", builtins.profile_resources("hub"), ids=lambda resource: str(resource.group_resource)
)
def test_every_built_in_kind_prints_a_bare_object(resource: Resource) -> None:
    found = table(resource, {"metadata": {"name": "bare"}})
    (row,) = found["rows"]
    assert len(row["cells"]) == len(found["columnDefinitions"])
    assert json.dumps(row["cells"])
