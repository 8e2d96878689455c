"""Probes a cluster periodically, and at once when in doubt. Failures are reported after a grace period."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.objects.errors import StatusError, Unauthorized

PROBE_SECONDS = 5.0
"""Timeout of a probe."""
EVERY_SECONDS = 10.0
GRACE_SECONDS = 10.0
"""How long a healthy cluster may not respond before that is reported."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0

Probe = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Verdict:
    healthy: bool
    reason: str
    message: str = ""


class Health:
    def __init__(
        self,
        clock: Clock,
        probe: Probe,
        *,
        up: Callable[[], None],
        down: Callable[[], None],
        told: Callable[[], None],
        denied: Callable[[], None],
        was_healthy: bool = False,
    ) -> None:
        """`on_reachable` runs after every successful probe, `on_unreachable` at the first failed one, `on_change` at a
        new status, `on_unauthorized` when the credentials are rejected. `was_healthy`: another process last found it
        healthy, so a failure has its grace period.
        """
        self._clock, self._probe = clock, probe
        self._up, self._down, self._told, self._denied = up, down, told, denied
        self.reachable = False
        self.verdict = Verdict(True, "Answering") if was_healthy else None
        self._doubt = asyncio.Event()
        self._silent_since: float | None = None

    def suspect(self) -> None:
        """Requests a probe now, after an error of the cluster."""
        self._doubt.set()

    async def run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            self._doubt.clear()
            failure = await self._look()
            if failure is None:
                pause = FIRST_PAUSE
                self._answered()
                await self._rest(EVERY_SECONDS)
                continue
            left = self._silent(failure)
            await self._rest(min(pause, left) if left > 0 else pause, doubting=False)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _look(self) -> Verdict | None:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._probe()
        except Unauthorized as error:
            self._denied()
            return Verdict(False, "InvalidKubeConfig", f"the credentials are not accepted: {error}")
        except StatusError as error:
            return Verdict(False, "WorkloadClusterNotReady", str(error))
        except Unreachable as error:
            return Verdict(False, "WorkloadClusterUnreachable", str(error))
        except TimeoutError:
            return Verdict(False, "WorkloadClusterUnreachable", f"no answer within {PROBE_SECONDS:.0f} s")
        return None

    def _answered(self) -> None:
        self._silent_since = None
        self.reachable = True
        self._up()
        self._conclude(Verdict(True, "Answering"))

    def _silent(self, failure: Verdict) -> float:
        """Returns how much of the grace period is left."""
        now = self._clock.monotonic()
        if self._silent_since is None:
            self._silent_since = now
        if self.reachable:
            self.reachable = False
            self._down()
        left = self._silent_since + GRACE_SECONDS - now
        if self.verdict is None or not self.verdict.healthy or left <= 0:
            self._conclude(failure)
            return 0.0
        return left

    def _conclude(self, verdict: Verdict) -> None:
        if verdict != self.verdict:
            self.verdict = verdict
            self._told()

    async def _rest(self, seconds: float, doubting: bool = True) -> None:
        """Waits, or until a probe is requested; an unreachable cluster is not probed faster on request."""
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        waits = [sleep, asyncio.ensure_future(self._doubt.wait())] if doubting else [sleep]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
