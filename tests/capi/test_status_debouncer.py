"""Debounced keys are enqueued once, and no later than the maximum delay."""

from __future__ import annotations

import asyncio

import pytest

from shoal.capi import status_debouncer
from shoal.capi.conditions import differs_only_in_text
from shoal.capi.status_debouncer import StatusDebouncer
from shoal.clock import FakeClock
from shoal.runtime.workqueue import WorkQueue


def queue() -> WorkQueue[str]:
    return WorkQueue(FakeClock())


async def taken(waiting: WorkQueue[str]) -> str:
    return await asyncio.wait_for(waiting.get(), 60)


@pytest.mark.anyio
async def test_many_changes_are_looked_at_once_after_the_last_write() -> None:
    moment, keys = StatusDebouncer(), queue()
    with moment.track_write():
        for _ in range(5):
            moment.add(keys, "a")
        await asyncio.sleep(2 * status_debouncer.IDLE_SECONDS)
        assert not keys._queue, "a write is under way"
    assert await taken(keys) == "a"
    assert not keys._queue


@pytest.mark.anyio
async def test_counts_do_not_wait_for_the_writes_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_debouncer, "DEBOUNCE_SECONDS", 0.02)
    moment, keys = StatusDebouncer(), queue()
    with moment.track_write():
        moment.add(keys, "a")
        assert await taken(keys) == "a"


@pytest.mark.anyio
async def test_words_wait_until_they_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    moment, keys = StatusDebouncer(), queue()
    assert not moment.is_due(keys, "a")
    assert await taken(keys) == "a"
    assert moment.is_due(keys, "a")
    monkeypatch.setattr(status_debouncer, "MAX_DELAY_SECONDS", 0.02)
    with moment.track_write():
        assert not moment.is_due(keys, "b")
        assert await taken(keys) == "b"
        moment.forget(keys, "b")
        assert not moment.is_due(keys, "b"), "they were said already"


def test_which_changes_of_a_status_are_words() -> None:
    def machine(status: str, message: str, **more: object) -> dict[str, object]:
        said = {"type": "Ready", "status": status, "message": message, "reason": "Why"}
        return {"kind": "Machine", "status": {"phase": "Running", "conditions": [said], **more}}

    assert differs_only_in_text(machine("False", "a"), machine("False", "b", lastUpdated="now"))
    assert not differs_only_in_text(machine("False", "a"), machine("True", "a"))
    assert not differs_only_in_text(machine("False", "a"), machine("False", "a", nodeRef={"name": "n"}))
    assert differs_only_in_text({}, machine("False", "a"))
    assert not differs_only_in_text({}, machine("True", ""))
    assert not differs_only_in_text({}, {"status": {"initialization": {"provisioned": True}}})
