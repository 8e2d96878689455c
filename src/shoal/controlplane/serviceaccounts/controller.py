"""Ensures the ServiceAccount `default` and the root CA ConfigMap in every namespace, and completes token Secrets.

Bootstrap namespaces have theirs from the start. The wildcard cluster shows only written objects, so an untouched
cluster is never reconciled. The root CA is for pods: clusters of profile `cluster` have it, hubs do not.
"""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.controlplane.serviceaccounts.decide import (
    TOKEN_TYPE,
    account_of,
    is_active,
    is_orphaned,
    missing,
    needs_token,
    repaired,
)
from shoal.kinds.accounts import ACCOUNT, ROOT_CA, default_account, root_ca
from shoal.kinds.logicalcluster import GROUP, PLURAL, VERSION
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.loop import Loop

Object = dict[str, Any]

NAMESPACES = Kind("", "v1", "namespaces", namespaced=False)
ACCOUNTS = Kind("", "v1", "serviceaccounts")
CONFIG_MAPS = Kind("", "v1", "configmaps")
SECRETS = Kind("", "v1", "secrets")
CLUSTERS = Kind(GROUP, VERSION, PLURAL, namespaced=False)
FOREVER = 1 << 32
"""Seconds: the maximum lifetime of a token. Such a token is revoked by deleting its Secret."""


def service_account_loops(client: Client, clock: Clock, authority: str) -> list[Loop[Key]]:
    """`ca_cert` is the PEM certificate that clients of this server trust."""
    return [NamespaceAccounts(client, clock, authority).loop, TokenSecrets(client, clock, authority).loop]


class NamespaceAccounts:
    """Keys are namespaces."""

    def __init__(self, client: Client, clock: Clock, authority: str) -> None:
        self._client, self._authority = client, authority
        self.loop: Loop[Key] = Loop("serviceaccounts", clock, self.reconcile)
        wildcard = client.at("*")
        self.loop.sources += [
            Reflector(wildcard, NAMESPACES, clock, self._namespace, shared=True).run,
            Reflector(wildcard, ACCOUNTS, clock, self._member, fields=f"metadata.name={ACCOUNT}").run,
            Reflector(wildcard, CONFIG_MAPS, clock, self._member, fields=f"metadata.name={ROOT_CA}").run,
        ]

    def _namespace(self, key: Key, obj: Object | None) -> None:
        if obj is not None and is_active(obj):
            self.loop.queue.add((key[0], "", key[2]))

    def _member(self, key: Key, obj: Object | None) -> None:
        if obj is None or (obj["metadata"]["name"] == ROOT_CA and repaired(obj, self._authority) is not None):
            self.loop.queue.add((key[0], "", key[1]))

    async def reconcile(self, key: Key) -> None:
        cluster, _, name = key
        client = self._client.at(cluster)
        try:
            if not is_active(await client.get(NAMESPACES, name)):
                return
            await self._ensure_account(client, name)
            home = await self._client.at("root").get(CLUSTERS, cluster)
        except NotFound:
            return  # the namespace or its cluster was deleted
        if (home.get("spec") or {}).get("profile") == "cluster":
            await self._ensure_root_ca(client, name)

    async def _ensure_account(self, client: Client, namespace: str) -> None:
        try:
            await client.get(ACCOUNTS, ACCOUNT, namespace)
        except NotFound:
            await _create(client, ACCOUNTS, default_account(namespace), namespace)

    async def _ensure_root_ca(self, client: Client, namespace: str) -> None:
        try:
            new = repaired(await client.get(CONFIG_MAPS, ROOT_CA, namespace), self._authority)
        except NotFound:
            await _create(client, CONFIG_MAPS, root_ca(namespace, self._authority), namespace)
            return
        if new is not None:
            await client.update(CONFIG_MAPS, new)


class TokenSecrets:
    """Keys are Secrets of type `kubernetes.io/service-account-token`."""

    def __init__(self, client: Client, clock: Clock, authority: str) -> None:
        self._client, self._authority = client, authority
        self.loop: Loop[Key] = Loop("serviceaccount-tokens", clock, self.reconcile)
        self._secrets = Reflector(client.at("*"), SECRETS, clock, self._secret, fields=f"type={TOKEN_TYPE}")
        self._accounts: dict[Key, Key] = {}
        self._of: dict[Key, set[Key]] = {}
        """Secrets by service account; the inverse of `_account_by_secret`."""
        self.loop.sources += [self._secrets.run, Reflector(client.at("*"), ACCOUNTS, clock, self._account).run]

    def _secret(self, key: Key, obj: Object | None) -> None:
        before = self._accounts.pop(key, None)
        if before is not None:
            self._of[before].discard(key)
            if not self._of[before]:
                del self._of[before]
        if obj is not None:
            owner = self._accounts[key] = (key[0], key[1], account_of(obj))
            self._of.setdefault(owner, set()).add(key)
            self.loop.queue.add(key)

    def _account(self, key: Key, obj: Object | None) -> None:
        if obj is None:
            for secret in self._of.get(key, ()):
                self.loop.queue.add(secret)

    async def reconcile(self, key: Key) -> None:
        cluster, namespace, name = key
        client = self._client.at(cluster)
        try:
            secret = await client.get(SECRETS, name, namespace)
        except NotFound:
            return
        if secret.get("type") != TOKEN_TYPE or "deletionTimestamp" in secret["metadata"]:
            return
        owner = await self._owner(client, secret)
        if owner is None or is_orphaned(secret, owner):
            await client.delete(SECRETS, name, namespace, uid=secret["metadata"]["uid"])
            return
        token = await self._token(client, secret, owner) if needs_token(secret) else ""
        patch = missing(secret, owner, self._authority, token)
        if patch is not None:
            await client.merge(SECRETS, name, patch, namespace)

    async def _owner(self, client: Client, secret: Object) -> Object | None:
        try:
            return await client.get(ACCOUNTS, account_of(secret), secret["metadata"]["namespace"])
        except NotFound as error:
            if error.kind != ACCOUNTS.plural:
                raise
            return None

    async def _token(self, client: Client, secret: Object, owner: Object) -> str:
        metadata = secret["metadata"]
        bound = {"kind": "Secret", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
        path = client.path(ACCOUNTS, owner["metadata"]["name"], metadata["namespace"], "token")
        answer = await client.call("POST", path, body={"spec": {"expirationSeconds": FOREVER, "boundObjectRef": bound}})
        return str(answer["status"]["token"])


async def _create(client: Client, kind: Kind, obj: Object, namespace: str) -> None:
    try:
        await client.create(kind, obj, namespace)
    except AlreadyExists:
        return
