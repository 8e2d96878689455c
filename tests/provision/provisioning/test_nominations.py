"""Pods that the scheduler binds to nodes that were bought for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.client.rest import Client
from shoal.objects.conditions import condition_is
from shoal.provision.provisioning.nominations import release_nomination
from shoal.provision.state import PODS
from tests.provision.disruption.stage import Stage, stage
from tests.provision.hosted import Object, pod


@pytest.mark.parametrize(
    ("bound_to", "left"),
    [
        pytest.param(("node-a", "a"), {"second": "b", "third": "c"}, id="as expected"),
        pytest.param(("node-b", "b"), {"second": "a", "third": "c"}, id="in the place of another pod"),
        pytest.param(("node-d", "d"), {"second": "b", "third": "c"}, id="in a place of nobody"),
        pytest.param((), {"second": "b", "third": "c"}, id="deleted"),
    ],
)
def test_a_pod_that_is_bound_leaves_its_place(bound_to: tuple[str, ...], left: dict[str, str]) -> None:
    nominations = {"first": "a", "second": "b", "third": "c"}
    release_nomination(nominations, "first", bound_to)
    assert nominations == left


def test_a_pod_without_nomination_takes_no_place() -> None:
    nominations = {"second": "b"}
    release_nomination(nominations, "first", ("node-b", "b"))
    assert nominations == {"second": "b"}


async def unschedulable(client: Client, name: str) -> None:
    """A pod that no scheduler of the cluster binds."""
    await client.create(PODS, pod(name, "1500m", schedulerName="by-hand"), "default")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    await client.merge_patch(PODS, name, {"status": {"conditions": [condition]}}, "default", "status")


async def bind(client: Client, name: str, node: str) -> None:
    target = {"kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await client.request("POST", client.resource_path(PODS, name, "default", "binding"), body=body)


@pytest.mark.anyio
async def test_a_node_that_is_left_by_a_swap_stays_for_the_other_pod(tmp_path: Path) -> None:
    async with stage(tmp_path, ("small",)) as found:
        await found.pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})
        nodes: dict[str, str] = {}
        for name in ("first", "second"):
            await unschedulable(found.hosted, name)
            nodes[name] = await found.until(lambda: new_node(found, nodes))
        await bind(found.hosted, "first", nodes["second"])
        await found.rest(30)
        assert all("deletionTimestamp" not in claim["metadata"] for claim in await found.claims())
        await bind(found.hosted, "second", nodes["first"])
        await found.running(2)
        await found.hosted.delete(PODS, "first", "default")
        await found.until(lambda: is_only(found, nodes["first"]))


async def new_node(found: Stage, known: dict[str, str]) -> str:
    """The node of the one NodeClaim that is ready and not known."""
    ready: list[Object] = [each for each in await found.claims() if condition_is(each, "Ready")]
    names = {str(each["status"]["nodeName"]) for each in ready}
    return next(iter(names - set(known.values())), "")


async def is_only(found: Stage, node: str) -> bool:
    return [each["metadata"]["name"] for each in await found.nodes()] == [node]
