"""The loops that a hub can leave to `shoal controllers`, their ServiceAccounts, and the rules of those.

A loop is a named set of controllers. In the process of the hub each controller has its own account
(`controller_accounts`). Outside, the loop has one ServiceAccount of root, `loop-<name>` in kube-system. It has the
rules of the controllers of the loop, reads what they watch, and renews the Lease of the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from shoal.kinds.rbac.controller_accounts import ACCOUNT_RULES, Rules, rule, user_name

LEASE_PREFIX = "shoal-controllers-"
SETTINGS_CONFIG_MAP = "shoal-loops"
"""The ConfigMap in kube-system in which a hub names its outside loops and what they need to know of it."""
READ = "get list watch"


class Loop(NamedTuple):
    accounts: tuple[str, ...]
    """Accounts of its controllers."""
    reads: Rules
    """What its informers watch."""
    enters_clusters: bool = False
    """Whether it acts in other logical clusters than root."""


_READ_ALL = [rule("*", "*", READ)]
LOOPS: Mapping[str, Loop] = {
    "capi": Loop(("cluster-api", "embedded-provider"), _READ_ALL, enters_clusters=True),
    "kind": Loop(
        ("kind-provider",),
        [
            rule("core", "secrets", READ),
            rule("cluster.x-k8s.io", "clusters", READ),
            rule("infrastructure.cluster-k8s.io", "kindclusters", READ),
        ],
    ),
    "importer": Loop(
        ("api-importer", "api-negotiation", "cluster-capacity", "cluster-registration", "event-recorder"),
        [
            rule("apiextensions.k8s.io", "customresourcedefinitions", READ),
            rule("apiresource.kcp.dev", "*", READ),
            rule("cluster.x-k8s.io", "clusters", READ),
            rule("infrastructure.cluster.x-k8s.io", "managedclusters", READ),
            rule("workload.kcp.dev", "clusters", READ),
        ],
    ),
    "fleet": Loop(
        (
            *("cluster-endpoints", "cluster-log-gc", "cluster-migration", "cluster-rebalancer", "event-recorder"),
            *("fleet-bus", "fleet-scheduler", "worker-autoscaler", "worker-health", "worker-join"),
        ),
        [
            rule("core", "configmaps namespaces secrets", READ),
            rule("certificates.k8s.io", "certificatesigningrequests", READ),
            rule("coordination.k8s.io", "leases", READ),
            rule("core.shoal.dev", "logicalclusters", READ),
            rule("infrastructure.cluster.x-k8s.io", "managedclusters workers", READ),
        ],
    ),
    "bundle": Loop(
        ("worker-bundle",),
        [
            rule("core", "secrets", READ),
            rule("infrastructure.cluster-k8s.io", "kindclusters", READ),
            rule("infrastructure.cluster.x-k8s.io", "workers", READ),
        ],
    ),
    "syncer": Loop(("syncer",), _READ_ALL),
    "splitter": Loop(("splitter", "event-recorder"), _READ_ALL),
    "provisioner": Loop(
        ("karpenter",),
        [
            rule("core", "configmaps namespaces nodes pods persistentvolumeclaims persistentvolumes", READ),
            rule("apiextensions.k8s.io", "customresourcedefinitions", READ),
            rule("apps", "daemonsets", READ),
            rule("cluster.x-k8s.io", "clusters machines machinedeployments machinesets", READ),
            rule("infrastructure.cluster.x-k8s.io bootstrap.cluster.x-k8s.io", "*", READ),
            rule("karpenter.sh karpenter.cluster.x-k8s.io", "*", READ),
            rule("policy", "poddisruptionbudgets", READ),
            rule("storage.k8s.io", "csinodes storageclasses volumeattachments", READ),
        ],
        enters_clusters=True,
    ),
}
CLUSTER_LOOPS = frozenset(name for name, loop in LOOPS.items() if loop.enters_clusters)
"""The loops that act in other logical clusters than root."""
SERVER_LOOPS = ("capi", "kind", "provisioner")
"""The loops that also run beside the server of a worker."""
HUB_ONLY_LOOPS = ("bundle", "splitter", "provisioner")
"""The loops that run at a Shoal hub and at no other API server."""


def account_of(loop: str) -> str:
    return f"loop-{loop}"


def user_of(loop: str) -> str:
    return user_name(account_of(loop))


def health_condition_of(loop: str) -> str:
    """The type of the condition of the LogicalCluster root that tells whether the controllers of the loop fail."""
    return f"{loop.capitalize()}LoopHealthy"


def lease_of(loop: str) -> str:
    return f"{LEASE_PREFIX}{loop}"


def loop_rules() -> dict[str, Rules]:
    """The rules of the accounts of all loops, by account."""
    return {
        account_of(name): [*_own_rules(name), *loop.reads, *_controller_rules(loop)] for name, loop in LOOPS.items()
    }


def _own_rules(loop: str) -> Rules:
    return [
        rule("coordination.k8s.io", "leases", "create"),
        {**rule("coordination.k8s.io", "leases", "get update"), "resourceNames": [lease_of(loop)]},
        {**rule("core", "configmaps", "get"), "resourceNames": [SETTINGS_CONFIG_MAP]},
        {**rule("core.shoal.dev", "logicalclusters", "get"), "resourceNames": ["root"]},
        {**rule("core.shoal.dev", "logicalclusters/status", "update"), "resourceNames": ["root"]},
    ]


def _controller_rules(loop: Loop) -> Rules:
    found: Rules = []
    for account in loop.accounts:
        found += [each for each in ACCOUNT_RULES[account] if each not in found]
    return found
