"""Migration settings from the ConfigMap `shoal-system/moving`, all optional. Pure.

They are an object and not flags, so that all hub replicas see the same values and they change without a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.kinds.fleet import infrav1

Object = dict[str, Any]

CONFIG_MAP = "moving"


@dataclass(frozen=True, slots=True)
class MigrationSettings:
    skew: float = 5.0
    """Seconds by which the clocks of hub and worker may diverge during a lease."""
    grace: float = 60.0
    """Seconds a lost Worker has to come back after its lease has certainly expired."""
    at_once: int = 10
    """The most clusters of lost Workers that are migrated and not ready yet."""
    lost_share: float = 0.5
    """If a larger share of the Workers is lost, the hub is more likely the one that is cut off: nothing is migrated."""
    backup_age: float = 600.0
    """Seconds: the largest age of a backup at the last heartbeat."""
    frozen: float = 300.0
    """Seconds a planned migration may take until the Worker has sent everything; then it is cancelled."""
    settings_error: str = ""
    """Why the settings are invalid. Nothing is migrated from lost Workers then."""


_FIELDS = {
    "skew": ("skew", 3600.0),
    "grace": ("grace", 86400.0),
    "maxMoves": ("at_once", 10_000.0),
    "maxLostShare": ("lost_share", 1.0),
    "maxBackupAge": ("backup_age", 1e9),
    "maxFrozen": ("frozen", 86400.0),
}


def parse_migration_settings(config: Object | None) -> MigrationSettings:
    parsed: dict[str, Any] = {}
    for key, value in sorted(((config or {}).get("data") or {}).items()):
        if key not in _FIELDS:
            return MigrationSettings(
                settings_error=_error_message(f"unknown key {key}; known keys: {', '.join(_FIELDS)}")
            )
        field, maximum = _FIELDS[key]
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number <= maximum or (field == "at_once" and not number.is_integer()):
            return MigrationSettings(
                settings_error=_error_message(f"{key} is not a number from 0 to {maximum:g}: {value!r}")
            )
        parsed[field] = int(number) if field == "at_once" else number
    return MigrationSettings(**parsed)


def _error_message(message: str) -> str:
    return f"ConfigMap {infrav1.NAMESPACE}/{CONFIG_MAP}: {message}"
