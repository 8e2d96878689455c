"""Cloud provider decorator that adds the extended resources of NodeOverlays to the instances of a NodeClaim's pool.

Instance types are forwarded unchanged: overlays apply per pool (`nodeoverlays`).
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
    """Looks up the NodeOverlays of a cluster and applies them."""

    def __init__(self, view: View) -> None:
        self._view = view

    def types(self, cluster: str, types: Sequence[InstanceType], claim: Object) -> list[InstanceType]:
        """Returns the types as the NodeClaim's pool may buy them. A NodeClaim without a pool gets them unchanged."""
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
