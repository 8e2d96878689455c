"""Join tokens that the hub creates for one Worker: short-lived, for one name, deleted when the worker has joined."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import yaml

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.resources import SECRETS
from shoal.kinds.fleet import infrav1, worker_join
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound
from shoal.runtime.controller import RequeueError
from shoal.runtime.informer import Informer

Object = dict[str, Any]

TOKEN_SECONDS = 3600.0


def needs_token(worker: Object) -> bool:
    """True until the worker is heard. One that becomes silent may have lost its certificate: a token for the same store
    helps.
    """
    joined = (worker["metadata"].get("annotations") or {}).get(infrav1.STORE_ANNOTATION)
    return not worker_join.is_expelled(worker) and not (joined and condition_is(worker, infrav1.READY))


def usable_token(secrets: Iterable[Object], worker: str, now: float, *, unused: bool = False) -> str:
    """Returns the Worker's join token that expires last; empty if there is none. `unused`: one that no request has
    used yet.
    """
    tokens = [token for secret in secrets if (token := worker_join.token_from_secret(secret)) is not None]
    usable = [
        token
        for token in tokens
        if token.is_join_token
        and token.worker == worker
        and not token.is_expired(now)
        and not (unused and token.request_uid)
    ]
    best = max(usable, key=lambda token: (token.expires_at or 0.0, token.id), default=None)
    return f"{best.id}.{best.secret}" if best is not None else ""


class HubJoinTokens:
    """The tokens by Worker. `label` of a token's Secret is the name of its Worker. `on_change` is called with the name
    of a Worker whose tokens have changed.
    """

    def __init__(self, client: Client, clock: Clock, label: str, on_change: Callable[[str], None]) -> None:
        self._client, self._clock, self._label, self._on_change = client, clock, label, on_change
        fields = f"metadata.namespace={worker_join.TOKEN_NAMESPACE}"
        self._secrets = Informer(client, SECRETS, clock, labels=label, fields=fields, indexers=(self._by_worker,))
        self._secrets.add_event_handler(self._on_secret)
        self.run = self._secrets.run

    def _by_worker(self, key: Key, secret: Object) -> tuple[str]:
        return (self._worker_of(secret),)

    def _worker_of(self, secret: Object) -> str:
        return str((secret["metadata"].get("labels") or {}).get(self._label, ""))

    def _on_secret(self, key: Key, old: Object | None, new: Object | None) -> None:
        for secret in (old, new):
            if secret is not None:
                self._on_change(self._worker_of(secret))

    def _secrets_of(self, worker: str) -> list[Object]:
        if not self._secrets.has_synced:
            raise RequeueError("informer of join tokens has not synced yet")
        return self._secrets.by_index(self._by_worker, worker)

    async def ensure(self, worker: str, *, unused: bool = False) -> str:
        """Returns a token the worker can join with, an existing one or a new one."""
        token = usable_token(self._secrets_of(worker), worker, self._clock.now(), unused=unused)
        if token:
            return token
        # Read again from the API: a token created a moment ago may not be in the cache yet.
        labels = f"{self._label}={worker}"
        secret_list, _ = await self._client.list_all(SECRETS, worker_join.TOKEN_NAMESPACE, labels=labels)
        token = usable_token(secret_list, worker, self._clock.now(), unused=unused)
        return token or await self._create(worker)

    async def _create(self, worker: str) -> str:
        token = _random_letters(worker_join.ID_LENGTH), _random_letters(worker_join.SECRET_LENGTH)
        body = worker_join.new_token_secret(token, rfc3339(self._clock.now() + TOKEN_SECONDS), worker)
        body["metadata"]["labels"] = {self._label: worker}
        await self._client.create(SECRETS, body, worker_join.TOKEN_NAMESPACE)
        return ".".join(token)

    async def revoke(self, worker: str) -> None:
        """Deletes the Worker's tokens: it has joined or is gone."""
        for obj in self._secrets_of(worker):
            with suppress(NotFound):
                metadata = obj["metadata"]
                await self._client.delete(SECRETS, metadata["name"], metadata["namespace"], uid=metadata["uid"])


def _random_letters(count: int) -> str:
    return "".join(secrets.choice(worker_join.TOKEN_ALPHABET) for _ in range(count))


def hub_kubeconfig(server: str, ca: str, token: str, server_name: str = "") -> str:
    """Returns the kubeconfig with which the worker joins. Without a token it only identifies the hub, which is enough
    for a worker that has joined. `server_name` is the name in the hub's certificate; empty: the host of `server`.
    """
    user: Object = {"token": token} if token else {}
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(ca.encode()).decode()}
    if server_name:
        cluster["tls-server-name"] = server_name
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": cluster}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "joining"}}],
        "current-context": "hub",
        "users": [{"name": "joining", "user": user}],
    }
    return yaml.safe_dump(config, sort_keys=False)
