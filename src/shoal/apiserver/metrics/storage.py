"""Metrics of the server's state, and a store decorator that times and traces writes.

Objects and watches are counted on scrape. For one logical cluster only its objects are reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

from shoal.apiserver.cache.cacher import ResourceCache, WatchCache
from shoal.apiserver.metrics.requests import MAX_SERIES, APIServerMetrics, format_resource_labels
from shoal.clock import Clock
from shoal.store.decorator import StoreDecorator
from shoal.store.interface import Store
from shoal.telemetry import tracing
from shoal.telemetry.metrics import HistogramSeries, escape_label_value


class InstrumentedStore(StoreDecorator):
    """`etcd_request_duration_seconds`, for any store."""

    def __init__(self, store: Store, metrics: APIServerMetrics, clock: Clock) -> None:
        super().__init__(store)
        self._metrics, self._now = metrics, clock.monotonic
        self._histograms: dict[tuple[str, str], HistogramSeries] = {}
        self.traced_changes = tracing.WriteTraces() if tracing.tracer is not None else None
        """Links writes to their spans; None if tracing is off."""
        # Called for every read, so it bypasses the decorator.
        self.read_index = store.read_index  # type: ignore[method-assign]

    def put(self, key: str, value: bytes, expected_revision: int) -> asyncio.Future[int]:
        span = self._start_span("put", key, value) if self.traced_changes is not None else None
        return self._observe(
            "update" if expected_revision else "create", key, self._store.put(key, value, expected_revision), span
        )

    def delete(self, key: str, expected_revision: int) -> asyncio.Future[int]:
        span = self._start_span("delete", key, None) if self.traced_changes is not None else None
        return self._observe("delete", key, self._store.delete(key, expected_revision), span)

    def _observe(
        self, operation: str, key: str, future: asyncio.Future[int], span: tracing.Span | None
    ) -> asyncio.Future[int]:
        kind = key[: key.index("/", key.index("/") + 1)]
        row = self._histograms.get((operation, kind))
        if row is None:
            row = self._metrics.store_histogram(operation, kind)
            if len(self._histograms) < MAX_SERIES:
                self._histograms[operation, kind] = row
        started, now, observe = self._now(), self._now, row.observe
        future.add_done_callback(lambda _: observe(now() - started))
        if span is not None:
            future.add_done_callback(partial(_end_span, span))
        return future

    def _start_span(self, operation: str, key: str, value: bytes | None) -> tracing.Span | None:
        context = tracing.active_context()
        if context is None or tracing.tracer is None or self.traced_changes is None:
            return None
        span = tracing.tracer.start_span("store", f"store {operation}", tracing.SPAN_KIND_INTERNAL, context, key=key)
        self.traced_changes.record_write(key, value, span.context)
        return span


def _end_span(span: tracing.Span, future: asyncio.Future[int]) -> None:
    if tracing.tracer is not None:
        failed = "cancelled" if future.cancelled() else type(future.exception()).__name__ if future.exception() else ""
        tracing.tracer.end_span(span, failed)


class StateMetrics:
    """Rendered by `APIServerMetrics.add_renderer`."""

    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache

    def render(self, cluster: str | None = None) -> str:
        kinds = sorted(self._cache.resource_caches.items())
        counts = [(key, count) for key, kind in kinds if (count := _object_count(kind, cluster))]
        lines = [
            "# HELP apiserver_storage_objects Objects by resource.",
            "# TYPE apiserver_storage_objects gauge",
            *(f'apiserver_storage_objects{{resource="{_resource_name(key)}"}} {count}' for key, count in counts),
            "# HELP apiserver_resource_objects Objects by group and resource.",
            "# TYPE apiserver_resource_objects gauge",
            *(f"apiserver_resource_objects{{{format_resource_labels(key)}}} {count}" for key, count in counts),
        ]
        if cluster is None:
            lines += _watch_lines(kinds)
        return "\n".join(lines) + "\n"


def _object_count(resource_cache: ResourceCache, cluster: str | None) -> int:
    if cluster is not None:
        table = resource_cache.tables.get(cluster)
        return len(table.entries) if table is not None else 0
    return sum(len(table.entries) for table in resource_cache.tables.values())


def _watch_lines(kinds: Iterable[tuple[str, ResourceCache]]) -> Iterable[str]:
    yield "# HELP apiserver_longrunning_requests Open watches."
    yield "# TYPE apiserver_longrunning_requests gauge"
    for key, kind in kinds:
        if kind.watcher_count:
            labels = f'verb="WATCH",{format_resource_labels(key)},component="apiserver"'
            yield f"apiserver_longrunning_requests{{{labels}}} {kind.watcher_count}"
    yield "# HELP apiserver_watch_events_total Events sent to watches."
    yield "# TYPE apiserver_watch_events_total counter"
    for key, kind in kinds:
        if kind.events_sent:
            yield f"apiserver_watch_events_total{{{format_resource_labels(key)}}} {kind.events_sent}"


def _resource_name(key: str) -> str:
    """`pods`, `deployments.apps`."""
    group, _, plural = key.partition("/")
    return escape_label_value(plural if group == "core" else f"{plural}.{group}")
