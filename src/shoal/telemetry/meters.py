"""Metric types: counters, gauges and histograms with labels, rendered in the Prometheus text format.

Each feature has its own list of metrics. One process may serve many logical clusters: a series of one of them has the
label `cluster`, unless the cluster has no name. Values are kept for the life of the process, as scrapers expect of
counters. There are no locks: everything runs on the event loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

Series = tuple[str, ...]
"""The cluster and the label values, in the order of the labels."""
Read = Callable[[], Iterable[tuple[str, Mapping[str, str], float]]]
"""Returns cluster, labels and value of each series, read at scrape time."""


class Meter(ABC):
    kind = ""

    def __init__(self, name: str, text: str, labels: tuple[str, ...] = ()) -> None:
        self.name, self.text, self.labels = name, text, labels

    def series(self, cluster: str, labels: Mapping[str, str]) -> Series:
        if len(labels) != len(self.labels):
            raise TypeError(f"{self.name} has the labels {self.labels}, not {tuple(labels)}")
        return (cluster, *(labels[label] for label in self.labels))

    def forget(self, cluster: str, labels: Mapping[str, str]) -> None:
        """Deletes the series with these labels, whatever their other labels are."""
        where = [(self.labels.index(label) + 1, value) for label, value in labels.items() if label in self.labels]
        if len(where) == len(labels):
            for series in [each for each in self._all() if each[0] == cluster]:
                if all(series[position] == value for position, value in where):
                    self._drop(series)

    @abstractmethod
    def render(self, only: str | None = None) -> Iterator[str]:
        """Yields the lines of all clusters, or of one."""

    @abstractmethod
    def _all(self) -> Iterable[Series]: ...

    @abstractmethod
    def _drop(self, series: Series) -> None: ...

    def _said(self, series: Series) -> str:
        named = [("cluster", series[0])] if series[0] else []
        named += zip(self.labels, series[1:], strict=True)
        return ",".join(f'{name}="{escaped(value)}"' for name, value in named)

    def _written(self, series: Series) -> str:
        said = self._said(series)
        return f"{{{said}}}" if said else ""


class _Numbers(Meter):
    def __init__(self, name: str, text: str, labels: tuple[str, ...] = ()) -> None:
        super().__init__(name, text, labels)
        self._values: dict[Series, float] = {}

    def value(self, cluster: str, **labels: str) -> float:
        return self._values.get(self.series(cluster, labels), 0.0)

    def render(self, only: str | None = None) -> Iterator[str]:
        for series, value in sorted(self._values.items()):
            if only is None or series[0] == only:
                yield f"{self.name}{self._written(series)} {value:.10g}"

    def _all(self) -> Iterable[Series]:
        return self._values

    def _drop(self, series: Series) -> None:
        del self._values[series]


class Counter(_Numbers):
    kind = "counter"

    def inc(self, cluster: str, by: float = 1.0, **labels: str) -> None:
        series = self.series(cluster, labels)
        self._values[series] = self._values.get(series, 0.0) + by


class Gauge(_Numbers):
    kind = "gauge"

    def set(self, cluster: str, value: float, **labels: str) -> None:
        self._values[self.series(cluster, labels)] = value


class Row:
    """One series of a histogram. A frequent caller keeps it, which saves the label lookup."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Observations per bucket; the last one counts values above all bounds."""
        self.sum = 0.0

    def observe(self, seconds: float, times: int = 1) -> None:
        self.counts[bisect_left(self._bounds, seconds)] += times
        self.sum += seconds * times

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """`labels` have no braces."""
        seen, before = 0, f"{labels}," if labels else ""
        for bound, count in zip((*self._bounds, None), self.counts, strict=True):
            seen += count
            below = "+Inf" if bound is None else f"{bound:g}"
            yield f'{name}_bucket{{{before}le="{below}"}} {seen}'
        said = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{said} {self.sum:.10g}"
        yield f"{name}_count{said} {seen}"


class Histogram(Meter):
    kind = "histogram"

    def __init__(self, name: str, text: str, labels: tuple[str, ...] = (), buckets: tuple[float, ...] = ()) -> None:
        super().__init__(name, text, labels)
        self._buckets = buckets
        self._rows: dict[Series, Row] = {}

    def row(self, cluster: str, **labels: str) -> Row:
        series = self.series(cluster, labels)
        found = self._rows.get(series)
        if found is None:
            found = self._rows[series] = Row(self._buckets)
        return found

    def observe(self, cluster: str, seconds: float, **labels: str) -> None:
        self.row(cluster, **labels).observe(seconds)

    def count(self, cluster: str, **labels: str) -> int:
        found = self._rows.get(self.series(cluster, labels))
        return sum(found.counts) if found is not None else 0

    def render(self, only: str | None = None) -> Iterator[str]:
        for series, row in sorted(self._rows.items(), key=lambda item: item[0]):
            if only is None or series[0] == only:
                yield from row.lines(self.name, self._said(series))

    def _all(self) -> Iterable[Series]:
        return self._rows

    def _drop(self, series: Series) -> None:
        del self._rows[series]


class Lookup(Meter):
    """A metric whose values are read at scrape time."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...] = (), kind: str = "gauge") -> None:
        super().__init__(name, text, labels)
        self.kind = kind
        self._reads: list[Read] = []

    def always(self, read: Read) -> None:
        """Registers a reader for the life of the process."""
        self._reads.append(read)

    @contextmanager
    def read_by(self, read: Read) -> Iterator[None]:
        """Registers a reader for the duration of the context. Several readers may be registered, each for clusters of
        its own.
        """
        self._reads.append(read)
        try:
            yield
        finally:
            self._reads.remove(read)

    def render(self, only: str | None = None) -> Iterator[str]:
        read = (value for read in self._reads for value in read())
        found = {self.series(cluster, labels): value for cluster, labels, value in read if only in (None, cluster)}
        for series, value in sorted(found.items()):
            yield f"{self.name}{self._written(series)} {value:.10g}"

    def _all(self) -> Iterable[Series]:
        return ()

    def _drop(self, series: Series) -> None:
        pass


def written(meters: Iterable[Meter], only: str | None = None) -> list[str]:
    """Returns the lines of all clusters, or of one. A metric without series has no lines."""
    lines = []
    for meter in sorted(meters, key=lambda each: each.name):
        series = list(meter.render(only))
        if series:
            lines += [f"# HELP {meter.name} {meter.text}", f"# TYPE {meter.name} {meter.kind}", *series]
    return lines


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
