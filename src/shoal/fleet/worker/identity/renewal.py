"""Renews a worker's certificate, each time with a new key, long before the current one expires."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.fleet.worker.identity.asking import Refused, Undecided, certified
from shoal.fleet.worker.identity.keys import new_key
from shoal.kinds.certificate_requests import validity
from shoal.objects.errors import StatusError

log = logging.getLogger("shoal.fleet")

Keep = Callable[[str, bytes], None]
"""Takes a certificate and its key, which the worker uses from then on."""

EARLIEST, LATEST = 0.6, 0.8
"""Fractions of the certificate's lifetime: workers that joined together do not all renew together."""
RETRY_SECONDS, LONGEST_SLEEP = 60.0, 3600.0


def due(certificate: str, fraction: float) -> float:
    """Returns when to renew it, in seconds since the epoch; `fraction` is from 0 to 1."""
    found = validity(certificate.encode())
    if found is None:
        return 0.0
    begin, end = found
    return begin + (end - begin) * (EARLIEST + (LATEST - EARLIEST) * fraction)


class Renewal:
    def __init__(
        self,
        hub: Client,
        clock: Clock,
        worker: str,
        store: str,
        certificate: str,
        keep: Keep,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self.name = f"certificate of {worker}"
        self._hub, self._clock, self._worker, self._store = hub, clock, worker, store
        self._keep, self._dice = keep, dice
        self._due = due(certificate, dice())

    async def run(self) -> None:
        while True:
            left = self._due - self._clock.now()
            if left > 0:
                # In steps: a machine that is suspended meanwhile stops the one clock and not the other.
                await self._clock.sleep(min(left, LONGEST_SLEEP))
                continue
            try:
                await self.renew()
            except (StatusError, Unreachable, Refused, Undecided) as error:
                log.warning("worker %s: its certificate could not be renewed: %s", self._worker, error)
                await self._clock.sleep(RETRY_SECONDS)

    async def renew(self) -> None:
        key = new_key()
        certificate = await certified(self._hub, self._clock, key, self._worker, self._store)
        self._keep(certificate, key)
        self._due = due(certificate, self._dice())
        log.info("worker %s has a new certificate", self._worker)
