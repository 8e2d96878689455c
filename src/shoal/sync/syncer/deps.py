"""What the parts of one syncer share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.runtime.informer import Informer
from shoal.runtime.workqueue import WorkQueue
from shoal.sync.syncer.hub_informers import HubInformers, SyncedResource, SyncKey
from shoal.sync.syncer.hub_writer import HubWriter
from shoal.sync.syncer.name_mapping import NameMapping
from shoal.sync.syncer.namespaces import NamespaceMapper
from shoal.sync.syncer.status import SyncerStatus


@dataclass(frozen=True, slots=True)
class SyncerDeps:
    cluster: str
    """Name of the workload Cluster."""
    hub_id: str
    clock: Clock
    client: Client
    """Client of the cluster."""
    hub: HubInformers
    hub_writer: HubWriter
    namespaces: NamespaceMapper
    downstream: Mapping[SyncedResource, Informer]
    """The informer of each synced kind in the cluster."""
    names: NameMapping
    status: SyncerStatus
    queue: WorkQueue[SyncKey | str]
