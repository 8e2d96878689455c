"""Encodes spans as OTLP/HTTP JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.telemetry.tracing import Span

PATH = "/v1/traces"
ERROR = 2


def request(spans: Iterable[Span], resource: dict[str, str]) -> dict[str, Any]:
    """Returns the body of one export. `resource` describes the process."""
    scopes: dict[str, list[dict[str, Any]]] = {}
    for span in spans:
        scopes.setdefault(span.scope, []).append(_span(span))
    told = [{"scope": {"name": scope}, "spans": found} for scope, found in scopes.items()]
    return {"resourceSpans": [{"resource": {"attributes": _attributes(resource)}, "scopeSpans": told}]}


def _span(span: Span) -> dict[str, Any]:
    said: dict[str, Any] = {
        "traceId": span.context.trace,
        "spanId": span.context.span,
        "name": span.name,
        "kind": span.kind,
        # Protobuf JSON encodes 64-bit integers as strings.
        "startTimeUnixNano": str(span.began),
        "endTimeUnixNano": str(span.ended),
        "attributes": _attributes(span.attributes),
    }
    if span.parent:
        said["parentSpanId"] = span.parent
    if span.error:
        said["status"] = {"code": ERROR, "message": span.error}
    return said


def _attributes(values: dict[str, str] | dict[str, str | int]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in values.items()
    ]
