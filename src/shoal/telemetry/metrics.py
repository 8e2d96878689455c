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

SeriesKey = tuple[str, ...]
"""The cluster and the label values, in the order of the labels."""
ReadSeries = Callable[[], Iterable[tuple[str, Mapping[str, str], float]]]
"""Returns cluster, labels and value of each series, read at scrape time."""


class Metric(ABC):
    kind = ""

    def __init__(self, name: str, help_text: str, labels: tuple[str, ...] = ()) -> None:
        self.name, self.help_text, self.labels = name, help_text, labels

    def series_key(self, cluster: str, labels: Mapping[str, str]) -> SeriesKey:
        if len(labels) != len(self.labels):
            raise TypeError(f"{self.name} has the labels {self.labels}, not {tuple(labels)}")
        return (cluster, *(labels[label] for label in self.labels))

    def delete_partial_match(self, cluster: str, labels: Mapping[str, str]) -> None:
        """Deletes the series with these labels, whatever their other labels are."""
        positions = [(self.labels.index(label) + 1, value) for label, value in labels.items() if label in self.labels]
        if len(positions) == len(labels):
            for series in [each for each in self._series_keys() if each[0] == cluster]:
                if all(series[position] == value for position, value in positions):
                    self._delete(series)

    @abstractmethod
    def render(self, only_cluster: str | None = None) -> Iterator[str]:
        """Yields the lines of all clusters, or of one."""

    @abstractmethod
    def _series_keys(self) -> Iterable[SeriesKey]: ...

    @abstractmethod
    def _delete(self, series: SeriesKey) -> None: ...

    def _label_pairs(self, series: SeriesKey) -> str:
        pairs = [("cluster", series[0])] if series[0] else []
        pairs += zip(self.labels, series[1:], strict=True)
        return ",".join(f'{name}="{escape_label_value(value)}"' for name, value in pairs)

    def _label_block(self, series: SeriesKey) -> str:
        pairs = self._label_pairs(series)
        return f"{{{pairs}}}" if pairs else ""


class _ValueMetric(Metric):
    def __init__(self, name: str, help_text: str, labels: tuple[str, ...] = ()) -> None:
        super().__init__(name, help_text, labels)
        self._values: dict[SeriesKey, float] = {}

    def value(self, cluster: str, **labels: str) -> float:
        return self._values.get(self.series_key(cluster, labels), 0.0)

    def render(self, only_cluster: str | None = None) -> Iterator[str]:
        for series, value in sorted(self._values.items()):
            if only_cluster is None or series[0] == only_cluster:
                yield f"{self.name}{self._label_block(series)} {value:.10g}"

    def _series_keys(self) -> Iterable[SeriesKey]:
        return self._values

    def _delete(self, series: SeriesKey) -> None:
        del self._values[series]


class Counter(_ValueMetric):
    kind = "counter"

    def inc(self, cluster: str, by: float = 1.0, **labels: str) -> None:
        series = self.series_key(cluster, labels)
        self._values[series] = self._values.get(series, 0.0) + by


class Gauge(_ValueMetric):
    kind = "gauge"

    def set(self, cluster: str, value: float, **labels: str) -> None:
        self._values[self.series_key(cluster, labels)] = value


class HistogramSeries:
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
        cumulative, prefix = 0, f"{labels}," if labels else ""
        for bound, count in zip((*self._bounds, None), self.counts, strict=True):
            cumulative += count
            upper_bound = "+Inf" if bound is None else f"{bound:g}"
            yield f'{name}_bucket{{{prefix}le="{upper_bound}"}} {cumulative}'
        label_block = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{label_block} {self.sum:.10g}"
        yield f"{name}_count{label_block} {cumulative}"


class Histogram(Metric):
    kind = "histogram"

    def __init__(
        self, name: str, help_text: str, labels: tuple[str, ...] = (), buckets: tuple[float, ...] = ()
    ) -> None:
        super().__init__(name, help_text, labels)
        self._buckets = buckets
        self._series: dict[SeriesKey, HistogramSeries] = {}

    def observer(self, cluster: str, **labels: str) -> HistogramSeries:
        series = self.series_key(cluster, labels)
        observer_series = self._series.get(series)
        if observer_series is None:
            observer_series = self._series[series] = HistogramSeries(self._buckets)
        return observer_series

    def observe(self, cluster: str, seconds: float, **labels: str) -> None:
        self.observer(cluster, **labels).observe(seconds)

    def count(self, cluster: str, **labels: str) -> int:
        histogram = self._series.get(self.series_key(cluster, labels))
        return sum(histogram.counts) if histogram is not None else 0

    def render(self, only_cluster: str | None = None) -> Iterator[str]:
        for series, row in sorted(self._series.items(), key=lambda item: item[0]):
            if only_cluster is None or series[0] == only_cluster:
                yield from row.lines(self.name, self._label_pairs(series))

    def _series_keys(self) -> Iterable[SeriesKey]:
        return self._series

    def _delete(self, series: SeriesKey) -> None:
        del self._series[series]


class MetricFunc(Metric):
    """A metric whose values are read at scrape time."""

    def __init__(self, name: str, help_text: str, labels: tuple[str, ...] = (), kind: str = "gauge") -> None:
        super().__init__(name, help_text, labels)
        self.kind = kind
        self._readers: list[ReadSeries] = []

    def register(self, read: ReadSeries) -> None:
        """Registers a reader for the life of the process."""
        self._readers.append(read)

    @contextmanager
    def registration(self, read: ReadSeries) -> Iterator[None]:
        """Registers a reader for the duration of the context. Several readers may be registered, each for clusters of
        its own.
        """
        self._readers.append(read)
        try:
            yield
        finally:
            self._readers.remove(read)

    def render(self, only_cluster: str | None = None) -> Iterator[str]:
        read = (value for read in self._readers for value in read())
        values = {
            self.series_key(cluster, labels): value
            for cluster, labels, value in read
            if only_cluster in (None, cluster)
        }
        for series, value in sorted(values.items()):
            yield f"{self.name}{self._label_block(series)} {value:.10g}"

    def _series_keys(self) -> Iterable[SeriesKey]:
        return ()

    def _delete(self, series: SeriesKey) -> None:
        pass


def render_text(metrics: Iterable[Metric], only_cluster: str | None = None) -> list[str]:
    """Returns the lines of all clusters, or of one. A metric without series has no lines."""
    lines = []
    for metric in sorted(metrics, key=lambda each: each.name):
        series = list(metric.render(only_cluster))
        if series:
            lines += [f"# HELP {metric.name} {metric.help_text}", f"# TYPE {metric.name} {metric.kind}", *series]
    return lines


def escape_label_value(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
