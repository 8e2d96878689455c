"""Creates the controllers of the kind provider. They need its kind, Clusters and Secrets from any API server."""

from __future__ import annotations

from dataclasses import dataclass, field

from shoal.capi.informers import CAPIInformers
from shoal.capi.providers.kind.command import KindRunner
from shoal.capi.providers.kind.controller import KIND_CLUSTERS, KindClusterReconciler
from shoal.capi.providers.kind.steps import RetryDelays
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.kinds.clusterapi import kindcluster
from shoal.runtime.manager import Runnable


@dataclass(frozen=True, slots=True)
class KindSettings:
    max_parallel_creates: int = 2
    """Clusters created concurrently."""
    resync_seconds: float = 60.0
    """Seconds between lists of the existing clusters."""
    retry_delays: RetryDelays = field(default_factory=RetryDelays)


def new_kind_controllers(client: Client, clock: Clock, settings: KindSettings, command: KindRunner) -> list[Runnable]:
    """`client` is at the management cluster; `command` creates the clusters on this machine."""
    reconciler = KindClusterReconciler(
        client,
        clock,
        command,
        max_parallel_creates=settings.max_parallel_creates,
        resync_seconds=settings.resync_seconds,
        retry_delays=settings.retry_delays,
    )
    reconciler.controller.sources.append(reconciler.recorder.run)
    return [reconciler.kind_clusters, reconciler.clusters, reconciler.secrets, reconciler.jobs, reconciler.controller]


def kind_provider(informers: CAPIInformers, clock: Clock) -> list[Runnable]:
    """Registers KINDClusters with the core of Cluster API. `new_kind_controllers` reconciles them, wherever kind
    runs.
    """
    informers.register_kind(KIND_CLUSTERS, kindcluster.KIND)
    return []
