"""Approves CertificateSigningRequests of workers, deletes expired join tokens and keeps the workers' namespace.

A token is annotated with the request before the request is approved. A controller that is killed in between finds its
own annotation.
"""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.fleet.joining.decide import decide, decided, is_open, token_of
from shoal.fleet.resources import NAMESPACES, REQUESTS, SECRETS, WORKERS
from shoal.kinds import fleet, joining
from shoal.kinds.certificate_requests import Asked, read_request
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.loop import Loop

Object = dict[str, Any]


def joining_loops(client: Client, clock: Clock) -> list[Loop[Key]]:
    """Returns the join controllers. `client` is for the hub's root."""
    return [Approval(client, clock).loop, Expiry(client, clock).loop, Home(client, clock).loop]


class Approval:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        # One at a time: of two requests with one token, the second sees the annotation of the first.
        self.loop: Loop[Key] = Loop("fleet-joining", clock, self.reconcile, workers=1)
        self._requests = Reflector(client, REQUESTS, clock, self._changed, fields=f"spec.signerName={joining.SIGNER}")
        self.loop.sources.append(self._requests.run)

    def _changed(self, key: Key, request: Object | None) -> None:
        if request is not None and is_open(request):
            self.loop.queue.add(key)

    async def reconcile(self, key: Key) -> None:
        request = self._requests.objects.get(key)
        if request is None or not is_open(request):
            return
        asked, id_ = _asked(request), token_of(request)
        name = asked.common_name.removeprefix(joining.PREFIX) if asked is not None else ""
        secret = await self._find(SECRETS, joining.secret_name(id_), joining.TOKEN_NAMESPACE) if id_ else None
        worker = await self._find(WORKERS, name, fleet.NAMESPACE) if name and not joining.wrong_name(name) else None
        token = joining.read_token(secret) if secret is not None else None
        verdict = decide(request, asked, token, worker, self._clock.now())
        if verdict is None:
            return
        if verdict.claims and secret is not None:
            mark = {joining.USED_BY: name, joining.REQUEST: request["metadata"]["uid"]}
            patch = {"resourceVersion": secret["metadata"]["resourceVersion"], "annotations": mark}
            await self._client.merge(SECRETS, secret["metadata"]["name"], {"metadata": patch}, joining.TOKEN_NAMESPACE)
        with suppress(NotFound):
            await self._client.update(REQUESTS, decided(request, verdict), "approval")

    async def _find(self, kind: Kind, name: str, namespace: str) -> Object | None:
        try:
            return await self._client.get(kind, name, namespace)
        except NotFound:
            return None


def _asked(request: Object) -> Asked | None:
    try:
        return read_request(base64.b64decode(request["spec"].get("request") or ""))
    except ValueError:
        return None


class Expiry:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.loop: Loop[Key] = Loop("fleet-join-tokens", clock, self.reconcile, workers=1)
        fields = f"type={joining.TOKEN_TYPE}"
        self._secrets = Reflector(client, SECRETS, clock, lambda key, _: self.loop.queue.add(key), fields=fields)
        self.loop.sources.append(self._secrets.run)

    async def reconcile(self, key: Key) -> float | None:
        secret = self._secrets.objects.get(key)
        token = joining.read_token(secret) if secret is not None and key[1] == joining.TOKEN_NAMESPACE else None
        if secret is None or token is None or token.expires is None:
            return None
        if not token.has_expired(self._clock.now()):
            return token.expires - self._clock.now()
        with suppress(NotFound):
            await self._client.delete(SECRETS, key[2], key[1], uid=secret["metadata"]["uid"])
        return None


class Home:
    """Creates the workers' namespace before the first worker joins: workers may not create it."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self.loop: Loop[Key] = Loop("fleet-home", clock, self.reconcile, workers=1)
        fields = f"metadata.name={fleet.NAMESPACE}"
        self._namespaces = Reflector(
            client, NAMESPACES, clock, lambda key, _: self._look(), fields=fields, listed=self._look
        )
        self.loop.sources.append(self._namespaces.run)

    def _look(self) -> None:
        self.loop.queue.add(("", "", fleet.NAMESPACE))

    async def reconcile(self, key: Key) -> None:
        if self._namespaces.synced and key not in self._namespaces.objects:
            await ensure_home(self._client)


async def ensure_home(client: Client) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": fleet.NAMESPACE}}
    with suppress(AlreadyExists):
        await client.create(NAMESPACES, namespace)
