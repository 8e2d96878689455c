"""Failure injection for EmbeddedMachines (`spec.failure`), to test what handles failing machines. Pure.

Create: the machine is never created, it has no provider id and no Node.

Start: the machine is created, but its Node never appears.

Crash: the Node appears, and then becomes NotReady for good.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.kinds.embedded import seconds
from shoal.kinds.simulated import SIMULATE
from shoal.objects.duration import parse_time

Object = dict[str, Any]

CREATE, START, CRASH = "Create", "Start", "Crash"
_SAID = {
    CREATE: ("CreateFailed", "the machine could not be created (asked for in spec.failure)"),
    START: ("StartFailed", "the machine does not start (asked for in spec.failure)"),
    CRASH: ("Crashed", "the machine crashed (asked for in spec.failure)"),
}
LOST = {"metadata": {"annotations": {SIMULATE: "not-ready"}}}
"""Patch of the Node of a machine that crashed."""


class Failure(NamedTuple):
    kind: str
    reason: str
    message: str
    left: float
    """Seconds until the failure; 0 or less: it has happened."""


def failure_of(machine: Mapping[str, Any], now: float) -> Failure | None:
    """Returns the failure of an EmbeddedMachine. Its uid decides about `percent`, so the result is always the same."""
    asked = (machine.get("spec") or {}).get("failure")
    if not asked:
        return None
    metadata = machine["metadata"]
    die = int.from_bytes(hashlib.sha256(str(metadata.get("uid", "")).encode()).digest()[:4], "big") % 100
    if die >= int(asked.get("percent", 100)):
        return None
    reason, message = _SAID[asked["kind"]]
    created = parse_time(metadata.get("creationTimestamp")) or now
    return Failure(asked["kind"], reason, asked.get("message") or message, created + seconds(asked.get("after")) - now)


def has_crashed(node: Mapping[str, Any]) -> bool:
    return (node["metadata"].get("annotations") or {}).get(SIMULATE) == "not-ready"
