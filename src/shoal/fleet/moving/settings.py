"""Migration settings from the ConfigMap `shoal-system/moving`, all optional. Pure.

They are an object and not flags, so that all hub replicas see the same values and they change without a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.kinds import fleet

Object = dict[str, Any]

NAME = "moving"


@dataclass(frozen=True, slots=True)
class Settings:
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
    wrong: str = ""
    """Why the settings are invalid. Nothing is migrated from lost Workers then."""


_FIELDS = {
    "skew": ("skew", 3600.0),
    "grace": ("grace", 86400.0),
    "maxMoves": ("at_once", 10_000.0),
    "maxLostShare": ("lost_share", 1.0),
    "maxBackupAge": ("backup_age", 1e9),
    "maxFrozen": ("frozen", 86400.0),
}


def settings(config: Object | None) -> Settings:
    found: dict[str, Any] = {}
    for key, value in sorted(((config or {}).get("data") or {}).items()):
        if key not in _FIELDS:
            return Settings(wrong=_wrong(f"{key} is not known; there are {', '.join(_FIELDS)}"))
        field, most = _FIELDS[key]
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number <= most or (field == "at_once" and not number.is_integer()):
            return Settings(wrong=_wrong(f"{key} is not a number from 0 to {most:g}: {value!r}"))
        found[field] = int(number) if field == "at_once" else number
    return Settings(**found)


def _wrong(said: str) -> str:
    return f"ConfigMap {fleet.NAMESPACE}/{NAME}: {said}"
