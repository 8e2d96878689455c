"""When a cluster is evaluated again: time alone may have changed what can be disrupted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from shoal.clock import FakeClock, rfc3339
from shoal.provision.disruption.controller import RESYNC_SECONDS, DisruptionReconciler
from shoal.provision.disruption.model import DisruptionDecision
from tests.provision.catalogue import SMALL, pod
from tests.provision.disruption.fleet import Fleet, every

CLUSTER = "default.east"


class Evaluations:
    """A reconciler whose evaluations find nothing to do, and the times of these."""

    def __init__(self, fleet: Fleet, clock: FakeClock) -> None:
        self.times: list[float] = []
        self._fleet, self._clock = fleet, clock
        index = SimpleNamespace(by_index=lambda *_: [every()])
        state: Any = SimpleNamespace(has_synced=True, node_pools=index)
        snapshots: Any = SimpleNamespace(
            has_unplanned_pods=lambda cluster: False,
            state_nodes=lambda *_: [],
            full_snapshot=lambda *_: fleet.snapshot(clock.now()),
        )
        recorder: Any = SimpleNamespace(
            record_eligible=lambda *_: (True, ()), record_evaluation=lambda *_: None, record_notes=lambda *_: None
        )
        executor: Any = None
        solver: Any = self
        self.reconciler = DisruptionReconciler(state, snapshots, executor, recorder, solver, clock)

    async def call(self, *_: Any, **__: Any) -> DisruptionDecision:
        self.times.append(self._clock.now())
        return DisruptionDecision()

    async def pass_time(self, seconds: float) -> None:
        """Evaluates as often as the reconciler wants to."""
        end = self._clock.now() + seconds
        while (wait := await self.reconciler.evaluate(CLUSTER)) is not None and self._clock.now() + wait <= end:
            self._clock.step(wait)
        self._clock.step(end - self._clock.now())


@pytest.mark.anyio
async def test_the_end_of_a_timed_do_not_disrupt_is_a_change() -> None:
    clock = FakeClock()
    kept = pod()
    kept["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "100s"}
    kept["status"] = {"phase": "Running", "startTime": rfc3339(clock.now())}
    fleet = Fleet()
    fleet.add(SMALL, [kept])
    evaluations, start = Evaluations(fleet, clock), clock.now()
    evaluations.reconciler.on_change(CLUSTER)
    await evaluations.pass_time(95)
    assert len(evaluations.times) == 1
    await evaluations.pass_time(15)
    assert [each - start > 99 for each in evaluations.times] == [False, True]
    await evaluations.pass_time(RESYNC_SECONDS - 20)
    assert len(evaluations.times) == 2
