"""Which NodeClaims a static NodePool lacks, and which of too many are deleted."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.provision.staticpools.decide import decide
from tests.provision.hosted import node_pool

Object = dict[str, Any]
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def pool(replicas: int, *, ready: bool = True, **spec: Any) -> Object:
    found = node_pool(replicas=replicas, **spec)
    found["metadata"]["uid"] = "pool"
    return {**found, "status": READY} if ready else found


def claim(name: str, *conditions: str, going: bool = False) -> Object:
    stamp: Object = {"deletionTimestamp": "2026-11-16T00:00:00Z"} if going else {}
    return {
        "metadata": {"name": name, **stamp},
        "status": {"conditions": [{"type": each, "status": "True"} for each in conditions]},
    }


@pytest.mark.parametrize(
    ("pool_", "claims", "created"),
    [
        (pool(3), [], 3),
        (pool(3), [claim("a")], 2),
        (pool(3), [claim("a", going=True)], 3),
        (pool(3, limits={"nodes": "3"}), [claim("a", going=True)], 2),
        (pool(3, limits={"nodes": "1"}), [claim("a")], 0),
        (pool(3, ready=False), [], 0),
        (pool(0), [], 0),
        (node_pool(), [], 0),
    ],
    ids=["all", "some", "one that goes", "its machine counts", "limit", "not ready", "none", "not static"],
)
def test_what_is_created(pool_: Object, claims: list[Object], created: int) -> None:
    found = decide(pool_, claims, lambda _: 0)
    assert (len(found.create), found.delete) == (created, ())
    assert decide(pool_, claims, lambda _: 0) == found, "an interrupted attempt is repeated under the same names"
    names = {each["metadata"]["name"] for each in (*found.create, *claims)}
    assert len(names) == created + len(claims)


def test_those_that_are_needed_least_are_deleted_first() -> None:
    claims = [
        claim("busy", "Launched", "Initialized"),
        claim("idle", "Launched", "Initialized"),
        claim("starting", "Launched"),
        claim("new"),
    ]
    pods = {"busy": 2}
    order = [
        [
            each["metadata"]["name"]
            for each in decide(pool(count), claims, lambda c: pods.get(c["metadata"]["name"], 0)).delete
        ]
        for count in (3, 2, 1, 0)
    ]
    assert order == [["new"], ["new", "starting"], ["new", "starting", "idle"], ["new", "starting", "idle", "busy"]]
