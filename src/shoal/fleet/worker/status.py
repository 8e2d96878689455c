"""One change of a ManagedCluster's status at the hub, by compare-and-swap on the state that was read for it.

Through the hub's API whatever the bus: who moves clusters has to know that the hub has it so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.requests import Client
from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.fence.decide import not_ours
from shoal.kinds import fleet
from shoal.runtime.loop import Later

Object = dict[str, Any]
Change = Callable[[Object], Object | None]
"""Of the ManagedCluster as it is now: its status as it should be; None: as it is."""


async def change_status(hub: Client, worker: str, name: Name, copy: Object, change: Change) -> Object:
    """The ManagedCluster after it. Later: it is not this worker's, for the epoch of the copy."""
    managed = await hub.get(MANAGED_CLUSTERS, name[1], name[0])
    why = not_ours(managed, worker, copy)
    if why:
        raise Later(why)
    status = change(managed)
    if status is None or status == fleet.status_of(managed):
        return managed
    return await hub.update(MANAGED_CLUSTERS, {**managed, "status": status}, "status")
