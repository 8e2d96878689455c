"""The controllers of the envtest server: those that clean up, all of a cluster, or none as with envtest."""

from __future__ import annotations

import asyncio
import secrets

from shoal.assemble.server.api_server import ApiServer
from shoal.client.rest import Client
from shoal.clock import Clock, SystemClock
from shoal.controlplane.clusterroleaggregation.controller import new_cluster_role_aggregation_controller
from shoal.controlplane.crdfinalizer.controller import new_crd_finalizer_controller
from shoal.controlplane.garbagecollector.controller import new_garbage_collector
from shoal.controlplane.namespaces.controller import new_namespace_controller
from shoal.controlplane.serviceaccounts.controller import new_service_account_controllers
from shoal.runtime.manager import Runnable, run_manager


class EnvtestControllers:
    def __init__(self, controller_set: str, *, service_accounts: bool) -> None:
        self.token = secrets.token_urlsafe(32)
        """The administrator's: the controllers of an envtest server share one identity."""
        self._controller_set, self._service_accounts = controller_set, service_accounts
        self._task: asyncio.Task[None] | None = None

    def start(self, server: ApiServer) -> None:
        clock = SystemClock()
        client = Client(server.transport(), self.token, user_agent="shoal-loops", cluster="root")
        client.informers = {}

        def new_controllers() -> list[Runnable]:
            # Deleting a CRD waits for its objects, which kube-apiserver does itself.
            controllers: list[Runnable] = [new_crd_finalizer_controller(client, clock)]
            if self._controller_set != "none":
                controllers += [new_namespace_controller(client, clock), new_garbage_collector(client, clock)]
                controllers += [new_cluster_role_aggregation_controller(client, clock)]
            if self._service_accounts or self._controller_set == "cluster":
                controllers += new_service_account_controllers(client, clock, server.core.keys.ensure_root_ca)
            return controllers + (_new_cluster_controllers(client, clock) if self._controller_set == "cluster" else [])

        self._task = asyncio.create_task(run_manager(new_controllers(), clock), name="loops")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _new_cluster_controllers(client: Client, clock: Clock) -> list[Runnable]:
    # They are half of the load time, and most suites do not need them.
    from shoal.controlplane.controllers import new_workload_controllers  # noqa: PLC0415
    from shoal.controlplane.eventttl.controller import EventTTLController  # noqa: PLC0415
    from shoal.controlplane.node_controllers import new_node_controllers  # noqa: PLC0415
    from shoal.controlplane.resourcequota.controller import ResourceQuotaController  # noqa: PLC0415
    from shoal.controlplane.scheduler.controller import new_scheduler_controllers  # noqa: PLC0415

    own: list[Runnable] = [EventTTLController(client, clock), ResourceQuotaController(client, clock)]
    return [
        *own,
        *new_workload_controllers(client, clock),
        *new_scheduler_controllers(client, clock),
        *new_node_controllers(client, clock),
    ]
