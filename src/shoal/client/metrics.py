"""Metrics of requests to other servers, under client-go's names. Requests to a server in the same process are counted
by that server.
"""

from __future__ import annotations

from time import monotonic

from shoal.telemetry.meters import Counter, Histogram, Meter, written

SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
FAILED = "<error>"
"""The code label of a request without a response, as upstream."""

REQUESTS = Counter("rest_client_requests_total", "Requests by code, method and host.", ("code", "method", "host"))
TOOK = Histogram("rest_client_request_duration_seconds", "Time to the answer.", ("verb", "host"), SECONDS)
_ALL: tuple[Meter, ...] = (REQUESTS, TOOK)


def note_answer(method: str, host: str, code: str, began: float) -> None:
    REQUESTS.inc("", code=code, method=method, host=host)
    TOOK.observe("", monotonic() - began, verb=method, host=host)


def note_stream(host: str, code: str) -> None:
    REQUESTS.inc("", code=code, method="GET", host=host)


def render(only: str | None = None) -> str:
    """Text for /metrics. Empty for a scrape of a single logical cluster."""
    lines = written(_ALL, only)
    return "\n".join(lines) + "\n" if lines else ""
