"""Metrics of the server's state, and a store decorator that times and traces writes.

Objects and watches are counted on scrape. For one logical cluster only its objects are reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

from shoal.apiserver.cache import Cache, Kind
from shoal.apiserver.metrics import Metrics, resource_labels
from shoal.clock import Clock
from shoal.store.interface import Store
from shoal.store.passing import PassingStore
from shoal.telemetry import tracing
from shoal.telemetry.meters import Row, escaped


class TimedStore(PassingStore):
    """`etcd_request_duration_seconds`, for any store."""

    def __init__(self, store: Store, metrics: Metrics, clock: Clock) -> None:
        super().__init__(store)
        self._metrics, self._now = metrics, clock.monotonic
        self._rows: dict[tuple[str, str], Row] = {}
        self.changes = tracing.Changes() if tracing.tracer is not None else None
        """Links writes to their spans; None if tracing is off."""
        # Called for every read, so it bypasses the decorator.
        self.fresh = store.fresh  # type: ignore[method-assign]

    def put(self, key: str, value: bytes, expected: int) -> asyncio.Future[int]:
        span = self._traced("put", key, value) if self.changes is not None else None
        return self._timed("update" if expected else "create", key, self._store.put(key, value, expected), span)

    def delete(self, key: str, expected: int) -> asyncio.Future[int]:
        span = self._traced("delete", key, None) if self.changes is not None else None
        return self._timed("delete", key, self._store.delete(key, expected), span)

    def _timed(
        self, operation: str, key: str, done: asyncio.Future[int], span: tracing.Span | None
    ) -> asyncio.Future[int]:
        kind = key[: key.index("/", key.index("/") + 1)]
        row = self._rows.get((operation, kind))
        if row is None:
            row = self._rows[operation, kind] = self._metrics.store_row(operation, kind)
        began, now, observe = self._now(), self._now, row.observe
        done.add_done_callback(lambda _: observe(now() - began))
        if span is not None:
            done.add_done_callback(partial(_end, span))
        return done

    def _traced(self, operation: str, key: str, value: bytes | None) -> tracing.Span | None:
        context = tracing.following()
        if context is None or tracing.tracer is None or self.changes is None:
            return None
        span = tracing.tracer.begin("store", f"store {operation}", tracing.INTERNAL, context, key=key)
        self.changes.writing(key, value, span.context)
        return span


def _end(span: tracing.Span, done: asyncio.Future[int]) -> None:
    if tracing.tracer is not None:
        failed = "cancelled" if done.cancelled() else type(done.exception()).__name__ if done.exception() else ""
        tracing.tracer.end(span, failed)


class Readings:
    """Rendered by `APIServerMetrics.add_renderer`."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def render(self, only: str | None = None) -> str:
        kinds = sorted(self._cache.kinds.items())
        held = [(key, count) for key, kind in kinds if (count := _objects(kind, only))]
        lines = [
            "# HELP apiserver_storage_objects Objects by resource.",
            "# TYPE apiserver_storage_objects gauge",
            *(f'apiserver_storage_objects{{resource="{_dotted(key)}"}} {count}' for key, count in held),
            "# HELP apiserver_resource_objects Objects by group and resource.",
            "# TYPE apiserver_resource_objects gauge",
            *(f"apiserver_resource_objects{{{resource_labels(key)}}} {count}" for key, count in held),
        ]
        if only is None:
            lines += _of_watches(kinds)
        return "\n".join(lines) + "\n"


def _objects(kind: Kind, only: str | None) -> int:
    if only is not None:
        table = kind.tables.get(only)
        return len(table.entries) if table is not None else 0
    return sum(len(table.entries) for table in kind.tables.values())


def _of_watches(kinds: Iterable[tuple[str, Kind]]) -> Iterable[str]:
    yield "# HELP apiserver_longrunning_requests Open watches."
    yield "# TYPE apiserver_longrunning_requests gauge"
    for key, kind in kinds:
        if kind.watchers:
            said = f'verb="WATCH",{resource_labels(key)},component="apiserver"'
            yield f"apiserver_longrunning_requests{{{said}}} {kind.watchers}"
    yield "# HELP apiserver_watch_events_total Events sent to watches."
    yield "# TYPE apiserver_watch_events_total counter"
    for key, kind in kinds:
        if kind.sent:
            yield f"apiserver_watch_events_total{{{resource_labels(key)}}} {kind.sent}"


def _dotted(key: str) -> str:
    """`pods`, `deployments.apps`."""
    group, _, plural = key.partition("/")
    return escaped(plural if group == "core" else f"{plural}.{group}")
