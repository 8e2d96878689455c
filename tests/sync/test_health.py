"""ClusterHealth on a fake clock, and invalid sync settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from shoal.client.transport import Unreachable
from shoal.clock import FakeClock
from shoal.objects.errors import ShoalError, StatusError, Unauthorized
from shoal.sync.controllers import SyncSettings
from shoal.sync.syncer.health import GRACE_SECONDS, PROBE_INTERVAL, ClusterHealth

pytestmark = pytest.mark.anyio


class Patient:
    def __init__(self, was_healthy: bool = False) -> None:
        self.clock = FakeClock()
        self.failure: Exception | None = None
        self.told: list[str] = []
        self.probes = 0
        self.task: asyncio.Task[None] | None = None
        self.health = ClusterHealth(
            self.clock,
            self._probe,
            on_reachable=lambda: self.told.append("up"),
            on_unreachable=lambda: self.told.append("down"),
            on_change=lambda: self.told.append(self.health.status.reason if self.health.status else ""),
            on_unauthorized=lambda: self.told.append("denied"),
            was_healthy=was_healthy,
        )

    async def _probe(self) -> None:
        self.probes += 1
        if self.failure is not None:
            raise self.failure

    async def end(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def step(self, seconds: float = 0.0) -> list[str]:
        """What was told meanwhile. The first step begins."""
        if self.task is None:
            self.task = asyncio.create_task(self.health.run())
        self.clock.step(seconds)
        for _ in range(20):
            await asyncio.sleep(0)
        told, self.told = self.told, []
        return told


@pytest.fixture
async def patient() -> AsyncIterator[Patient]:
    patient = Patient()
    yield patient
    await patient.end()


async def test_a_cluster_that_never_answered_is_told_at_once(patient: Patient) -> None:
    patient.failure = Unreachable("dark")
    assert await patient.step() == ["WorkloadClusterUnreachable"]
    assert not patient.health.is_reachable
    patient.failure = None
    assert await patient.step(0.5) == ["up", "Answering"]
    assert patient.health.is_reachable


async def test_silence_is_told_after_a_grace(patient: Patient) -> None:
    assert await patient.step() == ["up", "Answering"]
    patient.failure = Unreachable("dark")
    assert await patient.step(PROBE_INTERVAL) == ["down"]
    assert not patient.health.is_reachable
    told = []
    for _ in range(int(GRACE_SECONDS * 2) - 1):
        told += await patient.step(0.5)
    assert told == []
    assert await patient.step(0.5) == ["WorkloadClusterUnreachable"]
    assert await patient.step(60) == []
    patient.failure = None
    assert await patient.step(60) == ["up", "Answering"]


async def test_a_short_silence_is_never_told(patient: Patient) -> None:
    await patient.step()
    patient.failure = Unreachable("dark")
    assert await patient.step(PROBE_INTERVAL) == ["down"]
    patient.failure = None
    assert await patient.step(0.5) == ["up"]
    assert patient.health.status is not None
    assert patient.health.status.healthy


async def test_a_restart_has_its_grace_too() -> None:
    patient = Patient(was_healthy=True)
    patient.failure = Unreachable("dark")
    assert await patient.step() == []
    patient.failure = None
    assert await patient.step(0.5) == ["up"]
    await patient.end()


async def test_a_doubt_is_looked_into_now(patient: Patient) -> None:
    await patient.step()
    patient.failure = Unreachable("dark")
    patient.health.probe_now()
    assert await patient.step() == ["down"]
    probes = patient.probes
    patient.health.probe_now()
    await patient.step()
    assert patient.probes == probes


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (Unauthorized("no"), ["denied", "InvalidKubeConfig"]),
        (StatusError("readyz check failed"), ["WorkloadClusterNotReady"]),
    ],
)
async def test_answers_that_are_none(patient: Patient, failure: Exception, told: list[str]) -> None:
    patient.failure = failure
    assert await patient.step() == told


def test_sync_modes() -> None:
    assert SyncSettings(mode="pull").mode == "pull"
    with pytest.raises(ShoalError, match="unknown sync mode 'puhs': must be one of push, pull, none"):
        SyncSettings(mode="puhs")
