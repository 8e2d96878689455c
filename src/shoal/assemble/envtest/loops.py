"""The controllers of the envtest server: those that clean up, all of a cluster, or none as with envtest."""

from __future__ import annotations

import asyncio
import secrets

from shoal.assemble.running import Runnable, run_all
from shoal.assemble.server import ApiServer
from shoal.client.requests import Client
from shoal.clock import Clock, SystemClock
from shoal.controlplane.definitions.controller import definition_controller
from shoal.controlplane.garbagecollector.controller import garbage_collector
from shoal.controlplane.namespaces.controller import namespace_controller
from shoal.controlplane.roles.controller import role_loop
from shoal.controlplane.serviceaccounts.controller import service_account_loops


class Loops:
    def __init__(self, chosen: str, *, service_accounts: bool) -> None:
        self.token = secrets.token_urlsafe(32)
        self._chosen, self._service_accounts = chosen, service_accounts
        self._task: asyncio.Task[None] | None = None

    def start(self, server: ApiServer) -> None:
        clock = SystemClock()
        client = Client(server.transport(), self.token, agent="shoal-loops", cluster="root")
        client.copies = {}

        def loops() -> list[Runnable]:
            # Deleting a CRD waits for its objects, which kube-apiserver does itself.
            found: list[Runnable] = [definition_controller(client, clock)]
            if self._chosen != "none":
                found += [namespace_controller(client, clock), garbage_collector(client, clock)]
                found += [role_loop(client, clock)]
            if self._service_accounts or self._chosen == "cluster":
                found += service_account_loops(client, clock, server.authority.certificate.decode())
            return found + (_cluster(client, clock) if self._chosen == "cluster" else [])

        self._task = asyncio.create_task(run_all(loops, clock), name="loops")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _cluster(client: Client, clock: Clock) -> list[Runnable]:
    # They are half of the load time, and most suites do not need them.
    from shoal.controlplane.events.controller import EventExpiry  # noqa: PLC0415
    from shoal.controlplane.nodes.loops import node_loops  # noqa: PLC0415
    from shoal.controlplane.quota.controller import QuotaController  # noqa: PLC0415
    from shoal.controlplane.scheduler.controller import scheduler_loops  # noqa: PLC0415
    from shoal.controlplane.workloads import workload_loops  # noqa: PLC0415

    own: list[Runnable] = [EventExpiry(client, clock), QuotaController(client, clock)]
    return [*own, *workload_loops(client, clock), *scheduler_loops(client, clock), *node_loops(client, clock)]
