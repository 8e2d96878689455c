"""Approves CertificateSigningRequests of workers, deletes expired join tokens and keeps the workers' namespaces.

The token and the Worker are annotated with the request before the request is approved. A controller that is killed in
between finds its own annotations.
"""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.fleet.join.decide import decide, is_pending, joined_patch, joined_worker, token_id_of, with_decision
from shoal.fleet.resources import CSRS, NAMESPACES, SECRETS, WORKERS
from shoal.kinds.certificates.pem import CSRSubject, parse_request
from shoal.kinds.fleet import cluster_log, infrav1, worker_join
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.controller import Controller, new_kind_controller
from shoal.runtime.informer import Informer

Object = dict[str, Any]


def new_join_controllers(client: Client, clock: Clock) -> list[Controller[Key]]:
    """Returns the join controllers. `client` is for the hub's root."""
    return [
        CSRApprovalReconciler(client, clock).controller,
        TokenExpiryReconciler(client, clock).controller,
        WorkerNamespaceReconciler(client, clock).controller,
    ]


class CSRApprovalReconciler:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        # One at a time: of two requests with one token, the second sees the annotation of the first.
        csrs = Informer(client, CSRS, clock, fields=f"spec.signerName={worker_join.SIGNER_NAME}")
        self.controller = new_kind_controller("fleet-joining", csrs, clock, is_pending, self.reconcile, workers=1)

    async def reconcile(self, key: Key, csr: Object) -> None:
        csr_subject, token_id = _parse_csr(csr), token_id_of(csr)
        name = csr_subject.common_name.removeprefix(worker_join.USER_PREFIX) if csr_subject is not None else ""
        secret = (
            await self._get_or_none(SECRETS, worker_join.secret_name(token_id), worker_join.TOKEN_NAMESPACE)
            if token_id
            else None
        )
        worker = (
            await self._get_or_none(WORKERS, name, infrav1.NAMESPACE)
            if name and not worker_join.name_error(name)
            else None
        )
        token = worker_join.token_from_secret(secret) if secret is not None else None
        decision = decide(csr, csr_subject, token, worker, self._clock.now())
        if decision is None:
            return
        if decision.claims_token and secret is not None:
            claim = {worker_join.USED_BY_ANNOTATION: name, worker_join.REQUEST_UID_ANNOTATION: csr["metadata"]["uid"]}
            patch = {"resourceVersion": secret["metadata"]["resourceVersion"], "annotations": claim}
            await self._client.merge_patch(
                SECRETS, secret["metadata"]["name"], {"metadata": patch}, worker_join.TOKEN_NAMESPACE
            )
        if decision.joins:
            await self._ensure_joined(csr, name, worker)
        with suppress(NotFound):
            await self._client.update(CSRS, with_decision(csr, decision), "approval")

    async def _ensure_joined(self, csr: Object, name: str, worker: Object | None) -> None:
        """Certificates are bound to the uid of the Worker, so it exists before the certificate does."""
        if worker is None:
            await ensure_worker_namespace(self._client)
            await self._client.create(WORKERS, joined_worker(csr, name), infrav1.NAMESPACE)
            return
        patch = joined_patch(csr, worker)
        if patch is not None:
            await self._client.merge_patch(WORKERS, name, patch, infrav1.NAMESPACE)

    async def _get_or_none(self, kind: GroupVersionResource, name: str, namespace: str) -> Object | None:
        try:
            return await self._client.get(kind, name, namespace)
        except NotFound:
            return None


def _parse_csr(csr: Object) -> CSRSubject | None:
    try:
        return parse_request(base64.b64decode(csr["spec"].get("request") or ""))
    except ValueError:
        return None


class TokenExpiryReconciler:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.controller: Controller[Key] = Controller("fleet-join-tokens", clock, self.reconcile, workers=1)
        fields = f"type={worker_join.TOKEN_SECRET_TYPE}"
        self._secrets = Informer(client, SECRETS, clock, fields=fields)
        self.controller.watch(self._secrets, lambda key, old, new: self.controller.queue.add(key))

    async def reconcile(self, key: Key) -> float | None:
        secret = self._secrets.get(key)
        token = (
            worker_join.token_from_secret(secret)
            if secret is not None and key[1] == worker_join.TOKEN_NAMESPACE
            else None
        )
        if secret is None or token is None or token.expires_at is None:
            return None
        if not token.is_expired(self._clock.now()):
            return token.expires_at - self._clock.now()
        with suppress(NotFound):
            await self._client.delete(SECRETS, key[2], key[1], uid=secret["metadata"]["uid"])
        return None


class WorkerNamespaceReconciler:
    """Creates the namespaces of workers and of logs before the first worker joins: workers may not create them."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self.controller: Controller[Key] = Controller("fleet-home", clock, self.reconcile, workers=1)
        self._namespaces = [
            Informer(client, NAMESPACES, clock, fields=f"metadata.name={name}") for _, _, name in _NAMESPACE_KEYS
        ]
        for informer in self._namespaces:
            informer.on_sync(self._enqueue)
            self.controller.watch(informer, lambda key, old, new: self._enqueue())

    def _enqueue(self) -> None:
        self.controller.queue.add(_NAMESPACE_KEYS[0])

    async def reconcile(self, key: Key) -> None:
        present = {key for informer in self._namespaces for key in informer.objects}
        if all(informer.has_synced for informer in self._namespaces) and not present.issuperset(_NAMESPACE_KEYS):
            await ensure_worker_namespace(self._client)


_NAMESPACE_KEYS: tuple[Key, ...] = (("", "", cluster_log.NAMESPACE), ("", "", infrav1.NAMESPACE))


async def ensure_worker_namespace(client: Client) -> None:
    """Creates the namespace of Workers, and before it the one of the logs that workers write."""
    for _, _, name in _NAMESPACE_KEYS:
        with suppress(AlreadyExists):
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
