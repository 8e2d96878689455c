"""Known time zones: those of the system, or of the package tzdata.

If neither is installed every zone is accepted, because none can be checked. A CronJob with a zone then reports it in an
Event.
"""

from __future__ import annotations

from functools import lru_cache
from zoneinfo import ZoneInfo


def is_time_zone(name: str) -> bool:
    return name == "UTC" or _exists(name) or not _exists("Europe/London")


@lru_cache(maxsize=1024)
def _exists(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return False
    return True
