"""Encodes spans as OTLP/HTTP JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shoal.telemetry.tracing import Span

TRACES_PATH = "/v1/traces"
STATUS_ERROR = 2


def export_request(spans: Iterable[Span], resource: dict[str, str]) -> dict[str, Any]:
    """Returns the body of one export. `resource` describes the process."""
    scopes: dict[str, list[dict[str, Any]]] = {}
    for span in spans:
        scopes.setdefault(span.scope, []).append(_encode_span(span))
    scope_spans = [{"scope": {"name": scope}, "spans": encoded} for scope, encoded in scopes.items()]
    return {"resourceSpans": [{"resource": {"attributes": _encode_attributes(resource)}, "scopeSpans": scope_spans}]}


def _encode_span(span: Span) -> dict[str, Any]:
    encoded: dict[str, Any] = {
        "traceId": span.context.trace_id,
        "spanId": span.context.span_id,
        "name": span.name,
        "kind": span.kind,
        # Protobuf JSON encodes 64-bit integers as strings.
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _encode_attributes(span.attributes),
    }
    if span.parent_span_id:
        encoded["parentSpanId"] = span.parent_span_id
    if span.error:
        encoded["status"] = {"code": STATUS_ERROR, "message": span.error}
    return encoded


def _encode_attributes(values: dict[str, str] | dict[str, str | int]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in values.items()
    ]
