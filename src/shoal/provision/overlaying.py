"""A cloud provider as NodeOverlays have it: the machines of a NodeClaim's pool with the extended resources they say.

Instance types are passed on as the provider has them, since an overlay is told of them for each pool (`overlays`).
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from shoal.kinds.karpenter import pool_of
from shoal.provision.cloudprovider import ClassKind, CloudProvider, Instance, InstanceType, RepairPolicy, Told
from shoal.provision.overlays import overlaid, overlaid_instance
from shoal.provision.view import View

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


class Overlaying:
    def __init__(self, provider: CloudProvider, overlays: Overlays) -> None:
        self.name = provider.name
        self._provider, self._overlays = provider, overlays

    @property
    def synced(self) -> bool:
        return self._provider.synced

    def listen(self, told: Told) -> None:
        self._provider.listen(told)

    def supported_node_classes(self) -> tuple[ClassKind, ...]:
        return self._provider.supported_node_classes()

    def repair_policies(self) -> tuple[RepairPolicy, ...]:
        return self._provider.repair_policies()

    def instance_types(self, cluster: str, node_class: Object) -> builtins.list[InstanceType]:
        return self._provider.instance_types(cluster, node_class)

    def class_problem(self, cluster: str, node_class: Object) -> tuple[str, str] | None:
        return self._provider.class_problem(cluster, node_class)

    async def create(self, cluster: str, claim: Object) -> Instance:
        return self._overlays.instance(cluster, await self._provider.create(cluster, claim), claim)

    async def delete(self, cluster: str, claim: Object) -> None:
        await self._provider.delete(cluster, claim)

    def get(self, cluster: str, claim: Object) -> Instance | None:
        found = self._provider.get(cluster, claim)
        return self._overlays.instance(cluster, found, claim) if found is not None else None

    def list(self, cluster: str) -> builtins.list[Instance]:
        return self._provider.list(cluster)

    def is_drifted(self, cluster: str, claim: Object) -> str:
        return self._provider.is_drifted(cluster, claim)

    def foresee(self, cluster: str, claim: Object) -> Instance | None:
        found = self._provider.foresee(cluster, claim)
        return self._overlays.instance(cluster, found, claim) if found is not None else None
