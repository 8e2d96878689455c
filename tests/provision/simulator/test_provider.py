"""Contract tests of the simulated cloud provider, and injected faults."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shoal.kinds.karpenter.karpenter import CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_ID, RESERVED, ZONE
from shoal.provision.cloudprovider.types import CreateError, InsufficientCapacity
from shoal.provision.simulator.fake import fake_type
from shoal.provision.simulator.instance_type import OfferingSpec
from shoal.provision.simulator.provider import UNAVAILABLE_SECONDS
from tests.provision import contract
from tests.provision.simulator.stage import CLUSTER, Cloud, cloud


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Cloud]:
    async with cloud(tmp_path) as made:
        yield made


class TestCreate(contract.Create):
    pass


class TestDelete(contract.Delete):
    pass


class TestGet(contract.Get):
    pass


class TestList(contract.List):
    pass


class TestGetInstanceTypes(contract.GetInstanceTypes):
    pass


class TestIsDrifted(contract.IsDrifted):
    pass


class TestRepairPolicies(contract.RepairPolicies):
    pass


class TestNameAndClasses(contract.NameAndClasses):
    pass


@pytest.mark.anyio
async def test_the_node_is_simulated_and_not_registered(stage: Cloud) -> None:
    made = await contract.created(stage, await stage.claim("one", "small-instance-type"))
    (node,) = await stage.nodes()
    assert node["spec"]["providerID"] == made.provider_id == "simulator://one"
    assert {"key": "karpenter.sh/unregistered", "effect": "NoExecute"} in node["spec"]["taints"]
    labels = node["metadata"]["labels"]
    assert labels["shoal.dev/simulated"] == "true"
    assert (labels["kubernetes.io/hostname"], labels["kubernetes.io/os"]) == ("one", "linux")
    assert (labels[INSTANCE_TYPE], labels["integer"]) == ("small-instance-type", "2")
    assert node["status"]["allocatable"]["cpu"] == "1900m"


@pytest.mark.anyio
async def test_what_is_sold_out_is_passed_over_and_remembered(stage: Cloud) -> None:
    wanted = [{"key": ZONE, "operator": "In", "values": ["test-zone-1"]}]
    stage.provider.faults.unavailable |= {f"small-instance-type/test-zone-1/{kind}" for kind in ("spot", "on-demand")}
    claim = await stage.claim("one", "small-instance-type", "default-instance-type", requirements=wanted)
    assert (await contract.created(stage, claim)).labels[INSTANCE_TYPE] == "default-instance-type"
    with pytest.raises(InsufficientCapacity):
        await contract.created(stage, await stage.claim("two", "small-instance-type", requirements=wanted))

    def rooms() -> list[int | None]:
        types = stage.provider.instance_types(CLUSTER, {})
        (small,) = (each for each in types if each.name == "small-instance-type")
        return [each.remaining for each in small.offerings]

    assert rooms().count(0) == 2
    stage.world.clock.step(UNAVAILABLE_SECONDS)
    assert rooms().count(0) == 0


@pytest.mark.anyio
async def test_errors_come_as_often_as_they_were_asked_for(stage: Cloud) -> None:
    claim = await stage.claim("one")
    stage.provider.faults.fail("create", CreateError("QuotaExceeded", "no more"), times=2)
    for _ in range(2):
        with pytest.raises(CreateError):
            await stage.provider.create(CLUSTER, claim)
    assert (await contract.created(stage, claim)).provider_id


@pytest.mark.anyio
async def test_a_node_that_takes_its_time(tmp_path: Path) -> None:
    async with cloud(tmp_path, registration_seconds=5.0) as stage:
        claim = await stage.claim("one")
        told: list[str] = []
        stage.provider.add_event_handler(lambda cluster, name: told.append(name))
        made = await stage.provider.create(CLUSTER, claim)
        assert await stage.nodes() == []
        assert stage.provider.get(CLUSTER, claim) == made
        assert [each.provider_id for each in stage.provider.list(CLUSTER)] == [made.provider_id]
        for _ in range(contract.TURNS):
            if await stage.nodes():
                break
            await stage.turn()
        assert told == ["one"]
        assert stage.world.clock.now() >= 5.0


@pytest.mark.anyio
async def test_a_node_that_never_comes(tmp_path: Path) -> None:
    async with cloud(tmp_path, registration_seconds=1.0) as stage:
        stage.provider.faults.fail("register")
        lost, claim = await stage.claim("lost"), await stage.claim("one")
        for each in (lost, claim):
            await stage.provider.create(CLUSTER, each)
            await stage.turn()
        for _ in range(contract.TURNS):
            if await stage.nodes():
                break
            await stage.turn()
        assert [each["metadata"]["name"] for each in await stage.nodes()] == ["one"]


@pytest.mark.anyio
async def test_one_that_is_given_back_before_its_node_came(tmp_path: Path) -> None:
    async with cloud(tmp_path, registration_seconds=5.0) as stage:
        claim = await stage.claim("one")
        await stage.provider.create(CLUSTER, claim)
        await contract.deleted(stage, claim)
        for _ in range(200):
            await stage.turn()
        assert await stage.nodes() == []


@pytest.mark.anyio
async def test_a_reservation_is_used_up_and_given_back(tmp_path: Path) -> None:
    sales = [
        OfferingSpec("a", "on-demand", 1.0),
        OfferingSpec("a", RESERVED, 0.001, reservation="r-1", reservation_capacity=1),
    ]
    async with cloud(tmp_path, [fake_type("one", {}, sales)]) as stage:
        claims = [await stage.claim(name) for name in ("first", "second", "third")]
        first, second = [await contract.created(stage, each) for each in claims[:2]]
        assert (first.labels[CAPACITY_TYPE], first.labels[RESERVATION_ID]) == (RESERVED, "r-1")
        assert second.labels[CAPACITY_TYPE] == "on-demand"
        assert RESERVATION_ID not in second.labels
        await contract.deleted(stage, claims[0])
        for _ in range(contract.TURNS):
            if any(each.reservation_capacity for each in stage.provider.instance_types(CLUSTER, {})[0].offerings):
                break
            await stage.turn()
        assert (await contract.created(stage, claims[2])).labels[CAPACITY_TYPE] == RESERVED
