"""Functions that run in the solver process: evaluation of a whole cluster, with a time limit, and validation.

They import late, because the parent process needs neither numpy nor HiGHS.
"""

from __future__ import annotations

import time
from dataclasses import replace

from shoal.provision.disruption.model import Command, DisruptionDecision, DisruptionSettings, DisruptionSnapshot

EVALUATION_TIMEOUT_SECONDS = 30.0


def evaluate(snapshot: DisruptionSnapshot, settings: DisruptionSettings) -> DisruptionDecision:
    from shoal.provision.disruption.decide import decide_with_simulation  # noqa: PLC0415

    deadline = time.monotonic() + EVALUATION_TIMEOUT_SECONDS
    decision = decide_with_simulation(snapshot, settings, lambda: time.monotonic() > deadline)
    return replace(decision, timed_out=time.monotonic() > deadline)


def validate_pending(
    snapshot: DisruptionSnapshot, command: Command, settings: DisruptionSettings
) -> tuple[Command | None, str]:
    from shoal.provision.disruption.decide import validate_command  # noqa: PLC0415

    return validate_command(snapshot, command, settings)
