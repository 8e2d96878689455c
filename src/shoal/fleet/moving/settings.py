"""How ManagedClusters are moved: the ConfigMap `shoal-system/moving`, all of it optional. Pure.

It is an object and no flag, so that all hub replicas see the same, and it changes without a restart.
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
    """Seconds: by how much the clocks of hub and worker may run apart in the time of a lease."""
    grace: float = 60.0
    """Seconds a lost Worker has to come back, after its lease has ended for certain."""
    at_once: int = 10
    """Of lost Workers: the most that are moved and not up yet."""
    lost_share: float = 0.5
    """Where more of the Workers are lost than that, it is rather the hub that is: nothing is moved."""
    backup_age: float = 600.0
    """Seconds: how old a backup may be at the last heartbeat."""
    frozen: float = 300.0
    """Seconds a planned move may take until the Worker has sent everything; then it is taken back."""
    wrong: str = ""
    """What is not understood; nothing lost is moved then."""


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
