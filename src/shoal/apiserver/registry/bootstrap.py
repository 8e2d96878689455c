"""The objects every logical cluster starts with, shared until a client writes them.

They are added to a cluster's tables on first access, so they cost no writes and no memory for an unused cluster. Their
uid is derived from the cluster's uid and therefore never changes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.cache.storage_form import encode, inject_revision
from shoal.apiserver.registry.clusters import ADDRESS_RESOURCES, LogicalCluster
from shoal.apiserver.request.info import ROOT
from shoal.kinds.catalogue import default_rbac
from shoal.kinds.core import kubernetes_service
from shoal.kinds.core.serviceaccount import default_service_account, root_ca_config_map
from shoal.kinds.flowcontrol.bootstrap import bootstrap_flow_schemas, bootstrap_priority_levels
from shoal.kinds.rbac.controller_accounts import ACCOUNT_RULES, controller_role_bindings, controller_roles
from shoal.kinds.rbac.loop_accounts import loop_rules
from shoal.kinds.rbac.rbac import aggregate_rules
from shoal.kinds.scheduling.priorityclass import system_priority_classes
from shoal.kinds.shoal_crds import shoal_crds
from shoal.kinds.storage.storage import simulated_storage_class

Object = dict[str, Any]

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
FIRST_REVISION = 1
AGGREGATED_DEPTH = 3
"""admin aggregates edit, which aggregates view."""
CRDS = "apiextensions.k8s.io/customresourcedefinitions"
CONFIG_MAPS = "core/configmaps"
_RBAC = "rbac.authorization.k8s.io/"
_GENERATORS: dict[str, Callable[[], list[Object]]] = {
    "scheduling.k8s.io/priorityclasses": system_priority_classes,
    "flowcontrol.apiserver.k8s.io/flowschemas": bootstrap_flow_schemas,
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": bootstrap_priority_levels,
}


@dataclass(slots=True)
class APIAddress:
    """Address of the API. The port is set once the server listens."""

    host: str
    port: int
    hub_url: str = ""
    """Where clients reach the hub whose clusters this server hosts; empty on a hub."""

    @property
    def url(self) -> str:
        return f"https://[{self.host}]:{self.port}" if ":" in self.host else f"https://{self.host}:{self.port}"


class BootstrapObjects:
    def __init__(
        self,
        cluster: Callable[[str], LogicalCluster | None],
        root_ca: Callable[[str], str],
        root_ca_revision: Callable[[str], int],
        address: APIAddress,
    ) -> None:
        """`root_ca` returns the certificates, as PEM, that programs in a cluster trust; empty if it has none yet.
        `root_ca_revision` returns the revision at which they were rotated, or 0.
        """
        self._cluster = cluster
        self._root_ca, self._root_ca_revision = root_ca, root_ca_revision
        self._address = address

    def __call__(self, kind: str, cluster: str) -> list[CachedObject] | None:
        owner = self._cluster(cluster) if kind in ADDRESS_RESOURCES else None
        in_cluster = self._in_cluster_objects(kind, cluster, owner)
        objects = in_cluster or _shared_objects(kind)
        if not objects and kind != CRDS:
            return []
        owner = owner or self._cluster(cluster)
        if owner is None:
            return None
        if kind == CRDS:
            objects = _crds(cluster, owner.profile)
        if in_cluster and owner.profile != "cluster":
            return []
        if kind == CONFIG_MAPS and not self._root_ca(cluster):
            return None
        revision = FIRST_REVISION
        if kind in ADDRESS_RESOURCES and owner.endpoint is not None:
            # With an address of its own they have changed since the cluster began.
            revision = owner.revision
        elif kind == CONFIG_MAPS:
            revision = self._root_ca_revision(cluster) or FIRST_REVISION
        return [_cached_object(kind, obj, owner, revision) for obj in objects]

    def _in_cluster_objects(self, kind: str, cluster: str, owner: LogicalCluster | None) -> list[Object]:
        """Objects that only programs inside a cluster use. A cluster with an address of its own has that in them."""
        host, port = self._address.host, self._address.port
        if owner is not None and owner.endpoint is not None:
            host, port = owner.endpoint
        if kind == CONFIG_MAPS:
            return [root_ca_config_map(namespace, self._root_ca(cluster)) for namespace in NAMESPACES]
        if kind == "core/services":
            return [kubernetes_service.kubernetes_service(port)]
        if kind == "core/endpoints":
            return [kubernetes_service.kubernetes_endpoints(host, port)]
        if kind == "discovery.k8s.io/endpointslices":
            return [kubernetes_service.kubernetes_endpoint_slice(host, port)]
        if kind == "networking.k8s.io/servicecidrs":
            return [kubernetes_service.default_service_cidr()]
        if kind == "storage.k8s.io/storageclasses":
            return [simulated_storage_class()]
        return []


def _cached_object(kind: str, template: Object, owner: LogicalCluster, revision: int) -> CachedObject:
    metadata = template["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    uid = str(uuid.uuid5(uuid.UUID(owner.uid), f"{kind}/{namespace}/{name}"))
    obj = {**template, "metadata": {**metadata, "uid": uid, "creationTimestamp": owner.creation_timestamp}}
    return CachedObject(namespace, name, revision, inject_revision(encode(obj), revision), virtual=True)


@lru_cache(maxsize=64)
def _shared_objects(kind: str) -> list[Object]:
    if kind == "core/namespaces":
        return [_namespace(name) for name in NAMESPACES]
    if kind.startswith(_RBAC):
        return _default_roles(kind.removeprefix(_RBAC))
    if kind == "core/serviceaccounts":
        return [default_service_account(namespace) for namespace in NAMESPACES]
    generate = _GENERATORS.get(kind)
    return generate() if generate is not None else []


def _crds(cluster: str, profile: str) -> list[Object]:
    own = shoal_crds("root") if cluster == ROOT else ()
    return [*own, *(shoal_crds("cluster") if profile == "cluster" else ())]


def _default_roles(plural: str) -> list[Object]:
    """Upstream's roles. The aggregated ones (admin, edit, view) are filled in as upstream's controller does."""
    roles, own_rules = default_rbac().get(plural, []), {**ACCOUNT_RULES, **loop_rules()}
    if plural == "clusterrolebindings":
        return [*roles, *controller_role_bindings(own_rules)]
    if plural != "clusterroles":
        return roles
    roles = [*roles, *controller_roles(own_rules)]
    for _ in range(AGGREGATED_DEPTH):
        roles = [
            {**role, "rules": aggregate_rules(role, roles)} if "aggregationRule" in role else role for role in roles
        ]
    return roles


def _namespace(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
