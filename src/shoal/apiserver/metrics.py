"""Request metrics in Prometheus text format, under the names of kube-apiserver's dashboards.

A request costs one lookup by its labels. Gauges that follow from the state are computed on scrape (`metrics.storage`).
Numbers that are not of one logical cluster are only for users who see all of them: a tenant must not learn what others
do or how their kinds are named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shoal.apiserver.paths import Target
from shoal.objects.wire import Request
from shoal.telemetry.meters import Row, escaped

# fmt: off
BUCKETS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
)
# fmt: on
"""Upstream's buckets, for requests and for store operations."""
Labels = tuple[str, str, str, str, str, str]
"""verb, group, version, resource, subresource, scope"""
MOST_SERIES = 2000
OTHERS: Labels = ("other", "", "", "", "", "")
"""Clients can invent any number of paths, so requests beyond MAX_SERIES different label sets are counted together
here.
"""
WATCH = "WATCH"
_NAMES = ("verb", "group", "version", "resource", "subresource", "scope")
_COLLECTION = {"GET": "LIST", "HEAD": "LIST", "DELETE": "DELETECOLLECTION"}
"""Verbs of requests without a name."""


class Requests:
    """Counters of one verb and resource."""

    __slots__ = ("codes", "took")

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self.took = Row(BUCKETS)


class Metrics:
    def __init__(self) -> None:
        self._requests: dict[Labels, Requests] = {}
        self._stored: dict[tuple[str, str], Row] = {}
        self._read: dict[str, tuple[str, str, dict[str, Callable[[], float]]]] = {}
        """By name: gauge or counter, help text, and callbacks by labels."""
        self._others: list[Callable[[str | None], str]] = []

    def gauge(self, name: str, text: str, read: Callable[[], float], labels: str = "") -> None:
        """`labels` as written in the output, such as `state="awake"`. A name may have several."""
        self._read.setdefault(name, ("gauge", text, {}))[2][f"{{{labels}}}" if labels else ""] = read

    def counter(self, name: str, text: str, read: Callable[[], float], labels: str = "") -> None:
        self._read.setdefault(name, ("counter", text, {}))[2][f"{{{labels}}}" if labels else ""] = read

    def also(self, render: Callable[[str | None], str]) -> None:
        """Adds a renderer of further lines. It gets the logical cluster to report on, or None for all."""
        self._others.append(render)

    def observe(self, labels: Labels, code: int, seconds: float) -> None:
        found = self._requests.get(labels)
        if found is None:
            if len(self._requests) >= MOST_SERIES:
                labels = OTHERS
            found = self._requests.setdefault(labels, Requests())
        found.codes[code] = found.codes.get(code, 0) + 1
        if labels[0] != WATCH:
            found.took.observe(seconds)

    def store_row(self, operation: str, kind: str) -> Row:
        """The histogram for an operation on a stored resource (`group/plural`)."""
        row = self._stored.get((operation, kind))
        if row is None:
            if len(self._stored) >= MOST_SERIES:
                kind = "/other"
            row = self._stored.setdefault((operation, kind), Row(BUCKETS))
        return row

    def render(self, cluster: str | None = None) -> bytes:
        """With `cluster`, only metrics of that logical cluster are rendered."""
        lines = list(self._shared_lines()) if cluster is None else []
        own = "\n".join(lines) + "\n" if lines else ""
        return "".join([own, *(render(cluster) for render in self._others)]).encode()

    def _shared_lines(self) -> Iterable[str]:
        asked = sorted(self._requests.items(), key=lambda item: item[0])
        yield "# HELP apiserver_request_total Requests by verb, resource and code."
        yield "# TYPE apiserver_request_total counter"
        for labels, found in asked:
            said = request_labels(labels)
            for code, count in sorted(found.codes.items()):
                yield f'apiserver_request_total{{{said},code="{code}"}} {count}'
        yield "# HELP apiserver_request_duration_seconds Time to answer, watches left out."
        yield "# TYPE apiserver_request_duration_seconds histogram"
        for labels, found in asked:
            if labels[0] != WATCH:
                yield from found.took.lines("apiserver_request_duration_seconds", request_labels(labels))
        yield "# HELP etcd_request_duration_seconds Time until the store has written, whichever store it is."
        yield "# TYPE etcd_request_duration_seconds histogram"
        for (operation, kind), row in sorted(self._stored.items(), key=lambda item: item[0]):
            said = f'operation="{operation}",{resource_labels(kind)}'
            yield from row.lines("etcd_request_duration_seconds", said)
        for name, (kind, text, series) in sorted(self._read.items()):
            yield f"# HELP {name} {text}"
            yield f"# TYPE {name} {kind}"
            yield from (f"{name}{labels} {read():.10g}" for labels, read in series.items())


def labels_of(request: Request, target: Target) -> Labels:
    """Verbs as in kube-apiserver's metrics."""
    verb, name = request.method, target.name
    if not target.plural:
        return verb, "", "", "", "", ""
    if verb == "PATCH":
        if request.headers.get("content-type", "").startswith("application/apply-patch"):
            verb = "APPLY"
    elif verb == "GET" and (target.watched or ("watch=" in request.query and _watches(request.query))):
        verb = WATCH
    elif not name:
        verb = _COLLECTION.get(verb, verb)
    scope = "resource" if name else "namespace" if target.namespace else "cluster"
    return verb, target.group, target.version, target.plural, target.subresource, scope


def _watches(query: str) -> bool:
    return "watch=1" in query or "watch=t" in query or "watch=T" in query


def request_labels(labels: Labels) -> str:
    said = ",".join(f'{name}="{escaped(value)}"' for name, value in zip(_NAMES, labels, strict=True))
    return f'{said},component="apiserver"'


def resource_labels(kind: str) -> str:
    """Labels of a stored resource, `group/plural`."""
    group, _, plural = kind.partition("/")
    return f'group="{"" if group == "core" else escaped(group)}",resource="{escaped(plural)}"'
