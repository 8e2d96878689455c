"""Every stable built-in kind is created, read, listed, changed by every verb, watched and deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.kinds.catalogue import BuiltinResource, profile_builtins
from tests.apiserver.kind_samples import Object, samples
from tests.serving import Cluster, Server, fresh_cluster

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
NAMES = {"ipaddresses": "10.20.0.9", "apiservices": "v1.example.net"}
NOT_OBJECTS = ("authentication.k8s.io", "authorization.k8s.io", "apiextensions.k8s.io", "autoscaling")
"""Reviews are asked, not kept; definitions have tests of their own; autoscalers are refused."""
KINDS = [b for b in profile_builtins("cluster") if {"create", "update"} <= set(b.verbs) and b.group not in NOT_OBJECTS]
ZEROES = {
    (item["json"].get("apiVersion"), item["json"]["kind"]): item["json"]
    for item in json.loads((Path(__file__).parent.parent / "objects/protobuf_golden.json").read_text())
    if item["json"].get("metadata") == {}
}


@pytest.fixture(scope="module")
def whole(still_server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(still_server, profile="cluster")
    yield cluster
    cluster.close()


def identity(builtin: BuiltinResource) -> str:
    return f"{builtin.plural}.{builtin.api_version}"


def paths(builtin: BuiltinResource) -> tuple[str, str]:
    root = f"/apis/{builtin.api_version}" if builtin.group else "/api/v1"
    collection = f"{root}/namespaces/default/{builtin.plural}" if builtin.namespaced else f"{root}/{builtin.plural}"
    return collection, f"{collection}/{NAMES.get(builtin.plural, 'sample')}"


def sample(builtin: BuiltinResource) -> Object:
    found = samples()
    key = f"{builtin.plural}.{builtin.group}" if builtin.group else builtin.plural
    body = found.get(f"{builtin.plural}.{builtin.version}.{builtin.group}") or found[key]
    metadata = {"name": NAMES.get(builtin.plural, "sample")}
    return {"apiVersion": builtin.api_version, "kind": builtin.kind, "metadata": metadata, **body}


def present(zero: object, made: object, path: str = "") -> None:
    """What Go always writes of the kind, clients may rely on."""
    if isinstance(zero, dict) and isinstance(made, dict):
        for key, value in zero.items():
            assert value is None or key in made, f"{path}.{key}"
            present(value, made.get(key), f"{path}.{key}")


@pytest.mark.parametrize("builtin", KINDS, ids=identity)
def test_a_life(whole: Cluster, builtin: BuiltinResource) -> None:
    collection, path = paths(builtin)
    start = whole.get(collection).ok()["metadata"]["resourceVersion"]
    with whole.watch(
        f"{collection}?resourceVersion={start}&fieldSelector=metadata.name={path.rpartition('/')[2]}"
    ) as seen:
        made = whole.post(collection, sample(builtin)).ok()
        assert made["kind"] == builtin.kind
        assert made["metadata"]["uid"]
        present(ZEROES.get((builtin.api_version, builtin.kind), {}), made)
        assert whole.get(path).ok() == made
        assert made in [
            {"apiVersion": builtin.api_version, "kind": builtin.kind, **item}
            for item in whole.get(collection).ok()["items"]
        ]
        _change(whole, path, made)
        if any(sub.name == "status" for sub in builtin.subresources):
            _status(whole, path)
        table = whole.get(path, Accept=TABLE).ok()
        assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"])
        assert whole.delete(path, {"gracePeriodSeconds": 0}).status == 200
        first = seen.next()
        assert (first["type"], first["object"]) == ("ADDED", made)
        assert seen.next()["type"] == "MODIFIED"


def _change(whole: Cluster, path: str, made: Object) -> None:
    """By PUT and by each kind of patch; what nobody changed stays."""
    labelled = made | {"metadata": made["metadata"] | {"labels": {**made["metadata"].get("labels", {}), "put": "x"}}}
    put = whole.put(path, labelled).ok()
    assert put["metadata"]["labels"]["put"] == "x"
    for kind in ("merge", "strategic-merge"):
        put = whole.patch(path, {"metadata": {"annotations": {kind: "x"}}}, kind).ok()
        assert put["metadata"]["annotations"][kind] == "x"
    put = whole.patch(path, [{"op": "add", "path": "/metadata/labels/json", "value": "x"}], "json").ok()
    assert put["metadata"]["labels"]["json"] == "x"
    name = made["metadata"]["name"]
    applied = {
        "apiVersion": made["apiVersion"],
        "kind": made["kind"],
        "metadata": {"name": name, "labels": {"by": "apply"}},
    }
    new = whole.patch(f"{path}?fieldManager=applier", applied, "apply").ok()
    assert new["metadata"]["labels"]["by"] == "apply"
    assert {key: new[key] for key in new if key not in ("metadata", "status")} == {
        key: made[key] for key in made if key not in ("metadata", "status")
    }


def _status(whole: Cluster, path: str) -> None:
    """A write of the status leaves the spec alone, and with most kinds carries metadata too, as upstream."""
    found = whole.get(path).ok()
    assert whole.get(f"{path}/status").ok() == found
    others = {key: found[key] for key in found if key not in ("metadata", "status")}
    new = whole.put(f"{path}/status", found | dict.fromkeys(others)).ok()
    assert {key: new[key] for key in others} == others
    new = whole.patch(f"{path}/status", {"metadata": {"uid": found["metadata"]["uid"]}, "status": {}}).ok()
    assert {key: new[key] for key in others} == others
