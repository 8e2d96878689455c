"""Join tokens for workers of bundles: created by the hub, short-lived, for one name, never shown to anyone else."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.clock import Clock, rfc3339
from shoal.fleet.bundle.decide import good_token
from shoal.fleet.resources import SECRETS
from shoal.kinds import joining
from shoal.objects.errors import NotFound
from shoal.runtime.loop import Later

Object = dict[str, Any]

BUNDLE = "shoal.dev/bundle"
"""Label of the token's Secret: the Worker it is for."""
SECONDS = 3600.0


class Tokens:
    """The tokens by Worker. `on_change` is called with the name of a Worker whose tokens have changed."""

    def __init__(self, client: Client, clock: Clock, changed: Callable[[str], None]) -> None:
        self._client, self._clock, self._changed = client, clock, changed
        self._workers: dict[Key, str] = {}
        fields = f"metadata.namespace={joining.TOKEN_NAMESPACE}"
        self._view = Reflector(client, SECRETS, clock, self._seen, labels=BUNDLE, fields=fields)
        self.run = self._view.run

    def _seen(self, key: Key, obj: Object | None) -> None:
        if obj is not None:
            self._workers[key] = obj["metadata"]["labels"][BUNDLE]
        worker = self._workers.get(key, "") if obj is not None else self._workers.pop(key, "")
        self._changed(worker)

    def _of(self, worker: str) -> list[Object]:
        if not self._view.synced:
            raise Later("the join tokens have not been listed yet")
        return [obj for key, obj in self._view.objects.items() if self._workers.get(key) == worker]

    async def ensure(self, worker: str) -> str:
        """Returns a token the worker can join with, an existing one or a new one."""
        found = good_token(self._of(worker), worker, self._clock.now())
        if found:
            return found
        # Read again from the API: a token created a moment ago may not be in the cache yet.
        there, _ = await self._client.list_all(SECRETS, joining.TOKEN_NAMESPACE, labels=f"{BUNDLE}={worker}")
        return good_token(there, worker, self._clock.now()) or await self._make(worker)

    async def _make(self, worker: str) -> str:
        token = _letters(joining.ID_LENGTH), _letters(joining.SECRET_LENGTH)
        body = joining.token_secret(token, rfc3339(self._clock.now() + SECONDS), worker)
        body["metadata"]["labels"] = {BUNDLE: worker}
        await self._client.create(SECRETS, body, joining.TOKEN_NAMESPACE)
        return ".".join(token)

    async def forget(self, worker: str) -> None:
        """Deletes the Worker's tokens: it has joined or is gone."""
        for obj in self._of(worker):
            with suppress(NotFound):
                metadata = obj["metadata"]
                await self._client.delete(SECRETS, metadata["name"], metadata["namespace"], uid=metadata["uid"])


def _letters(count: int) -> str:
    return "".join(secrets.choice(joining.LETTERS) for _ in range(count))
