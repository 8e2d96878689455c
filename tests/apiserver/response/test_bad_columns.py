"""Printer columns and scale paths that validation accepts and that lead nowhere: nothing fails."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving import DEFINITIONS, WIDGETS, Cluster, widget_definition

TABLE = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
BAD_PATHS = (".spec[", ".spec[?(@.a==", ".spec[?(@.a ~ 1)]", ".spec.[", ".spec[a]", ".{", ".spec[0:1:0]", ".a b[")


def column(name: str, path: str, kind: str = "string") -> dict[str, Any]:
    return {"name": name, "type": kind, "jsonPath": path}


def define(cluster: Cluster, *columns: dict[str, Any]) -> None:
    cluster.post(DEFINITIONS, widget_definition(additionalPrinterColumns=list(columns))).ok()


def create(cluster: Cluster, name: str, status: bytes = b"null") -> None:
    meta = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"' + name.encode() + b'"},'
    cluster.post(WIDGETS, meta + b'"spec":{"size":1}}').ok()
    cluster.patch(f"{WIDGETS}/{name}/status", b'{"status":{"n":' + status + b"}}").ok()


@pytest.mark.parametrize("path", BAD_PATHS)
def test_columns_end_before_a_bad_path(cluster: Cluster, path: str) -> None:
    define(cluster, column("Size", ".spec.size", "integer"), column("Bad", path), column("Replicas", ".spec.replicas"))
    create(cluster, "a")
    for found in (cluster.get(WIDGETS, **TABLE).ok(), cluster.get(f"{WIDGETS}/a", **TABLE).ok()):
        names = [each["name"] for each in found["columnDefinitions"]]
        cells = found["rows"][0]["cells"]
        assert (names, cells) == (["Name", "Size"], ["a", 1])
    with cluster.watch(f"{WIDGETS}?resourceVersion=0", **TABLE) as seen:
        assert seen.next()["object"]["rows"][0]["cells"][:2] == ["a", 1]


def test_a_kind_whose_first_column_is_bad_is_printed_by_default(cluster: Cluster) -> None:
    define(cluster, column("Bad", ".spec["))
    create(cluster, "a")
    found = cluster.get(WIDGETS, **TABLE).ok()
    assert [each["name"] for each in found["columnDefinitions"]] == ["Name", "Age"]
    assert found["rows"][0]["cells"][0] == "a"


def test_a_path_begins_with_a_dot(cluster: Cluster) -> None:
    body = widget_definition(additionalPrinterColumns=[column("Bad", "spec.size"), column("Empty", "")])
    answer = cluster.post(DEFINITIONS, body)
    assert answer.status == 422
    assert [(each["field"], each["message"]) for each in answer["details"]["causes"]] == [
        (
            "spec.additionalPrinterColumns[0].JSONPath",
            'Invalid value: "spec.size": must be a simple json path starting with .',
        ),
        ("spec.additionalPrinterColumns[1].JSONPath", "Required value"),
    ]


@pytest.mark.parametrize(
    ("value", "integer"),
    [
        (b"1e300", -(2**63)),
        (b"-1e300", -(2**63)),
        (b"123456789012345678901234567890", -(2**63)),
        (b"9223372036854775807", 2**63 - 1),
        (b"1.9", 1),
        (b'"x"', None),
        (b'{"a":[]}', None),
    ],
)
def test_numbers_that_do_not_fit_are_converted_as_in_go(cluster: Cluster, value: bytes, integer: int | None) -> None:
    kinds = ("integer", "number", "date", "boolean", "string")
    define(cluster, *(column(kind, ".status.n", kind) for kind in kinds))
    create(cluster, "a", value)
    assert cluster.get(WIDGETS, **TABLE).ok()["rows"][0]["cells"][1] == integer


@pytest.mark.parametrize("replicas", [".spec.size[0]", ".spec..b", ".spec.$x", ".spec.a b", ".spec."])
def test_scale_paths(cluster: Cluster, replicas: str) -> None:
    paths = {"specReplicasPath": replicas, "statusReplicasPath": ".status.a..b", "labelSelectorPath": ".spec.$x["}
    cluster.post(DEFINITIONS, widget_definition(subresources={"scale": paths})).ok()
    cluster.post(WIDGETS, {"metadata": {"name": "a"}, "spec": {"size": 1}} | KIND).ok()
    assert cluster.get(f"{WIDGETS}/a/scale").ok()["status"] == {"replicas": 0}
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 3}}
    for answer in (
        cluster.put(f"{WIDGETS}/a/scale", scale),
        cluster.patch(f"{WIDGETS}/a/scale", {"spec": {"replicas": 4}}),
    ):
        assert answer.status in (200, 422), answer.body


KIND = {"apiVersion": "example.com/v1", "kind": "Widget"}
