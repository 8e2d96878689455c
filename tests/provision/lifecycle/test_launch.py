"""From NodeClaim to node on a fake clock: failed launches, liveness timeouts, successful registration."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal.objects.conditions import condition_is, get_condition
from shoal.provision.cloudprovider.types import CreateError, InsufficientCapacity, NodeClassNotReady, ProviderError
from shoal.provision.metrics import NODECLAIMS_DISRUPTED, NODES_CREATED, PROVIDER_ERRORS
from shoal.provision.state import NODE_CLAIMS, NODE_POOLS, NODES
from tests.provision.lifecycle.stage import CLUSTER, Stage, stage

TAINT = {"key": "team", "effect": "NoSchedule"}


def disrupted(reason: str, pool: str = "", capacity_type: str = "") -> float:
    return NODECLAIMS_DISRUPTED.value(CLUSTER, reason=reason, nodepool=pool, capacity_type=capacity_type)


@pytest.mark.anyio
async def test_a_claim_becomes_a_node(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        created = NODES_CREATED.value(CLUSTER, nodepool="", zone="a")
        agent = {"key": "agent", "effect": "NoSchedule"}
        await on.claim(taints=[TAINT], startupTaints=[agent], resources={"requests": {"cpu": "1"}})
        claim = await on.launched()
        assert claim["metadata"]["finalizers"] == ["karpenter.sh/termination"]
        assert claim["metadata"]["labels"]["topology.kubernetes.io/zone"] == "a"
        assert await on.until(lambda: on.reason("one", "Registered")) == "NodeNotFound"
        await on.node(claim)
        claim = await on.when("one", "Registered")
        node = await on.client.get(NODES, claim["status"]["nodeName"])
        assert {each["key"] for each in node["spec"]["taints"]} >= {"team", "agent"}
        assert "karpenter.sh/unregistered" not in {each["key"] for each in node["spec"]["taints"]}
        assert node["metadata"]["finalizers"] == ["karpenter.sh/termination"]
        assert node["metadata"]["labels"]["karpenter.sh/registered"] == "true"
        assert node["metadata"]["ownerReferences"][0]["uid"] == claim["metadata"]["uid"]

        async def waits() -> bool:
            return await on.reason("one", "Initialized") == "StartupTaintsExist"

        await on.until(waits)
        await on.client.merge_patch(NODES, node["metadata"]["name"], {"spec": {"taints": [TAINT]}})
        claim = await on.when("one", "Initialized")
        assert condition_is(claim, "Ready")
        await on.when("one", "ConsistentStateFound")
        node = await on.client.get(NODES, claim["status"]["nodeName"])
        assert node["metadata"]["labels"]["karpenter.sh/initialized"] == "true"
        assert NODES_CREATED.value(CLUSTER, nodepool="", zone="a") == created + 1
        assert on.cloud.launches == 1
        await on.report(node["metadata"]["name"], "True", cpu="2")
        await on.when("one", "ConsistentStateFound", "False")
        (said,) = await on.until(lambda: on.events("FailedConsistencyCheck"))
        assert said == "expected 4 of resource cpu, but found 2 (50.0% of expected)"


@pytest.mark.anyio
async def test_a_node_without_the_taint_is_registered_and_told_of(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.claim()
        await on.node(await on.launched(), TAINT)
        await on.when("one", "Initialized")
        (said,) = await on.until(lambda: on.events("UnregisteredTaintMissing"))
        assert "karpenter.sh/unregistered" in said


@pytest.mark.anyio
async def test_a_launch_that_fails_is_tried_again_less_and_less_often(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.cloud.errors = [CreateError("QuotaExceeded", "no more today"), ProviderError("x" * 400)]
        refused = PROVIDER_ERRORS.value(
            CLUSTER, controller="nodeclaim.lifecycle", method="Create", provider="cloud", error="CreateError"
        )
        await on.claim()

        def reasons(wanted: str) -> Any:
            async def look() -> bool:
                return await on.reason("one", "Launched") == wanted

            return look

        await on.until(reasons("QuotaExceeded"))
        assert on.cloud.launches == 1
        on.clock.step(0.9)
        await asyncio.sleep(0.05)
        assert on.cloud.launches == 1, "its own words in the status are no reason to try at once"
        on.clock.step(0.2)
        await on.until(reasons("LaunchFailed"))
        message = (get_condition(await on.client.get(NODE_CLAIMS, "one"), "Launched") or {})["message"]
        assert message == "x" * 300 + "..."
        on.clock.step(2.1)
        await on.launched()
        assert on.cloud.launches == 3
        assert refused + 1 == PROVIDER_ERRORS.value(
            CLUSTER, controller="nodeclaim.lifecycle", method="Create", provider="cloud", error="CreateError"
        )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("error", "counted", "event"),
    [
        (InsufficientCapacity("sold out"), "insufficient_capacity", "InsufficientCapacityError"),
        (NodeClassNotReady("not yet"), "nodeclass_not_ready", "NodeClassNotReady"),
    ],
)
async def test_a_claim_that_cannot_be_had_is_given_up(
    tmp_path: Path, error: Exception, counted: str, event: str
) -> None:
    async with stage(tmp_path) as on:
        before = disrupted(counted)
        on.cloud.errors = [error]
        await on.claim()
        await on.until(on.all_gone)
        assert await on.until(lambda: on.events(event)) == [f"NodeClaim one event: {error}"]
        assert disrupted(counted) == before + 1


@pytest.mark.anyio
async def test_a_claim_that_is_never_launched_is_given_up_after_five_minutes(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.cloud.errors = [ProviderError("no")] * 100
        await on.claim()

        async def failed() -> bool:
            return await on.reason("one", "Launched") == "LaunchFailed"

        await on.until(failed)
        on.clock.step(298)
        await on.until(lambda: _tried(on, 2))
        assert not await on.gone(NODE_CLAIMS, "one")
        on.clock.step(3)
        await on.until(on.all_gone)
        assert await on.until(lambda: on.events("LivenessTimeout")) == ["timed out waiting for launch"]


async def _tried(on: Stage, times: int) -> bool:
    return on.cloud.launches >= times


@pytest.mark.anyio
async def test_claims_that_never_register_are_given_up_and_their_pool_says_so(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        before = disrupted("registration_timeout", "default", "spot")
        pool = await on.pool()

        async def health(status: str) -> bool:
            return condition_is(await on.client.get(NODE_POOLS, "default"), "NodeRegistrationHealthy", status)

        await on.until(lambda: health("Unknown"))
        for name in ("one", "two"):
            await on.claim(name, pool)
            await on.launched(name)
        assert len(on.cloud.machines) == 2
        on.clock.step(880)
        await asyncio.sleep(0.05)
        assert len(on.cloud.machines) == 2
        on.clock.step(21)
        await on.until(on.all_gone)
        assert await on.until(lambda: on.events("LivenessTimeout")) == ["timed out waiting for registration"] * 2
        await on.until(lambda: health("False"))
        said = get_condition(await on.client.get(NODE_POOLS, "default"), "NodeRegistrationHealthy")
        assert said is not None
        assert (said["reason"], said["message"]) == ("RegistrationFailed", "Failed to register node")
        assert disrupted("registration_timeout", "default", "spot") == before + 2
        # Two that do become nodes, and a third, push the failures out of what is remembered.
        for name in ("three", "four", "five"):
            await on.claim(name, pool)
            await on.node(await on.launched(name))
            await on.when(name, "Registered")
        await on.until(lambda: health("True"))
        change = {"spec": {"weight": 7}}
        await on.client.merge_patch(NODE_POOLS, "default", change)
        await on.until(lambda: health("Unknown"))


@pytest.mark.anyio
async def test_an_expired_claim_goes_however_young_its_node(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        before = disrupted("expired", capacity_type="spot")
        await on.ready("mortal", expireAfter="200s")
        await on.ready("eternal", expireAfter="Never")
        on.clock.step(199)
        await asyncio.sleep(0.05)
        assert not await on.gone(NODE_CLAIMS, "mortal")
        on.clock.step(2)
        await on.until(lambda: on.gone(NODE_CLAIMS, "mortal"), step=1.0)
        assert not await on.gone(NODE_CLAIMS, "eternal")
        assert await on.until(lambda: on.events("DisruptionTerminating")) == ["Disrupting NodeClaim: Expired/Delete"]
        assert disrupted("expired", capacity_type="spot") == before + 1
