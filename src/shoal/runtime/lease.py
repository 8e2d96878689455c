"""One of several processes acts: the one that holds a Lease, as Kubernetes' own controllers do it.

Nobody's clock is trusted but one's own: a lease is free when it was not renewed for its duration since *this*
process saw it change. Who cannot renew stops acting before another may begin.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339_micro
from shoal.objects.errors import AlreadyExists, Conflict, NotFound, StatusError

log = logging.getLogger("shoal.runtime")

Object = dict[str, Any]
LEASES = Kind("coordination.k8s.io", "v1", "leases")
DURATION, RENEW_DEADLINE, RETRY = 15, 10.0, 2.0


def claimed(lease: Object | None, identity: str, now: str, duration: int, expired: bool) -> Object | None:
    """The lease as its holder would write it; None: it is another's. Pure."""
    spec = dict((lease or {}).get("spec") or {})
    holder = spec.get("holderIdentity") or ""
    if holder and holder != identity and not expired:
        return None
    if holder != identity:
        spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + (1 if lease else 0)
        spec["acquireTime"] = now
    spec |= {"holderIdentity": identity, "leaseDurationSeconds": duration, "renewTime": now}
    return {**(lease or {}), "spec": spec}


class Lease:
    def __init__(self, client: Client, clock: Clock, namespace: str, name: str, identity: str) -> None:
        self._client, self._clock = client, clock
        self._namespace, self._name, self._identity = namespace, name, identity
        self._seen: tuple[str, str] = ("", "")
        self._seen_at = 0.0
        self.holds = False

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Does the work whenever this process is the holder; the work is cancelled when it is not any more."""
        try:
            while True:
                while not await self._take():
                    await self._clock.sleep(RETRY)
                self.holds = True
                log.info("%s holds the lease %s", self._identity, self._name)
                working = asyncio.ensure_future(work())
                try:
                    await self._keep(working)
                finally:
                    self.holds = False
                    working.cancel()
                    await asyncio.gather(working, return_exceptions=True)
                log.warning("%s lost the lease %s", self._identity, self._name)
        finally:
            await self._release()

    async def _keep(self, working: asyncio.Future[None]) -> None:
        """Until the lease is another's, could not be renewed in time, or the work has ended."""
        renewed = self._clock.monotonic()
        while not working.done() and self._clock.monotonic() - renewed < RENEW_DEADLINE:
            await self._clock.sleep(RETRY)
            try:
                async with asyncio.timeout(RENEW_DEADLINE):
                    if not await self._renew():
                        return
            except (StatusError, Unreachable, TimeoutError) as error:
                log.info("lease %s: %s", self._name, error)
            else:
                renewed = self._clock.monotonic()

    async def _take(self) -> bool:
        try:
            return await self._renew()
        except (StatusError, Unreachable) as error:
            log.info("lease %s: %s", self._name, error)
            return False

    async def _renew(self) -> bool:
        """Takes the lease, or renews it. False: it is another's."""
        lease = await self._read()
        spec = (lease or {}).get("spec") or {}
        seen = (spec.get("holderIdentity") or "", spec.get("renewTime") or "")
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock.monotonic()
        expired = self._clock.monotonic() - self._seen_at >= float(spec.get("leaseDurationSeconds") or DURATION)
        mine = claimed(lease, self._identity, rfc3339_micro(self._clock.now()), DURATION, expired)
        if mine is None:
            return False
        try:
            await self._write(lease, mine)
        except (AlreadyExists, Conflict):
            return False
        return True

    async def _read(self) -> Object | None:
        try:
            return await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            return None

    async def _write(self, lease: Object | None, mine: Object) -> None:
        if lease is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, **mine}
            await self._client.create(LEASES, made, self._namespace)
        else:
            await self._client.update(LEASES, mine)

    async def _release(self) -> None:
        """So that another need not wait."""
        try:
            lease = await self._read()
            if lease is not None and (lease.get("spec") or {}).get("holderIdentity") == self._identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                await self._client.update(LEASES, lease)
        except (StatusError, Unreachable):
            pass
