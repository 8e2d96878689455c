"""The ServiceAccounts of embedded controllers, and their rules.

As in kube-controller-manager with service-account credentials, a controller is
`system:serviceaccount:kube-system:<account>`. Upstream's default ClusterRoles `system:controller:<account>` exist in
every logical cluster. This module adds a ClusterRole and a binding for each account that upstream does not have, and
for what Shoal's implementation of an upstream controller needs beyond upstream's rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from shoal.kinds.catalogue import default_rbac
from shoal.kinds.fleet.worker_join import WORKERS_GROUP

Object = dict[str, Any]
Rules = list[Object]

NAMESPACE = "kube-system"
GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")
ROLE_PREFIX = "system:controller:"
SHOAL_ROLE_PREFIX = "shoal:controller:"
"""Prefix of the roles that add to upstream's."""


def rule(groups: str, resources: str, verbs: str) -> Object:
    """A policy rule from words separated by spaces; `core` is the group without a name."""
    return {
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
        "verbs": verbs.split(),
    }


WRITE = "get list watch create update patch delete"
ALL = f"{WRITE} deletecollection"
EVENTS = rule("core events.k8s.io", "events", "create update patch")
ACCOUNT_RULES: dict[str, Rules] = {
    "api-importer": [
        rule("core", "secrets", "get"),
        # A resource that a CRD of the hub serves is not native.
        rule("apiextensions.k8s.io", "customresourcedefinitions", "get"),
        rule("apiresource.kcp.dev", "apiresourceimports", "get list create update patch delete"),
        rule("apiresource.kcp.dev", "apiresourceimports/status", "update patch"),
        rule("apiresource.kcp.dev", "apiresourceschemas", "get list create delete"),
        rule("apiresource.kcp.dev", "negotiatedapiresources", "get list"),
        rule("workload.kcp.dev", "clusters", "get list"),
        rule("workload.kcp.dev", "clusters/status", "update patch"),
    ],
    "api-negotiation": [
        rule("apiextensions.k8s.io", "customresourcedefinitions", "get list create update patch delete"),
        rule("apiresource.kcp.dev", "apiresourceimports apiresourceschemas", "get list"),
        rule("apiresource.kcp.dev", "apiresourceimports/status", "update patch"),
        rule("apiresource.kcp.dev", "negotiatedapiresources", "get list create update patch delete"),
        rule("apiresource.kcp.dev", "negotiatedapiresources/status", "update patch"),
        # A published API is withdrawn only when no object of it is left.
        rule("*", "*", "list"),
    ],
    "certificate-controller": [
        rule("certificates.k8s.io", "signers", "sign"),
        rule("core", "nodes", "get"),
        rule("core.shoal.dev", "logicalclusters", "get"),
        rule("infrastructure.cluster.x-k8s.io", "workers", "get"),
    ],
    "cluster-api": [
        EVENTS,
        rule("core", "secrets", "get list create update patch delete"),
        rule("apiextensions.k8s.io", "customresourcedefinitions", "get list"),
        # Providers bring kinds in groups of their own, which Clusters and Machines refer to.
        rule("*", "*", "get list create update patch delete"),
    ],
    "cluster-capacity": [
        rule("core", "secrets", "get"),
        rule("workload.kcp.dev", "clusters", "get list"),
        rule("workload.kcp.dev", "clusters/status", "update patch"),
    ],
    "cluster-endpoints": [
        rule("core.shoal.dev", "logicalclusters", "get list"),
        rule("core.shoal.dev", "logicalclusters/status", "update"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters", "get list"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters/status", "update"),
    ],
    "cluster-log-gc": [
        rule("core", "secrets", "list delete"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters", "get list"),
    ],
    "cluster-migration": [
        rule("core", "configmaps", "get list"),
        rule("coordination.k8s.io", "leases", "get list"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters workers", "get list update patch"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters/status workers/status", "update patch"),
    ],
    "cluster-rebalancer": [
        rule("core", "configmaps", "get list"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters workers", "get list update patch"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters/status workers/status", "update patch"),
    ],
    "cluster-registration": [
        rule("cluster.x-k8s.io", "clusters", "get list"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters", "get list"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters/status", "update patch"),
        rule("workload.kcp.dev", "clusters", "get list create update patch delete"),
        rule("workload.kcp.dev", "clusters/status", "update patch"),
    ],
    "cluster-limits": [
        rule("core.shoal.dev", "logicalclusters", "get"),
        rule("core.shoal.dev", "logicalclusters/status", "update"),
    ],
    "controller-health": [
        rule("core.shoal.dev", "logicalclusters", "get"),
        rule("core.shoal.dev", "logicalclusters/status", "update"),
    ],
    "crd-finalizer": [
        rule("apiextensions.k8s.io", "customresourcedefinitions", "get list update patch"),
        rule("apiextensions.k8s.io", "customresourcedefinitions/status", "update patch"),
        rule("*", "*", "list delete deletecollection update patch"),
    ],
    "embedded-provider": [
        rule("core", "nodes", "get list create update patch delete"),
        rule("core", "pods", "get list delete"),
        rule("core", "pods/eviction", "create"),
        rule("core", "secrets serviceaccounts", "get list create update patch delete"),
        rule("core", "serviceaccounts/token", "create"),
        rule("core.shoal.dev", "logicalclusters", "get list create update patch delete"),
        rule("core.shoal.dev", "logicalclusters/status", "update"),
        rule("rbac.authorization.k8s.io", "clusterrolebindings", "get create update patch"),
        rule("rbac.authorization.k8s.io", "clusterroles", "bind"),
    ],
    "endpoint-controller": [rule("discovery.k8s.io", "endpointslices", "get list create update delete")],
    "event-recorder": [EVENTS],
    "event-ttl-controller": [rule("core events.k8s.io", "events", "delete")],
    "fleet-bus": [
        rule("core.shoal.dev", "logicalclusters", "get"),
        # A status that arrives over the bus is written with the rights of the worker that sent it.
        rule("core", "users", "impersonate"),
        {**rule("core", "groups", "impersonate"), "resourceNames": [WORKERS_GROUP]},
        rule("core", "secrets", "get list create update patch delete"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters workers", "get list update patch"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters/status workers/status", "update patch"),
    ],
    "fleet-scheduler": [
        rule("core", "configmaps namespaces", "get list create"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters workers", "get list create update patch"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters/status workers/status", "update patch"),
    ],
    "flowschema-controller": [
        rule("flowcontrol.apiserver.k8s.io", "flowschemas prioritylevelconfigurations", "get list"),
        rule(
            "flowcontrol.apiserver.k8s.io",
            "flowschemas/status prioritylevelconfigurations/status",
            "update patch",
        ),
    ],
    "generic-garbage-collector": [{"nonResourceURLs": ["/metadata"], "verbs": ["get"]}],
    "karpenter": [
        EVENTS,
        rule("core", "nodes", "get list create update patch delete"),
        rule("core", "nodes/status", "patch"),
        rule("core", "pods", "get list delete"),
        rule("core", "pods/eviction", "create"),
        rule("karpenter.sh karpenter.cluster.x-k8s.io", "*", ALL),
        rule("provision.shoal.dev", "offerings", ALL),
        rule("cluster.x-k8s.io", "machines machinedeployments machinesets", "get list create update patch delete"),
        rule("infrastructure.cluster.x-k8s.io bootstrap.cluster.x-k8s.io", "*", "get list create update patch delete"),
        rule("storage.k8s.io", "volumeattachments", "get list"),
    ],
    "key-rotation": [
        rule("core.shoal.dev", "logicalclusters", "get list"),
        rule("core.shoal.dev", "logicalclusters/status", "update"),
    ],
    "kind-provider": [
        EVENTS,
        rule("core", "secrets", "get list create update patch delete"),
        rule("cluster.x-k8s.io", "clusters", "get list"),
        rule("infrastructure.cluster-k8s.io", "kindclusters", "get list update patch"),
        rule("infrastructure.cluster-k8s.io", "kindclusters/status", "update patch"),
    ],
    "kube-scheduler": [
        EVENTS,
        rule("core", "pods", "get list patch delete"),
        rule("core", "pods/binding", "create"),
        rule("core", "pods/status", "update patch"),
        rule("core", "persistentvolumeclaims persistentvolumes", "get list update patch"),
    ],
    "leader-election": [rule("coordination.k8s.io", "leases", "get create update")],
    "loop-accounts": [
        rule("core", "configmaps", "get create update delete"),
        rule("core", "serviceaccounts", "get create delete"),
        rule("coordination.k8s.io", "leases", "list"),
        rule("core.shoal.dev", "logicalclusters", "get"),
        rule("core.shoal.dev", "logicalclusters/status", "update"),
    ],
    "logicalcluster-controller": [rule("core.shoal.dev", "logicalclusters", "get update")],
    "pvc-protection-controller": [rule("core", "persistentvolumeclaims persistentvolumes", "get patch")],
    "service-account-controller": [
        rule("core", "namespaces", "get"),
        rule("core", "serviceaccounts configmaps", "get create update"),
        rule("core.shoal.dev", "logicalclusters", "get"),
    ],
    "service-cidrs-controller": [rule("core", "services", "list")],
    "shared-informers": [rule("*", "*", "get list watch")],
    "simulated-kubelet": [
        EVENTS,
        rule("core", "nodes", "get list update patch"),
        rule("core", "nodes/status pods/status", "update patch"),
        rule("core", "pods", "get list update patch delete"),
        rule("core", "configmaps secrets persistentvolumeclaims persistentvolumes", "get list"),
        rule("coordination.k8s.io", "leases", "get list create update patch"),
    ],
    "splitter": [
        EVENTS,
        rule("apiextensions.k8s.io", "customresourcedefinitions", "get list"),
        rule("core.shoal.dev", "logicalclusters", "get"),
        rule("placement.shoal.dev", "placements clusterplacements", "get list"),
        rule("placement.shoal.dev", "placements/status clusterplacements/status", "update patch"),
        # Every kind that can be placed.
        rule("*", "*", "get list create update patch delete"),
    ],
    "statefulset-controller": [rule("core", "persistentvolumeclaims", "patch update")],
    "syncer": [
        EVENTS,
        # Every kind that is synced.
        rule("*", "*", "get list create update patch delete"),
    ],
    "tokens-controller": [
        rule("core", "secrets", "get list update patch delete"),
        rule("core", "serviceaccounts", "get"),
        rule("core", "serviceaccounts/token", "create"),
        rule("core.shoal.dev", "logicalclusters", "get"),
    ],
    "worker-agent": [
        rule("core", "configmaps namespaces secrets", "get list watch create update patch delete"),
        rule("core.shoal.dev", "logicalclusters", "get list watch update patch"),
        rule("core.shoal.dev", "logicalclusters/status", "update patch"),
        rule("cluster.x-k8s.io", "clusters machinedeployments", WRITE),
        rule("infrastructure.cluster.x-k8s.io infrastructure.cluster-k8s.io", "*", WRITE),
        rule("karpenter.sh karpenter.cluster.x-k8s.io", "*", "get list watch"),
        # Roles of the hub's users in hosted clusters.
        rule("rbac.authorization.k8s.io", "clusterrolebindings", WRITE),
        rule("rbac.authorization.k8s.io", "clusterroles", "bind"),
    ],
    "worker-autoscaler": [
        rule("core", "configmaps", "get list"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters", "list"),
        rule("infrastructure.cluster.x-k8s.io", "workers", "get list update patch delete"),
        rule("infrastructure.cluster.x-k8s.io", "workers/status", "update patch"),
    ],
    "worker-bundle": [
        EVENTS,
        rule("core", "secrets namespaces", "get list create update patch delete"),
        rule("infrastructure.cluster-k8s.io", "kindclusters", "get list create update patch delete"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters workers", "get list update patch"),
        rule("infrastructure.cluster.x-k8s.io", "workers/status", "update patch"),
        rule("workload.kcp.dev cluster.x-k8s.io", "clusters", "get list"),
    ],
    "worker-health": [
        rule("infrastructure.cluster.x-k8s.io", "managedclusters workers", "get list patch"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters/status workers/status", "update patch"),
    ],
    "worker-join": [
        rule("core", "namespaces", "get create"),
        rule("core", "secrets", "get list update patch delete"),
        rule("certificates.k8s.io", "certificatesigningrequests", "get list delete"),
        rule("certificates.k8s.io", "certificatesigningrequests/approval", "update"),
        rule("certificates.k8s.io", "signers", "approve"),
        rule("infrastructure.cluster.x-k8s.io", "workers", "get list create patch"),
    ],
    "worker-join-secrets": [
        rule("core", "secrets", "get list create delete"),
        rule("infrastructure.cluster.x-k8s.io", "workers", "get list"),
    ],
    "worker-process-supervisor": [
        rule("core", "namespaces", "get create"),
        rule("core", "secrets", "get list create update patch delete"),
        rule("coordination.k8s.io", "leases", "get list create update patch delete"),
        rule("infrastructure.cluster.x-k8s.io", "managedclusters", "list"),
        rule("infrastructure.cluster.x-k8s.io", "workers", "get list update patch"),
        rule("infrastructure.cluster.x-k8s.io", "workers/status", "update patch"),
    ],
    "worker-tunnels": [rule("coordination.k8s.io", "leases", "get patch")],
}
"""Rules by account, beyond those of upstream's role of the account."""


def user_name(account: str) -> str:
    return f"system:serviceaccount:{NAMESPACE}:{account}"


@cache
def upstream_accounts() -> frozenset[str]:
    names = (str(role["metadata"]["name"]) for role in default_rbac()["clusterroles"])
    return frozenset(name.removeprefix(ROLE_PREFIX) for name in names if name.startswith(ROLE_PREFIX))


@cache
def controller_accounts() -> tuple[str, ...]:
    return tuple(sorted(upstream_accounts() | set(ACCOUNT_RULES)))


def controller_roles(rules_by_account: dict[str, Rules]) -> list[Object]:
    """The ClusterRoles that are added to upstream's."""
    return [
        {**_type_meta("ClusterRole"), "metadata": _metadata(account), "rules": rules}
        for account, rules in rules_by_account.items()
    ]


def controller_role_bindings(accounts: Iterable[str]) -> list[Object]:
    return [
        {
            **_type_meta("ClusterRoleBinding"),
            "metadata": _metadata(account),
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": SHOAL_ROLE_PREFIX + account,
            },
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
        }
        for account in accounts
    ]


def _type_meta(kind: str) -> Object:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind}


def _metadata(account: str) -> Object:
    return {
        "name": SHOAL_ROLE_PREFIX + account,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
