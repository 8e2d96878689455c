"""Creates the disruption controllers."""

from __future__ import annotations

from typing import Any

from shoal.clock import Clock
from shoal.provision.cloudprovider import CloudProvider
from shoal.provision.disruption.changes import Changes
from shoal.provision.disruption.controller import Disruption
from shoal.provision.disruption.execution import Execution
from shoal.provision.disruption.marks import Marks
from shoal.provision.disruption.model import Settings
from shoal.provision.disruption.seeing import Asking, Sight
from shoal.provision.disruption.telling import Telling
from shoal.provision.homes import Homes
from shoal.provision.settings import Settings as All
from shoal.provision.solver.pool import SolverPool
from shoal.provision.view import View
from shoal.runtime.loop import Loop
from shoal.runtime.recorder import Recorder


def disruption_loops(
    homes: Homes,
    view: View,
    provider: CloudProvider,
    asking: Asking,
    recorder: Recorder,
    clock: Clock,
    pool: SolverPool,
    settings: All,
) -> list[Loop[Any]]:
    marks = Marks(homes, view, provider, clock)
    disruption = Disruption(
        view,
        Sight(view, marks, asking),
        Changes(view, provider),
        Execution(homes, view, recorder, clock, asking.promise),
        Telling(recorder),
        pool,
        clock,
        Settings(settings.planner, settings.spot_to_spot),
        settings.validation,
    )
    return [marks.loop, disruption.loop, disruption.looks]
