"""The request body of the stream is parsed and validated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shoal.dashboard.stream_request import MAX_WATCHES, parse_watches
from shoal.objects.errors import BadRequest


def body(**watches: Any) -> bytes:
    return json.dumps({"watches": watches}).encode()


def test_a_watch_begins_with_everything_or_where_it_was() -> None:
    watches = parse_watches(
        body(new={"path": "/api/v1/nodes"}, old={"path": "/apis/apps/v1/deployments", "since": "7"})
    )
    begin = "watch=true&allowWatchBookmarks=true"
    assert watches["new"].query == f"{begin}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion="
    assert watches["old"].query == f"{begin}&resourceVersion=7"
    assert parse_watches(body(a={"path": "/metrics", "inside": "default/east"}))["a"].managed_cluster == (
        "default",
        "east",
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (b"[]", "the body is not a set of watches"),
        (b'{"watches":{},"token":"x"}', "the body is not a set of watches"),
        (body(a={"path": "/api/v1/nodes", "verb": "delete"}), "the body is not a set of watches"),
        (body(**{"": {"path": "/api/v1/nodes"}}), "the id of a watch must have 1 to"),
        (body(a={"path": "/clusters/other/api/v1/nodes"}), "a: the path of a watch must begin with /api/ or /apis/"),
        (body(a={"path": "/api/../metrics"}), "a: the path of a watch must begin with"),
        (body(a={"path": "/api//v1"}), "a: the path of a watch must begin with"),
        (body(a={"path": "/ui/stream"}), "a: the path of a watch must begin with"),
        (body(a={"path": "/api/v1/nodes", "inside": "east"}), "a: inside must be NAMESPACE/NAME"),
        (body(a={"path": "/api/v1/nodes", "inside": "../east"}), "a: inside must be NAMESPACE/NAME"),
        (body(**{f"w{n}": {"path": "/api/v1/nodes"} for n in range(MAX_WATCHES + 1)}), "a stream must have 1 to"),
        (body(), "a stream must have 1 to 128 watches, not 0"),
    ],
)
def test_anything_else_is_refused_by_name(given: bytes, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        parse_watches(given)
