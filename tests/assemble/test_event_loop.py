"""Stalls of the event loop are measured and named."""

from __future__ import annotations

import sys
import time

import pytest

from shoal.apiserver.filters import authorize
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.assemble.telemetry import event_loop
from tests.serving import Cluster, Server

STALL_SECONDS = 3 * event_loop.LOGGED_SECONDS


def test_a_stall_is_counted_and_its_request_is_logged(
    server: Server, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def slow(components: ServerComponents, ctx: RequestContext) -> None:
        if ctx.info.name == "slow":
            time.sleep(STALL_SECONDS)
        authorize(components, ctx)

    handlers = server.shoal.server.app
    monkeypatch.setattr(handlers, "_filters", tuple(slow if step is authorize else step for step in handlers._filters))
    before = event_loop.STALLS.sum
    cluster.get("/api/v1/namespaces/slow")
    cluster.eventually(lambda: event_loop.STALLS.sum - before > event_loop.LOGGED_SECONDS)
    assert f"GET {cluster.prefix}/api/v1/namespaces/slow of user 'shoal-admin' in " in caplog.text
    assert "the event loop has been busy for 0.5 s with " in caplog.text
    assert "Bearer" not in caplog.text


def test_the_histogram_is_served_to_those_who_see_the_process(server: Server, cluster: Cluster) -> None:
    lines = cluster.get("/metrics").body.decode()
    root = Cluster(server, "root")
    assert "shoal_event_loop_stall_seconds_count" in root.get("/metrics").body.decode()
    assert "shoal_heavy_requests_total" in root.get("/metrics").body.decode()
    assert "shoal_event_loop" not in lines
    assert "shoal_heavy" not in lines
    root.close()


def test_code_outside_of_a_request_is_named_too() -> None:
    assert event_loop.describe(sys._getframe()) == "code outside of this program"
