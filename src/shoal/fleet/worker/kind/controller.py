"""Keeps the access to kind clusters: the worker's keys, the token for the hub, the roles of the hub's users. Reports
what their API servers answer.

A kind cluster is not watched: it is asked every few seconds.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from shoal.client.kubeconfig import KubeconfigError, new_client
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import CLUSTER_ROLE_BINDINGS, MANAGED_CLUSTERS, SECRETS
from shoal.fleet.worker.access.decide import plan_bindings
from shoal.fleet.worker.informers import CLUSTERS, KIND_CLUSTERS, WorkerInformers
from shoal.fleet.worker.kind.decide import KindObservation, observed_status, ready_node_count, unreachable_status
from shoal.fleet.worker.kind.endpoint import endpoint_of_secret
from shoal.fleet.worker.kind.objects import (
    KEY,
    TOKEN,
    access_secret,
    admin_token_request,
    is_token_current,
    secret_value,
    token_patch,
)
from shoal.fleet.worker.settings import KindSupport
from shoal.kinds.clusterapi import embedded
from shoal.kinds.fleet import access, infrav1, kindhosting
from shoal.kinds.fleet.kindhosting import access_secret_name
from shoal.objects.conditions import condition_is
from shoal.objects.errors import AlreadyExists, NotFound, StatusError
from shoal.runtime.controller import Controller, RequeueError

Object = dict[str, Any]

NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
SERVICE_ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
POLL_SECONDS, SETTLING_SECONDS = 30.0, 3.0
"""How often a cluster is asked, and one whose nodes are not all ready or whose API does not answer."""
TIMEOUT = 20.0


class KindAccessReconciler:
    def __init__(self, own: Client, clock: Clock, informers: WorkerInformers, support: KindSupport) -> None:
        self._own, self._clock, self._informers, self._support = own, clock, informers, support
        self._clients: dict[Name, tuple[str, Client]] = {}
        """Clients of kind's administrators, with the revision of the Secret each was built from."""
        self.controller: Controller[Name] = Controller("fleet-kind", clock, self.reconcile)
        self.controller.sources.append(self._close_clients_at_end)
        informers.add_event_handler(self.controller.queue.add)

    async def _close_clients_at_end(self) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for name in list(self._clients):
                await self._forget(name)

    async def reconcile(self, name: Name) -> float | None:
        if not self._informers.has_synced:
            raise RequeueError("informers of the worker's own API have not synced yet")
        copy = self._informers.get(MANAGED_CLUSTERS, *name)
        owner = self._informers.get(CLUSTERS, *name)
        kind_cluster = self._informers.get(KIND_CLUSTERS, *name)
        kubeconfig = self._informers.get(SECRETS, name[0], infrav1.kubeconfig_secret_name(name[1]))
        if copy is None or infrav1.is_deleting(copy) or not kindhosting.is_kind(copy) or owner is None:
            await self._forget(name)
            return None
        if not condition_is(kind_cluster or {}, "Ready") or kubeconfig is None:
            return None  # The KINDCluster tells why; its change triggers another reconcile.
        try:
            client = await self._client(name, kubeconfig)
            observation = await self._observe(client, copy)
            await self._ensure_access(client, copy, owner)
        except (StatusError, Unreachable, KubeconfigError) as error:
            await self._write_status(copy, unreachable_status(copy, str(error), rfc3339(self._clock.now())))
            return SETTLING_SECONDS
        await self._write_status(copy, observed_status(copy, observation, rfc3339(self._clock.now())))
        return POLL_SECONDS if observation.ready_nodes >= kindhosting.node_count(copy) else SETTLING_SECONDS

    async def _client(self, name: Name, kubeconfig: Object) -> Client:
        revision = str(kubeconfig["metadata"]["resourceVersion"])
        known_revision, client = self._clients.get(name, ("", None))
        if client is None or known_revision != revision:
            await self._forget(name)
            client = new_client(endpoint_of_secret(kubeconfig).admin, "shoal-worker", TIMEOUT)
            self._clients[name] = revision, client
        return client

    async def _forget(self, name: Name) -> None:
        _, client = self._clients.pop(name, ("", None))
        if client is not None:
            await client.close()

    async def _write_status(self, copy: Object, updated: Object) -> None:
        if updated is not copy:
            with suppress(NotFound):
                await self._own.update(MANAGED_CLUSTERS, updated, "status")

    async def _observe(self, client: Client, copy: Object) -> KindObservation:
        version = str((await client.get_path("/version")).get("gitVersion") or "")
        nodes, _ = await client.list_all(NODES)
        return KindObservation(version, ready_node_count(nodes), await self._bind_roles(client, copy))

    async def _bind_roles(self, client: Client, copy: Object) -> list[str]:
        """Returns the names that somebody else's bindings have."""
        bindings, _ = await client.list_all(CLUSTER_ROLE_BINDINGS, labels=access.ACCESS_LABEL)
        changes = plan_bindings(copy, {each["metadata"]["name"]: each for each in bindings})
        for name, uid in changes.delete:
            with suppress(NotFound):
                await client.delete(CLUSTER_ROLE_BINDINGS, name, uid=uid)
        for binding in changes.update:
            await client.update(CLUSTER_ROLE_BINDINGS, binding)
        taken = []
        for binding in changes.create:
            try:
                await client.create(CLUSTER_ROLE_BINDINGS, binding)
            except AlreadyExists:
                taken.append(str(binding["metadata"]["name"]))
        return taken

    async def _ensure_access(self, client: Client, copy: Object, owner: Object) -> None:
        """Ensures the key for tokens of hub users, and a current token for the hub."""
        namespace, secret_name = copy["metadata"]["namespace"], access_secret_name(copy["metadata"]["name"])
        secret = self._informers.get(SECRETS, namespace, secret_name)
        if secret is None:
            try:
                secret = await self._own.create(SECRETS, access_secret(copy, owner, self._support.new_key()), namespace)
            except AlreadyExists:
                secret = await self._own.get(SECRETS, secret_name, namespace)
        if not secret_value(secret, KEY):
            raise RequeueError(f"Secret {namespace}/{secret_name} was not created by this worker")
        account = await self._ensure_administrator(client)
        token = secret_value(secret, TOKEN).decode(errors="replace")
        if is_token_current(token, account["metadata"]["uid"], self._clock.now()):
            return
        path = client.resource_path(SERVICE_ACCOUNTS, embedded.ADMIN_SERVICE_ACCOUNT, embedded.ADMIN_NAMESPACE, "token")
        answer = await client.request("POST", path, body=admin_token_request())
        await self._own.merge_patch(SECRETS, secret_name, token_patch(str(answer["status"]["token"])), namespace)

    async def _ensure_administrator(self, client: Client) -> Object:
        """Returns the ServiceAccount of the hub's token. Its role is created first."""
        with suppress(AlreadyExists):
            await client.create(CLUSTER_ROLE_BINDINGS, embedded.admin_role_binding())
        try:
            return await client.get(SERVICE_ACCOUNTS, embedded.ADMIN_SERVICE_ACCOUNT, embedded.ADMIN_NAMESPACE)
        except NotFound:
            pass
        with suppress(AlreadyExists):
            await client.create(SERVICE_ACCOUNTS, embedded.admin_service_account(), embedded.ADMIN_NAMESPACE)
        return await client.get(SERVICE_ACCOUNTS, embedded.ADMIN_SERVICE_ACCOUNT, embedded.ADMIN_NAMESPACE)
