"""Entry point of Karpenter's scheduling algorithm: SchedulingInput to Results. Pure. The algorithm is in
`scheduler`.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.provision.simulation.model import Results, SchedulingInput
from shoal.provision.simulation.results import build_results
from shoal.provision.simulation.scheduler import Scheduler


def simulate(inputs: SchedulingInput, stop: Callable[[], bool] | None = None) -> Results:
    """When `stop` returns True, the pods placed so far form the results."""
    scheduler = Scheduler(inputs)
    scheduler.run(stop or (lambda: False))
    return build_results(scheduler)
