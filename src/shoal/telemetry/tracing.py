"""Traces of a change's whole chain, off unless somebody asks: who wrote, which loop acted on it, what that wrote.

A span context travels as W3C's `traceparent`: with a request in its header, with a change in its watch event, with a
key through a work queue, and inside one task in a context variable. Where tracing is off, `tracer` is None and that is
all anybody looks at.
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
"""Kinds of spans, as OTLP numbers them."""
MOST_WAITING = 8192
"""Spans that wait to be sent; beyond that the oldest go, and are counted."""
REMEMBERED = 4096
"""Writes that the store has not delivered yet, or has refused."""
FOLLOWED_SECONDS = 300.0
"""What happens later than that is another story: loops that come back by themselves do not grow a trace for ever."""
_HEX = frozenset("0123456789abcdef")
_RANDOM = random.Random()


class Context(NamedTuple):
    """Which span something happens in."""

    trace: str
    span: str
    until: float
    """Monotonic: how long it is followed."""

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace}-{self.span}-01"


@dataclass(slots=True)
class Span:
    name: str
    kind: int
    scope: str
    """Which part of Shoal: apiserver, client, or the loop's name."""
    context: Context
    parent: str = ""
    began: int = 0
    ended: int = 0
    attributes: dict[str, str | int] = field(default_factory=dict)
    error: str = ""


class Tracer:
    """What one process has to tell, until it is sent."""

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
        """What happens inside is in it."""
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
"""Of the process; None: nothing is traced."""
current: ContextVar[Context | None] = ContextVar("shoal-trace", default=None)
endpoint = ""
"""Where spans go, as the flag says it."""


def export_to(url: str, service: str) -> None:
    """From now on, for the process. Sending them is the business of whoever runs it (`assemble.tracing`)."""
    global tracer, endpoint
    tracer, endpoint = Tracer(service), url


def stop() -> None:
    global tracer, endpoint
    tracer, endpoint = None, ""


def following() -> Context | None:
    """The span this task is in, if it is still followed."""
    found = current.get()
    return found if found is not None and is_followed(found) else None


def is_followed(context: Context) -> bool:
    return context.until > time.monotonic()


def parsed(traceparent: str) -> Context | None:
    """None: it is none, or says that it is not to be recorded."""
    parts = traceparent.strip().split("-")
    if len(parts) < 4 or (parts[0] == "00" and len(parts) != 4) or parts[0] == "ff":
        return None
    version, trace, span, flags = parts[:4]
    sizes = (len(version), len(trace), len(span), len(flags)) == (2, 32, 16, 2)
    if not sizes or set(version + trace + span + flags) - _HEX or not trace.strip("0") or not span.strip("0"):
        return None
    return Context(trace, span, time.monotonic() + FOLLOWED_SECONDS) if int(flags, 16) & 1 else None


class Changes:
    """Which span wrote what, from the write until the store delivers it: that comes first, before the writer knows."""

    def __init__(self) -> None:
        self._written: OrderedDict[tuple[str, bytes | None], Context] = OrderedDict()

    def writing(self, key: str, value: bytes | None, context: Context) -> None:
        self._written[key, value] = context
        if len(self._written) > REMEMBERED:
            self._written.popitem(last=False)

    def delivered(self, key: str, value: bytes | None) -> str:
        """The traceparent of the write; empty: it is not traced."""
        found = self._written.pop((key, value), None) if self._written else None
        return found.traceparent if found is not None else ""
