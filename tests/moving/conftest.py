"""Shorter intervals, so that tests wait less."""

from __future__ import annotations

import pytest

from shoal.fleet.worker.shipping import controller as shipping
from shoal.fleet.worker.yielding import controller as yielding
from shoal.kinds import fleet


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(shipping, "PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(shipping, "STATUS_SECONDS", 0.02)
    monkeypatch.setattr(yielding, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(yielding, "SELDOM_SECONDS", 0.5)
