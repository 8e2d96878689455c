"""Deployments and their ReplicaSets: shared annotations, template hash, rollout bounds. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from shoal.kinds.validation.field import parse_percent
from shoal.objects.conditions import get_condition

Object = dict[str, Any]

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
TEMPLATE_HASH = "pod-template-hash"
UNLIMITED = 2**31 - 1
"""Progress deadline or history limit that means none."""

_SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Upstream's SafeEncodeString alphabet: no vowels and no look-alikes, so no words appear."""
_MAX_NAME_LENGTH = 253


def replicas_of(obj: Object) -> int:
    count = (obj.get("spec") or {}).get("replicas")
    return 1 if count is None else int(count)


def is_rolling(deployment: Object) -> bool:
    strategy: Object = deployment["spec"].get("strategy") or {}
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def scaled_value(value: object, total: int, *, round_up: bool) -> int:
    """Returns an int-or-percent of a total, rounded up or down."""
    share = parse_percent(value)
    if share is None:
        return value if isinstance(value, int) else 0
    return -(-share * total // 100) if round_up else share * total // 100


def max_surge(deployment: Object) -> int:
    """Returns how many pods may exist above the replicas."""
    return _fenceposts(deployment)[0]


def max_unavailable(deployment: Object) -> int:
    """Returns how many of the replicas may be unavailable."""
    return min(_fenceposts(deployment)[1], replicas_of(deployment))


def _fenceposts(deployment: Object) -> tuple[int, int]:
    if not is_rolling(deployment):
        return 0, 0
    bounds, replicas = deployment["spec"]["strategy"].get("rollingUpdate") or {}, replicas_of(deployment)
    surge = scaled_value(bounds.get("maxSurge"), replicas, round_up=True)
    unavailable = scaled_value(bounds.get("maxUnavailable"), replicas, round_up=False)
    # Rounding must not block a rollout.
    return surge, unavailable if surge or unavailable else 1


def template_without_hash(template: Object) -> Object:
    """Returns a pod template without the label its ReplicaSet adds."""
    template_metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (template_metadata.get("labels") or {}).items() if key != TEMPLATE_HASH}
    metadata = {key: value for key, value in template_metadata.items() if value and key != "labels"}
    return {**template, "metadata": metadata | ({"labels": labels} if labels else {})}


def template_hash(template: Object, collisions: int | None) -> str:
    """Returns a hash that is equal for equal templates, in characters valid in names and labels."""
    text = json.dumps([template_without_hash(template), collisions], sort_keys=True, separators=(",", ":"))
    number = int.from_bytes(hashlib.blake2s(text.encode(), digest_size=4).digest(), "big")
    return safe_encode(number)


def safe_encode(number: int) -> str:
    return "".join(_SAFE_ALPHABET[ord(digit) % len(_SAFE_ALPHABET)] for digit in str(number))


def replica_set_name(deployment: str, pod_template_hash: str) -> str:
    """Returns the name of the ReplicaSet of a template."""
    return f"{deployment[: _MAX_NAME_LENGTH - 1 - len(pod_template_hash)]}-{pod_template_hash}"


def revision_of(obj: Object) -> int:
    """Returns 0 when the annotation is absent or not a number."""
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def with_condition(
    conditions: list[Object], kind: str, status: str, reason: str, message: str, now: str, *, refresh: bool = False
) -> list[Object]:
    """Sets a Deployment condition, which has lastUpdateTime besides lastTransitionTime. A condition with the same
    status and reason is unchanged, unless `refresh` requests a new message and update time.
    """
    old = get_condition({"status": {"conditions": conditions}}, kind)
    if old is not None and old.get("status") == status and old.get("reason") == reason and not refresh:
        return conditions
    since = old.get("lastTransitionTime") if old is not None and old.get("status") == status else now
    condition_fields = {"type": kind, "status": status, "reason": reason, "message": message}
    return [
        *without_condition(conditions, kind),
        {**condition_fields, "lastUpdateTime": now, "lastTransitionTime": since},
    ]


def without_condition(conditions: list[Object], kind: str) -> list[Object]:
    return [condition for condition in conditions if condition.get("type") != kind]
