"""Shorter intervals, so that tests wait less."""

from __future__ import annotations

import pytest

from shoal.fleet.worker.handover import controller as yielding
from shoal.fleet.worker.replication import controller as shipping
from shoal.kinds.fleet import infrav1


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infrav1, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(shipping, "PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(shipping, "STATUS_SECONDS", 0.02)
    monkeypatch.setattr(yielding, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(yielding, "SELDOM_SECONDS", 0.5)
