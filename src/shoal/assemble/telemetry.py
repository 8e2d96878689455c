"""What every process tells scrapers, whatever it serves."""

from __future__ import annotations

import shoal.client.metrics
import shoal.controlplane.scheduler.metrics
import shoal.fleet.metrics
import shoal.provision.metrics
import shoal.runtime.metrics
import shoal.sync.metrics
import shoal.telemetry.process

_PARTS = (
    shoal.client.metrics.render,
    shoal.controlplane.scheduler.metrics.render,
    shoal.fleet.metrics.render,
    shoal.provision.metrics.render,
    shoal.runtime.metrics.render,
    shoal.sync.metrics.render,
    shoal.telemetry.process.render,
)


def process_metrics(only: str | None = None) -> str:
    """`only`: of that logical cluster. One process may hold a hub and its workers: they tell the same."""
    return "".join(render(only) for render in _PARTS)
