"""The metrics of every process, whatever it serves."""

from __future__ import annotations

import shoal.client.metrics
import shoal.controlplane.scheduler.metrics
import shoal.fleet.metrics
import shoal.provision.metrics
import shoal.runtime.metrics
import shoal.sync.metrics
import shoal.telemetry.process

_RENDERERS = (
    shoal.client.metrics.render,
    shoal.controlplane.scheduler.metrics.render,
    shoal.fleet.metrics.render,
    shoal.provision.metrics.render,
    shoal.runtime.metrics.render,
    shoal.sync.metrics.render,
    shoal.telemetry.process.render,
)


def render_process_metrics(only_cluster: str | None = None) -> str:
    """`only_cluster` restricts them to one logical cluster. A process may contain a hub and its workers; they report
    the same.
    """
    return "".join(render(only_cluster) for render in _RENDERERS)
