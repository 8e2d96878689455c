"""One change of a ManagedCluster's status at the hub, by compare-and-swap on the state that was read for it.

It uses the hub's API whichever bus is used: migration has to know that the hub has stored it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.rest import Client
from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.fleet.worker.fence.decide import ownership_error
from shoal.kinds.fleet import infrav1
from shoal.runtime.controller import RequeueError

Object = dict[str, Any]
StatusChange = Callable[[Object], Object | None]
"""Returns the desired status of the current ManagedCluster; None: unchanged."""


async def update_hub_status(hub: Client, worker: str, name: Name, copy: Object, change: StatusChange) -> Object:
    """Returns the updated ManagedCluster. Raises RequeueError if it is not this worker's in the epoch of the copy."""
    managed = await hub.get(MANAGED_CLUSTERS, name[1], name[0])
    error = ownership_error(managed, worker, copy)
    if error:
        raise RequeueError(error)
    status = change(managed)
    if status is None or status == infrav1.status_of(managed):
        return managed
    return await hub.update(MANAGED_CLUSTERS, {**managed, "status": status}, "status")
