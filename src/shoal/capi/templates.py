"""Compares machine templates: which differences require a rollout and which are updated in place.

Pure. Labels, annotations, taints, timeouts and readiness reach Machines in place. Only version, bootstrap,
infrastructureRef and failureDomain replace Machines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from shoal.kinds.clusterapi.capi import TEMPLATE_SUFFIX
from shoal.objects.duration import parse_time

Object = dict[str, Any]

IN_PLACE_FIELDS = ("minReadySeconds", "readinessGates", "deletion", "taints")
_ROLLOUT_FIELDS = ("version", "bootstrap", "infrastructureRef", "failureDomain")
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def rollout_fields(template: Mapping[str, Any]) -> Object:
    return {field: template["spec"][field] for field in _ROLLOUT_FIELDS if template["spec"].get(field)}


def rollout_reasons(current: Mapping[str, Any], desired: Mapping[str, Any]) -> list[str]:
    """Why Machines of the current template must be replaced; empty: they need not."""
    old_spec, new_spec = current["spec"], desired["spec"]
    reasons: list[str] = []
    if old_spec.get("version", "") != new_spec.get("version", ""):
        reasons.append(f"Version {old_spec.get('version', '')}, {new_spec.get('version', '')} required")
    if (old_spec.get("bootstrap") or {}) != (new_spec.get("bootstrap") or {}):
        reasons.append("Bootstrap configuration is not up-to-date")
    if old_spec["infrastructureRef"] != new_spec["infrastructureRef"]:
        reasons.append(f"{old_spec['infrastructureRef']['kind'].removesuffix(TEMPLATE_SUFFIX)} is not up-to-date")
    if old_spec.get("failureDomain", "") != new_spec.get("failureDomain", ""):
        reasons.append(
            f"Failure domain {old_spec.get('failureDomain', '')}, {new_spec.get('failureDomain', '')} required"
        )
    return reasons


def is_rollout_after_expired(deployment: Mapping[str, Any], machine_set: Mapping[str, Any], now: float) -> bool:
    """Whether the MachineSet is older than a `rollout.after` that has passed."""
    after = parse_time((deployment["spec"].get("rollout") or {}).get("after"))
    created = parse_time(machine_set["metadata"].get("creationTimestamp"))
    return after is not None and after < now and created is not None and created < after


def stable_suffix(*parts: object) -> str:
    """Five random-looking letters, always the same for the same parts."""
    number = int.from_bytes(hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()[:8], "big")
    letters = []
    for _ in range(5):
        number, rest = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return "".join(letters)


def hash_digits(*parts: object) -> str:
    """A decimal hash for labels, such as the template hash."""
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()
    return str(int.from_bytes(digest[:4], "big"))
