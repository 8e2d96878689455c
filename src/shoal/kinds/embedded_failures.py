"""Failures that embedded machines are asked for (`spec.failure`), to try out what watches over machines. Pure.

| kind | what happens |
|---|---|
| Create | the machine is never bought: no provider id, no Node |
| Start | it is bought, and its Node never comes |
| Crash | its Node is there, and from then on nothing is heard of it |
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
    """Seconds until it happens; not above 0: it has."""


def failure_of(machine: Mapping[str, Any], now: float) -> Failure | None:
    """Of an EmbeddedMachine. Its uid is the die: it falls the same way each time."""
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
