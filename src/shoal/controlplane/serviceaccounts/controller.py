"""Ensures the ServiceAccount `default` and the root CA ConfigMap in every namespace, and completes token Secrets.

Bootstrap namespaces have theirs from the start. The wildcard cluster shows only written objects, so an untouched
cluster is never reconciled. The root CA is for pods: clusters of profile `cluster` have it, hubs do not. What is made
of a cluster's keys follows their rotation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.controlplane.serviceaccounts.decide import (
    TOKEN_TYPE,
    account_of,
    is_active,
    is_orphaned,
    needs_token,
    root_ca_update,
    token_secret_patch,
)
from shoal.kinds.core.serviceaccount import (
    DEFAULT_SERVICE_ACCOUNT,
    ROOT_CA_CONFIG_MAP,
    default_service_account,
    root_ca_config_map,
)
from shoal.kinds.fleet.keys import keys_in_force
from shoal.kinds.fleet.logicalcluster import GROUP, PLURAL, VERSION
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.controller import Controller
from shoal.runtime.informer import Informer

Object = dict[str, Any]

NAMESPACES = GroupVersionResource("", "v1", "namespaces", namespaced=False)
SERVICE_ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
SECRETS = GroupVersionResource("", "v1", "secrets")
LOGICAL_CLUSTERS = GroupVersionResource(GROUP, VERSION, PLURAL, namespaced=False)
MAX_TOKEN_SECONDS = 1 << 32
"""Seconds: the maximum lifetime of a token. Such a token is revoked by deleting its Secret."""
ROOT = "root"
ROOT_CHECK_SECONDS = 60.0
"""How often the root CA of root is compared: it has the server's own authority, whose replacement no object shows."""


RootCA = Callable[[str], Awaitable[str]]
"""Logical cluster -> the certificates, as PEM, that programs inside it trust."""


def new_service_account_controllers(client: Client, clock: Clock, root_ca: RootCA) -> list[Controller[Key]]:
    return [
        ServiceAccountReconciler(client.as_controller("service-account-controller"), clock, root_ca).controller,
        TokenSecretReconciler(client.as_controller("tokens-controller"), clock, root_ca).controller,
    ]


