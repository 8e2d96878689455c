"""The clusters that a store hosts, and the settings of their provisioner, from the EmbeddedClusters of its root.

A Cluster API Cluster without an EmbeddedCluster has its control plane elsewhere: its nodes are another provisioner's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.provision.settings import ProvisionerSettings, settings_from_spec
from shoal.runtime.informer import Informer

Object = dict[str, Any]

EMBEDDED_CLUSTERS = GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "embeddedclusters")


class HostedClusters:
    name = "provision-hosted-clusters"

    def __init__(self, management_client: Client, clock: Clock) -> None:
        self._informer = Informer(management_client, EMBEDDED_CLUSTERS, clock)
        self._handlers: list[Callable[[str], None]] = []
        self._informer.add_event_handler(self._on_cluster)

    async def run(self) -> None:
        await self._informer.run()

    @property
    def has_synced(self) -> bool:
        return self._informer.has_synced

    def add_event_handler(self, handler: Callable[[str], None]) -> None:
        """Adds a handler that is called with a logical cluster that appeared, went, or has other settings."""
        self._handlers.append(handler)

    def is_hosted(self, namespace: str, name: str) -> bool:
        """Whether the Cluster API Cluster's control plane is a logical cluster of this store."""
        return self._informer.get(("", namespace, name)) is not None

    def settings_of(self, cluster: str) -> ProvisionerSettings:
        namespace, _, name = cluster.partition(".")
        return settings_from_spec(_provisioner_spec(self._informer.get(("", namespace, name))))

    def _on_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and _provisioner_spec(old) == _provisioner_spec(new):
            return
        for handler in self._handlers:
            handler(f"{key[1]}.{key[2]}")


def _provisioner_spec(embedded: Object | None) -> Object | None:
    provisioner: Object | None = ((embedded or {}).get("spec") or {}).get("provisioner")
    return provisioner
