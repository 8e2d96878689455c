"""What a worker says while it cannot renew its registration."""

from __future__ import annotations

import pytest

from shoal.clock import FakeClock
from shoal.fleet.worker.registration.outage import MAX_ERRORS, REPEAT_SECONDS, RegistrationOutage

REFUSED = "https://hub cannot be reached: connection refused"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_an_outage_is_told_once_then_rarely_and_its_end_once(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    outage = RegistrationOutage("far", clock)
    outage.on_success()
    for _ in range(35):
        outage.on_failure(REFUSED)
        clock.step(1.0)
    assert caplog.messages == [f"worker far: {REFUSED}; retrying"]
    outage.on_success()
    outage.on_success()
    assert caplog.messages[1:] == ["worker far: registered again after 35 seconds"]
    caplog.clear()
    for _ in range(int(2 * REPEAT_SECONDS)):
        outage.on_failure(REFUSED)
        clock.step(1.0)
    assert caplog.messages == [f"worker far: {REFUSED}; retrying"] * 2


def test_another_error_is_told_and_endless_others_are_not(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    outage = RegistrationOutage("far", clock)
    for number in range(100):
        outage.on_failure(REFUSED)
        outage.on_failure(f"error {number}")
    assert len(caplog.messages) == MAX_ERRORS
    assert caplog.messages[:2] == [f"worker far: {REFUSED}; retrying", "worker far: error 0; retrying"]
