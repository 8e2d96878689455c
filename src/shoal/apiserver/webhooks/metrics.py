"""Metrics of admission webhooks, under upstream's names. Each logical cluster sees its own."""

from __future__ import annotations

from shoal.apiserver.request.info import ROOT
from shoal.telemetry.metrics import Counter, Histogram, Metric, render_text

SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0)
MAX_NAMES = 2000
"""Users can invent any number of names, so further names are counted together."""
OVERFLOW_NAME = "other"
_LABELS = ("name", "type", "operation", "rejected")

DURATION = Histogram(
    "apiserver_admission_webhook_admission_duration_seconds", "Admission webhook latency in seconds.", _LABELS, SECONDS
)
FAILED_OPEN = Counter(
    "apiserver_admission_webhook_fail_open_count", "Number of webhook calls that failed open.", ("name", "type")
)
UNDISCLOSED_FAILURES = Counter(
    "shoal_webhook_undisclosed_failures_total",
    "Number of webhook calls of tenants that failed for a reason that is only in the log.",
    (),
)
_ALL: tuple[Metric, ...] = (DURATION, FAILED_OPEN, UNDISCLOSED_FAILURES)
_names: dict[tuple[str, str], None] = {}


def observe_call(cluster: str, name: str, type_: str, operation: str, rejected: bool, seconds: float) -> None:
    rejected_label = "true" if rejected else "false"
    DURATION.observe(
        cluster, seconds, name=_bounded_name(cluster, name), type=type_, operation=operation, rejected=rejected_label
    )


def count_failed_open(cluster: str, name: str, type_: str) -> None:
    FAILED_OPEN.inc(cluster, name=_bounded_name(cluster, name), type=type_)


def count_undisclosed_failure() -> None:
    """Counted for root: tenants see the metrics of their own cluster."""
    UNDISCLOSED_FAILURES.inc(ROOT)


def forget(cluster: str) -> None:
    """Drops the metrics of a deleted cluster."""
    for key in [each for each in _names if each[0] == cluster]:
        del _names[key]
    for meter in _ALL:
        meter.delete_partial_match(cluster, {})


def render(cluster: str | None = None) -> str:
    """For /metrics: all clusters, or only one."""
    lines = render_text(_ALL, cluster)
    return "\n".join(lines) + "\n" if lines else ""


def _bounded_name(cluster: str, name: str) -> str:
    if (cluster, name) not in _names:
        if len(_names) >= MAX_NAMES:
            return OVERFLOW_NAME
        _names[cluster, name] = None
    return name
