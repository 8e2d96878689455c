"""Probes a cluster periodically, and at once when in doubt. Failures are reported after a grace period."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.objects.errors import StatusError, Unauthorized

PROBE_TIMEOUT = 5.0
"""Timeout of a probe."""
PROBE_INTERVAL = 10.0
GRACE_SECONDS = 10.0
"""How long a healthy cluster may not respond before that is reported."""
BASE_DELAY, MAX_DELAY = 0.5, 30.0

Probe = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class HealthStatus:
    healthy: bool
    reason: str
    message: str = ""


class ClusterHealth:
    def __init__(
        self,
        clock: Clock,
        probe: Probe,
        *,
        on_reachable: Callable[[], None],
        on_unreachable: Callable[[], None],
        on_change: Callable[[], None],
        on_unauthorized: Callable[[], None],
        was_healthy: bool = False,
    ) -> None:
        """`on_reachable` runs after every successful probe, `on_unreachable` at the first failed one, `on_change` at a
        new status, `on_unauthorized` when the credentials are rejected. `was_healthy`: another process last found it
        healthy, so a failure has its grace period.
        """
        self._clock, self._probe = clock, probe
        self._on_reachable, self._on_unreachable, self._on_change, self._on_unauthorized = (
            on_reachable,
            on_unreachable,
            on_change,
            on_unauthorized,
        )
        self.is_reachable = False
        self.status = HealthStatus(True, "Answering") if was_healthy else None
        self._probe_requested = asyncio.Event()
        self._silent_since: float | None = None

    def probe_now(self) -> None:
        """Requests a probe now, after an error of the cluster."""
        self._probe_requested.set()

    async def run(self) -> None:
        delay = BASE_DELAY
        while True:
            self._probe_requested.clear()
            failure = await self._run_probe()
            if failure is None:
                delay = BASE_DELAY
                self._handle_success()
                await self._wait(PROBE_INTERVAL)
                continue
            remaining = self._handle_failure(failure)
            await self._wait(min(delay, remaining) if remaining > 0 else delay, until_requested=False)
            delay = min(delay * 2, MAX_DELAY)

    async def _run_probe(self) -> HealthStatus | None:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT):
                await self._probe()
        except Unauthorized as error:
            self._on_unauthorized()
            return HealthStatus(False, "InvalidKubeConfig", f"the cluster rejects the credentials: {error}")
        except StatusError as error:
            return HealthStatus(False, "WorkloadClusterNotReady", str(error))
        except Unreachable as error:
            return HealthStatus(False, "WorkloadClusterUnreachable", str(error))
        except TimeoutError:
            return HealthStatus(False, "WorkloadClusterUnreachable", f"no answer within {PROBE_TIMEOUT:.0f} s")
        return None

    def _handle_success(self) -> None:
        self._silent_since = None
        self.is_reachable = True
        self._on_reachable()
        self._set_status(HealthStatus(True, "Answering"))

    def _handle_failure(self, failure: HealthStatus) -> float:
        """Returns how much of the grace period is left."""
        now = self._clock.monotonic()
        if self._silent_since is None:
            self._silent_since = now
        if self.is_reachable:
            self.is_reachable = False
            self._on_unreachable()
        remaining = self._silent_since + GRACE_SECONDS - now
        if self.status is None or not self.status.healthy or remaining <= 0:
            self._set_status(failure)
            return 0.0
        return remaining

    def _set_status(self, status: HealthStatus) -> None:
        if status != self.status:
            self.status = status
            self._on_change()

    async def _wait(self, seconds: float, until_requested: bool = True) -> None:
        """Waits, or until a probe is requested; an unreachable cluster is not probed faster on request."""
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        waits = [sleep, asyncio.ensure_future(self._probe_requested.wait())] if until_requested else [sleep]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
