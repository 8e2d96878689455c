"""Cloud provider decorator that counts and times calls, labelled with the calling controller."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shoal.clock import Clock
from shoal.objects.errors import ShoalError
from shoal.provision.cloudprovider.decorator import CloudProviderDecorator
from shoal.provision.cloudprovider.types import CloudProvider, Instance, InstanceType, LaunchPending, NotSynced
from shoal.provision.metrics import PROVIDER_ERRORS, PROVIDER_SECONDS

Object = dict[str, Any]


class MeteredCloudProvider(CloudProviderDecorator):
    """Reads from a cache cost nothing and are forwarded without a measurement."""

    def __init__(self, provider: CloudProvider, controller: str, clock: Clock) -> None:
        super().__init__(provider)
        self._controller, self._clock = controller, clock

    def instance_types(self, cluster: str, node_class: Object) -> builtins.list[InstanceType]:
        with self._measure(cluster, "GetInstanceTypes"):
            return super().instance_types(cluster, node_class)

    async def create(self, cluster: str, claim: Object) -> Instance | LaunchPending:
        with self._measure(cluster, "Create"):
            return await super().create(cluster, claim)

    async def delete(self, cluster: str, claim: Object) -> None:
        with self._measure(cluster, "Delete"):
            await super().delete(cluster, claim)

    def list(self, cluster: str) -> builtins.list[Instance]:
        with self._measure(cluster, "List"):
            return super().list(cluster)

    def is_drifted(self, cluster: str, claim: Object) -> str:
        with self._measure(cluster, "IsDrifted"):
            return super().is_drifted(cluster, claim)

    @contextmanager
    def _measure(self, cluster: str, method: str) -> Iterator[None]:
        start, controller, provider = self._clock.monotonic(), self._controller, self.name
        try:
            yield
        except NotSynced:
            raise  # it passes by itself
        except ShoalError as error:
            PROVIDER_ERRORS.inc(
                cluster, controller=controller, method=method, provider=provider, error=type(error).__name__
            )
            raise
        finally:
            seconds = self._clock.monotonic() - start
            PROVIDER_SECONDS.observe(cluster, seconds, controller=controller, method=method, provider=provider)
