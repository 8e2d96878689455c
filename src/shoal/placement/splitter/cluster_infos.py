"""Keeps a ClusterInfo for each workload Cluster, from its object and its APIResourceImports. Reads the API; decides
nothing.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.kinds.workload import apiresource, workloadcluster
from shoal.placement.cluster_info import ClusterInfo, cluster_info_of
from shoal.runtime.informer import Informer

Object = dict[str, Any]

CLUSTERS = GroupVersionResource(
    workloadcluster.GROUP, workloadcluster.VERSION, workloadcluster.PLURAL, namespaced=False
)
IMPORTS = GroupVersionResource(apiresource.GROUP, apiresource.VERSION, apiresource.IMPORT_PLURAL, namespaced=False)


class ClusterInfos:
    def __init__(self, client: Client, clock: Clock) -> None:
        self.clusters = Informer(client, CLUSTERS, clock)
        self.imports = Informer(client, IMPORTS, clock, indexers=(_by_location,), transform=_strip_import)
        self.by_name: dict[str, ClusterInfo] = {}

    def update(self, name: str) -> tuple[ClusterInfo | None, ClusterInfo | None]:
        """Returns what was known of the cluster before, and what is known now; None: it does not exist."""
        previous, cluster = self.by_name.pop(name, None), self.clusters.get(("", "", name))
        if cluster is None:
            return previous, None
        current = self.by_name[name] = cluster_info_of(cluster, self.imports.by_index(_by_location, name))
        return previous, current


def location_of(api_import: Object) -> str:
    """Returns the workload Cluster of an APIResourceImport."""
    return str((api_import.get("spec") or {}).get("location", ""))


def _by_location(key: Key, api_import: Object) -> tuple[str]:
    return (location_of(api_import),)


def _strip_import(api_import: Object) -> Object:
    """Keeps what placement reads: a large fleet has many."""
    spec, metadata = api_import["spec"], api_import["metadata"]
    return {
        "metadata": {key: metadata[key] for key in ("name", "uid", "resourceVersion") if key in metadata},
        "spec": {key: spec[key] for key in ("groupVersion", "plural", "location") if key in spec},
        "status": {"conditions": (api_import.get("status") or {}).get("conditions") or []},
    }
