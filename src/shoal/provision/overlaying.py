"""A cloud provider as NodeOverlays have it: the machines of a NodeClaim's pool with the extended resources they say.

Instance types are passed on as the provider has them, since an overlay is told of them for each pool (`overlays`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.kinds.karpenter import pool_of
from shoal.provision.cloudprovider import CloudProvider, Instance, InstanceType
from shoal.provision.overlays import overlaid, overlaid_instance
from shoal.provision.view import View
from shoal.provision.wrapping import Wrapping

Object = dict[str, Any]


class Overlays:
    """Of the clusters in sight."""

    def __init__(self, view: View) -> None:
        self._view = view

    def types(self, cluster: str, types: Sequence[InstanceType], claim: Object) -> list[InstanceType]:
        """For the pool of a NodeClaim; one without a pool has them as they are."""
        pool = self._view.pools.get(cluster, pool_of(claim))
        return overlaid(types, self._view.overlays.of(cluster), pool) if pool is not None else list(types)

    def instance(self, cluster: str, instance: Instance, claim: Object) -> Instance:
        overlays = self._view.overlays.of(cluster)
        pool = self._view.pools.get(cluster, pool_of(claim)) if overlays else None
        return overlaid_instance(instance, overlays, pool) if pool is not None else instance


class Overlaying(Wrapping):
    def __init__(self, provider: CloudProvider, overlays: Overlays) -> None:
        super().__init__(provider)
        self._overlays = overlays

    async def create(self, cluster: str, claim: Object) -> Instance:
        return self._overlays.instance(cluster, await super().create(cluster, claim), claim)

    def get(self, cluster: str, claim: Object) -> Instance | None:
        found = super().get(cluster, claim)
        return self._overlays.instance(cluster, found, claim) if found is not None else None

    def foresee(self, cluster: str, claim: Object) -> Instance | None:
        found = super().foresee(cluster, claim)
        return self._overlays.instance(cluster, found, claim) if found is not None else None
