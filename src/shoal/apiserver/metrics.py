"""Counters of the server, in Prometheus' text form, under the names kube-apiserver's dashboards know."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
Labels = tuple[str, str, str, str, str]
"""verb, group, version, resource, subresource"""
MOST_SERIES = 2000
OTHERS: Labels = ("other", "", "", "", "")
"""Paths are the client's to invent: what comes after that many different ones is counted together."""
_NAMES = ("verb", "group", "version", "resource", "subresource")


class Metrics:
    def __init__(self) -> None:
        self._total: dict[tuple[Labels, int], int] = {}
        self._seconds: dict[Labels, list[float]] = {}
        self._read: dict[str, tuple[str, str, dict[str, Callable[[], float]]]] = {}
        """By name: gauge or counter, text, and what to read by labels."""
        self._others: list[Callable[[str | None], str]] = []

    def gauge(self, name: str, text: str, read: Callable[[], float], labels: str = "") -> None:
        """`labels` as they are written, such as `state="awake"`; a name may have several of them."""
        self._read.setdefault(name, ("gauge", text, {}))[2][f"{{{labels}}}" if labels else ""] = read

    def counter(self, name: str, text: str, read: Callable[[], float], labels: str = "") -> None:
        self._read.setdefault(name, ("counter", text, {}))[2][f"{{{labels}}}" if labels else ""] = read

    def also(self, render: Callable[[str | None], str]) -> None:
        """Lines that others write, in the same form: of the logical cluster they are given, without one of all."""
        self._others.append(render)

    def observe(self, labels: Labels, code: int, seconds: float) -> None:
        if labels not in self._seconds and len(self._seconds) >= MOST_SERIES:
            labels = OTHERS
        key = (labels, code)
        self._total[key] = self._total.get(key, 0) + 1
        row = self._seconds.get(labels)
        if row is None:
            row = self._seconds[labels] = [0.0] * (len(BUCKETS) + 2)
        row[bisect_left(BUCKETS, seconds)] += 1
        row[-1] += seconds

    def render(self, cluster: str | None = None) -> bytes:
        """`cluster`: whoever asks is to see of that one only what tells clusters apart."""
        lines = [
            "# HELP apiserver_request_total Requests by verb, resource and code.",
            "# TYPE apiserver_request_total counter",
        ]
        for (labels, code), count in sorted(self._total.items()):
            lines.append(f'apiserver_request_total{{{_text(labels)},code="{code}"}} {count}')
        lines += [
            "# HELP apiserver_request_duration_seconds Time to answer, watches left out.",
            "# TYPE apiserver_request_duration_seconds histogram",
        ]
        for labels, row in sorted(self._seconds.items()):
            lines += self._histogram("apiserver_request_duration_seconds", _text(labels), row)
        for name, (kind, text, series) in sorted(self._read.items()):
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{labels} {read():.10g}" for labels, read in series.items()]
        return "".join(["\n".join(lines), "\n", *(render(cluster) for render in self._others)]).encode()

    @staticmethod
    def _histogram(name: str, labels: str, row: list[float]) -> list[str]:
        lines, seen = [], 0.0
        for bound, count in zip((*BUCKETS, "+Inf"), row[:-1], strict=True):
            seen += count
            lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {seen:g}')
        lines += [f"{name}_sum{{{labels}}} {row[-1]:.6f}", f"{name}_count{{{labels}}} {seen:g}"]
        return lines


def _text(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(_NAMES, labels, strict=True))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
