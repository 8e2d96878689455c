"""The metrics of every process, whatever it serves."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator

import shoal.client.metrics
import shoal.controlplane.scheduler.metrics
import shoal.fleet.metrics
import shoal.provision.metrics
import shoal.runtime.metrics
import shoal.sync.metrics

_STARTED = time.time()
_PAGE_SIZE = resource.getpagesize()
_HELP = {
    "process_cpu_seconds_total": ("counter", "Total user and system CPU time spent in seconds."),
    "process_max_fds": ("gauge", "Maximum number of open file descriptors."),
    "process_open_fds": ("gauge", "Number of open file descriptors."),
    "process_resident_memory_bytes": ("gauge", "Resident memory size in bytes."),
    "process_start_time_seconds": ("gauge", "Start time of the process since unix epoch in seconds."),
    "process_virtual_memory_bytes": ("gauge", "Virtual memory size in bytes."),
}


def render(only_cluster: str | None = None) -> str:
    """For /metrics. Empty for the scrape of one logical cluster, because the process is shared."""
    if only_cluster is not None:
        return ""
    lines = []
    for name, value in sorted(_values()):
        kind, text = _HELP[name]
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", f"{name} {value:.10g}"]
    return "\n".join(lines) + "\n"


def _values() -> Iterator[tuple[str, float]]:
    used = os.times()
    yield "process_cpu_seconds_total", used.user + used.system
    yield "process_max_fds", float(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    yield "process_start_time_seconds", _STARTED
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            size, resident = file.read().split()[:2]
        yield "process_open_fds", float(len(os.listdir("/proc/self/fd")) - 1)
    except OSError:
        return
    yield "process_virtual_memory_bytes", float(int(size) * _PAGE_SIZE)
    yield "process_resident_memory_bytes", float(int(resident) * _PAGE_SIZE)


_RENDERERS = (
    shoal.client.metrics.render,
    shoal.controlplane.scheduler.metrics.render,
    shoal.fleet.metrics.render,
    shoal.provision.metrics.render,
    shoal.runtime.metrics.render,
    shoal.sync.metrics.render,
    render,
)


def render_process_metrics(only_cluster: str | None = None) -> str:
    """`only_cluster` restricts them to one logical cluster. A process may contain a hub and its workers; they report
    the same.
    """
    return "".join(render(only_cluster) for render in _RENDERERS)
