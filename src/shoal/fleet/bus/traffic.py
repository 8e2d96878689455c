"""Metrics of a worker's link to its hub: bytes, messages, resyncs, and since when it is down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from shoal.clock import Clock

RESUME, DIGEST, LIST = "resume", "digest", "list"
"""How the link got in sync again: it resumed the watch, fetched only what differs, or listed everything."""
Series = tuple[str, str, Callable[[], float], str]
"""Name, help text, value and labels of a metric."""


@dataclass(slots=True)
class Traffic:
    clock: Clock
    bytes_in: int = 0
    bytes_out: int = 0
    messages_in: int = 0
    messages_out: int = 0
    resyncs: dict[str, int] = field(default_factory=lambda: {RESUME: 0, DIGEST: 0, LIST: 0})
    _cut: float | None = None

    def __post_init__(self) -> None:
        self._cut = self.clock.monotonic()

    @property
    def live(self) -> bool:
        return self._cut is None

    def up(self, kind: str) -> None:
        self.resyncs[kind] += 1
        self._cut = None

    def down(self) -> None:
        if self._cut is None:
            self._cut = self.clock.monotonic()

    def lag(self) -> float:
        """Seconds since when nothing can have been received from the hub."""
        return 0.0 if self._cut is None else self.clock.monotonic() - self._cut

    def counters(self) -> list[Series]:
        sizes = "shoal_fleet_bus_bytes_total", "Bytes of the link to the hub, by direction, as this worker sees them."
        counts = "shoal_fleet_bus_messages_total", "Messages from (in) and reports to (out) the hub."
        ways = "shoal_fleet_bus_resyncs_total", "How the link got in step: by resuming, by a digest, by a whole list."
        found: list[Series] = [
            (*sizes, lambda: self.bytes_in, 'direction="in"'),
            (*sizes, lambda: self.bytes_out, 'direction="out"'),
            (*counts, lambda: self.messages_in, 'direction="in"'),
            (*counts, lambda: self.messages_out, 'direction="out"'),
        ]
        return found + [(*ways, lambda kind=kind: self.resyncs[kind], f'kind="{kind}"') for kind in self.resyncs]

    def gauges(self) -> list[Series]:
        name, text = "shoal_fleet_bus_lag_seconds", "For how long the link to the hub is cut; 0 while it is not."
        return [(name, text, self.lag, "")]
