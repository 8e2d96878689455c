"""Assignment and release of Machines, beyond the contract of all providers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shoal.kinds.karpenter.karpenter import NODE_CLAIM_UID_ANNOTATION, annotation_of
from shoal.provision.clusterapi.decide import UNCLAIMED_SECONDS
from shoal.provision.clusterapi.machine_state import CONFIG_MAPS, MACHINE_DEPLOYMENTS, MACHINES
from shoal.provision.clusterapi.standalone_machine import machine_name
from shoal.provision.management import CAPIClusterRef
from shoal.provision.state import NODE_CLAIMS, NODE_CLASSES
from tests.controlplane.world import World
from tests.provision.clusterapi.yard import INFRASTRUCTURE, TEMPLATES, Yard, bare_class, bare_template, yard
from tests.provision.hosted import MEMBER, node_class

Object = dict[str, Any]

PRICE = "cluster.x-k8s.io/machine-current-price"
MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"


@pytest.fixture
async def here(given: World) -> AsyncIterator[Yard]:
    async with yard(given, "small") as found:
        await found.synced()
        yield found


async def bound(here: Yard, count: int) -> bool:
    owned = [each for each in await here.machines() if annotation_of(each, NODE_CLAIM_UID_ANNOTATION)]
    return len(owned) == count and all(each["spec"].get("providerID") for each in owned)


async def empty(here: Yard) -> bool:
    infrastructure, _ = await here.root.list_all(INFRASTRUCTURE, here.namespace)
    return not await here.machines() and not await here.claims() and not infrastructure


@pytest.mark.anyio
async def test_a_batch_is_one_write_of_the_replicas_up_and_down(here: Yard) -> None:
    for number in range(10):
        await here.claim(f"c{number}")
    await here.until(lambda: bound(here, 10), "all have Machines")
    assert here.process.wire.scalings == 1
    for number in range(10):
        await here.hosted.delete(NODE_CLAIMS, f"c{number}")
    await here.until(lambda: empty(here), "all are gone")
    assert here.process.wire.scalings == 2
    assert await here.replicas() == {"east-small": 0}


@pytest.mark.anyio
async def test_the_largest_size_holds_when_all_come_at_once(here: Yard) -> None:
    await here.root.merge_patch(
        MACHINE_DEPLOYMENTS, "east-small", {"metadata": {"annotations": {MAX_SIZE: "2"}}}, here.namespace
    )
    for number in range(4):
        await here.claim(f"c{number}")

    async def settled() -> bool:
        assert (await here.replicas())["east-small"] <= 2
        return len(await here.claims()) == 2 and await bound(here, 2)

    await here.until(settled, "two have Machines, two are given up")


@pytest.mark.anyio
async def test_the_limit_of_a_machine_template_holds_when_all_come_at_once(here: Yard) -> None:
    await here.hosted.create(NODE_CLASSES, bare_class("two", limit=2))
    for number in range(4):
        await here.claim(f"c{number}", of="two")

    async def settled() -> bool:
        assert len(await here.machines()) <= 2
        return len(await here.claims()) == 2 and await bound(here, 2)

    await here.until(settled, "two have Machines, two are given up")


@pytest.mark.anyio
async def test_a_machine_is_made_from_its_templates(here: Yard) -> None:
    spec = {"version": "v1.36.1", "labels": {"node.cluster.x-k8s.io/disk": "nvme", "plain": "x", MEMBER: "no"}}
    await here.hosted.create(NODE_CLASSES, bare_class("full", **spec))
    claim = await here.claim("one", of="full")
    await here.until(lambda: bound(here, 1), "it has a Machine")
    (machine,) = await here.machines()
    name = machine_name(CAPIClusterRef(here.namespace, "east"), claim)
    assert machine["metadata"]["name"] == name
    assert not machine["metadata"].get("ownerReferences")
    assert machine["metadata"]["labels"] == {
        "cluster.x-k8s.io/cluster-name": "east",
        "node.cluster.x-k8s.io/disk": "nvme",
        MEMBER: "",
    }
    assert (machine["spec"]["version"], machine["spec"]["failureDomain"]) == ("v1.36.1", "embedded-a")
    clone = await here.root.get(INFRASTRUCTURE, name, here.namespace)
    assert clone["spec"]["instanceType"] == "bare"
    assert clone["metadata"]["annotations"] == {
        "cluster.x-k8s.io/cloned-from-name": "bare",
        "cluster.x-k8s.io/cloned-from-groupkind": "EmbeddedMachineTemplate.infrastructure.cluster.x-k8s.io",
    }
    assert [each["uid"] for each in clone["metadata"]["ownerReferences"]] == [machine["metadata"]["uid"]]
    await here.hosted.delete(NODE_CLAIMS, "one")
    await here.until(lambda: empty(here), "it is gone with its infrastructure")


@pytest.mark.anyio
async def test_a_template_that_does_not_take_part_is_not_used(here: Yard) -> None:
    template = bare_template("closed")
    del template["metadata"]["labels"]
    await here.root.create(TEMPLATES, template, here.namespace)
    reference = {"apiGroup": INFRASTRUCTURE.group, "kind": "EmbeddedMachineTemplate", "name": "closed"}
    closed = bare_class("closed", infrastructureRef=reference)
    await here.hosted.create(NODE_CLASSES, closed)
    await here.until(lambda: _problem(here, closed, "NoMachineTemplates"), "the class is not ready")
    await here.claim("one", of="closed")
    await here.until(lambda: _no_claims(here), "it is given up")
    assert await here.machines() == []


async def _problem(here: Yard, given: Object, reason: str) -> bool:
    return (here.provider.node_class_error(here.cluster, given) or ("",))[0] == reason


async def _no_claims(here: Yard) -> bool:
    return not await here.claims()


@pytest.mark.anyio
async def test_a_bootstrap_configuration_is_cloned_too(here: Yard) -> None:
    """Any template is: this server has no bootstrap provider's, so another's stands in for one."""
    reference = {"apiGroup": INFRASTRUCTURE.group, "kind": "EmbeddedMachineTemplate", "name": "start"}
    await here.hosted.create(NODE_CLASSES, bare_class("started", bootstrap={"configRef": reference}))
    await here.claim("one", of="started")
    await here.until(lambda: _no_claims(here), "without its template it is given up")
    assert await here.machines() == []
    await here.root.create(TEMPLATES, bare_template("start"), here.namespace)
    await here.until(lambda: _known(here, reference), "the template is seen")
    claim = await here.claim("two", of="started")
    await here.until(lambda: bound(here, 1), "it has a Machine")
    (machine,) = await here.machines()
    name = machine_name(CAPIClusterRef(here.namespace, "east"), claim)
    assert machine["spec"]["bootstrap"] == {
        "configRef": {"apiGroup": INFRASTRUCTURE.group, "kind": "EmbeddedMachine", "name": name}
    }


async def _known(here: Yard, reference: Object) -> bool:
    return here.provider.machine_state.templates.get(here.namespace, reference) is not None


@pytest.mark.anyio
async def test_a_machine_whose_claim_is_gone_ends_whenever_it_comes(here: Yard) -> None:
    """As when a request of a process that died arrives late."""
    reference = {"apiGroup": INFRASTRUCTURE.group, "kind": "EmbeddedMachine", "name": "late"}
    said = {"karpenter.sh/nodeclaim": "gone", "karpenter.sh/nodeclaim-uid": "nobody"}
    late = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {"name": "late", "annotations": said},
        "spec": {"clusterName": "east", "infrastructureRef": reference},
    }
    theirs = {**late, "metadata": {"name": "theirs"}}
    await here.root.create(MACHINES, theirs, here.namespace)
    await here.root.create(MACHINES, late, here.namespace)

    async def only_theirs() -> bool:
        return [each["metadata"]["name"] for each in await here.machines()] == ["theirs"]

    await here.until(only_theirs, "it is deleted, and what nobody claimed is left alone")


@pytest.mark.anyio
async def test_a_deployment_that_leaves_keeps_its_replicas_and_its_claims_can_go(here: Yard) -> None:
    await here.claim("one")
    await here.claim("two")
    await here.until(lambda: bound(here, 2), "both have Machines")
    await here.root.merge_patch(
        MACHINE_DEPLOYMENTS, "east-small", {"metadata": {"labels": {MEMBER: None}}}, here.namespace
    )
    await here.until(lambda: _gone_from(here), "it is out")
    (one,) = [each for each in await here.claims() if each["metadata"]["name"] == "one"]
    assert here.provider.is_drifted(here.cluster, one) == "MachineDeploymentGone"
    await here.hosted.delete(NODE_CLAIMS, "one")

    async def ended() -> bool:
        claims = [each["metadata"]["name"] for each in await here.claims()]
        owners = [annotation_of(each, "karpenter.sh/nodeclaim") for each in await here.machines()]
        return claims == ["two"] and sorted(owners) == ["", "two"]

    await here.until(ended, "its Machine is replaced by one of the owner's own")
    assert await here.replicas() == {"east-small": 2}


async def _gone_from(here: Yard) -> bool:
    return here.provider.machine_state.deployment(f"{here.namespace}/east-small") is None


@pytest.mark.anyio
async def test_a_claim_deleted_before_its_machine_came_leaves_nothing(here: Yard) -> None:
    here.slowness = 1.0
    await here.claim("one")
    await here.claim("two", of="bare")

    async def asked_for() -> bool:
        return len(await here.machines()) == 2

    await here.until(asked_for, "Machines are on their way")
    for name in ("one", "two"):
        await here.hosted.delete(NODE_CLAIMS, name)
    await here.until(lambda: _no_claims(here), "both go without a providerID")
    here.world.clock.step(UNCLAIMED_SECONDS + 1)
    await here.until(lambda: empty(here), "and so do their Machines")
    assert await here.replicas() == {"east-small": 0}


@pytest.mark.anyio
async def test_the_price_list_is_read_and_followed(here: Yard) -> None:
    await here.root.merge_patch(
        MACHINE_DEPLOYMENTS, "east-small", {"metadata": {"annotations": {PRICE: None}}}, here.namespace
    )
    told: list[str] = []
    here.provider.add_event_handler(lambda cluster, claim: told.append(cluster))
    lines = "- {instanceType: small, price: 0.123}\n"
    body = {"metadata": {"name": "shoal-prices"}, "data": {"prices.yaml": lines}}
    await here.root.create(CONFIG_MAPS, body, here.namespace)

    async def costs() -> bool:
        (small,) = here.provider.instance_types(here.cluster, node_class())
        return small.offerings[0].price == 0.123

    await here.until(costs, "it counts")
    assert here.cluster in told
    await here.root.delete(CONFIG_MAPS, "shoal-prices", here.namespace)

    async def guessed() -> bool:
        (small,) = here.provider.instance_types(here.cluster, node_class())
        return small.offerings[0].price == pytest.approx(2 * 0.025 + 8 * 1.073741824 * 0.001)

    await here.until(guessed, "without it the price is guessed")


@pytest.mark.anyio
async def test_what_cannot_be_read_is_not_waited_for_for_ever(here: Yard) -> None:
    reference = {"apiGroup": "nowhere.example", "kind": "NothingTemplate", "name": "x"}
    patch = {"spec": {"template": {"spec": {"infrastructureRef": reference}}}}
    await here.root.merge_patch(MACHINE_DEPLOYMENTS, "east-small", patch, here.namespace)
    await here.restart()
    await here.synced()
    (small,) = here.provider.instance_types(here.cluster, node_class())
    assert small.name == "small"


@pytest.mark.anyio
async def test_machines_given_back_are_not_drained_a_second_time(here: Yard) -> None:
    await here.claim("one")
    await here.until(lambda: bound(here, 1), "it has a Machine")
    (claim,) = await here.claims()
    await here.provider.delete(here.cluster, claim)
    (machine,) = await here.machines()
    assert {
        "machine.cluster.x-k8s.io/exclude-node-draining",
        "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach",
        "cluster.x-k8s.io/delete-machine",
    } <= set(machine["metadata"]["annotations"])
