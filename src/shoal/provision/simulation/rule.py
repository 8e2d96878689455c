"""Entry point of Karpenter's scheduling algorithm: SchedulingInput to Results. Pure. The algorithm is in
`scheduler`.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.provision.simulation.answer import answer
from shoal.provision.simulation.model import Plan, Question
from shoal.provision.simulation.rounds import Round


def simulate(question: Question, stop: Callable[[], bool] | None = None) -> Plan:
    """When `stop` returns True, the pods placed so far form the results."""
    round_ = Round(question)
    round_.run(stop or (lambda: False))
    return answer(round_)
