"""Keeps, for workers beside the hub, a Secret with which each joins, in the cluster in which the hub runs.

The Secret exists already: the hub may only read and change Secrets that a file names. A worker that has not joined
finds a kubeconfig with a join token in it, as in the Secret of a bundle. When the hub hears of the worker, it deletes
the token, and the kubeconfig contains only the address of the hub. The Secret also tells how far the worker is.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.fleet.join.hub_tokens import HubJoinTokens, hub_kubeconfig, needs_token
from shoal.fleet.resources import SECRETS, WORKERS
from shoal.kinds.fleet import infrav1, worker_join
from shoal.objects.errors import NotFound, ShoalError
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.informer import Informer

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

TOKEN_LABEL = "shoal.dev/join-secret"
"""Label of a join token's Secret: the Worker it is for."""
KUBECONFIG, STATE = "kubeconfig", "state"
"""Keys of the Secret."""
JOINED, WAITING, EXPELLED = "Joined", "Waiting", "Expelled"
"""Its states. Waiting: the hub does not hear of the worker, and the kubeconfig has a token."""
RESYNC_SECONDS = 30.0
"""Between looks at the Secrets, which somebody else may have changed, and at the file."""
TIMEOUT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class JoinSecrets:
    """What the file says."""

    address: str = ""
    """URL of the hub as these workers reach it."""
    secrets: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Namespace and name of the Secret, by worker."""


@dataclass(frozen=True, slots=True)
class JoinSecretSettings:
    read: Callable[[], JoinSecrets]
    """Raises ShoalError if the file cannot be used."""
    new_client: Callable[[], Client]
    """A client of the cluster in which the hub runs."""


@dataclass(frozen=True, slots=True)
class HubIdentity:
    """How workers verify the hub."""

    ca_pem: str
    server_name: str = ""
    """The name in its certificate, if it is not that of the address."""


class JoinSecretReconciler:
    """Keys are Workers."""

    def __init__(
        self, client: Client, clock: Clock, settings: JoinSecretSettings, identity: Callable[[], HubIdentity]
    ) -> None:
        """`client` is for the hub's root."""
        self._clock, self._settings, self._identity = clock, settings, identity
        self._file, self._file_error = JoinSecrets(), ""
        self._host: Client | None = None
        self._missing: set[str] = set()
        self.controller: Controller[Key] = Controller("fleet-join-secrets", clock, self.reconcile)
        self._tokens = HubJoinTokens(client, clock, TOKEN_LABEL, self._enqueue)
        self._workers = Informer(client, WORKERS, clock, fields=f"metadata.namespace={infrav1.NAMESPACE}")
        self.controller.watch(self._workers, lambda key, old, new: self._enqueue(key[2]))
        self.controller.sources += [self._tokens.run, self._run]

    def _enqueue(self, worker: str) -> None:
        self.controller.queue.add(("", infrav1.NAMESPACE, worker))

    async def _run(self) -> None:
        self._host = self._settings.new_client()
        try:
            while True:
                self._read_file()
                await self._clock.sleep(RESYNC_SECONDS)
        finally:
            host, self._host = self._host, None
            await host.close()

    def _read_file(self) -> None:
        """A file that cannot be used changes nothing."""
        before = self._file
        try:
            self._file, error = self._settings.read(), ""
        except ShoalError as unusable:
            error = str(unusable)
        if error and error != self._file_error:
            log.warning("the join Secrets stay as they are: %s", error)
        self._file_error = error
        for worker in {*before.secrets, *self._file.secrets}:
            self._enqueue(worker)

    async def reconcile(self, key: Key) -> None:
        if not self._workers.has_synced or self._host is None:
            raise RequeueError("informer of Workers has not synced yet")
        name, worker = key[2], self._workers.get(key)
        secret = self._file.secrets.get(name)
        if secret is None:
            await self._tokens.revoke(name)
            return
        state = join_state(worker)
        # A token that was used for a Worker that is gone admits nobody else.
        token = await self._tokens.ensure(name, unused=worker is None) if state == WAITING else ""
        identity = self._identity()
        kubeconfig = hub_kubeconfig(self._file.address, identity.ca_pem, token, identity.server_name)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._write(self._host, name, secret, {KUBECONFIG: kubeconfig, STATE: state})
        except TimeoutError:
            raise Unreachable("the cluster in which this hub runs does not answer") from None
        if not token:
            await self._tokens.revoke(name)

    async def _write(self, host: Client, worker: str, secret: tuple[str, str], text: Mapping[str, str]) -> None:
        namespace, name = secret
        try:
            data = (await host.get(SECRETS, name, namespace)).get("data") or {}
            desired = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
            if any(data.get(key) != value for key, value in desired.items()):
                await host.merge_patch(SECRETS, name, {"data": desired}, namespace)
                log.info("worker %s: wrote Secret %s/%s: %s", worker, namespace, name, text[STATE])
            self._missing.discard(worker)
        except NotFound:
            if worker not in self._missing:
                log.warning("worker %s cannot join by itself: there is no Secret %s/%s", worker, namespace, name)
            self._missing.add(worker)


def join_state(worker: Object | None) -> str:
    if worker is None:
        return WAITING
    if worker_join.is_expelled(worker):
        return EXPELLED
    return WAITING if needs_token(worker) else JOINED
