"""The solver process: results, failures, crashes and timeouts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shoal.provision.provisioning import node_planner
from shoal.provision.provisioning.node_planner import Planner
from shoal.provision.provisioning.planner_process import plan_in_process
from shoal.provision.settings import OPTIMAL
from shoal.provision.simulation.model import NewNodeClaim, SchedulingInput
from shoal.provision.simulation.simulate import simulate
from shoal.provision.solver import process as pools
from shoal.provision.solver import solve
from shoal.provision.solver.optimize import improve
from shoal.provision.solver.process import SolverFailed, SolverProcess
from tests.provision.catalogue import pods, pool
from tests.provision.solver import answers
from tests.provision.solver.test_optimize import TYPES
from tests.serving import HANG


@pytest.fixture(autouse=True)
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process is asked here is nowhere else."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))


@pytest.fixture
async def solver() -> AsyncIterator[SolverProcess]:
    found = SolverProcess()
    yield found
    await found.close()


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.anyio
async def test_it_answers_fails_and_goes_on(solver: SolverProcess) -> None:
    first = await solver.call(answers.process, seconds=HANG)
    assert first != os.getpid()
    assert await solver.call(answers.double, 21, seconds=HANG) == 42
    assert not await solver.call(answers.loaded, seconds=HANG)
    with pytest.raises(SolverFailed, match=r"^ValueError: it cannot be done$"):
        await solver.call(answers.fail, seconds=HANG)
    assert await solver.call(answers.process, seconds=HANG) == first
    doubled = await asyncio.gather(*(solver.call(answers.double, each, seconds=HANG) for each in range(5)))
    assert doubled == [0, 2, 4, 6, 8]
    await solver.close()
    assert not lives(first)


@pytest.mark.anyio
async def test_it_is_started_again_once(solver: SolverProcess, tmp_path: Path) -> None:
    assert await solver.call(answers.die_once, str(tmp_path / "died"), seconds=HANG) == "alive"
    with pytest.raises(SolverFailed, match="the solver process died"):
        await solver.call(answers.die, seconds=HANG)
    assert await solver.call(answers.double, 1, seconds=HANG) == 2


@pytest.mark.anyio
async def test_who_takes_too_long_or_is_not_waited_for_is_ended(
    solver: SolverProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await solver.call(answers.process, seconds=HANG)
    waiting = asyncio.create_task(solver.call(answers.sleep, seconds=HANG))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not lives(first)
    second = await solver.call(answers.process, seconds=HANG)
    monkeypatch.setattr(pools, "_TIMEOUT_MARGIN", 0.0)
    with pytest.raises(SolverFailed, match=r"the solver did not answer within 0\.01 seconds"):
        await solver.call(answers.sleep, seconds=0.01)
    assert not lives(second)


def uids(claim: NewNodeClaim) -> list[str]:
    return [pod["metadata"]["uid"] for pod in claim.pods]


@pytest.mark.anyio
async def test_a_plan_comes_back_cheaper(solver: SolverProcess) -> None:
    question = SchedulingInput(pods(8, "900m", "1Gi"), node_pools=[pool(types=TYPES)])
    rule = simulate(question)
    plan, report = await solver.call(plan_in_process, question, True, 40, HANG, HANG, seconds=HANG)
    here, said = improve(question, rule, iterations=40)
    assert report == said
    assert [claim.types for claim in plan.new_node_claims] == [claim.types for claim in here.new_node_claims]
    assert [uids(claim) for claim in plan.new_node_claims] == [uids(claim) for claim in here.new_node_claims]
    assert plan.cost < rule.cost


@pytest.mark.anyio
async def test_without_an_answer_the_rule_is_used(solver: SolverProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    question = SchedulingInput(pods(8, "900m", "1Gi"), node_pools=[pool(types=TYPES)])
    monkeypatch.setattr(node_planner, "SECONDS", HANG)
    planner = Planner(OPTIMAL, solver)
    plan, report = await planner.plan(question)
    assert report is not None
    assert plan.cost < simulate(question).cost
    monkeypatch.setattr(node_planner, "plan_in_process", answers.die)
    plan, report = await planner.plan(question)
    assert report is None
    assert plan.cost == simulate(question).cost


def test_both_sides_mean_the_same_budget() -> None:
    assert pools.ITERATIONS == solve.ITERATIONS


@pytest.mark.anyio
async def test_it_ends_with_the_loops() -> None:
    solver = SolverProcess()
    running = asyncio.create_task(solver.run())
    first = await solver.call(answers.process, seconds=HANG)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not lives(first)
