"""Request metrics in Prometheus text format, under the names of kube-apiserver's dashboards.

A request costs one lookup by its labels. Gauges that follow from the state are computed on scrape (`metrics.storage`).
Numbers that are not of one logical cluster are only for users who see all of them: a tenant must not learn what others
do or how their kinds are named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shoal.apiserver.request.info import RequestInfo
from shoal.objects.wire import Request
from shoal.telemetry.metrics import HistogramSeries, escape_label_value

# fmt: off
BUCKETS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
)
# fmt: on
"""Upstream's buckets, for requests and for store operations."""
RequestLabels = tuple[str, str, str, str, str, str]
"""verb, group, version, resource, subresource, scope"""
MAX_SERIES = 2000
OVERFLOW_LABELS: RequestLabels = ("other", "", "", "", "", "")
"""Clients can invent any number of paths, so requests beyond MAX_SERIES different label sets are counted together
here.
"""
WATCH = "WATCH"
_NAMES = ("verb", "group", "version", "resource", "subresource", "scope")
_COLLECTION = {"GET": "LIST", "HEAD": "LIST", "DELETE": "DELETECOLLECTION"}
"""Verbs of requests without a name."""


class RequestSeries:
    """Counters of one verb and resource."""

    __slots__ = ("codes", "durations")

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self.durations = HistogramSeries(BUCKETS)


class APIServerMetrics:
    def __init__(self) -> None:
        self._requests: dict[RequestLabels, RequestSeries] = {}
        self._store_durations: dict[tuple[str, str], HistogramSeries] = {}
        self._callbacks: dict[str, tuple[str, str, dict[str, Callable[[], float]]]] = {}
        """By name: gauge or counter, help text, and callbacks by labels."""
        self._renderers: list[Callable[[str | None], str]] = []

    def gauge(self, name: str, text: str, read: Callable[[], float], labels: str = "") -> None:
        """`labels` as written in the output, such as `state="awake"`. A name may have several."""
        self._callbacks.setdefault(name, ("gauge", text, {}))[2][f"{{{labels}}}" if labels else ""] = read

    def counter(self, name: str, text: str, read: Callable[[], float], labels: str = "") -> None:
        self._callbacks.setdefault(name, ("counter", text, {}))[2][f"{{{labels}}}" if labels else ""] = read

    def add_renderer(self, render: Callable[[str | None], str]) -> None:
        """Adds a renderer of further lines. It gets the logical cluster to report on, or None for all."""
        self._renderers.append(render)

    def observe(self, labels: RequestLabels, code: int, seconds: float) -> None:
        series = self._requests.get(labels)
        if series is None:
            if len(self._requests) >= MAX_SERIES:
                labels = OVERFLOW_LABELS
            series = self._requests.setdefault(labels, RequestSeries())
        series.codes[code] = series.codes.get(code, 0) + 1
        if labels[0] != WATCH:
            series.durations.observe(seconds)

    def store_histogram(self, operation: str, kind: str) -> HistogramSeries:
        """The histogram for an operation on a stored resource (`group/plural`)."""
        row = self._store_durations.get((operation, kind))
        if row is None:
            if len(self._store_durations) >= MAX_SERIES:
                kind = "/other"
            row = self._store_durations.setdefault((operation, kind), HistogramSeries(BUCKETS))
        return row

    def render(self, cluster: str | None = None) -> bytes:
        """With `cluster`, only metrics of that logical cluster are rendered."""
        lines = list(self._shared_lines()) if cluster is None else []
        own = "\n".join(lines) + "\n" if lines else ""
        return "".join([own, *(render(cluster) for render in self._renderers)]).encode()

    def _shared_lines(self) -> Iterable[str]:
        series_by_labels = sorted(self._requests.items(), key=lambda item: item[0])
        yield "# HELP apiserver_request_total Requests by verb, resource and code."
        yield "# TYPE apiserver_request_total counter"
        for labels, request_series in series_by_labels:
            label_text = format_request_labels(labels)
            for code, count in sorted(request_series.codes.items()):
                yield f'apiserver_request_total{{{label_text},code="{code}"}} {count}'
        yield "# HELP apiserver_request_duration_seconds Response latency in seconds, without watches."
        yield "# TYPE apiserver_request_duration_seconds histogram"
        for labels, request_series in series_by_labels:
            if labels[0] != WATCH:
                yield from request_series.durations.lines(
                    "apiserver_request_duration_seconds", format_request_labels(labels)
                )
        yield "# HELP etcd_request_duration_seconds Write latency of the store in seconds, etcd or SQLite."
        yield "# TYPE etcd_request_duration_seconds histogram"
        for (operation, kind), row in sorted(self._store_durations.items(), key=lambda item: item[0]):
            label_text = f'operation="{operation}",{format_resource_labels(kind)}'
            yield from row.lines("etcd_request_duration_seconds", label_text)
        for name, (kind, text, series) in sorted(self._callbacks.items()):
            yield f"# HELP {name} {text}"
            yield f"# TYPE {name} {kind}"
            yield from (f"{name}{labels} {read():.10g}" for labels, read in series.items())


def request_labels_of(request: Request, info: RequestInfo) -> RequestLabels:
    """Verbs as in kube-apiserver's metrics."""
    verb, name = request.method, info.name
    if not info.plural:
        return verb, "", "", "", "", ""
    if verb == "PATCH":
        if request.headers.get("content-type", "").startswith("application/apply-patch"):
            verb = "APPLY"
    elif verb == "GET" and (info.legacy_watch or ("watch=" in request.query and _is_watch_query(request.query))):
        verb = WATCH
    elif not name:
        verb = _COLLECTION.get(verb, verb)
    scope = "resource" if name else "namespace" if info.namespace else "cluster"
    return verb, info.group, info.version, info.plural, info.subresource, scope


def _is_watch_query(query: str) -> bool:
    return "watch=1" in query or "watch=t" in query or "watch=T" in query


def format_request_labels(labels: RequestLabels) -> str:
    text = ",".join(f'{name}="{escape_label_value(value)}"' for name, value in zip(_NAMES, labels, strict=True))
    return f'{text},component="apiserver"'


def format_resource_labels(kind: str) -> str:
    """Labels of a stored resource, `group/plural`."""
    group, _, plural = kind.partition("/")
    return f'group="{"" if group == "core" else escape_label_value(group)}",resource="{escape_label_value(plural)}"'
