"""A cloud provider whose calls are counted and timed, under the name of the loop that makes them."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shoal.clock import Clock
from shoal.objects.errors import ShoalError
from shoal.provision.cloudprovider import ClassKind, CloudProvider, Instance, InstanceType, NotYet, RepairPolicy, Told
from shoal.provision.metrics import PROVIDER_ERRORS, PROVIDER_SECONDS

Object = dict[str, Any]


class Measured:
    """What comes from a copy at no cost is passed on as it is."""

    def __init__(self, provider: CloudProvider, controller: str, clock: Clock) -> None:
        self.name = provider.name
        self._provider, self._controller, self._clock = provider, controller, clock

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
        with self._measure(cluster, "GetInstanceTypes"):
            return self._provider.instance_types(cluster, node_class)

    def class_problem(self, cluster: str, node_class: Object) -> tuple[str, str] | None:
        return self._provider.class_problem(cluster, node_class)

    async def create(self, cluster: str, claim: Object) -> Instance:
        with self._measure(cluster, "Create"):
            return await self._provider.create(cluster, claim)

    async def delete(self, cluster: str, claim: Object) -> None:
        with self._measure(cluster, "Delete"):
            await self._provider.delete(cluster, claim)

    def get(self, cluster: str, claim: Object) -> Instance | None:
        return self._provider.get(cluster, claim)

    def list(self, cluster: str) -> builtins.list[Instance]:
        with self._measure(cluster, "List"):
            return self._provider.list(cluster)

    def is_drifted(self, cluster: str, claim: Object) -> str:
        with self._measure(cluster, "IsDrifted"):
            return self._provider.is_drifted(cluster, claim)

    def foresee(self, cluster: str, claim: Object) -> Instance | None:
        return self._provider.foresee(cluster, claim)

    @contextmanager
    def _measure(self, cluster: str, method: str) -> Iterator[None]:
        began, mine, its = self._clock.monotonic(), self._controller, self.name
        try:
            yield
        except NotYet:
            raise  # under way is no failure
        except ShoalError as error:
            PROVIDER_ERRORS.inc(cluster, controller=mine, method=method, provider=its, error=type(error).__name__)
            raise
        finally:
            took = self._clock.monotonic() - began
            PROVIDER_SECONDS.observe(cluster, took, controller=mine, method=method, provider=its)
