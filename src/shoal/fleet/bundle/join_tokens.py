"""Join tokens for workers of bundles: created by the hub, short-lived, for one name, never shown to anyone else."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.bundle.decide import usable_token
from shoal.fleet.resources import SECRETS
from shoal.kinds.fleet import worker_join
from shoal.objects.errors import NotFound
from shoal.runtime.controller import RequeueError
from shoal.runtime.informer import Informer

Object = dict[str, Any]

BUNDLE_LABEL = "shoal.dev/bundle"
"""Label of the token's Secret: the Worker it is for."""
TOKEN_SECONDS = 3600.0


def by_bundle_worker(key: Key, secret: Object) -> tuple[str]:
    """Index by the Worker that a token is for."""
    return (_worker_of(secret),)


def _worker_of(secret: Object) -> str:
    return str((secret["metadata"].get("labels") or {}).get(BUNDLE_LABEL, ""))


class BundleJoinTokens:
    """The tokens by Worker. `on_change` is called with the name of a Worker whose tokens have changed."""

    def __init__(self, client: Client, clock: Clock, on_change: Callable[[str], None]) -> None:
        self._client, self._clock, self._on_change = client, clock, on_change
        fields = f"metadata.namespace={worker_join.TOKEN_NAMESPACE}"
        self._secrets = Informer(
            client, SECRETS, clock, labels=BUNDLE_LABEL, fields=fields, indexers=(by_bundle_worker,)
        )
        self._secrets.add_event_handler(self._on_secret)
        self.run = self._secrets.run

    def _on_secret(self, key: Key, old: Object | None, new: Object | None) -> None:
        for secret in (old, new):
            if secret is not None:
                self._on_change(_worker_of(secret))

    def _secrets_of(self, worker: str) -> list[Object]:
        if not self._secrets.has_synced:
            raise RequeueError("informer of join tokens has not synced yet")
        return self._secrets.by_index(by_bundle_worker, worker)

    async def ensure(self, worker: str) -> str:
        """Returns a token the worker can join with, an existing one or a new one."""
        token = usable_token(self._secrets_of(worker), worker, self._clock.now())
        if token:
            return token
        # Read again from the API: a token created a moment ago may not be in the cache yet.
        secret_list, _ = await self._client.list_all(
            SECRETS, worker_join.TOKEN_NAMESPACE, labels=f"{BUNDLE_LABEL}={worker}"
        )
        return usable_token(secret_list, worker, self._clock.now()) or await self._create(worker)

    async def _create(self, worker: str) -> str:
        token = _random_letters(worker_join.ID_LENGTH), _random_letters(worker_join.SECRET_LENGTH)
        body = worker_join.new_token_secret(token, rfc3339(self._clock.now() + TOKEN_SECONDS), worker)
        body["metadata"]["labels"] = {BUNDLE_LABEL: worker}
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
