"""Every loop outside its hub, with its own account: the story of the README goes on where each of them is started."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.assemble.commands.controllers import ControllersConfig, ControllersProcess, LoopsInside
from shoal.assemble.server import loops
from shoal.assemble.server.loop_publisher import SERVICE_ACCOUNTS, LoopPublisher
from shoal.capi.informers import CLUSTERS as CAPI_CLUSTERS
from shoal.capi.informers import MACHINE_DEPLOYMENTS, MACHINES
from shoal.capi.providers.embedded.informers import EMBEDDED_CLUSTERS, EMBEDDED_TEMPLATES, LOGICAL_CLUSTERS, NODES
from shoal.capi.providers.kind.command import KindCommand
from shoal.capi.providers.kind.controller import KIND_CLUSTERS
from shoal.client.rest import GroupVersionResource
from shoal.clock import SystemClock
from shoal.fleet.resources import MANAGED_CLUSTERS, WORKERS
from shoal.kinds.rbac.loop_accounts import LOOPS, account_of, health_condition_of
from shoal.kinds.rbac.loop_settings import LoopSettings
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.errors import Unauthorized
from shoal.provision.state import NODE_CLAIMS, NODE_CLASSES, NODE_POOLS
from shoal.runtime.leader_election import LEASES
from shoal.sync.resources import CLUSTERS, IMPORTS
from tests.assemble.loops.outside_hub import OutsideHub, eventually, is_refused, outside_hub
from tests.capi.kind.fake_kind import Standin
from tests.capi.management_cluster import ONE_FILE

pytestmark = pytest.mark.anyio
Object = dict[str, Any]

DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
PODS = GroupVersionResource("", "v1", "pods")
SECRETS = GroupVersionResource("", "v1", "secrets")
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io/v1alpha1"
MACHINE_TEMPLATE = "node.cluster.x-k8s.io/karpenter-member"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"


def deployment(replicas: int) -> Object:
    container = {"name": "web", "image": "nginx", "resources": {"requests": {"cpu": "500m"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}} | {
        "spec": spec
    }


async def start_fleet(hub: OutsideHub) -> None:
    managed: Object = {"apiVersion": INFRASTRUCTURE, "kind": "ManagedCluster"}
    managed |= {"metadata": {"name": "east", "namespace": "default"}, "spec": {"nodes": 2}}
    await hub.client.create(MANAGED_CLUSTERS, managed, "default")
    assert not (await hub.get(MANAGED_CLUSTERS, "east", "default")).get("status")
    await hub.start_loop("fleet")

    async def is_running() -> bool:
        found = await hub.get(MANAGED_CLUSTERS, "east", "default")
        return (found.get("status") or {}).get("phase") == "Running"

    await eventually(is_running)


async def start_importer(hub: OutsideHub) -> None:
    assert not await hub.get(CLUSTERS, "east")
    await hub.start_loop("importer")

    async def is_imported() -> bool:
        return condition_is(await hub.get(CLUSTERS, "east"), "APIImporterReady")

    await eventually(is_imported)
    assert (await hub.client.list_all(IMPORTS))[0]


async def start_syncer(hub: OutsideHub) -> None:
    assert not condition_is(await hub.get(CLUSTERS, "east"), "Ready")
    await hub.client.merge_patch(CLUSTERS, "east", {"spec": {"mirror": ["pods"]}})
    await hub.start_loop("syncer")

    async def is_ready() -> bool:
        return condition_is(await hub.get(CLUSTERS, "east"), "Ready")

    await eventually(is_ready)


async def start_splitter(hub: OutsideHub) -> None:
    await hub.client.create(DEPLOYMENTS, deployment(4), "default")
    assert not await hub.get(DEPLOYMENTS, "web--east", "default")
    await hub.start_loop("splitter")

    async def is_ready() -> bool:
        return ((await hub.get(DEPLOYMENTS, "web", "default")).get("status") or {}).get("readyReplicas") == 4

    async def are_mirrored() -> bool:
        return len((await hub.client.list_all(PODS, "default"))[0]) == 4

    await eventually(is_ready)
    await eventually(are_mirrored)


async def start_capi(hub: OutsideHub) -> None:
    kinds = {"Cluster": CAPI_CLUSTERS, "EmbeddedCluster": EMBEDDED_CLUSTERS, "MachineDeployment": MACHINE_DEPLOYMENTS}
    for obj in yaml.safe_load_all(ONE_FILE.replace("east", "north")):
        await hub.client.create(kinds.get(obj["kind"], EMBEDDED_TEMPLATES), obj, "default")
    assert not await hub.get(LOGICAL_CLUSTERS, "default.north")
    await hub.start_loop("capi")

    async def are_running() -> bool:
        found, _ = await hub.client.list_all(MACHINES)
        return [(each.get("status") or {}).get("phase") for each in found] == ["Running"] * 3

    await eventually(are_running)
    assert len((await hub.client.in_cluster("default.north").list_all(NODES))[0]) == 3
    assert await hub.get(SECRETS, "north-kubeconfig", "default")


async def start_provisioner(hub: OutsideHub) -> None:
    announced = {f"{CAPACITY}/cpu": "2", f"{CAPACITY}/memory": "8Gi"}
    metadata = {"labels": {MACHINE_TEMPLATE: ""}, "annotations": announced}
    (offered,) = (await hub.client.list_all(MACHINE_DEPLOYMENTS, "default"))[0]
    await hub.client.merge_patch(MACHINE_DEPLOYMENTS, offered["metadata"]["name"], {"metadata": metadata}, "default")
    north = hub.client.in_cluster("default.north")
    group = "karpenter.cluster.x-k8s.io"
    node_class = {"apiVersion": f"{group}/v1alpha1", "kind": "ClusterAPINodeClass", "metadata": {"name": "default"}}
    await north.create(NODE_CLASSES, node_class)
    reference = {"group": group, "kind": "ClusterAPINodeClass", "name": "default"}
    requirements = [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]
    template = {"spec": {"nodeClassRef": reference, "requirements": requirements}}
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}}
    await north.create(NODE_POOLS, {**pool, "spec": {"template": template}})
    await north.create(DEPLOYMENTS, deployment(20), "default")
    assert (await north.list_all(NODE_CLAIMS))[0] == []
    await hub.start_loop("provisioner")

    async def are_bought() -> bool:
        claims, _ = await north.list_all(NODE_CLAIMS)
        return bool(claims) and all(condition_is(each, "Initialized") for each in claims)

    await eventually(are_bought)


async def start_bundle(hub: OutsideHub) -> None:
    worker: Object = {"apiVersion": INFRASTRUCTURE, "kind": "Worker"}
    worker |= {"metadata": {"name": "boxed", "namespace": "shoal-system"}, "spec": {"infrastructure": "kind"}}
    worker["spec"]["hubAddress"] = "https://192.0.2.1:6443"
    await hub.client.create(WORKERS, worker, "shoal-system")
    assert (await hub.client.list_all(KIND_CLUSTERS))[0] == []
    await hub.start_loop("bundle")

    async def is_created() -> bool:
        return bool((await hub.client.list_all(KIND_CLUSTERS))[0])

    await eventually(is_created)


async def start_kind(hub: OutsideHub) -> None:
    """The cluster is the one for the bundle."""
    await hub.start_loop("kind")

    async def is_ready() -> bool:
        (found,) = (await hub.client.list_all(KIND_CLUSTERS))[0]
        return condition_is(found, "Ready")

    await eventually(is_ready)


STEPS = {
    "fleet": start_fleet,
    "importer": start_importer,
    "syncer": start_syncer,
    "splitter": start_splitter,
    "capi": start_capi,
    "provisioner": start_provisioner,
    "bundle": start_bundle,
    "kind": start_kind,
}


async def test_each_loop_does_its_part_outside_the_hub_and_nobody_does_it_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = Standin(tmp_path)
    command = partial(KindCommand, str(kind.program), environment=kind.environment)
    monkeypatch.setattr(loops, "KindCommand", command)
    assert STEPS.keys() == LOOPS.keys()
    caplog.set_level(logging.INFO, "shoal")
    async with outside_hub(tmp_path / "hub", LOOPS) as hub:
        for step in STEPS.values():
            await step(hub)
        root = await hub.client.get(LOGICAL_CLUSTERS, "root")
        assert [loop for loop in LOOPS if get_condition(root, health_condition_of(loop))] == []
        for loop in LOOPS:
            lease = await hub.client.get(LEASES, f"shoal-controllers-{loop}", "kube-system")
            assert lease["spec"]["holderIdentity"]
    # The other servers of this process log as well.
    refused = [text for text in caplog.messages if ":loop-" in text and "forbidden" in text.lower()]
    assert refused + [text for text in caplog.messages if "cannot list" in text] == []


async def test_an_account_has_the_rights_of_its_loop_and_no_others(tmp_path: Path) -> None:
    async with outside_hub(tmp_path, {"fleet", "kind", "capi"}, workers=0) as hub:
        fleet, capi = hub.client_of("fleet"), hub.client_of("capi")
        try:
            assert (await fleet.list_all(WORKERS))[0] == []
            assert await is_refused(fleet.list_all(DEPLOYMENTS))
            assert await is_refused(fleet.list_all(GroupVersionResource("rbac.authorization.k8s.io", "v1", "roles")))
            assert await is_refused(fleet.delete(LEASES, "shoal-loops", "kube-system"))
            # Only loops that act in other logical clusters enter them.
            with pytest.raises(Unauthorized):
                await fleet.in_cluster("*").list_all(SECRETS)
            assert (await capi.in_cluster("*").list_all(NODES))[0] == []
        finally:
            await fleet.close()
            await capi.close()


async def test_a_loop_that_returns_to_the_hub_closes_its_account(tmp_path: Path) -> None:
    async with outside_hub(tmp_path, {"splitter"}, workers=0) as hub:
        with pytest.raises(LoopsInside, match="this Shoal server runs fleet itself"):
            await ControllersProcess.start(hub.up.hub.client("test"), ControllersConfig(("fleet",)))
        outside = hub.client_of("splitter")
        await outside.list_all(CLUSTERS)
        publisher = LoopPublisher(
            hub.up.hub.controller_client("loop-accounts"), SystemClock(), lambda: LoopSettings(frozenset(), "", "", "")
        )
        await publisher.publish()
        assert not await hub.get(SERVICE_ACCOUNTS, account_of("splitter"), "kube-system")
        with pytest.raises(Unauthorized):
            await outside.list_all(CLUSTERS)
        await outside.close()


async def test_a_process_without_leader_election_tells_the_hub_that_its_loop_runs(tmp_path: Path) -> None:
    async with outside_hub(tmp_path, {"splitter"}, workers=0) as hub:
        await hub.start_loop("splitter", leader_elect=False)

        async def is_held() -> bool:
            lease = await hub.get(LEASES, "shoal-controllers-splitter", "kube-system")
            return bool((lease.get("spec") or {}).get("holderIdentity"))

        await eventually(is_held)


async def test_a_process_whose_account_is_closed_says_so_once_and_is_not_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with outside_hub(tmp_path, {"splitter"}, workers=0) as hub:
        process = await hub.start_loop("splitter")
        lease = process.leases["splitter"]

        async def leads() -> bool:
            return lease.is_leader

        await eventually(leads)
        assert process.unready_reason() == ""
        await hub.client.delete(SERVICE_ACCOUNTS, account_of("splitter"), "kube-system")

        async def is_unready() -> bool:
            return not lease.is_leader and process.unready_reason() == f"{lease.name}: Unauthorized"

        await eventually(is_unready)
    refusals = [text for text in caplog.messages if "cannot acquire or renew lease shoal-controllers" in text]
    assert refusals == [f"cannot acquire or renew lease {lease.name}: Unauthorized"]
    assert len([text for text in caplog.messages if "this process waits" in text]) <= 1
