"""Disruption on the running server: consolidation, drift, blocked nodes, rollback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.objects.conditions import condition_is, get_condition
from shoal.provision.clusterapi.provider import MACHINE_DEPLOYMENTS as MACHINE_DEPLOYMENTS
from shoal.provision.state import NODE_CLAIMS, NODE_POOLS, NODES, PODS
from tests.provision.disruption.stage import DEPLOYMENTS, PDBS, Stage, stage
from tests.provision.hosted import deployment, pod, size_objects

Object = dict[str, Any]
DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


def budget(nodes: str, **more: Any) -> Object:
    return {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": nodes}], **more}}


def at_most_going(found: Stage, most: int) -> None:
    async def look() -> None:
        going = await found.going()
        assert len(going) <= most, f"the budget allows {most}: {going}"

    found.watched.append(look)


@pytest.mark.anyio
async def test_scaled_down_a_cluster_is_consolidated_within_budgets_and_moves_when_prices_do(tmp_path: Path) -> None:
    async with stage(tmp_path, ("small", "medium")) as found:
        await found.pool(**budget("2"))
        await found.hosted.create(DEPLOYMENTS, deployment("web", 14), "default")
        await found.running(14)
        spec = {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec}
        await found.hosted.create(PDBS, body, "default")
        at_most_going(found, 2)

        async def available() -> None:
            ready = [each for each in await found.pods() if condition_is(each, "Ready")]
            assert len(ready) >= 3, "the budget of the pods is broken"

        found.watched.append(available)
        await found.hosted.merge_patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}}, "default")
        await found.settled(["small"])
        await found.running(4)
        await found.price("small", "0.9")
        await found.settled(["medium"])
        await found.running(4)
        assert "Disrupting NodeClaim: Underutilized" in await found.events("DisruptionTerminating")


@pytest.mark.anyio
async def test_a_drifted_template_rolls_nodes_one_by_one_and_replacements_come_first(tmp_path: Path) -> None:
    async with stage(tmp_path, ("small",)) as found:
        await found.pool(**budget("1"))
        for number in range(3):
            await found.hosted.create(DEPLOYMENTS, deployment(f"web{number}", 1, "1500m"), "default")
        await found.running(3)
        await found.settled(["small"] * 3)

        async def rested() -> bool:
            claims = await found.claims()
            return all(condition_is(each, "Consolidatable") for each in claims)

        await found.until(rested)
        old = {each["metadata"]["name"] for each in await found.claims()}
        at_most_going(found, 1)

        async def replaced_first() -> None:
            claims = await found.claims()
            left = [each for each in claims if "deletionTimestamp" not in each["metadata"]]
            ready = [each for each in left if condition_is(each, "Initialized")]
            assert len(ready) >= 3, "a node went before its replacement was there"

        found.watched.append(replaced_first)
        template = {"template": {"metadata": {"labels": {"team": "blue"}}}}
        await found.hosted.merge_patch(NODE_POOLS, "default", {"spec": template})

        async def rolled() -> bool:
            claims = await found.claims()
            fresh = [each for each in claims if each["metadata"]["labels"].get("team") == "blue"]
            return len(claims) == len(fresh) == 3

        await found.until(rolled)
        await found.running(3)
        assert not old & {each["metadata"]["name"] for each in await found.claims()}
        assert all(each["metadata"]["labels"]["team"] == "blue" for each in await found.nodes())
        assert not any(get_condition(each, "Drifted") for each in await found.claims())


@pytest.mark.anyio
async def test_a_kept_pod_keeps_its_node_and_so_does_a_replacement_that_is_not_to_be_had(tmp_path: Path) -> None:
    async with stage(tmp_path, ("medium",)) as found:
        await found.pool(**budget("100%"))
        precious = pod("one", "1500m")
        precious["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
        await found.hosted.create(PODS, precious, "default")
        await found.running(1)
        await found.settled(["medium"])
        (claim,) = await found.claims()
        uid = claim["metadata"]["uid"]

        async def marked() -> bool:
            (node,) = await found.nodes()
            return DISRUPTED in (node["spec"].get("taints") or [])

        async def unmarked() -> bool:
            (mine,) = [each for each in await found.claims() if each["metadata"]["uid"] == uid]
            assert "deletionTimestamp" not in mine["metadata"]
            return not await marked() and get_condition(mine, "DisruptionReason") is None

        # A mark that a provisioner left behind which is no more.
        (node,) = await found.nodes()
        left_over = {"spec": {"taints": [*(node["spec"].get("taints") or ()), DISRUPTED]}}
        await found.hosted.merge_patch(NODES, node["metadata"]["name"], left_over)
        await found.until(unmarked)

        bait = size_objects("east", "small")[1]  # without its template no Machine comes
        await found.root.create(MACHINE_DEPLOYMENTS, bait, "default")

        async def blocked() -> bool:
            return any("karpenter.sh/do-not-disrupt" in each for each in await found.events("DisruptionBlocked"))

        await found.until(blocked)
        await found.rest(40)
        assert [each["metadata"]["uid"] for each in await found.claims()] == [uid]
        assert not await marked()

        released = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": None}}}
        await found.hosted.merge_patch(PODS, "one", released, "default")

        async def tried() -> bool:
            return await marked() and len(await found.claims()) == 2

        await found.until(tried)
        await found.root.delete(MACHINE_DEPLOYMENTS, "east-small", "default")
        await found.rest(300)
        await found.until(unmarked)
        await found.running(1)

        async def told() -> bool:
            return bool(await found.events("DisruptionFailed"))

        await found.until(told)

        async def alone() -> bool:
            return [each["metadata"]["uid"] for each in await found.claims()] == [uid]

        await found.until(alone)


@pytest.mark.anyio
@pytest.mark.parametrize("kept_by", ["annotation", "budget"])
async def test_nothing_is_bought_for_pods_that_cannot_be_evicted(tmp_path: Path, kept_by: str) -> None:
    async with stage(tmp_path, ("small",)) as found:
        await found.pool(**budget("100%"))
        kept = pod("kept")
        kept["metadata"]["labels"] = {"app": "kept"}
        if kept_by == "annotation":
            kept["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
        else:
            spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
            body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"}}
            await found.hosted.create(PDBS, {**body, "spec": spec}, "default")
        await found.hosted.create(PODS, kept, "default")
        await found.running(1)
        await found.settled(["small"])
        await found.rest(5)
        (claim,) = await found.claims()
        await found.hosted.delete(NODE_CLAIMS, claim["metadata"]["name"])

        async def alone() -> None:
            assert len(await found.claims()) == 1, "a second node would stand idle"

        found.watched.append(alone)
        await found.rest(30)
        await found.running(1)
