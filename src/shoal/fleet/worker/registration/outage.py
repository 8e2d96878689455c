"""What is said while a worker cannot renew its registration: each error once, then rarely, and once when it is over."""

from __future__ import annotations

import logging

from shoal.clock import Clock

log = logging.getLogger("shoal.fleet")

REPEAT_SECONDS = 600.0
MAX_ERRORS = 8
"""Of one outage; further ones are not told apart."""


class RegistrationOutage:
    def __init__(self, worker: str, clock: Clock) -> None:
        self._worker, self._clock = worker, clock
        self._errors: set[str] = set()
        self._began = self._logged = 0.0

    def on_failure(self, error: str) -> None:
        now = self._clock.monotonic()
        if not self._errors:
            self._began = now
        is_new = error not in self._errors and len(self._errors) < MAX_ERRORS
        if is_new or now - self._logged >= REPEAT_SECONDS:
            self._errors.add(error)
            self._logged = now
            log.warning("worker %s: %s; retrying", self._worker, error)

    def on_success(self) -> None:
        if self._errors:
            seconds = self._clock.monotonic() - self._began
            # As visible as the failure: whoever saw that must see this.
            log.warning("worker %s: registered again after %.0f seconds", self._worker, seconds)
            self._errors.clear()
