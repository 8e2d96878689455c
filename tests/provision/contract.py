"""Contract tests of cloud providers: one class per call, run against each provider.

The test module of a provider supplies a fixture `stage` and subclasses of these.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Protocol

import pytest

from shoal.kinds.karpenter.karpenter import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from shoal.objects.errors import ShoalError
from shoal.provision.cloudprovider.types import (
    CloudProvider,
    CreateError,
    Instance,
    InsufficientCapacity,
    LaunchPending,
    NodeClaimNotFound,
    NodeClassNotReady,
    NotSynced,
    ProviderError,
    UnevaluatedNodePool,
)

Object = dict[str, Any]


class Stage(Protocol):
    """A cluster with a node class to buy with, of at least two instance types."""

    cluster: str

    @property
    def provider(self) -> CloudProvider: ...

    def node_class(self) -> Object: ...

    async def claim(self, name: str, *types: str, cpu: str = "1", of: str = "default") -> Object:
        """A NodeClaim, stored. `of`: its node class."""

    async def now(self, claim: Object) -> Object:
        """The NodeClaim as it is stored now."""

    async def turn(self) -> None:
        """Lets a little happen."""

    async def restart(self) -> None:
        """Another process takes over, which knows nothing."""

    async def outdate(self, claim: Object) -> None:
        """Makes its machine one that would not be bought now."""

    async def machines(self) -> int:
        """How many are being paid for."""


TURNS = 400


async def created(stage: Stage, claim: Object) -> Instance:
    """Asked for again and again, as the loops do."""
    for _ in range(TURNS):
        try:
            found = await stage.provider.create(stage.cluster, await stage.now(claim))
        except NotSynced:
            found = LaunchPending("")
        if isinstance(found, Instance):
            return found
        await stage.turn()
    raise AssertionError(f"no machine comes for {await stage.now(claim)}")


async def deleted(stage: Stage, claim: Object) -> None:
    for _ in range(TURNS):
        try:
            await stage.provider.delete(stage.cluster, await stage.now(claim))
        except NotSynced:
            pass
        except NodeClaimNotFound:
            return
        await stage.turn()
    raise AssertionError(f"the machine of {await stage.now(claim)} does not go")


@pytest.mark.anyio
class Create:
    async def test_answers_with_a_machine_that_will_do(self, stage: Stage) -> None:
        claim = await stage.claim("one", cpu="1")
        found = await created(stage, claim)
        assert found.provider_id
        assert found.allocatable["cpu"] >= 1000
        assert {INSTANCE_TYPE, CAPACITY_TYPE, ZONE} <= set(found.labels)
        assert not found.deleting

    async def test_is_the_same_machine_every_time_whoever_asks(self, stage: Stage) -> None:
        claim = await stage.claim("one")
        first = await created(stage, claim)
        assert (await created(stage, claim)).provider_id == first.provider_id
        await stage.restart()
        assert (await created(stage, claim)).provider_id == first.provider_id
        assert await stage.machines() == 1

    async def test_two_claims_never_have_the_same(self, stage: Stage) -> None:
        claims = [await stage.claim(name) for name in ("one", "two", "three")]
        found = {(await created(stage, claim)).provider_id for claim in claims}
        assert len(found) == 3

    async def test_picks_the_cheapest_that_is_allowed(self, stage: Stage) -> None:
        types = stage.provider.instance_types(stage.cluster, stage.node_class())
        prices = {each.name: min(offer.price for offer in each.offerings) for each in types}
        cheapest, dearest = min(prices, key=lambda name: prices[name]), max(prices, key=lambda name: prices[name])
        assert prices[cheapest] < prices[dearest]
        any_type, one_type = await stage.claim("any", cpu="10m"), await stage.claim("one", dearest, cpu="10m")
        assert (await created(stage, any_type)).labels[INSTANCE_TYPE] == cheapest
        assert (await created(stage, one_type)).labels[INSTANCE_TYPE] == dearest

    async def test_gives_up_what_nobody_sells(self, stage: Stage) -> None:
        with pytest.raises(InsufficientCapacity):
            await created(stage, await stage.claim("one", cpu="100000"))
        with pytest.raises(InsufficientCapacity):
            await created(stage, await stage.claim("two", "no-such-type"))
        assert await stage.machines() == 0

    async def test_gives_up_without_its_node_class(self, stage: Stage) -> None:
        with pytest.raises((NodeClassNotReady, InsufficientCapacity)):
            await created(stage, await stage.claim("one", of="missing"))

    def test_the_errors_are_told_apart(self) -> None:
        kinds = (InsufficientCapacity, NodeClassNotReady, NodeClaimNotFound, UnevaluatedNodePool, NotSynced)
        assert len({kind.reason for kind in kinds}) == len(kinds)
        assert all(issubclass(kind, ProviderError) and issubclass(kind, ShoalError) for kind in kinds)
        failed = CreateError("QuotaExceeded", "no more than 3")
        assert (failed.reason, str(failed)) == ("QuotaExceeded", "no more than 3")


@pytest.mark.anyio
class Delete:
    async def test_ends_in_not_found_and_stays_there(self, stage: Stage) -> None:
        claim = await stage.claim("one")
        await created(stage, claim)
        await deleted(stage, claim)
        assert await stage.machines() == 0
        with pytest.raises(NodeClaimNotFound):
            await stage.provider.delete(stage.cluster, await stage.now(claim))

    async def test_of_what_never_had_a_machine(self, stage: Stage) -> None:
        claim = await stage.claim("one")
        await deleted(stage, claim)
        with pytest.raises(NodeClaimNotFound):
            await stage.provider.delete(stage.cluster, await stage.now(claim))

    async def test_takes_one_and_leaves_the_others(self, stage: Stage) -> None:
        claims = [await stage.claim(name) for name in ("one", "two", "three")]
        found = [await created(stage, claim) for claim in claims]
        for _ in range(3):
            with suppress(NodeClaimNotFound):
                await stage.provider.delete(stage.cluster, await stage.now(claims[1]))
        await deleted(stage, claims[1])
        for _ in range(20):
            await stage.turn()
        assert await stage.machines() == 2, "asked for several times, it went once"
        for position in (0, 2):
            kept = stage.provider.get(stage.cluster, await stage.now(claims[position]))
            assert kept is not None
            assert (kept.provider_id, kept.deleting) == (found[position].provider_id, False)

    async def test_is_finished_by_whoever_comes_after(self, stage: Stage) -> None:
        claim = await stage.claim("one")
        await created(stage, claim)
        await stage.provider.delete(stage.cluster, await stage.now(claim))
        await stage.restart()
        await deleted(stage, claim)
        assert await stage.machines() == 0


@pytest.mark.anyio
class Get:
    async def test_knows_the_machine_while_it_is_there(self, stage: Stage) -> None:
        claim = await stage.claim("one")
        assert stage.provider.get(stage.cluster, claim) is None
        made = await created(stage, claim)
        found = stage.provider.get(stage.cluster, await stage.now(claim))
        assert found is not None
        assert (found.provider_id, found.claim, found.claim_uid) == (made.provider_id, "one", claim["metadata"]["uid"])
        assert found.capacity == made.capacity
        await deleted(stage, claim)
        for _ in range(TURNS):
            if stage.provider.get(stage.cluster, await stage.now(claim)) is None:
                return
            await stage.turn()
        raise AssertionError("it is still known")

    async def test_foresees_what_is_to_come(self, stage: Stage) -> None:
        claim = await stage.claim("one")
        for _ in range(TURNS):
            expected = stage.provider.expected_instance(stage.cluster, await stage.now(claim))
            if expected is not None:
                break
            await stage.turn()
        assert expected is not None
        assert expected.labels[INSTANCE_TYPE] == (await created(stage, claim)).labels[INSTANCE_TYPE]


@pytest.mark.anyio
class List:
    async def test_has_every_machine_of_a_claim_with_its_owner(self, stage: Stage) -> None:
        assert stage.provider.list(stage.cluster) == []
        claims = [await stage.claim(name) for name in ("one", "two")]
        made = {(await created(stage, claim)).provider_id: claim["metadata"]["uid"] for claim in claims}
        found = {each.provider_id: each.claim_uid for each in stage.provider.list(stage.cluster)}
        assert found == made
        assert stage.provider.list("somewhere.else") == []


@pytest.mark.anyio
class GetInstanceTypes:
    async def test_has_every_type_with_zone_capacity_type_and_price(self, stage: Stage) -> None:
        types = stage.provider.instance_types(stage.cluster, stage.node_class())
        assert len(types) >= 2
        assert [each.name for each in types] == sorted(each.name for each in types)
        for each in types:
            assert each.offerings
            assert each.capacity["cpu"] >= each.allocatable["cpu"] > 0
            assert each.requirements[INSTANCE_TYPE].values == {each.name}
            for offer in each.offerings:
                assert {ZONE, CAPACITY_TYPE} <= set(offer.labels)
                assert offer.price >= 0

    async def test_buying_hides_none(self, stage: Stage) -> None:
        before = [each.name for each in stage.provider.instance_types(stage.cluster, stage.node_class())]
        await created(stage, await stage.claim("one"))
        after = [each.name for each in stage.provider.instance_types(stage.cluster, stage.node_class())]
        assert after == before


@pytest.mark.anyio
class IsDrifted:
    async def test_says_why_once_it_would_be_bought_otherwise(self, stage: Stage) -> None:
        claim = await stage.claim("one")
        with pytest.raises(NodeClaimNotFound):
            stage.provider.is_drifted(stage.cluster, claim)
        await created(stage, claim)
        assert stage.provider.is_drifted(stage.cluster, await stage.now(claim)) == ""
        await stage.outdate(await stage.now(claim))
        for _ in range(TURNS):
            if stage.provider.is_drifted(stage.cluster, await stage.now(claim)):
                return
            await stage.turn()
        raise AssertionError("it is never outdated")


@pytest.mark.anyio
class RepairPolicies:
    async def test_a_node_that_is_not_ready_is_repaired_after_a_while(self, stage: Stage) -> None:
        found = {(each.condition, each.status): each.toleration_seconds for each in stage.provider.repair_policies()}
        assert found["Ready", "False"] == found["Ready", "Unknown"] == 600
        assert all(seconds > 0 for seconds in found.values())


@pytest.mark.anyio
class NameAndClasses:
    async def test_it_has_a_name_and_a_kind_of_node_class(self, stage: Stage) -> None:
        assert stage.provider.name
        first = stage.provider.supported_node_classes()[0]
        assert all((first.group, first.version, first.kind))
