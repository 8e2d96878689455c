"""ExternalObjectTracker after a failure: what was requested is watched again."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from shoal.capi.external import ExternalObjectTracker
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import FakeClock


class Failing(ExternalObjectTracker):
    """Fails at the first kind it looks for."""

    def __init__(self) -> None:
        super().__init__(cast(Client, None), FakeClock())
        self.sought: list[str] = []

    async def _find_resource(self, group: str, kind: str) -> GroupVersionResource | None:
        self.sought.append(kind)
        if len(self.sought) == 1:
            raise ValueError("a defect")
        await asyncio.Event().wait()
        return None


@pytest.mark.anyio
async def test_it_runs_again_with_every_kind_that_was_requested() -> None:
    tracker = Failing()
    assert tracker.informer_for("example.com", "Plane") is None
    with pytest.raises(ExceptionGroup):
        await tracker.run()
    assert not tracker.can_resolve("example.com", "Shuttle")
    running = asyncio.create_task(tracker.run())
    for _ in range(5):
        await asyncio.sleep(0)
    assert tracker.sought[0] == "Plane"
    assert sorted(tracker.sought[1:]) == ["Plane", "Shuttle"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
