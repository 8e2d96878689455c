"""Cloud provider decorator that adds the extended resources of NodeOverlays to the instances of a NodeClaim's pool.

Instance types are forwarded unchanged: overlays apply per pool (`nodeoverlays`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.kinds.karpenter.karpenter import nodepool_of
from shoal.provision.cloudprovider.decorator import CloudProviderDecorator
from shoal.provision.cloudprovider.nodeoverlays import apply_overlays, apply_overlays_to_instance
from shoal.provision.cloudprovider.types import CloudProvider, Instance, InstanceType, LaunchPending
from shoal.provision.state import ClusterState
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]


class OverlayResolver:
    """Looks up the NodeOverlays of a cluster and applies them."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def instance_types(self, cluster: str, types: Sequence[InstanceType], claim: Object) -> list[InstanceType]:
        """Returns the types as the NodeClaim's pool may buy them. A NodeClaim without a pool gets them unchanged."""
        pool = self._state.node_pools.get((cluster, "", nodepool_of(claim)))
        return (
            apply_overlays(types, self._state.node_overlays.by_index(by_cluster, cluster), pool)
            if pool is not None
            else list(types)
        )

    def instance(self, cluster: str, instance: Instance, claim: Object) -> Instance:
        overlays = self._state.node_overlays.by_index(by_cluster, cluster)
        pool = self._state.node_pools.get((cluster, "", nodepool_of(claim))) if overlays else None
        return apply_overlays_to_instance(instance, overlays, pool) if pool is not None else instance


class OverlayCloudProvider(CloudProviderDecorator):
    def __init__(self, provider: CloudProvider, overlays: OverlayResolver) -> None:
        super().__init__(provider)
        self._overlays = overlays

    async def create(self, cluster: str, claim: Object) -> Instance | LaunchPending:
        launch = await super().create(cluster, claim)
        return launch if isinstance(launch, LaunchPending) else self._overlays.instance(cluster, launch, claim)

    def get(self, cluster: str, claim: Object) -> Instance | None:
        instance = super().get(cluster, claim)
        return self._overlays.instance(cluster, instance, claim) if instance is not None else None

    def expected_instance(self, cluster: str, claim: Object) -> Instance | None:
        instance = super().expected_instance(cluster, claim)
        return self._overlays.instance(cluster, instance, claim) if instance is not None else None
