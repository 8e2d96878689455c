"""How a hub and the other hubs of its store reach the workers that are connected to one of them.

Hubs trust each other by what they share: the certificate authority, by which a hub recognizes another one before it
sends anything, and the key of the keys, from which all derive the token of their tunnels. The token opens tunnels of
hubs and nothing else.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from pathlib import Path

from shoal.apiserver.cache.cacher import CacheEvent
from shoal.apiserver.cluster_addresses import connection_limit
from shoal.apiserver.pki.ca import SERVER_NAME
from shoal.apiserver.pki.cluster_keys import KEY_ENCRYPTION_FILE
from shoal.apiserver.request.info import ROOT
from shoal.assemble.server.api_server import ApiServer
from shoal.client.rest import Client
from shoal.client.tls import client_context
from shoal.client.transport import RESTConfig
from shoal.client.upgrade import upgrade
from shoal.fleet.resources import LEASES
from shoal.fleet.tunnel import TunnelRegistry
from shoal.fleet.tunnel.frames import PROTOCOL
from shoal.fleet.tunnel.peer_acceptor import PeerAcceptor
from shoal.fleet.tunnel.peers import TUNNEL_PATH, PeerTunnels
from shoal.fleet.tunnel.recorder import TunnelRecorder
from shoal.kinds.fleet import infrav1
from shoal.objects.wire import ByteStream, Receiver
from shoal.runtime.manager import run_manager

DIAL_SECONDS = 5.0
"""A hub that does not answer for this time is an error for those who wait."""
ACCOUNT = "worker-tunnels"


def hub_token(directory: Path) -> str:
    """Returns the token by which hubs with the same keys open tunnels to each other."""
    key = (directory / KEY_ENCRYPTION_FILE).read_bytes().strip()
    return hmac.new(key, b"shoal tunnel between hubs", "sha256").hexdigest()


class HubPeers:
    def __init__(self, directory: Path, tunnels: TunnelRegistry) -> None:
        """`directory` has the keys that the hubs share."""
        self._tunnels, self._token = tunnels, hub_token(directory)
        self.acceptor = PeerAcceptor(self._token, tunnels, connection_limit())
        self.outgoing: PeerTunnels | None = None
        """The tunnels to other hubs, since `start`."""
        self.url = ""
        self._stop: list[Callable[[], object]] = []
        self._task: asyncio.Task[None] | None = None

    def start(self, server: ApiServer, client: Client, url: str) -> None:
        """`client` has the account `ACCOUNT`; `url` is where other hubs reach this one."""
        self.url = url
        leases = server.core.cache.resource_cache(LEASES.group, LEASES.resource)
        recorder = TunnelRecorder(client, server.core.clock, self._tunnels, url)

        def hub_of(worker: str) -> str:
            entry = leases.get(ROOT, infrav1.NAMESPACE, infrav1.lease_name(worker))
            hub = infrav1.tunnel_hub(entry.object()) if entry is not None else ""
            return hub if hub != url else ""

        def dial(hub: str, start: Callable[[ByteStream], Receiver]) -> Awaitable[None]:
            authority = server.authority.certificate.decode()
            config = RESTConfig(hub, client_context(authority, SERVER_NAME), self._token)
            return upgrade(config, TUNNEL_PATH, PROTOCOL, start, DIAL_SECONDS)

        def on_lease_event(event: CacheEvent) -> None:
            entry = event.new
            if entry is None or entry.namespace != infrav1.NAMESPACE:
                return
            worker = infrav1.worker_of_lease(entry.name)
            if self._tunnels.is_connected(worker):
                recorder.on_lease_changed(worker, infrav1.tunnel_hub(entry.object()), entry.revision)

        self.outgoing = self._tunnels.remote_workers = PeerTunnels(dial, hub_of, server.core.clock)
        leases.add_event_handler(ROOT, on_lease_event)
        self._stop.append(lambda: leases.remove_event_handler(ROOT, on_lease_event))
        controllers = run_manager([recorder.controller], server.core.clock)
        self._task = asyncio.create_task(controllers, name="worker tunnels")

    async def stop(self) -> None:
        for stop in self._stop:
            stop()
        self._tunnels.remote_workers = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.outgoing is not None:
            self.outgoing.close()
        self.acceptor.close()
