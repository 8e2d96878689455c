"""Failure injection for EmbeddedMachines (`spec.failure`), to test what handles failing machines. Pure.

Create: the machine is never created, it has no provider id and no Node.

Start: the machine is created, but its Node never appears.

Crash: the Node appears, and then becomes NotReady for good.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.kinds.clusterapi.embedded import parse_duration
from shoal.kinds.clusterapi.simulated_node import SIMULATE_ANNOTATION
from shoal.objects.duration import parse_time

Object = dict[str, Any]

CREATE, START, CRASH = "Create", "Start", "Crash"
_DEFAULT_REASONS = {
    CREATE: ("CreateFailed", "the machine could not be created (requested by spec.failure)"),
    START: ("StartFailed", "the machine does not start (requested by spec.failure)"),
    CRASH: ("Crashed", "the machine crashed (requested by spec.failure)"),
}
CRASHED_NODE_PATCH = {"metadata": {"annotations": {SIMULATE_ANNOTATION: "not-ready"}}}
"""Patch of the Node of a machine that crashed."""


class InjectedFailure(NamedTuple):
    kind: str
    reason: str
    message: str
    seconds_left: float
    """Seconds until the failure; 0 or less: it has happened."""


def injected_failure(machine: Mapping[str, Any], now: float) -> InjectedFailure | None:
    """Returns the failure of an EmbeddedMachine. Its uid decides about `percent`, so the result is always the same."""
    failure_spec = (machine.get("spec") or {}).get("failure")
    if not failure_spec:
        return None
    metadata = machine["metadata"]
    roll = int.from_bytes(hashlib.sha256(str(metadata.get("uid", "")).encode()).digest()[:4], "big") % 100
    if roll >= int(failure_spec.get("percent", 100)):
        return None
    reason, message = _DEFAULT_REASONS[failure_spec["kind"]]
    created = parse_time(metadata.get("creationTimestamp")) or now
    return InjectedFailure(
        failure_spec["kind"],
        reason,
        failure_spec.get("message") or message,
        created + parse_duration(failure_spec.get("after")) - now,
    )


def has_crashed(node: Mapping[str, Any]) -> bool:
    return (node["metadata"].get("annotations") or {}).get(SIMULATE_ANNOTATION) == "not-ready"
