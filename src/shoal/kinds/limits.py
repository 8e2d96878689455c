"""The limits of a LogicalCluster, EmbeddedCluster or ManagedCluster: `spec.limits`. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from shoal.objects.errors import Cause, invalid_value
from shoal.objects.quantity import Quantity

Object = dict[str, Any]

WITHIN_LIMITS = "WithinLimits"
"""Condition: whether the cluster uses less than its limits. A cluster that was never near them does not have it."""
FAR_FROM_LIMITS, NEAR_LIMITS, LIMITS_REACHED = "WithinLimits", "NearLimits", "LimitsReached"
"""Reasons of the condition."""
NEAR_SHARE = 0.8
"""The share of a limit from which on a cluster is near it."""

QUANTITIES = ("bytes", "history")
"""Fields that are quantities of bytes. The others are numbers."""
NO_LIMIT = "none"


class ClusterLimits(NamedTuple):
    """None: no limit."""

    objects: int | None = None
    """Stored objects. Events are not among them: they have a share of their own, in which new ones replace old ones."""
    bytes: int | None = None
    """Stored bytes of these objects."""
    watches: int | None = None
    """Open watches."""
    connections: int | None = None
    """Connections of clients."""
    history: int | None = None
    """Bytes of past states and events, kept for watches that resume."""


UNLIMITED = ClusterLimits()
DEFAULT_LIMITS = ClusterLimits(100_000, 256 << 20, 2_000, 2_000, 64 << 20)
"""The limits of a logical cluster other than root."""


def limits_of(obj: Object, defaults: ClusterLimits) -> ClusterLimits:
    """Returns the limits of `spec.limits`, each of `defaults` if the field is absent."""
    spec = (obj.get("spec") or {}).get("limits")
    if not spec:
        return defaults
    return defaults._replace(
        **{field: amount for field in ClusterLimits._fields if (amount := _amount(field, spec.get(field))) is not None}
    )


def validate_limits(obj: Object) -> list[Cause]:
    """The schema checks everything but the value of the quantities."""
    spec = (obj.get("spec") or {}).get("limits") or {}
    return [
        invalid_value(f"spec.limits.{field}", spec[field], "must be at least 1 byte")
        for field in QUANTITIES
        if field in spec and not _amount(field, spec[field])
    ]


def parse_limits(text: str, defaults: ClusterLimits) -> ClusterLimits:
    """Parses `objects=1000,bytes=64Mi`. Raises ValueError."""
    limits = defaults
    for part in filter(None, text.split(",")):
        field, equals, value = part.strip().partition("=")
        if field not in ClusterLimits._fields or not equals:
            raise ValueError(f"{part}: give {', '.join(f'{name}=VALUE' for name in ClusterLimits._fields)}")
        amount = _amount(field, int(value) if value.isdecimal() else value)
        if amount is None and value != NO_LIMIT:
            example = "64Mi" if field in QUANTITIES else "1000"
            raise ValueError(f"{part}: give a positive value such as {field}={example}, or {field}={NO_LIMIT}")
        limits = limits._replace(**{field: amount})
    return limits


def format_limits(limits: ClusterLimits) -> str:
    """Returns the text that `parse_limits` reads."""
    return ",".join(f"{field}={NO_LIMIT if value is None else value}" for field, value in limits._asdict().items())


def _amount(field: str, value: object) -> int | None:
    """None for anything but a positive number, or quantity where the field is one."""
    if isinstance(value, str) and field in QUANTITIES:
        try:
            value = Quantity.parse(value).value()
        except ValueError:
            return None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def share_used(used: Iterable[int], limits: Iterable[int | None]) -> float:
    """Returns the largest share of a limit that is used."""
    return max((amount / limit for amount, limit in zip(used, limits, strict=True) if limit), default=0.0)
