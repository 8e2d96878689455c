"""Contract tests of the Cluster API provider: with MachineDeployments, and with standalone Machines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shoal.kinds.karpenter.karpenter import NODE_CLAIM_UID_ANNOTATION, annotation_of, is_deleting
from shoal.provision.clusterapi.machine_state import MACHINES
from shoal.provision.clusterapi.provider import ClusterAPIProvider
from shoal.provision.state import NODE_CLAIMS, NODE_CLASSES
from tests.controlplane.world import World
from tests.provision import contract
from tests.provision.clusterapi.yard import TEMPLATES, Yard, bare_class, bare_template, yard
from tests.provision.hosted import node_class

Object = dict[str, Any]


class Deployments:
    """Bought from MachineDeployments."""

    def __init__(self, here: Yard) -> None:
        self.yard, self.cluster = here, here.cluster

    @property
    def provider(self) -> ClusterAPIProvider:
        return self.yard.provider

    def node_class(self) -> Object:
        return node_class()

    async def claim(self, name: str, *types: str, cpu: str = "1", of: str = "default") -> Object:
        return await self.yard.claim(name, *types, cpu=cpu, of=of)

    async def now(self, claim: Object) -> Object:
        return await self.yard.hosted.get(NODE_CLAIMS, claim["metadata"]["name"])

    async def turn(self) -> None:
        await self.yard.machines_act()
        await self.yard.pause()

    async def restart(self) -> None:
        await self.yard.restart()
        await self.yard.synced()

    async def machines(self) -> int:
        return len([each for each in await self.yard.machines() if not is_deleting(each)])

    async def outdate(self, claim: Object) -> None:
        """As Cluster API says of a Machine whose template has changed."""
        (machine,) = [
            each
            for each in await self.yard.machines()
            if annotation_of(each, NODE_CLAIM_UID_ANNOTATION) == claim["metadata"]["uid"]
        ]
        condition = {
            "type": "UpToDate",
            "status": "False",
            "reason": "NotUpToDate",
            "message": "Version v1.35.0, v1.36.0 required",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        patch = {"status": {"conditions": [condition]}}
        await self.yard.root.merge_patch(MACHINES, machine["metadata"]["name"], patch, self.yard.namespace, "status")


class Ownerless(Deployments):
    """Made one by one from templates."""

    def node_class(self) -> Object:
        return two_sizes()

    async def claim(self, name: str, *types: str, cpu: str = "1", of: str = "sizes") -> Object:
        return await super().claim(name, *types, cpu=cpu, of=of)

    async def outdate(self, claim: Object) -> None:
        patch = {"spec": {"template": {"spec": {"startupDelay": "1s"}}}}
        await self.yard.root.merge_patch(TEMPLATES, "bare", patch, self.yard.namespace)


def two_sizes() -> Object:
    found = bare_class("sizes")
    (small,) = found["spec"]["machineTemplates"]
    large = {**small, "name": "large", "capacity": {"cpu": "16", "memory": "64Gi"}, "price": "0.3"}
    large["infrastructureRef"] = {**small["infrastructureRef"], "name": "large"}
    found["spec"]["machineTemplates"] = [small, large]
    return found


@pytest.fixture(params=[Deployments, Ownerless])
async def stage(request: pytest.FixtureRequest, given: World) -> AsyncIterator[Deployments]:
    async with yard(given, "small", "medium") as here:
        await here.root.create(TEMPLATES, bare_template("large"), here.namespace)
        await here.hosted.create(NODE_CLASSES, two_sizes())
        found: Deployments = request.param(here)
        await here.synced()
        yield found


class TestCreate(contract.Create):
    pass


class TestDelete(contract.Delete):
    pass


class TestGet(contract.Get):
    pass


class TestList(contract.List):
    @pytest.mark.anyio
    async def test_one_odd_machine_hides_no_other(self, stage: Deployments) -> None:
        """Nobody's infrastructure, nobody's MachineDeployment, a NodeClaim that is not there, and paused."""
        claim = await stage.claim("one")
        made = await contract.created(stage, claim)
        reference = {"apiGroup": "nowhere.example", "kind": "Nothing", "name": "none"}
        said = {"karpenter.sh/nodeclaim": "gone", "karpenter.sh/nodeclaim-uid": "nobody"}
        odd = {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Machine",
            "metadata": {"name": "odd", "annotations": said, "finalizers": ["example.com/stays"]},
            "spec": {"clusterName": "east", "infrastructureRef": reference},
        }
        await stage.yard.root.create(MACHINES, odd, stage.yard.namespace)
        odd_name = f"{stage.yard.namespace}/odd"
        for _ in range(contract.TURNS):
            found = {each.name: each for each in stage.provider.list(stage.cluster)}
            if found.get(odd_name) is not None and found[odd_name].deleting:
                break
            await stage.yard.pause()
        assert {each.provider_id for each in found.values()} == {made.provider_id, ""}
        assert found[odd_name].deleting, "its NodeClaim is gone: it is on its way out"


class TestGetInstanceTypes(contract.GetInstanceTypes):
    pass


class TestIsDrifted(contract.IsDrifted):
    pass


class TestRepairPolicies(contract.RepairPolicies):
    async def test_conditions_of_the_node_problem_detector_count_too(self, stage: Deployments) -> None:
        found = {(each.condition, each.status) for each in stage.provider.repair_policies()}
        assert found >= {("KernelDeadlock", "True"), ("ReadonlyFilesystem", "True"), ("NetworkUnavailable", "True")}


class TestName(contract.NameAndClasses):
    async def test_it_is_that_of_the_upstream_provider(self, stage: Deployments) -> None:
        assert stage.provider.name == "clusterapi"


@pytest.mark.anyio
class TestGetSupportedNodeClasses:
    async def test_it_is_the_upstream_kind(self, stage: Deployments) -> None:
        (found,) = stage.provider.supported_node_classes()
        assert tuple(found) == ("karpenter.cluster.x-k8s.io", "v1alpha1", "ClusterAPINodeClass")
