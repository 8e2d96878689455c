"""Traces the whole chain of a change, off by default: the request, the controller that acted on it, its writes.

A span context travels as W3C `traceparent`: in the header of a request, in the watch event of a change, with a key
through a work queue, and inside one task in a context variable. If tracing is off, `tracer` is None and nothing else is
checked.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

SPAN_KIND_SERVER, SPAN_KIND_CLIENT, SPAN_KIND_INTERNAL = 2, 3, 1
"""Span kinds, as OTLP numbers them."""
MAX_PENDING_SPANS = 8192
"""Spans that wait to be sent. Beyond that the oldest are dropped and counted."""
MAX_TRACKED_WRITES = 4096
"""Writes that the store has not delivered yet, or has refused."""
MAX_TRACE_SECONDS = 300.0
"""Later events are not part of the trace: periodic reconciles must not extend a trace for ever."""
_HEX = frozenset("0123456789abcdef")
_RANDOM = random.Random()


class SpanContext(NamedTuple):
    """Identifies a span."""

    trace_id: str
    span_id: str
    expires_at: float
    """The monotonic time until which the trace is extended."""

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-01"


@dataclass(slots=True)
class Span:
    name: str
    kind: int
    scope: str
    """The component: apiserver, client, or the controller's name."""
    context: SpanContext
    parent_span_id: str = ""
    start_ns: int = 0
    end_ns: int = 0
    attributes: dict[str, str | int] = field(default_factory=dict)
    error: str = ""


class Tracer:
    """The finished spans of one process until they are sent."""

    def __init__(self, service: str) -> None:
        self.service = service
        self.pending_spans: deque[Span] = deque()
        self.dropped_spans = 0

    def start_span(self, scope: str, name: str, kind: int, parent: SpanContext | None, **attributes: str | int) -> Span:
        trace_id = parent.trace_id if parent is not None else f"{_RANDOM.getrandbits(128) or 1:032x}"
        expires_at = parent.expires_at if parent is not None else time.monotonic() + MAX_TRACE_SECONDS
        context = SpanContext(trace_id, f"{_RANDOM.getrandbits(64) or 1:016x}", expires_at)
        parent_span_id = parent.span_id if parent is not None else ""
        return Span(name, kind, scope, context, parent_span_id, time.time_ns(), attributes=attributes)

    def end_span(self, span: Span, error: str = "", **attributes: str | int) -> None:
        span.end_ns, span.error = time.time_ns(), error
        span.attributes.update(attributes)
        self.pending_spans.append(span)
        if len(self.pending_spans) > MAX_PENDING_SPANS:
            self.pending_spans.popleft()
            self.dropped_spans += 1

    @contextmanager
    def span(
        self, scope: str, name: str, kind: int, parent: SpanContext | None, **attributes: str | int
    ) -> Iterator[Span]:
        """Starts a span, makes it current inside the block, and ends it."""
        span = self.start_span(scope, name, kind, parent, **attributes)
        token = current_context.set(span.context)
        error = ""
        try:
            yield span
        except BaseException as raised:
            error = f"{type(raised).__name__}: {raised}"
            raise
        finally:
            current_context.reset(token)
            self.end_span(span, error)


tracer: Tracer | None = None
"""The tracer of the process; None if tracing is off."""
current_context: ContextVar[SpanContext | None] = ContextVar("shoal-trace", default=None)
endpoint = ""
"""The export endpoint, as given by the flag."""


def enable(url: str, service: str) -> None:
    """Enables tracing for the process. `assemble.telemetry.otlp_exporter` sends the spans."""
    global tracer, endpoint
    tracer, endpoint = Tracer(service), url


def disable() -> None:
    global tracer, endpoint
    tracer, endpoint = None, ""


def active_context() -> SpanContext | None:
    """Returns the span context of this task, if its trace is still extended."""
    context = current_context.get()
    return context if context is not None and is_active(context) else None


def is_active(context: SpanContext) -> bool:
    return context.expires_at > time.monotonic()


def parse_traceparent(traceparent: str) -> SpanContext | None:
    """Returns None if it is invalid, or says that the trace is not sampled."""
    parts = traceparent.strip().split("-")
    if len(parts) < 4 or (parts[0] == "00" and len(parts) != 4) or parts[0] == "ff":
        return None
    version, trace_id, span_id, flags = parts[:4]
    sizes = (len(version), len(trace_id), len(span_id), len(flags)) == (2, 32, 16, 2)
    if (
        not sizes
        or set(version + trace_id + span_id + flags) - _HEX
        or not trace_id.strip("0")
        or not span_id.strip("0")
    ):
        return None
    return SpanContext(trace_id, span_id, time.monotonic() + MAX_TRACE_SECONDS) if int(flags, 16) & 1 else None


class WriteTraces:
    """Maps a write to its span, from the write until the store delivers it. Delivery comes before the writer gets its
    result.
    """

    def __init__(self) -> None:
        self._contexts: OrderedDict[tuple[str, bytes | None], SpanContext] = OrderedDict()

    def record_write(self, key: str, value: bytes | None, context: SpanContext) -> None:
        self._contexts[key, value] = context
        if len(self._contexts) > MAX_TRACKED_WRITES:
            self._contexts.popitem(last=False)

    def pop_traceparent(self, key: str, value: bytes | None) -> str:
        """Returns the traceparent of the write and removes it; empty if it is not traced."""
        context = self._contexts.pop((key, value), None) if self._contexts else None
        return context.traceparent if context is not None else ""