class ServiceAccountReconciler:
    """Keys are namespaces."""

    def __init__(self, client: Client, clock: Clock, root_ca: RootCA) -> None:
        self._client, self._root_ca = client, root_ca
        self.controller: Controller[Key] = Controller("serviceaccounts", clock, self.reconcile)
        wildcard = client.in_cluster("*")
        self.controller.watch(Informer(wildcard, NAMESPACES, clock), self._on_namespace)
        accounts = Informer(wildcard, SERVICE_ACCOUNTS, clock, fields=f"metadata.name={DEFAULT_SERVICE_ACCOUNT}")
        self._config_maps = Informer(
            wildcard, CONFIG_MAPS, clock, fields=f"metadata.name={ROOT_CA_CONFIG_MAP}", indexers=(by_cluster,)
        )
        for informer in (accounts, self._config_maps):
            self.controller.watch(informer, self._on_managed_object)
        self.controller.watch(Informer(client, LOGICAL_CLUSTERS, clock), self._on_logical_cluster)

    def _on_namespace(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and is_active(new):
            self.controller.queue.add((key[0], "", key[2]))

    def _on_managed_object(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None or new["metadata"]["name"] == ROOT_CA_CONFIG_MAP:
            self.controller.queue.add((key[0], "", key[1]))

    def _on_logical_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        if has_rotated(old, new):
            for config_map in self._config_maps.by_index(by_cluster, key[2]):
                self.controller.queue.add((key[2], "", config_map["metadata"]["namespace"]))

    async def reconcile(self, key: Key) -> float | None:
        cluster, _, name = key
        client = self._client.in_cluster(cluster)
        try:
            if not is_active(await client.get(NAMESPACES, name)):
                return None
            await self._ensure_account(client, name)
            logical_cluster = await self._client.in_cluster(ROOT).get(LOGICAL_CLUSTERS, cluster)
        except NotFound:
            return None  # the namespace or its cluster was deleted
        if (logical_cluster.get("spec") or {}).get("profile") != "cluster":
            return None
        await self._ensure_root_ca(client, name, await self._root_ca(cluster))
        return ROOT_CHECK_SECONDS if cluster == ROOT else None

    async def _ensure_account(self, client: Client, namespace: str) -> None:
        try:
            await client.get(SERVICE_ACCOUNTS, DEFAULT_SERVICE_ACCOUNT, namespace)
        except NotFound:
            await _create_if_absent(client, SERVICE_ACCOUNTS, default_service_account(namespace), namespace)

    async def _ensure_root_ca(self, client: Client, namespace: str, root_ca: str) -> None:
        try:
            new = root_ca_update(await client.get(CONFIG_MAPS, ROOT_CA_CONFIG_MAP, namespace), root_ca)
        except NotFound:
            await _create_if_absent(client, CONFIG_MAPS, root_ca_config_map(namespace, root_ca), namespace)
            return
        if new is not None:
            await client.update(CONFIG_MAPS, new)


class TokenSecretReconciler:
    """Keys are Secrets of type `kubernetes.io/service-account-token`."""

    def __init__(self, client: Client, clock: Clock, root_ca: RootCA) -> None:
        self._client, self._root_ca = client, root_ca
        self.controller: Controller[Key] = Controller("serviceaccount-tokens", clock, self.reconcile)
        wildcard = client.in_cluster("*")
        self._secrets = Informer(
            wildcard, SECRETS, clock, fields=f"type={TOKEN_TYPE}", indexers=(by_account, by_cluster)
        )
        self.controller.watch(self._secrets, self._on_secret)
        self.controller.watch(Informer(wildcard, SERVICE_ACCOUNTS, clock), self._on_account)
        self.controller.watch(Informer(client, LOGICAL_CLUSTERS, clock), self._on_logical_cluster)

    def _on_secret(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.controller.queue.add(key)

    def _on_account(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            for secret in self._secrets.by_index(by_account, key):
                self.controller.queue.add(key_of(secret))

    def _on_logical_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        if has_rotated(old, new):
            for secret in self._secrets.by_index(by_cluster, key[2]):
                self.controller.queue.add(key_of(secret))

    async def reconcile(self, key: Key) -> float | None:
        cluster, namespace, name = key
        client = self._client.in_cluster(cluster)
        try:
            secret = await client.get(SECRETS, name, namespace)
            logical_cluster = await self._client.in_cluster(ROOT).get(LOGICAL_CLUSTERS, cluster)
        except NotFound:
            return None
        if secret.get("type") != TOKEN_TYPE or "deletionTimestamp" in secret["metadata"]:
            return None
        owner = await self._get_account(client, secret)
        if owner is None or is_orphaned(secret, owner):
            await client.delete(SECRETS, name, namespace, uid=secret["metadata"]["uid"])
            return None
        generation = keys_in_force(logical_cluster).generation
        token = await self._request_token(client, secret, owner) if needs_token(secret, generation) else ""
        patch = token_secret_patch(secret, owner, await self._root_ca(cluster), token, generation)
        if patch is not None:
            await client.merge_patch(SECRETS, name, patch, namespace)
        return ROOT_CHECK_SECONDS if cluster == ROOT else None

    async def _get_account(self, client: Client, secret: Object) -> Object | None:
        try:
            return await client.get(SERVICE_ACCOUNTS, account_of(secret), secret["metadata"]["namespace"])
        except NotFound as error:
            if error.kind != SERVICE_ACCOUNTS.resource:
                raise
            return None

    async def _request_token(self, client: Client, secret: Object, owner: Object) -> str:
        metadata = secret["metadata"]
        bound = {"kind": "Secret", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
        path = client.resource_path(SERVICE_ACCOUNTS, owner["metadata"]["name"], metadata["namespace"], "token")
        answer = await client.request(
            "POST", path, body={"spec": {"expirationSeconds": MAX_TOKEN_SECONDS, "boundObjectRef": bound}}
        )
        return str(answer["status"]["token"])


def by_account(key: Key, secret: Object) -> tuple[Key]:
    """Index of token Secrets by service account."""
    return ((key[0], key[1], account_of(secret)),)


def by_cluster(key: Key, obj: Object) -> Iterable[str]:
    """Index by logical cluster."""
    return (key[0],)


def has_rotated(old: Object | None, new: Object | None) -> bool:
    """Whether the keys of a LogicalCluster have changed. An unknown former state counts as one that was never
    rotated.
    """
    return new is not None and keys_in_force(new) != keys_in_force(old or {})


async def _create_if_absent(client: Client, gvr: GroupVersionResource, obj: Object, namespace: str) -> None:
    try:
        await client.create(gvr, obj, namespace)
    except AlreadyExists:
        return
