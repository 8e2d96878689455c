"""Leader election by a Lease, as Kubernetes' own controllers do it: one of several processes is active.

Only the local clock is trusted. A lease counts as expired when it was not renewed for its duration since *this* process
saw it change. A leader that cannot renew stops before another may start.
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
from shoal.runtime.metrics import tell_of_leader

log = logging.getLogger("shoal.runtime")

Object = dict[str, Any]
LEASES = Kind("coordination.k8s.io", "v1", "leases")
DURATION, RENEW_DEADLINE, RETRY = 15, 10.0, 2.0
RELEASE_SECONDS = 5.0
"""Bounds the release on shutdown, so that an unreachable server does not delay the end of the process."""


def claimed(lease: Object | None, identity: str, now: str, duration: int, expired: bool) -> Object | None:
    """The Lease as `identity` would write it, or None if another holds it. Pure."""
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
        self._client, self._clock, self._since = client, clock, clock.since_boot
        self._namespace, self.name, self._identity = namespace, name, identity
        self._seen: tuple[str, str] = ("", "")
        self._seen_at = 0.0
        self._asked = 0.0
        """When the last successful renewal was sent."""
        self.holds = False
        tell_of_leader(self)

    def is_valid(self) -> bool:
        """Reports whether no other process can hold the lease now, nor before a request sent now has failed. To be
        checked immediately before a write: a process that was paused learns here that it has lost leadership.
        """
        return self.holds and self._since() - self._asked < RENEW_DEADLINE

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Runs `on_started_leading` whenever this process is the leader, and cancels it when leadership is lost."""
        try:
            while True:
                while not await self._take():
                    await self._clock.sleep(RETRY)
                self.holds = True
                log.info("%s holds the lease %s", self._identity, self.name)
                working = asyncio.ensure_future(work())
                try:
                    await self._keep(working)
                finally:
                    self.holds = False
                    working.cancel()
                    await asyncio.gather(working, return_exceptions=True)
                log.warning("%s lost the lease %s", self._identity, self.name)
        finally:
            await self._release()

    async def _keep(self, working: asyncio.Future[None]) -> None:
        """Renews until another process holds the lease, the renew deadline passes, or the task has ended."""
        while not working.done() and self.is_valid():
            await self._clock.sleep(RETRY)
            left = RENEW_DEADLINE - (self._since() - self._asked)
            try:
                async with asyncio.timeout(max(left, 0.0)):
                    if not await self._renew():
                        return
            except (StatusError, Unreachable, TimeoutError) as error:
                log.info("lease %s: %s", self.name, error)

    async def _take(self) -> bool:
        try:
            return await self._renew()
        except (StatusError, Unreachable) as error:
            log.info("lease %s: %s", self.name, error)
            return False

    async def _renew(self) -> bool:
        """Acquires or renews the lease. False: another process holds it."""
        asked = self._since()
        lease = await self._read()
        spec = (lease or {}).get("spec") or {}
        seen = (spec.get("holderIdentity") or "", spec.get("renewTime") or "")
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._since()
        expired = self._since() - self._seen_at >= float(spec.get("leaseDurationSeconds") or DURATION)
        mine = claimed(lease, self._identity, rfc3339_micro(self._clock.now()), DURATION, expired)
        if mine is None:
            return False
        try:
            await self._write(lease, mine)
        except (AlreadyExists, Conflict):
            return False
        self._asked = asked
        return True

    async def _read(self) -> Object | None:
        try:
            return await self._client.get(LEASES, self.name, self._namespace)
        except NotFound:
            return None

    async def _write(self, lease: Object | None, mine: Object) -> None:
        if lease is None:
            metadata = {"name": self.name, "namespace": self._namespace}
            made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, **mine}
            await self._client.create(LEASES, made, self._namespace)
        else:
            await self._client.update(LEASES, mine)

    async def _release(self) -> None:
        """Clears the holder, so that another process need not wait for expiry."""
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                lease = await self._read()
                if lease is not None and (lease.get("spec") or {}).get("holderIdentity") == self._identity:
                    lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._client.update(LEASES, lease)
        except (StatusError, Unreachable, TimeoutError):
            pass
