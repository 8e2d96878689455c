"""Plans computed in the solver process equal plans computed in this process."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.provision.provisioning import planning
from shoal.provision.provisioning.elsewhere import planned
from shoal.provision.provisioning.planning import Planner, light, restored
from shoal.provision.simulation.model import Plan, Question
from shoal.provision.simulation.rule import simulate
from shoal.provision.solver.pool import PoolFailed
from tests.provision.catalogue import pod, pods, pool


def question(count: int) -> Question:
    named = [pod(labels={"app": "x"}, volumes=[{"name": "tmp", "emptyDir": {}}]) for _ in range(count)]
    return Question([*named, *pods(1, "400")], pools=[pool()])


def shown(plan: Plan) -> object:
    claims = [(claim.name, claim.types, str(claim.requirements), claim.requests) for claim in plan.claims]
    return claims, [id(each) for claim in plan.claims for each in claim.pods], [id(each) for each, _ in plan.failures]


def test_pods_go_light_and_come_back_whole() -> None:
    asked = question(5)
    sent = light(asked)
    assert "volumes" not in sent.pods[0]["spec"]
    answer, report = planned(sent, False, 0, 0.0, 60.0)
    assert report is None
    assert answer.claims[0].pods[0] == {"metadata": {"uid": asked.pods[0]["metadata"]["uid"]}}
    assert shown(restored(answer, asked)) == shown(simulate(asked))


class Elsewhere:
    """In place of the other process."""

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.calls = fails, 0

    async def call(self, function: str, *arguments: Any, seconds: float) -> Any:
        self.calls += 1
        if self.fails:
            raise PoolFailed("its process died")
        assert function == "shoal.provision.provisioning.elsewhere:planned"
        return planned(*arguments)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("planner", "count", "calls"), [("karpenter", 5, 0), ("karpenter", 50, 1), ("optimal", 1, 0), ("optimal", 5, 1)]
)
async def test_only_what_takes_its_time_is_sent_away(planner: str, count: int, calls: int) -> None:
    pool_ = Elsewhere()
    asked = question(count)
    plan, _ = await Planner(planner, pool_).plan(asked)  # type: ignore[arg-type]
    assert pool_.calls == calls
    assert sum(len(claim.pods) for claim in plan.claims) == count
    assert any(each is asked.pods[0] for claim in plan.claims for each in claim.pods)


@pytest.mark.anyio
async def test_without_the_other_process_the_rule_is_worked_out_here() -> None:
    asked = question(planning.FEW + 1)
    plan, report = await Planner("optimal", Elsewhere(fails=True)).plan(asked)  # type: ignore[arg-type]
    assert shown(plan) == shown(simulate(asked))
    assert report is None
