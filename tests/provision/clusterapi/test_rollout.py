"""A changed infrastructure template under OnDelete, rolled out as drift, with all of Cluster API running.

While Machines of both versions exist, a deleted new one is not replaced by the deletion of an old one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.kinds.karpenter.karpenter import NODE_CLAIM_ANNOTATION, annotation_of
from shoal.objects.conditions import condition_is
from shoal.provision.clusterapi.provider import MACHINE_DEPLOYMENTS, MACHINES
from shoal.provision.state import NODE_POOLS
from tests.provision.clusterapi.yard import TEMPLATES
from tests.provision.disruption.stage import DEPLOYMENTS as WORKLOADS
from tests.provision.disruption.stage import stage
from tests.provision.hosted import deployment, size_objects

Object = dict[str, Any]


@pytest.mark.anyio
async def test_a_new_template_replaces_machines_one_by_one_and_no_other_is_lost(tmp_path: Path) -> None:
    async with stage(tmp_path, ("small",)) as found:
        on_delete = {"spec": {"rollout": {"strategy": {"type": "OnDelete"}}}}
        await found.root.merge_patch(MACHINE_DEPLOYMENTS, "east-small", on_delete, "default")
        held = [{"nodes": "100%"}, {"nodes": "0", "reasons": ["Drifted", "Underutilized"]}]
        await found.pool(disruption={"consolidateAfter": "0s", "budgets": held})
        for number in range(2):
            await found.hosted.create(WORKLOADS, deployment(f"web{number}", 1, "1500m"), "default")
        await found.running(2)
        await found.settled(["small"] * 2)
        old = {each["metadata"]["name"] for each in await found.claims()}

        async def none_is_lost() -> None:
            claims = await found.claims()
            left = [each for each in claims if "deletionTimestamp" not in each["metadata"]]
            assert len([each for each in left if condition_is(each, "Initialized")]) >= 2

        found.watched.append(none_is_lost)
        template = size_objects("east", "small")[0]
        template["metadata"]["name"] = "newer"
        template["spec"]["template"]["spec"]["labels"] = {"generation": "newer"}
        await found.root.create(TEMPLATES, template, "default")
        reference = {"apiGroup": TEMPLATES.group, "kind": "EmbeddedMachineTemplate", "name": "newer"}
        patch = {"spec": {"template": {"spec": {"infrastructureRef": reference}}}}
        await found.root.merge_patch(MACHINE_DEPLOYMENTS, "east-small", patch, "default")

        await found.hosted.create(WORKLOADS, deployment("passing", 1, "1500m"), "default")
        await found.running(3)
        await found.settled(["small"] * 3)
        await found.hosted.delete(WORKLOADS, "passing", "default")

        async def passed() -> bool:
            machines, _ = await found.root.list_all(MACHINES, "default")
            unclaimed = [each for each in machines if not annotation_of(each, NODE_CLAIM_ANNOTATION)]
            return len(await found.claims()) == 2 and len(machines) == 3 and len(unclaimed) == 1

        await found.until(passed)
        assert {each["metadata"]["name"] for each in await found.claims()} == old, "only the new one went"
        one_by_one = {"spec": {"disruption": {"budgets": [{"nodes": "1"}]}}}
        await found.hosted.merge_patch(NODE_POOLS, "default", one_by_one)

        async def rolled() -> bool:
            nodes, claims = await found.nodes(), await found.claims()
            fresh = [each for each in nodes if each["metadata"]["labels"].get("generation") == "newer"]
            machines, _ = await found.root.list_all(MACHINES, "default")
            replicas = (await found.root.get(MACHINE_DEPLOYMENTS, "east-small", "default"))["spec"]["replicas"]
            names = {each["metadata"]["name"] for each in claims}
            return (len(fresh), len(nodes), len(claims), len(machines), replicas) == (2,) * 5 and not names & old

        await found.until(rolled)
        await found.running(2)
