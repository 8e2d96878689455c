"""Metrics of a worker's link to its hub: bytes, messages, resyncs, and since when it is down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from shoal.clock import Clock

RESUME, DIGEST, LIST = "resume", "digest", "list"
"""How the link got in sync again: it resumed the watch, fetched only what differs, or listed everything."""
BUS_GRACE_SECONDS = 15.0
"""How long a link may be down before that is reported: a bus that restarts is no failure."""
MetricSeries = tuple[str, str, Callable[[], float], str]
"""Name, help text, value and labels of a metric."""


@dataclass(slots=True)
class LinkMetrics:
    clock: Clock
    bytes_in: int = 0
    bytes_out: int = 0
    messages_in: int = 0
    messages_out: int = 0
    resyncs: dict[str, int] = field(default_factory=lambda: {RESUME: 0, DIGEST: 0, LIST: 0})
    _down_since: float | None = None

    def __post_init__(self) -> None:
        self._down_since = self.clock.monotonic()

    @property
    def is_live(self) -> bool:
        return self._down_since is None

    def mark_up(self, resync_kind: str) -> None:
        self.resyncs[resync_kind] += 1
        self._down_since = None

    def mark_down(self) -> None:
        if self._down_since is None:
            self._down_since = self.clock.monotonic()

    def lag_seconds(self) -> float:
        """Seconds since when nothing can have been received from the hub."""
        return 0.0 if self._down_since is None else self.clock.monotonic() - self._down_since

    def error(self) -> str:
        """Returns what is wrong with the link; empty: nothing, or not for long."""
        lag = self.lag_seconds()
        return "" if lag < BUS_GRACE_SECONDS else f"no connection to the bus for {lag:.0f} s"

    def counters(self) -> list[MetricSeries]:
        bytes_metric = (
            "shoal_fleet_bus_bytes_total",
            "Bytes that this worker received from (in) and sent to (out) the hub.",
        )
        messages_metric = (
            "shoal_fleet_bus_messages_total",
            "Messages received from (in) and reports sent to (out) the hub.",
        )
        resyncs_metric = (
            "shoal_fleet_bus_resyncs_total",
            "Resyncs with the hub, by resuming, by a digest or by a full list.",
        )
        series: list[MetricSeries] = [
            (*bytes_metric, lambda: self.bytes_in, 'direction="in"'),
            (*bytes_metric, lambda: self.bytes_out, 'direction="out"'),
            (*messages_metric, lambda: self.messages_in, 'direction="in"'),
            (*messages_metric, lambda: self.messages_out, 'direction="out"'),
        ]
        return series + [
            (*resyncs_metric, lambda kind=kind: self.resyncs[kind], f'kind="{kind}"') for kind in self.resyncs
        ]

    def gauges(self) -> list[MetricSeries]:
        name, text = (
            "shoal_fleet_bus_lag_seconds",
            "Seconds since the connection to the hub was lost; 0 while connected.",
        )
        return [(name, text, self.lag_seconds, "")]
