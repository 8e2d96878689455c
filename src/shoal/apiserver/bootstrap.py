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

from shoal.apiserver.cache import Entry
from shoal.apiserver.clusters import LogicalCluster
from shoal.apiserver.encoding import encode, splice
from shoal.apiserver.paths import ROOT
from shoal.kinds import apiendpoint
from shoal.kinds.accounts import default_account, root_ca
from shoal.kinds.builtin import default_rbac
from shoal.kinds.flowcontrol_first import first_flow_schemas, first_priority_levels
from shoal.kinds.own import own_definitions
from shoal.kinds.rbac import aggregate
from shoal.kinds.scheduling import system_priority_classes
from shoal.kinds.storage import simulated_class

Object = dict[str, Any]

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
FIRST_REVISION = 1
AGGREGATED_DEPTH = 3
"""admin aggregates edit, which aggregates view."""
DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
_RBAC = "rbac.authorization.k8s.io/"
_OF_KINDS: dict[str, Callable[[], list[Object]]] = {
    "scheduling.k8s.io/priorityclasses": system_priority_classes,
    "flowcontrol.apiserver.k8s.io/flowschemas": first_flow_schemas,
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": first_priority_levels,
}


@dataclass(slots=True)
class Address:
    """Address of the API. The port is set once the server listens."""

    host: str
    port: int


class Bootstrap:
    def __init__(self, cluster: Callable[[str], LogicalCluster | None], authority: str, address: Address) -> None:
        """`ca_certificate` is the certificate, as PEM, that programs inside a cluster trust."""
        self._cluster = cluster
        self._authority = authority
        self._address = address

    def __call__(self, kind: str, cluster: str) -> list[Entry] | None:
        inside = self._inside(kind)
        objects = inside or _objects(kind)
        if not objects and kind != DEFINITIONS:
            return []
        owner = self._cluster(cluster)
        if owner is None:
            return None
        if kind == DEFINITIONS:
            objects = _definitions(cluster, owner.profile)
        if inside and owner.profile != "cluster":
            return []
        return [_entry(kind, obj, owner) for obj in objects]

    def _inside(self, kind: str) -> list[Object]:
        """Objects that only programs inside a cluster use."""
        host, port = self._address.host, self._address.port
        if kind == "core/configmaps":
            return [root_ca(namespace, self._authority) for namespace in NAMESPACES]
        if kind == "core/services":
            return [apiendpoint.service(port)]
        if kind == "core/endpoints":
            return [apiendpoint.endpoints(host, port)]
        if kind == "discovery.k8s.io/endpointslices":
            return [apiendpoint.endpoint_slice(host, port)]
        if kind == "networking.k8s.io/servicecidrs":
            return [apiendpoint.service_network()]
        if kind == "storage.k8s.io/storageclasses":
            return [simulated_class()]
        return []


def _entry(kind: str, template: Object, owner: LogicalCluster) -> Entry:
    metadata = template["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    uid = str(uuid.uuid5(uuid.UUID(owner.uid), f"{kind}/{namespace}/{name}"))
    obj = {**template, "metadata": {**metadata, "uid": uid, "creationTimestamp": owner.created}}
    return Entry(namespace, name, FIRST_REVISION, splice(encode(obj), FIRST_REVISION), virtual=True)


@lru_cache(maxsize=64)
def _objects(kind: str) -> list[Object]:
    if kind == "core/namespaces":
        return [_namespace(name) for name in NAMESPACES]
    if kind.startswith(_RBAC):
        return _default_roles(kind.removeprefix(_RBAC))
    if kind == "core/serviceaccounts":
        return [default_account(namespace) for namespace in NAMESPACES]
    made = _OF_KINDS.get(kind)
    return made() if made is not None else []


def _definitions(cluster: str, profile: str) -> list[Object]:
    own = own_definitions("root") if cluster == ROOT else ()
    return [*own, *(own_definitions("cluster") if profile == "cluster" else ())]


def _default_roles(plural: str) -> list[Object]:
    """Upstream's roles. The aggregated ones (admin, edit, view) are filled in as upstream's controller does."""
    found = default_rbac()
    roles = found.get(plural, [])
    if plural != "clusterroles":
        return roles
    for _ in range(AGGREGATED_DEPTH):
        roles = [{**role, "rules": aggregate(role, roles)} if "aggregationRule" in role else role for role in roles]
    return roles


def _namespace(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
