"""Fault injection for the simulated cloud. Without configuration nothing fails."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from shoal.clock import Clock
from shoal.provision.cloudprovider.types import ProviderError


@dataclass(slots=True)
class FaultInjector:
    unavailable: set[str] = field(default_factory=set)
    """Offerings by name that are listed but cannot be launched."""
    delays: dict[str, float] = field(default_factory=dict)
    """Delay in seconds by call: create, delete, register."""
    _errors: dict[str, deque[Exception]] = field(default_factory=dict)

    def fail(self, call: str, error: Exception | None = None, times: int = 1) -> None:
        """The next calls raise the error."""
        failures = self._errors.setdefault(call, deque())
        failures.extend(error or ProviderError(f"{call} failed (injected fault)") for _ in range(times))

    async def inject(self, call: str, clock: Clock) -> None:
        """Must be awaited at the start of a call."""
        if self.delays.get(call):
            await clock.sleep(self.delays[call])
        if self._errors.get(call):
            raise self._errors[call].popleft()
