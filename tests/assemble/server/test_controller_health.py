"""The condition ControllersHealthy of the LogicalCluster root."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.server.controller_health import CONTROLLERS_HEALTHY, LOGICAL_CLUSTERS
from shoal.client.rest import Client, GroupVersionResource
from shoal.objects.conditions import get_condition
from tests.controlplane.world import World, world

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
CLUSTER_ROLES = GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False)
NAMESPACES = GroupVersionResource("", "v1", "namespaces", namespaced=False)
SERVICE_ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
ROLES = ("system:controller:service-account-controller", "shoal:controller:service-account-controller")


async def condition(client: Client) -> tuple[str, str] | None:
    found = get_condition(await client.get(LOGICAL_CLUSTERS, "root"), CONTROLLERS_HEALTHY)
    return (found["status"], found["message"]) if found is not None else None


async def test_an_account_without_a_rule_is_refused_and_the_condition_says_so(tmp_path: Path) -> None:
    async with world(tmp_path, root_profile="cluster") as given:
        client = given.client.in_cluster("root")
        assert await condition(client) is None
        roles = [await client.get(CLUSTER_ROLES, name) for name in ROLES]
        emptied = [await client.update(CLUSTER_ROLES, {**role, "rules": []}) for role in roles]
        await client.create(NAMESPACES, {"metadata": {"name": "team"}})

        async def is_refused() -> bool:
            found = await condition(client)
            account = 'User "system:serviceaccount:kube-system:service-account-controller" cannot get resource'
            return found is not None and found[0] == "False" and account in found[1]

        await given.eventually(is_refused)
        assert await given.is_gone(client, SERVICE_ACCOUNTS, "default", "team")
        for before, role in zip(roles, emptied, strict=True):
            await client.update(CLUSTER_ROLES, {**role, "rules": before["rules"]})
        await given.eventually(lambda: _has_account(given, client))

        async def is_healthy() -> bool:
            given.clock.step(1)
            return await condition(client) == ("True", "")

        await given.eventually(is_healthy)


async def test_a_cluster_that_removes_the_rights_of_its_own_controllers_is_no_failure_of_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="shoal.runtime")
    async with world(tmp_path) as given:
        client = await given.cluster("east")
        for name in ROLES:
            await client.update(CLUSTER_ROLES, {**await client.get(CLUSTER_ROLES, name), "rules": []})
        await client.create(NAMESPACES, {"metadata": {"name": "team"}})

        async def is_refused() -> bool:
            return "cannot get resource" in caplog.text

        await given.eventually(is_refused)
        # The condition follows a report at once.
        await given.client.create(NAMESPACES, {"metadata": {"name": "later"}})
        await given.eventually(lambda: _has_account(given, given.client, "later"))
        assert await condition(given.client) is None


async def _has_account(given: World, client: Client, namespace: str = "team") -> bool:
    given.clock.step(60)
    return not await given.is_gone(client, SERVICE_ACCOUNTS, "default", namespace)
