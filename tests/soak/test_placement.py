"""Fifty Deployments on clusters of unequal size, one of them without nodes, for ten minutes: while clusters join, no
Deployment has fewer replicas available than its own strategy allows, and the moves come to rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.placement.policy import DEFAULT_POLICY
from shoal.placement.rollout import move_budget, strategy_of
from tests.faults.processes import Client, Refused, Up

Object = dict[str, Any]

NODES = {"a": 1, "b": 1, "c": 2, "d": 2, "e": 3, "f": 3, "g": 4}
"""Nodes of the clusters that are there from the beginning."""
JOINING = {"empty": 0, "large": 6, "small": 1}
"""Nodes of the clusters that join one after another, the first at once."""
DEPLOYMENTS = 50
WATCHED_SECONDS, JOIN_SECONDS, REST_SECONDS = 600.0, 30.0, 120.0
HANG = 600.0
MANAGED = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/default/managedclusters"
WORKLOADS = "/apis/workload.kcp.dev/v1alpha1/clusters"
PATH = "/apis/apps/v1/namespaces/default/deployments"
STRATEGIES: list[Object] = [
    {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
    {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
    {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
    {"type": "Recreate"},
]


def managed_cluster(name: str, nodes: int) -> Object:
    group = "infrastructure.cluster.x-k8s.io/v1alpha1"
    return {"apiVersion": group, "kind": "ManagedCluster", "metadata": {"name": name}, "spec": {"nodes": nodes}}


def deployment(number: int) -> Object:
    labels = {"app": f"web-{number}"}
    resources = {"requests": {"cpu": f"{100 + 50 * (number % 5)}m"}}
    pod_spec: Object = {"containers": [{"name": "c", "image": "web:1", "resources": resources}]}
    spec = {
        "replicas": 2 + number % 9,
        "strategy": STRATEGIES[number % len(STRATEGIES)],
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod_spec},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": labels["app"]}, "spec": spec}


class Fleet:
    def __init__(self, client: Client) -> None:
        self._client = client

    def get(self, path: str) -> Object:
        return self._client.request("GET", path)

    def post(self, path: str, body: Object) -> bool:
        """False: the kind is not served yet."""
        try:
            self._client.request("POST", path, body)
        except Refused as error:
            if error.status != 404:
                raise
            return False
        return True

    def ready(self) -> set[str]:
        conditions = {
            each["metadata"]["name"]: (each.get("status") or {}).get("conditions") or ()
            for each in self.get(WORKLOADS)["items"]
        }
        return {name for name, found in conditions.items() if any(_is_ready(one) for one in found)}

    def look(self) -> tuple[dict[str, Object], dict[str, int], dict[str, int]]:
        """Roots by name, the available replicas of each as its leaves report them, and the shares of leaves."""
        items = self.get(PATH)["items"]
        # Items of a list have no kind, and the strategy is that of a Deployment.
        by_name = {each["metadata"]["name"]: {**each, "kind": "Deployment"} for each in items}
        roots = {name: each for name, each in by_name.items() if "--" not in name}
        shares = {name: count for name, each in by_name.items() if "--" in name and (count := each["spec"]["replicas"])}
        available = dict.fromkeys(roots, 0)
        for each in items:
            root, is_leaf, _ = each["metadata"]["name"].partition("--")
            if is_leaf and "deletionTimestamp" not in each["metadata"]:
                reported = (each.get("status") or {}).get("availableReplicas", 0)
                available[root] += min(reported, each["spec"]["replicas"])
        return roots, available, shares


def _is_ready(condition: Object) -> bool:
    return bool(condition["type"] == "Ready" and condition["status"] == "True")


def eventually(look: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG
    while not look():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.5)


@pytest.mark.soak
def test_no_deployment_loses_more_than_its_strategy_allows_and_moves_come_to_rest(tmp_path: Path) -> None:
    up = Up(tmp_path / "data", "--workers", "2", "--capacity", "10")
    try:
        fleet = Fleet(up.client())
        for name, nodes in NODES.items():
            fleet.post(MANAGED, managed_cluster(name, nodes))
        eventually(lambda: fleet.ready() == set(NODES))
        waiting = [deployment(number) for number in range(DEPLOYMENTS)]
        for one in waiting:
            eventually(lambda one=one: fleet.post(PATH, one))  # type: ignore[misc]

        def all_run() -> bool:
            roots, available, _ = fleet.look()
            return len(roots) == DEPLOYMENTS and all(
                available[name] >= root["spec"]["replicas"] for name, root in roots.items()
            )

        eventually(all_run)
        watch(fleet)
    finally:
        up.close()


def watch(fleet: Fleet) -> None:
    started = changed_at = time.monotonic()
    joining, last, changes = list(JOINING.items()), dict[str, int](), 0
    while (now := time.monotonic()) < started + WATCHED_SECONDS:
        if joining and now >= started + JOIN_SECONDS * (len(JOINING) - len(joining)):
            fleet.post(MANAGED, managed_cluster(*joining.pop(0)))
        roots, available, shares = fleet.look()
        for name, root in roots.items():
            floor = move_budget(root["spec"]["replicas"], DEFAULT_POLICY, strategy_of(root)).min_available
            assert available[name] >= floor, f"{name}: {available[name]} available after {now - started:.0f} s"
        if shares != last:
            moved = sum(abs(shares.get(name, 0) - last.get(name, 0)) for name in shares.keys() | last.keys())
            print(f"{now - started:5.0f} s: {moved} replicas more or less")
            last, changed_at, changes = shares, now, changes + 1
        time.sleep(0.3)
    assert fleet.ready() == {*NODES, *JOINING}
    assert not any(count for name, count in last.items() if name.endswith("--empty"))
    assert any(count for name, count in last.items() if name.endswith("--large")), "a cluster with room is used"
    rested = time.monotonic() - changed_at
    print(f"{changes} changes of shares, none in the last {rested:.0f} s")
    assert rested >= REST_SECONDS
