"""Plans computed in the solver process equal plans computed in this process."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.provision.provisioning import node_planner
from shoal.provision.provisioning.node_planner import Planner, restore_pods, trim_input
from shoal.provision.provisioning.planner_process import plan_in_process
from shoal.provision.simulation.model import Results, SchedulingInput
from shoal.provision.simulation.simulate import simulate
from shoal.provision.solver.process import SolverFailed
from tests.provision.catalogue import pod, pods, pool


def question(count: int) -> SchedulingInput:
    named = [pod(labels={"app": "x"}, volumes=[{"name": "tmp", "emptyDir": {}}]) for _ in range(count)]
    return SchedulingInput([*named, *pods(1, "400")], node_pools=[pool()])


def shown(plan: Results) -> object:
    claims = [(claim.name, claim.types, str(claim.requirements), claim.requests) for claim in plan.new_node_claims]
    return (
        claims,
        [id(each) for claim in plan.new_node_claims for each in claim.pods],
        [id(each) for each, _ in plan.failures],
    )


def test_pods_go_light_and_come_back_whole() -> None:
    asked = question(5)
    sent = trim_input(asked)
    assert "volumes" not in sent.pods[0]["spec"]
    answer, report = plan_in_process(sent, False, 0, 0.0, 60.0)
    assert report is None
    assert answer.new_node_claims[0].pods[0] == {"metadata": {"uid": asked.pods[0]["metadata"]["uid"]}}
    assert shown(restore_pods(answer, asked)) == shown(simulate(asked))


class Elsewhere:
    """In place of the other process."""

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.calls = fails, 0

    async def call(self, function: object, *arguments: Any, seconds: float) -> Any:
        self.calls += 1
        if self.fails:
            raise SolverFailed("the solver process died")
        assert function is plan_in_process
        return plan_in_process(*arguments)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("planner", "count", "calls"), [("karpenter", 5, 0), ("karpenter", 50, 1), ("optimal", 1, 0), ("optimal", 5, 1)]
)
async def test_only_what_takes_its_time_is_sent_away(planner: str, count: int, calls: int) -> None:
    pool_ = Elsewhere()
    asked = question(count)
    plan, _ = await Planner(planner, pool_).plan(asked)  # type: ignore[arg-type]
    assert pool_.calls == calls
    assert sum(len(claim.pods) for claim in plan.new_node_claims) == count
    assert any(each is asked.pods[0] for claim in plan.new_node_claims for each in claim.pods)


@pytest.mark.anyio
async def test_without_the_other_process_the_rule_is_worked_out_here() -> None:
    asked = question(node_planner.MAX_INLINE_PODS + 1)
    plan, report = await Planner("optimal", Elsewhere(fails=True)).plan(asked)  # type: ignore[arg-type]
    assert shown(plan) == shown(simulate(asked))
    assert report is None
