"""Encodes objects for storage, writes and removes them, and builds the errors of lost races."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from shoal.apiserver.cache.cacher import TOMBSTONE, CachedObject, store_key
from shoal.apiserver.cache.storage_form import encode, inject_revision
from shoal.apiserver.limits.refusals import LimitExceeded
from shoal.apiserver.registry.clusters import LOGICAL_CLUSTERS
from shoal.apiserver.request.info import ROOT
from shoal.apiserver.response.render import encode_object
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.webhooks.conversion import convert_entries, convert_objects
from shoal.objects.errors import AlreadyExists, Conflict, Forbidden, TooLarge
from shoal.store.interface import CompareFailed

Object = dict[str, Any]

MODIFIED_MESSAGE = "the object has been modified; please apply your changes to the latest version and try again"
PURGE_BATCH_SIZE = 256


MAX_OBJECT_BYTES = 1536 * 1024
"""As with upstream's default limit of etcd, whatever the store."""


def check_size(data: bytes, current: bytes = b"") -> None:
    """An object that is too large already may be changed, but not grow."""
    if len(data) > max(MAX_OBJECT_BYTES, len(current)):
        raise TooLarge(f"Request entity too large: limit is {MAX_OBJECT_BYTES}")


async def encode_for_storage(server: ServerComponents, ctx: RequestContext, obj: Object) -> bytes:
    """Encodes the object in the storage version, whatever version it was sent in."""
    resource = ctx.resource
    if resource.custom and resource.version != resource.storage_version:
        if resource.conversion is not None:
            storage = replace(resource, version=resource.storage_version)
            return encode((await convert_objects(server.webhooks.client, ctx.info.cluster, storage, [obj]))[0])
        obj = {**obj, "apiVersion": f"{resource.group}/{resource.storage_version}"}
    if resource.strategy.storage_alias is not None:
        obj = resource.strategy.storage_alias.to_stored(obj)
    return encode(obj)


async def encode_written(
    server: ServerComponents, ctx: RequestContext, revision: int, value: bytes, name: str
) -> bytes:
    """Returns the served bytes of the object just written and marks it as normalised in the cache. The response is what
    was stored, not what was sent.
    """
    resource = ctx.resource
    namespace = ctx.info.namespace
    entry: CachedObject | None = ctx.resource_cache.get(ctx.info.cluster, namespace, name)
    if entry is None or entry.revision != revision:
        entry = CachedObject(namespace, name, revision, inject_revision(value, revision))
    if resource.version == resource.storage_version:
        entry.normalised_for = resource.schema_hash
    if resource.conversion is not None:
        await convert_entries(server.webhooks.client, ctx.info.cluster, resource, [entry])
    return encode_object(resource, entry)


def put_within_limits(
    server: ServerComponents,
    ctx: RequestContext,
    name: str,
    value: bytes,
    old: CachedObject | None,
    expected_revision: int,
    *,
    essential: bool = False,
) -> asyncio.Future[int]:
    """Writes the object in place of `old` if the logical cluster has room for it. Raises Forbidden otherwise."""
    key, limits = storage_key(ctx, name), server.limits.storage
    try:
        reservation = limits.reserve(ctx.cluster, ctx.resource_cache.key, key, len(value), old, essential)
    except LimitExceeded as error:
        resource = ctx.resource
        raise Forbidden(
            f'{resource.group_resource} "{name}" is forbidden: {error}',
            name=name,
            group=resource.group,
            kind=resource.plural,
        ) from None
    if reservation is None:
        return server.store.put(key, value, expected_revision)
    try:
        written = server.store.put(key, value, expected_revision)
    except BaseException:
        limits.release(key, reservation)
        raise
    written.add_done_callback(lambda _: limits.release(key, reservation))
    return written


async def remove_object(server: ServerComponents, ctx: RequestContext, entry: CachedObject) -> int:
    """Removes the object from the store. A bootstrap object leaves a tombstone, or the shared one would reappear."""
    key, cluster = storage_key(ctx, entry.name), ctx.info.cluster
    if (ctx.resource.group, ctx.resource.plural) == LOGICAL_CLUSTERS and cluster == ROOT:
        await purge(server, entry.name)
    expected = 0 if entry.virtual else entry.revision
    if entry.virtual or ctx.resource_cache.is_bootstrap(cluster, entry.key):
        return await server.store.put(key, TOMBSTONE, expected)
    return await server.store.delete(key, expected)


async def purge(server: ServerComponents, cluster: str) -> None:
    """Deletes everything that a logical cluster stored, regardless of finalizers, right before its LogicalCluster is
    removed. No controller is left in it that could act on a finalizer, and no client can delete the tombstones of
    bootstrap objects.
    """
    while True:
        await server.store.flush()
        keys = _stored_keys(server, cluster)
        if not keys:
            return
        for start in range(0, len(keys), PURGE_BATCH_SIZE):
            await asyncio.gather(*(_delete_key(server, *item) for item in keys[start : start + PURGE_BATCH_SIZE]))


def _stored_keys(server: ServerComponents, cluster: str) -> list[tuple[str, int]]:
    """Keys and revisions of everything in the store. Unwritten bootstrap objects are not in it."""
    keys = []
    for kind in server.cache.resource_caches.values():
        table = kind.tables.get(cluster)
        if table is not None:
            keys += [
                (f"{kind.key}/{cluster}/{key}", entry.revision)
                for key, entry in table.entries.items()
                if not entry.virtual
            ]
        keys += [
            (f"{kind.key}/{cluster}/{key}", revision) for key, revision in kind.tombstones.get(cluster, {}).items()
        ]
    return keys


async def _delete_key(server: ServerComponents, key: str, revision: int) -> None:
    with suppress(CompareFailed):  # written meanwhile: the next round deletes it
        await server.store.delete(key, revision)


def storage_key(ctx: RequestContext, name: str) -> str:
    return store_key(ctx.resource_cache.key, ctx.info.cluster, ctx.info.namespace, name)


def conflict(ctx: RequestContext, reason: str = MODIFIED_MESSAGE, name: str = "") -> Conflict:
    name = name or ctx.name
    resource = ctx.resource
    return Conflict(
        f'Operation cannot be fulfilled on {resource.group_resource} "{name}": {reason}',
        name=name,
        group=resource.group,
        kind=resource.plural,
    )


def already_exists(ctx: RequestContext, name: str) -> AlreadyExists:
    resource = ctx.resource
    entry = ctx.resource_cache.get(ctx.info.cluster, ctx.namespace, name)
    deleting = entry is not None and "deletionTimestamp" in entry.object()["metadata"]
    message = f'{"object is being deleted: " if deleting else ""}{resource.group_resource} "{name}" already exists'
    return AlreadyExists(message, name=name, group=resource.group, kind=resource.plural)
