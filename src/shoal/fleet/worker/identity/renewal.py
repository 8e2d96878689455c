"""Renews a worker's certificate, each time with a new key: long before the current one expires, and when the hub
rotates the keys of its root, which sign it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.fleet.resources import LOGICAL_CLUSTERS
from shoal.fleet.worker.identity.csr import ApprovalTimeout, CertificateDenied, request_certificate
from shoal.fleet.worker.identity.keys import new_key
from shoal.kinds.certificates.pem import validity_period
from shoal.kinds.fleet.keys import rotation_time
from shoal.objects.duration import parse_time
from shoal.objects.errors import StatusError

log = logging.getLogger("shoal.fleet")

StoreCertificate = Callable[[str, bytes], None]
"""Takes a certificate and its key, which the worker uses from then on."""

EARLIEST_FRACTION, LATEST_FRACTION = 0.6, 0.8
"""Fractions of the certificate's lifetime: workers that joined together do not all renew together."""
RETRY_SECONDS = 60.0
CHECK_SECONDS = 300.0
"""How often it looks whether the hub rotates the keys of its root."""


def renewal_time(certificate: str, fraction: float) -> float:
    """Returns when to renew it, in seconds since the epoch; `fraction` is from 0 to 1."""
    period = validity_period(certificate.encode())
    if period is None:
        return 0.0
    begin, end = period
    return begin + (end - begin) * (EARLIEST_FRACTION + (LATEST_FRACTION - EARLIEST_FRACTION) * fraction)


def issue_time(certificate: str) -> float:
    """Returns when it became valid, in seconds since the epoch."""
    period = validity_period(certificate.encode())
    return period[0] if period is not None else 0.0


class CertificateRenewer:
    def __init__(
        self,
        hub: Client,
        clock: Clock,
        worker: str,
        store: str,
        certificate: str,
        store_certificate: StoreCertificate,
        random_float: Callable[[], float] = random.random,
    ) -> None:
        self.name = f"certificate of {worker}"
        self._hub, self._clock, self._worker, self._store = hub, clock, worker, store
        self._store_certificate, self._random = store_certificate, random_float
        self._renew_at = renewal_time(certificate, random_float())
        self._issued_at = issue_time(certificate)

    async def run(self) -> None:
        while True:
            remaining = self._renew_at - self._clock.now()
            if remaining > 0:
                # In steps: a machine that is suspended meanwhile stops the one clock and not the other.
                await self._clock.sleep(min(remaining, CHECK_SECONDS))
                await self._check_rotation()
                continue
            try:
                await self.renew()
            except (StatusError, Unreachable, CertificateDenied, ApprovalTimeout) as error:
                log.warning("cannot renew certificate of worker %s: %s", self._worker, error)
                await self._clock.sleep(RETRY_SECONDS)

    async def renew(self) -> None:
        key = new_key()
        certificate = await request_certificate(self._hub, self._clock, key, self._worker, self._store)
        self._store_certificate(certificate, key)
        self._renew_at, self._issued_at = renewal_time(certificate, self._random()), issue_time(certificate)
        log.info("renewed certificate of worker %s", self._worker)

    async def _check_rotation(self) -> None:
        """A certificate of the former keys is refused when the hub finishes the rotation."""
        try:
            root = await self._hub.get(LOGICAL_CLUSTERS, "root")
        except (StatusError, Unreachable):
            return
        # Certificates are valid a little early, so one that was issued just after it is renewed once more.
        if (parse_time(rotation_time(root)) or 0.0) > self._issued_at:
            self._renew_at = 0.0
