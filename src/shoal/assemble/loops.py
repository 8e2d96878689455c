"""The loops that run beside an API server: one list says which."""

from __future__ import annotations

import asyncio
import secrets

from shoal.client.requests import Client
from shoal.client.transport import Transport
from shoal.clock import Clock, SystemClock
from shoal.controlplane.definitions.controller import definition_controller
from shoal.controlplane.logicalclusters.controller import logical_cluster_controller
from shoal.controlplane.namespaces.controller import namespace_controller
from shoal.runtime.controller import Controller


def controllers(client: Client, clock: Clock) -> list[Controller]:
    return [
        namespace_controller(client, clock),
        definition_controller(client, clock),
        logical_cluster_controller(client, clock),
    ]


class Loops:
    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        """Their identity, for this process's life only."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, transport: Transport, clock: Clock | None = None) -> None:
        client = Client(transport, self.token, agent="shoal-loops", cluster="root")
        for controller in controllers(client, clock or SystemClock()):
            self._tasks.append(asyncio.create_task(controller.run(), name=controller.name))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
