"""The loops that run beside an API server: one list says which."""

from __future__ import annotations

import asyncio
import secrets
from typing import Protocol

from shoal.apiserver.certificates import Authority
from shoal.client.requests import Client
from shoal.client.transport import Transport
from shoal.clock import Clock, SystemClock
from shoal.controlplane.certificates.controller import certificate_controller
from shoal.controlplane.definitions.controller import definition_controller
from shoal.controlplane.events.controller import EventExpiry
from shoal.controlplane.garbagecollector.controller import garbage_collector
from shoal.controlplane.logicalclusters.controller import logical_cluster_controller
from shoal.controlplane.namespaces.controller import namespace_controller
from shoal.controlplane.quota.controller import QuotaController
from shoal.controlplane.roles.controller import role_loop
from shoal.controlplane.serviceaccounts.controller import service_account_loops


class Runnable(Protocol):
    name: str

    async def run(self) -> None: ...


def controllers(client: Client, clock: Clock, authority: Authority) -> list[Runnable]:
    return [
        namespace_controller(client, clock),
        definition_controller(client, clock),
        logical_cluster_controller(client, clock),
        garbage_collector(client, clock),
        *service_account_loops(client, clock, authority.certificate.decode()),
        role_loop(client, clock),
        certificate_controller(client, clock, authority.sign_request),
        EventExpiry(client, clock),
        QuotaController(client, clock),
    ]


class Loops:
    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        """Their identity, for this process's life only."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, transport: Transport, authority: Authority, clock: Clock | None = None) -> None:
        client = Client(transport, self.token, agent="shoal-loops", cluster="root")
        for controller in controllers(client, clock or SystemClock(), authority):
            self._tasks.append(asyncio.create_task(controller.run(), name=controller.name))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
