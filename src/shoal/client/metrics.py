"""Metrics of requests to other servers, under client-go's names. Requests to a server in the same process are counted
by that server.
"""

from __future__ import annotations

from time import monotonic

from shoal.telemetry.metrics import Counter, Histogram, Metric, render_text

LATENCY_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
ERROR_CODE = "<error>"
"""The code label of a request without a response, as upstream."""

REQUESTS = Counter(
    "rest_client_requests_total",
    "Number of HTTP requests, by status code, method and host.",
    ("code", "method", "host"),
)
REQUEST_DURATION = Histogram(
    "rest_client_request_duration_seconds",
    "Request latency in seconds, by verb and host.",
    ("verb", "host"),
    LATENCY_BUCKETS,
)
_ALL: tuple[Metric, ...] = (REQUESTS, REQUEST_DURATION)


def observe_request(method: str, host: str, code: str, started: float) -> None:
    REQUESTS.inc("", code=code, method=method, host=host)
    REQUEST_DURATION.observe("", monotonic() - started, verb=method, host=host)


def count_stream(host: str, code: str) -> None:
    REQUESTS.inc("", code=code, method="GET", host=host)


def render(only: str | None = None) -> str:
    """Text for /metrics. Empty for a scrape of a single logical cluster."""
    lines = render_text(_ALL, only)
    return "\n".join(lines) + "\n" if lines else ""
