"""What metrics are made of: counters, gauges and histograms with labels, in Prometheus' text form.

Which there are is in `metrics`. One process may serve many clusters: a series of one of them says so with the label
`cluster`, unless the cluster has no name. Values are kept for the life of the process, as scrapers expect of counters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

Series = tuple[str, ...]
"""The cluster and the values of the labels, in their order."""
Read = Callable[[], Iterable[tuple[str, Mapping[str, str], float]]]
"""Cluster, labels and value of each series, looked up when somebody asks."""


class Meter(ABC):
    kind = ""

    def __init__(self, name: str, text: str, labels: tuple[str, ...] = ()) -> None:
        self.name, self.text, self.labels = name, text, labels

    def series(self, cluster: str, labels: Mapping[str, str]) -> Series:
        if len(labels) != len(self.labels):
            raise TypeError(f"{self.name} has the labels {self.labels}, not {tuple(labels)}")
        return (cluster, *(labels[label] for label in self.labels))

    def forget(self, cluster: str, labels: Mapping[str, str]) -> None:
        """What has these labels, and whatever others."""
        where = [(self.labels.index(label) + 1, value) for label, value in labels.items() if label in self.labels]
        if len(where) == len(labels):
            for series in [each for each in self._all() if each[0] == cluster]:
                if all(series[position] == value for position, value in where):
                    self._drop(series)

    @abstractmethod
    def render(self, only: str | None = None) -> Iterator[str]:
        """Lines of all clusters, or of only one."""

    @abstractmethod
    def _all(self) -> Iterable[Series]: ...

    @abstractmethod
    def _drop(self, series: Series) -> None: ...

    def _written(self, series: Series, *more: str) -> str:
        named = [("cluster", series[0])] if series[0] else []
        named += zip(self.labels, series[1:], strict=True)
        said = ",".join([*(f'{name}="{_escaped(value)}"' for name, value in named), *more])
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


class Histogram(Meter):
    kind = "histogram"

    def __init__(self, name: str, text: str, labels: tuple[str, ...] = (), buckets: tuple[float, ...] = ()) -> None:
        super().__init__(name, text, labels)
        self._buckets = buckets
        self._rows: dict[Series, list[float]] = {}
        """How many fell into each bucket, and above them all; then the sum."""

    def observe(self, cluster: str, seconds: float, **labels: str) -> None:
        row = self._rows.setdefault(self.series(cluster, labels), [0.0] * (len(self._buckets) + 2))
        row[bisect_left(self._buckets, seconds)] += 1
        row[-1] += seconds

    def count(self, cluster: str, **labels: str) -> int:
        return int(sum(self._rows.get(self.series(cluster, labels), [0.0])[:-1]))

    def render(self, only: str | None = None) -> Iterator[str]:
        for series, row in sorted(self._rows.items()):
            if only is not None and series[0] != only:
                continue
            seen = 0.0
            for bound, count in zip((*self._buckets, None), row[:-1], strict=True):
                seen += count
                below = 'le="+Inf"' if bound is None else f'le="{bound:g}"'
                yield f"{self.name}_bucket{self._written(series, below)} {seen:g}"
            yield f"{self.name}_sum{self._written(series)} {row[-1]:.10g}"
            yield f"{self.name}_count{self._written(series)} {seen:g}"

    def _all(self) -> Iterable[Series]:
        return self._rows

    def _drop(self, series: Series) -> None:
        del self._rows[series]


class Lookup(Meter):
    """A gauge that nobody sets: what it shows is looked up."""

    kind = "gauge"

    def __init__(self, name: str, text: str, labels: tuple[str, ...] = ()) -> None:
        super().__init__(name, text, labels)
        self._reads: list[Read] = []

    @contextmanager
    def read_by(self, read: Read) -> Iterator[None]:
        """For as long as it lasts. Several may be asked, of clusters of their own."""
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
    """Their lines, of all clusters or of only one; of a meter that has nothing to show, none."""
    lines = []
    for meter in sorted(meters, key=lambda each: each.name):
        series = list(meter.render(only))
        if series:
            lines += [f"# HELP {meter.name} {meter.text}", f"# TYPE {meter.name} {meter.kind}", *series]
    return lines


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
