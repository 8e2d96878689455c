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

SERVER, CLIENT, INTERNAL = 2, 3, 1
"""Span kinds, as OTLP numbers them."""
MOST_WAITING = 8192
"""Spans that wait to be sent. Beyond that the oldest are dropped and counted."""
REMEMBERED = 4096
"""Writes that the store has not delivered yet, or has refused."""
FOLLOWED_SECONDS = 300.0
"""Later events are not part of the trace: periodic reconciles must not extend a trace for ever."""
_HEX = frozenset("0123456789abcdef")
_RANDOM = random.Random()


class Context(NamedTuple):
    """Identifies a span."""

    trace: str
    span: str
    until: float
    """The monotonic time until which the trace is extended."""

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace}-{self.span}-01"


@dataclass(slots=True)
class Span:
    name: str
    kind: int
    scope: str
    """The component: apiserver, client, or the controller's name."""
    context: Context
    parent: str = ""
    began: int = 0
    ended: int = 0
    attributes: dict[str, str | int] = field(default_factory=dict)
    error: str = ""


class Tracer:
    """The finished spans of one process until they are sent."""

    def __init__(self, service: str) -> None:
        self.service = service
        self.waiting: deque[Span] = deque()
        self.dropped = 0

    def begin(self, scope: str, name: str, kind: int, parent: Context | None, **about: str | int) -> Span:
        trace = parent.trace if parent is not None else f"{_RANDOM.getrandbits(128) or 1:032x}"
        until = parent.until if parent is not None else time.monotonic() + FOLLOWED_SECONDS
        context = Context(trace, f"{_RANDOM.getrandbits(64) or 1:016x}", until)
        above = parent.span if parent is not None else ""
        return Span(name, kind, scope, context, above, time.time_ns(), attributes=about)

    def end(self, span: Span, error: str = "", **about: str | int) -> None:
        span.ended, span.error = time.time_ns(), error
        span.attributes.update(about)
        self.waiting.append(span)
        if len(self.waiting) > MOST_WAITING:
            self.waiting.popleft()
            self.dropped += 1

    @contextmanager
    def span(self, scope: str, name: str, kind: int, parent: Context | None, **about: str | int) -> Iterator[Span]:
        """Starts a span, makes it current inside the block, and ends it."""
        span = self.begin(scope, name, kind, parent, **about)
        before = current.set(span.context)
        error = ""
        try:
            yield span
        except BaseException as raised:
            error = f"{type(raised).__name__}: {raised}"
            raise
        finally:
            current.reset(before)
            self.end(span, error)


tracer: Tracer | None = None
"""The tracer of the process; None if tracing is off."""
current: ContextVar[Context | None] = ContextVar("shoal-trace", default=None)
endpoint = ""
"""The export endpoint, as given by the flag."""


def export_to(url: str, service: str) -> None:
    """Enables tracing for the process. `assemble.telemetry.otlp_exporter` sends the spans."""
    global tracer, endpoint
    tracer, endpoint = Tracer(service), url


def stop() -> None:
    global tracer, endpoint
    tracer, endpoint = None, ""


def following() -> Context | None:
    """Returns the span context of this task, if its trace is still extended."""
    found = current.get()
    return found if found is not None and is_followed(found) else None


def is_followed(context: Context) -> bool:
    return context.until > time.monotonic()


def parsed(traceparent: str) -> Context | None:
    """Returns None if it is invalid, or says that the trace is not sampled."""
    parts = traceparent.strip().split("-")
    if len(parts) < 4 or (parts[0] == "00" and len(parts) != 4) or parts[0] == "ff":
        return None
    version, trace, span, flags = parts[:4]
    sizes = (len(version), len(trace), len(span), len(flags)) == (2, 32, 16, 2)
    if not sizes or set(version + trace + span + flags) - _HEX or not trace.strip("0") or not span.strip("0"):
        return None
    return Context(trace, span, time.monotonic() + FOLLOWED_SECONDS) if int(flags, 16) & 1 else None


class Changes:
    """Maps a write to its span, from the write until the store delivers it. Delivery comes before the writer gets its
    result.
    """

    def __init__(self) -> None:
        self._written: OrderedDict[tuple[str, bytes | None], Context] = OrderedDict()

    def writing(self, key: str, value: bytes | None, context: Context) -> None:
        self._written[key, value] = context
        if len(self._written) > REMEMBERED:
            self._written.popitem(last=False)

    def delivered(self, key: str, value: bytes | None) -> str:
        """Returns the traceparent of the write and removes it; empty if it is not traced."""
        found = self._written.pop((key, value), None) if self._written else None
        return found.traceparent if found is not None else ""
