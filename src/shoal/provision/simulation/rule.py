"""Karpenter's rule, the door to it: a question in, a plan out. Pure; `rounds` has the rule itself."""

from __future__ import annotations

from collections.abc import Callable

from shoal.provision.simulation.answer import answer
from shoal.provision.simulation.model import Plan, Question
from shoal.provision.simulation.rounds import Round


def simulate(question: Question, stop: Callable[[], bool] | None = None) -> Plan:
    """`stop` says when there is no more time: what is placed by then is the plan."""
    round_ = Round(question)
    round_.run(stop or (lambda: False))
    return answer(round_)
