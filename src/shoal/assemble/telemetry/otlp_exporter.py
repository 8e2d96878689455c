"""Sends the spans of this process to the tracing endpoint, in batches, in the background.

A receiver that does not answer costs spans, never requests: spans are kept up to a bound and then dropped, and the log
says so once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import orjson

from shoal import __version__
from shoal.client.transport import Unreachable
from shoal.telemetry import tracing
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


log = logging.getLogger("shoal.assemble")

EXPORT_INTERVAL_SECONDS = 1.0
MAX_BATCH_SPANS = 512
SEND_TIMEOUT_SECONDS = 10.0
MAX_RESPONSE_BYTES = 65536


class SpanExporter:
    def __init__(self, tracer: tracing.Tracer, endpoint: str) -> None:
        # Most processes do not trace, so the client is loaded on demand.
        from shoal.client.webhook_transport import WebhookTransport  # noqa: PLC0415

        self._tracer = tracer
        self._url = endpoint if urlsplit(endpoint).path.strip("/") else endpoint.rstrip("/") + TRACES_PATH
        self._posting = WebhookTransport()
        self._has_warned = False
        self._resource = {
            "service.name": tracer.service,
            "service.version": __version__,
            "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
        }

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EXPORT_INTERVAL_SECONDS)
            while self._tracer.pending_spans and await self._send():
                pass

    async def close(self) -> None:
        """Sends the remaining spans once."""
        while self._tracer.pending_spans and await self._send():
            pass
        await self._posting.close()

    async def _send(self) -> bool:
        pending = self._tracer.pending_spans
        spans = [pending.popleft() for _ in range(min(len(pending), MAX_BATCH_SPANS))]
        body = orjson.dumps(export_request(spans, self._resource))
        try:
            async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
                status, _ = await self._posting.post(self._url, body, most=MAX_RESPONSE_BYTES)
            send_error = "" if status < 300 else f"status {status}"
        except (Unreachable, TimeoutError) as error:
            send_error = str(error) or "timed out"
        if send_error and not self._has_warned:
            log.warning("cannot export traces to %s: %s; dropping spans until it succeeds", self._url, send_error)
        self._has_warned = bool(send_error)
        return not send_error


@asynccontextmanager
async def export_spans() -> AsyncIterator[None]:
    """Exports spans for the duration of the context, if tracing is on."""
    if tracing.tracer is None or not tracing.endpoint:
        yield
        return
    exporter = SpanExporter(tracing.tracer, tracing.endpoint)
    running = asyncio.create_task(exporter.run(), name="tracing")
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await exporter.close()
