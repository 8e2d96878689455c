"""Leader election by a Lease, as Kubernetes' own controllers do it: one of several processes is active.

Only the local clock is trusted. A lease counts as expired when it was not renewed for its duration since *this* process
saw it change. A leader that cannot renew stops before another may start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339_micro
from shoal.objects.errors import AlreadyExists, Conflict, Forbidden, NotFound, StatusError, Unauthorized
from shoal.runtime.metrics import register_leader

log = logging.getLogger("shoal.runtime")

Object = dict[str, Any]
LEASES = GroupVersionResource("coordination.k8s.io", "v1", "leases")
LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD = 15, 10.0, 2.0
RELEASE_TIMEOUT = 5.0
"""Bounds the release on shutdown, so that an unreachable server does not delay the end of the process."""


def acquire_record(lease: Object | None, identity: str, now: str, duration: int, expired: bool) -> Object | None:
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


class LeaderElector:
    def __init__(self, client: Client, clock: Clock, namespace: str, name: str, identity: str) -> None:
        self._client, self._clock, self._since_boot = client, clock, clock.since_boot
        self._namespace, self.name, self._identity = namespace, name, identity
        self._observed_record: tuple[str, str] = ("", "")
        self._observed_at = 0.0
        self._renew_sent_at = 0.0
        """When the last successful renewal was sent."""
        self.is_leader = False
        self._is_refused = False
        """Whether a request was refused since the last success."""
        self.error = ""
        """Why the last request for the Lease failed; empty: it did not."""
        register_leader(self)

    def is_lease_valid(self) -> bool:
        """Reports whether no other process can hold the lease now, nor before a request sent now has failed. To be
        checked immediately before a write: a process that was paused learns here that it has lost leadership.
        """
        return self.is_leader and self._since_boot() - self._renew_sent_at < RENEW_DEADLINE

    async def run(self, on_started_leading: Callable[[], Awaitable[None]]) -> None:
        """Runs `on_started_leading` whenever this process is the leader, and cancels it when leadership is lost."""
        try:
            while True:
                while not await self._try_acquire():
                    await self._clock.sleep(RETRY_PERIOD)
                self.is_leader = True
                log.info("%s acquired lease %s", self._identity, self.name)
                task = asyncio.ensure_future(on_started_leading())
                try:
                    await self._renew_until_lost(task)
                finally:
                    self.is_leader = False
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                log.warning("%s lost lease %s", self._identity, self.name)
        finally:
            await self._release()

    async def _renew_until_lost(self, task: asyncio.Future[None]) -> None:
        """Renews until another process holds the lease, the renew deadline passes, or the task has ended."""
        while not task.done() and self.is_lease_valid():
            await self._clock.sleep(RETRY_PERIOD)
            remaining = RENEW_DEADLINE - (self._since_boot() - self._renew_sent_at)
            try:
                async with asyncio.timeout(max(remaining, 0.0)):
                    if not await self._try_acquire_or_renew():
                        return
            except (StatusError, Unreachable, TimeoutError) as error:
                self._on_error(error)

    async def _try_acquire(self) -> bool:
        try:
            return await self._try_acquire_or_renew()
        except (StatusError, Unreachable) as error:
            self._on_error(error)
            return False

    def _on_error(self, error: StatusError | Unreachable | TimeoutError) -> None:
        """Warns once of a refusal: it does not end by itself, and this process may never lead."""
        is_refusal = isinstance(error, (Unauthorized, Forbidden))
        level = logging.WARNING if is_refusal and not self._is_refused else logging.INFO
        log.log(level, "cannot acquire or renew lease %s: %s", self.name, error)
        self._is_refused = self._is_refused or is_refusal
        self.error = str(error) or "no answer in time"

    async def _try_acquire_or_renew(self) -> bool:
        """Acquires or renews the lease. False: another process holds it."""
        held = await self._request_lease()
        self.error, self._is_refused = "", False
        return held

    async def _request_lease(self) -> bool:
        sent_at = self._since_boot()
        lease = await self._read()
        spec = (lease or {}).get("spec") or {}
        observed = (spec.get("holderIdentity") or "", spec.get("renewTime") or "")
        if observed != self._observed_record:
            self._observed_record, self._observed_at = observed, self._since_boot()
        expired = self._since_boot() - self._observed_at >= float(spec.get("leaseDurationSeconds") or LEASE_DURATION)
        record = acquire_record(lease, self._identity, rfc3339_micro(self._clock.now()), LEASE_DURATION, expired)
        if record is None:
            return False
        try:
            await self._write(lease, record)
        except (AlreadyExists, Conflict):
            return False
        self._renew_sent_at = sent_at
        return True

    async def _read(self) -> Object | None:
        try:
            return await self._client.get(LEASES, self.name, self._namespace)
        except NotFound:
            return None

    async def _write(self, lease: Object | None, record: Object) -> None:
        if lease is None:
            metadata = {"name": self.name, "namespace": self._namespace}
            created = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, **record}
            await self._client.create(LEASES, created, self._namespace)
        else:
            await self._client.update(LEASES, record)

    async def _release(self) -> None:
        """Clears the holder, so that another process need not wait for expiry."""
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT):
                lease = await self._read()
                if lease is not None and (lease.get("spec") or {}).get("holderIdentity") == self._identity:
                    lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._client.update(LEASES, lease)
        except (StatusError, Unreachable, TimeoutError):
            pass
