"""Records in a worker's Lease which hub has its tunnel, so that the other hubs of the store find it.

One write when a worker connects and one when it disconnects. The newest connection counts: a hub that sees another
one in the Lease closes its own tunnel of that worker. The entry of a hub that died stays until the worker connects
again.
"""

from __future__ import annotations

import logging

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.fleet.resources import LEASES
from shoal.fleet.tunnel.registry import TunnelRegistry
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller

log = logging.getLogger("shoal.fleet")


class TunnelRecorder:
    def __init__(self, client: Client, clock: Clock, tunnels: TunnelRegistry, url: str) -> None:
        """`url` is the address at which other hubs reach this one."""
        self._client, self._tunnels, self._url = client, tunnels, url
        self._recorded: dict[str, int] = {}
        """Workers whose Lease names this hub, with the revision since when it does."""
        self.controller: Controller[str] = Controller("worker-tunnels", clock, self.reconcile)
        for worker in tunnels.connected_workers():
            self.controller.queue.add(worker)
        tunnels.change_handlers.append(self.controller.queue.add)

    def on_lease_changed(self, worker: str, hub: str, revision: int) -> None:
        """Called with every change of a worker's Lease and the hub that it names."""
        if not self._tunnels.is_connected(worker):
            return
        if not hub:
            self.controller.queue.add(worker)
        elif hub != self._url and revision > self._recorded.get(worker, revision):
            log.warning("worker %s has connected to %s", worker, hub)
            del self._recorded[worker]
            self._tunnels.disconnect(worker)

    async def reconcile(self, worker: str) -> None:
        name = infrav1.lease_name(worker)
        is_connected = self._tunnels.is_connected(worker)
        if not is_connected:
            self._recorded.pop(worker, None)
        try:
            lease = await self._client.get(LEASES, name, infrav1.NAMESPACE)
            hub, version = infrav1.tunnel_hub(lease), lease["metadata"]["resourceVersion"]
            if is_connected and hub != self._url:
                lease = await self._client.merge_patch(LEASES, name, _patch(self._url), infrav1.NAMESPACE)
            elif not is_connected and hub == self._url:
                # The worker may connect to another hub meanwhile: its entry is kept.
                await self._client.merge_patch(LEASES, name, _patch(None, version), infrav1.NAMESPACE)
        except NotFound:
            return  # Its creation is seen.
        if is_connected:
            self._recorded[worker] = int(lease["metadata"]["resourceVersion"])


def _patch(url: str | None, version: str = "") -> dict[str, object]:
    metadata: dict[str, object] = {"annotations": {infrav1.TUNNEL_HUB_ANNOTATION: url}}
    return {"metadata": {**metadata, **({"resourceVersion": version} if version else {})}}
