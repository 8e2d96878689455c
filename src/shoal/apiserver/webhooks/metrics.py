"""Metrics of admission webhooks, under upstream's names. Each logical cluster sees its own."""

from __future__ import annotations

from shoal.telemetry.meters import Counter, Histogram, Meter, written

SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0)
MOST_NAMES = 2000
"""Users can invent any number of names, so further names are counted together."""
OTHERS = "other"
_LABELS = ("name", "type", "operation", "rejected")

TOOK = Histogram("apiserver_admission_webhook_admission_duration_seconds", "Time of a call.", _LABELS, SECONDS)
FAILED_OPEN = Counter(
    "apiserver_admission_webhook_fail_open_count", "Calls that failed, and were passed over.", ("name", "type")
)
_ALL: tuple[Meter, ...] = (TOOK, FAILED_OPEN)
_names: dict[tuple[str, str], None] = {}


def note_call(cluster: str, name: str, type_: str, operation: str, rejected: bool, seconds: float) -> None:
    said = "true" if rejected else "false"
    TOOK.observe(cluster, seconds, name=_bounded(cluster, name), type=type_, operation=operation, rejected=said)


def note_failed_open(cluster: str, name: str, type_: str) -> None:
    FAILED_OPEN.inc(cluster, name=_bounded(cluster, name), type=type_)


def forget(cluster: str) -> None:
    """Drops the metrics of a deleted cluster."""
    for key in [each for each in _names if each[0] == cluster]:
        del _names[key]
    for meter in _ALL:
        meter.forget(cluster, {})


def render(only: str | None = None) -> str:
    """For /metrics: all clusters, or only one."""
    lines = written(_ALL, only)
    return "\n".join(lines) + "\n" if lines else ""


def _bounded(cluster: str, name: str) -> str:
    if (cluster, name) not in _names:
        if len(_names) >= MOST_NAMES:
            return OTHERS
        _names[cluster, name] = None
    return name
