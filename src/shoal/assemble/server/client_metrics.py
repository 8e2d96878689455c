"""Metrics of what clients take: requests in flight, bodies, connections, watches and what they do not read."""

from __future__ import annotations

from shoal.apiserver.http import HTTPServer
from shoal.apiserver.metrics.requests import APIServerMetrics
from shoal.apiserver.server import ServerComponents


def add_client_metrics(metrics: APIServerMetrics, http: HTTPServer, core: ServerComponents) -> None:
    pacer = core.watch_pacer
    inflight = "apiserver_current_inflight_requests", "Number of requests that wait for the store."
    metrics.gauge(*inflight, lambda: core.inflight.count, 'request_kind="mutating"')
    metrics.gauge(*inflight, lambda: core.inflight.waiting_reads, 'request_kind="readOnly"')
    metrics.gauge(
        "shoal_http_body_bytes",
        "Bytes of request bodies that are received, wait or are served.",
        lambda: http.bodies.held_bytes,
    )
    metrics.counter(
        "shoal_http_bodies_rejected_total",
        "Number of request bodies that were refused or ended for lack of room.",
        lambda: http.bodies.rejected_total,
    )
    connections = "shoal_http_connections", "Number of open connections, by whether their client has authenticated."
    metrics.gauge(*connections, lambda: http.connection_count - http.unknown.count, 'client="known"')
    metrics.gauge(*connections, lambda: http.unknown.count, 'client="unknown"')
    ended = "shoal_http_connections_ended_total", "Number of connections that the server has ended for others."
    metrics.counter(*ended, lambda: http.unknown.ended_total, 'reason="unknown"')
    metrics.counter(*ended, lambda: http.ended_behind_total, 'reason="unread"')
    metrics.gauge("shoal_watchers", "Number of open watches.", lambda: core.cache.watcher_count)
    metrics.gauge("shoal_watches_behind", "Number of watches whose clients are behind.", lambda: pacer.behind_count)
    metrics.counter(
        "shoal_watches_expired_total",
        "Number of watches that have ended because their next event was no longer in the history.",
        lambda: pacer.expired_total,
    )
