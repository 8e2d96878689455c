"""Compares machine templates: which differences require a rollout and which are updated in place.

Pure. Labels, annotations, taints, timeouts and readiness reach Machines in place. Only version, bootstrap,
infrastructureRef and failureDomain replace Machines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from shoal.kinds.capi import TEMPLATE
from shoal.objects.duration import parse_time

Object = dict[str, Any]

IN_PLACE = ("minReadySeconds", "readinessGates", "deletion", "taints")
_ROLLED_OUT = ("version", "bootstrap", "infrastructureRef", "failureDomain")
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def rollout_fields(template: Mapping[str, Any]) -> Object:
    return {field: template["spec"][field] for field in _ROLLED_OUT if template["spec"].get(field)}


def differences(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Why Machines of the current template must be replaced; empty: they need not."""
    before, after = current["spec"], wanted["spec"]
    found: list[str] = []
    if before.get("version", "") != after.get("version", ""):
        found.append(f"Version {before.get('version', '')}, {after.get('version', '')} required")
    if (before.get("bootstrap") or {}) != (after.get("bootstrap") or {}):
        found.append("Bootstrap configuration is not up-to-date")
    if before["infrastructureRef"] != after["infrastructureRef"]:
        found.append(f"{before['infrastructureRef']['kind'].removesuffix(TEMPLATE)} is not up-to-date")
    if before.get("failureDomain", "") != after.get("failureDomain", ""):
        found.append(f"Failure domain {before.get('failureDomain', '')}, {after.get('failureDomain', '')} required")
    return found


def expired(deployment: Mapping[str, Any], machine_set: Mapping[str, Any], now: float) -> bool:
    """Whether the MachineSet is older than a `rollout.after` that has passed."""
    after = parse_time((deployment["spec"].get("rollout") or {}).get("after"))
    created = parse_time(machine_set["metadata"].get("creationTimestamp"))
    return after is not None and after < now and created is not None and created < after


def suffix(*parts: object) -> str:
    """Five random-looking letters, always the same for the same parts."""
    number = int.from_bytes(hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()[:8], "big")
    letters = []
    for _ in range(5):
        number, rest = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return "".join(letters)


def digits(*parts: object) -> str:
    """A decimal hash for labels, such as the template hash."""
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()
    return str(int.from_bytes(digest[:4], "big"))
