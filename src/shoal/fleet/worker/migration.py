"""The worker's controllers that migrate hosted clusters, and what they share.

fence: whether a cluster may be written now

ownership: the hub's confirmation that it is this worker's

replication: ships its log to the hub; freezes it for a planned migration

restore: from the log of another worker

handover: gives way to a worker that has it in a later epoch
"""

from __future__ import annotations

from dataclasses import dataclass

from shoal.fleet.bus.interface import Name
from shoal.fleet.worker.cluster_storage import ClusterStorage
from shoal.fleet.worker.deps import WorkerDeps
from shoal.fleet.worker.fence.fence import WriteFence
from shoal.fleet.worker.handover.controller import HandoverReconciler
from shoal.fleet.worker.ownership.controller import OwnershipReconciler
from shoal.fleet.worker.replication.controller import ReplicationReconciler
from shoal.fleet.worker.restore.controller import RestoreReconciler
from shoal.runtime.controller import Controller


@dataclass(frozen=True, slots=True)
class MigrationSupport:
    """What a worker's server provides: access to its store, and the fence in front of it."""

    storage: ClusterStorage
    fence: WriteFence


def new_migration_controllers(deps: WorkerDeps, storage: ClusterStorage, fence: WriteFence) -> list[Controller[Name]]:
    ownership, replication = OwnershipReconciler(deps, fence), ReplicationReconciler(deps, storage, fence)

    def on_lease_regained() -> None:
        ownership.enqueue_all()
        replication.enqueue_all()

    fence.on_lease_regained = on_lease_regained
    return [
        ownership.controller,
        replication.controller,
        RestoreReconciler(deps, storage, fence).controller,
        HandoverReconciler(deps, storage, fence).controller,
    ]
