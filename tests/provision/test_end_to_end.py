"""The whole chain in one cluster: pods arrive and nodes are launched, most pods leave and nodes are removed, a price
change consolidates them, a template change rolls them. Disruption budgets and PodDisruptionBudgets are checked at
every watch event.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.provision_watch import BudgetWatcher
from shoal.client.rest import GroupVersionResource
from shoal.objects.conditions import condition_is
from shoal.provision.pods import is_provisionable
from shoal.provision.provisioning.node_planner import Planner
from shoal.provision.simulation.model import Results, SchedulingInput
from shoal.provision.solver.report import OptimizationReport
from shoal.provision.state import NODE_CLAIMS, NODE_POOLS, PODS
from tests.provision.disruption.stage import DEPLOYMENTS, PDBS, TYPE, Stage, stage
from tests.provision.hosted import SIZES, deployment, pod

Object = dict[str, Any]
STORY = {"part-of": "story"}
MANY, FEW = {"front": 16, "back": 8}, {"front": 4, "back": 2}
ASKED = {"front": "500m", "back": "1500m"}
LEAST_READY, BUDGET, CPU = 5, "2", 5000
"""Of what stays: pods at least, nodes at a time, thousandths that are asked for."""


@asynccontextmanager
async def watching(found: Stage, watched: BudgetWatcher) -> AsyncIterator[None]:
    async def read(kind: GroupVersionResource, told: Callable[[Object, float], None]) -> None:
        async for event in found.hosted.watch(kind, query={"timeoutSeconds": "86400"}):
            told(event, found.given.clock.now())

    tasks = [asyncio.create_task(read(PODS, watched.pod)), asyncio.create_task(read(NODE_CLAIMS, watched.claim))]

    async def caught_up() -> bool:
        pods, claims = await found.pods(), await found.claims()
        return _versions(pods) == _versions(watched.pods.values()) and _versions(claims) == _versions(
            watched.claims.values()
        )

    await found.until(caught_up)
    yield
    await found.until(caught_up)
    assert not any(task.done() for task in tasks), "a watch ended"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _versions(objects: Any) -> set[tuple[str, str]]:
    return {(each["metadata"]["uid"], each["metadata"]["resourceVersion"]) for each in objects}


async def at_rest(found: Stage, look: Callable[[list[Object]], bool], replicas: dict[str, int]) -> None:
    """The NodeClaims are as they should be, all nodes ready, none on its way, and all pods run."""

    async def seen() -> bool:
        claims, pods = await found.claims(), await found.pods()
        going = any("deletionTimestamp" in each["metadata"] for each in [*claims, *pods])
        marked = any(condition_is(each, "DisruptionReason") for each in claims)
        ready = all(condition_is(each, "Ready") for each in [*claims, *pods])
        return ready and not going and not marked and len(pods) == sum(replicas.values()) and look(claims)

    await found.until(seen)


def types(claims: list[Object]) -> list[str]:
    return sorted(each["metadata"]["labels"].get(TYPE, "") for each in claims)


def cost(claims: list[Object]) -> float:
    return round(sum(float(SIZES[name][2]) for name in types(claims)), 6)


@pytest.mark.anyio
async def test_pods_come_and_leave_a_price_changes_and_a_template(tmp_path: Path) -> None:
    async with stage(tmp_path, ("small", "medium")) as found:
        await found.pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": BUDGET}]})
        for name, replicas in MANY.items():
            wanted = deployment(name, replicas, ASKED[name])
            wanted["spec"]["template"]["metadata"]["labels"] |= STORY
            await found.hosted.create(DEPLOYMENTS, wanted, "default")
        await at_rest(found, lambda claims: len(claims) >= 5, MANY)

        spec = {"minAvailable": LEAST_READY, "selector": {"matchLabels": STORY}}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "story"}, "spec": spec}
        await found.hosted.create(PDBS, body, "default")
        watched = BudgetWatcher(LEAST_READY, BUDGET, CPU)
        async with watching(found, watched):
            for name, replicas in FEW.items():
                await found.hosted.merge_patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}}, "default")
            # Five CPU are asked for, nodes have an even number: nothing is cheaper.
            await at_rest(found, lambda claims: cost(claims) == 0.12, FEW)

            await found.price("small", "0.9")
            await at_rest(found, lambda claims: types(claims) == ["medium", "medium"], FEW)

            template = {"template": {"metadata": {"labels": {"team": "blue"}}}}
            await found.hosted.merge_patch(NODE_POOLS, "default", {"spec": template})

            def rolled(claims: list[Object]) -> bool:
                labels = [each["metadata"]["labels"] for each in claims]
                return types(claims) == ["medium", "medium"] and all(each.get("team") == "blue" for each in labels)

            await at_rest(found, rolled, FEW)
        assert watched.broken == []
        assert 0 < watched.most_down <= int(BUDGET)


@pytest.mark.anyio
async def test_what_the_scheduler_fills_otherwise_than_planned_is_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Planner.plan
    wrong: list[Results] = []
    async with stage(tmp_path, ("small",)) as found:

        async def plan(self: Planner, question: SchedulingInput) -> tuple[Results, OptimizationReport | None]:
            """The first takes a while, and puts both pods where only one of them fits."""
            answer, report = await original(self, question)
            if wrong or len(answer.new_node_claims) != 2:
                return answer, report
            wrong.append(answer)
            found.given.clock.step(1.0)
            first, second = answer.new_node_claims
            return replace(answer, new_node_claims=(replace(first, pods=(*first.pods, *second.pods)),)), report

        monkeypatch.setattr(Planner, "plan", plan)
        for name in ("one", "two"):
            await found.hosted.create(PODS, pod(name, "1500m"), "default")

        async def waiting() -> bool:
            return [is_provisionable(each) for each in await found.pods()] == [True, True]

        await found.until(waiting)
        await found.pool()
        await found.running(2)
        await found.settled(["small", "small"])
