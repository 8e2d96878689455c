"""Base class of cloud provider decorators. It forwards every call; subclasses override the calls they change."""

from __future__ import annotations

import builtins
from typing import Any

from shoal.provision.cloudprovider.types import (
    CloudProvider,
    Instance,
    InstanceType,
    LaunchPending,
    NodeClaimHandler,
    NodeClassKind,
    RepairPolicy,
)

Object = dict[str, Any]


class CloudProviderDecorator:
    def __init__(self, provider: CloudProvider) -> None:
        self.name = provider.name
        self._provider = provider

    @property
    def has_synced(self) -> bool:
        return self._provider.has_synced

    def add_event_handler(self, handler: NodeClaimHandler) -> None:
        self._provider.add_event_handler(handler)

    def supported_node_classes(self) -> tuple[NodeClassKind, ...]:
        return self._provider.supported_node_classes()

    def repair_policies(self) -> tuple[RepairPolicy, ...]:
        return self._provider.repair_policies()

    def instance_types(self, cluster: str, node_class: Object) -> builtins.list[InstanceType]:
        return self._provider.instance_types(cluster, node_class)

    def node_class_error(self, cluster: str, node_class: Object) -> tuple[str, str] | None:
        return self._provider.node_class_error(cluster, node_class)

    async def create(self, cluster: str, claim: Object) -> Instance | LaunchPending:
        return await self._provider.create(cluster, claim)

    async def delete(self, cluster: str, claim: Object) -> None:
        await self._provider.delete(cluster, claim)

    def get(self, cluster: str, claim: Object) -> Instance | None:
        return self._provider.get(cluster, claim)

    def list(self, cluster: str) -> builtins.list[Instance]:
        return self._provider.list(cluster)

    def is_drifted(self, cluster: str, claim: Object) -> str:
        return self._provider.is_drifted(cluster, claim)

    def expected_instance(self, cluster: str, claim: Object) -> Instance | None:
        return self._provider.expected_instance(cluster, claim)
