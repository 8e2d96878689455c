"""The last step of a write: one compare-and-swap in the store. A lost race leaves the write without a response."""

from __future__ import annotations

from collections.abc import Awaitable

from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.cache.storage_form import encode, inject_revision
from shoal.apiserver.write.attempt import Write
from shoal.apiserver.write.storage import (
    MAX_OBJECT_BYTES,
    already_exists,
    check_size,
    encode_for_storage,
    encode_written,
    put_within_limits,
    remove_object,
)
from shoal.apiserver.write.strategy import STATUS_SUBRESOURCES, can_be_removed
from shoal.objects.errors import AlreadyExists
from shoal.store.interface import CompareFailed

GENERATE_ATTEMPTS = 8


def compare_and_swap(write: Write) -> Awaitable[None]:
    return _create(write) if write.entry is None else _update(write, write.entry)


async def _create(write: Write) -> None:
    metadata = write.new["metadata"]
    for attempt in range(GENERATE_ATTEMPTS):
        try:
            await _create_as(write, metadata["name"])
            return
        except AlreadyExists:
            if not write.generated or attempt == GENERATE_ATTEMPTS - 1:
                raise
            metadata["name"] = metadata["generateName"][:58] + write.server.name_generator.suffix()


async def _create_as(write: Write, name: str) -> None:
    server, ctx = write.server, write.ctx
    cluster, namespace = ctx.info.cluster, ctx.info.namespace
    if ctx.resource_cache.get(cluster, namespace, name) is not None:
        raise already_exists(ctx, name)
    if write.plan.options.dry_run:
        data = encode(write.new)
        check_size(data)
        write.respond(data)
        return
    value = await encode_for_storage(server, ctx, write.new)
    if len(value) > MAX_OBJECT_BYTES:
        check_size(value)
    tombstone_revision = ctx.resource_cache.tombstones.get(cluster, {}).get(f"{namespace}/{name}", 0)
    try:
        revision = await put_within_limits(server, ctx, name, value, None, tombstone_revision)
    except CompareFailed:
        # The other object may still be on its way to the cache. A client that gets AlreadyExists must be able to read
        # it.
        await server.store.flush()
        raise already_exists(ctx, name) from None
    write.respond(await encode_written(server, ctx, revision, value, name))


async def _update(write: Write, entry: CachedObject) -> None:
    server, ctx, new = write.server, write.ctx, write.new
    if write.plan.options.dry_run:
        data = encode(new)
        check_size(data, entry.data)
        write.respond(inject_revision(data, entry.revision))
        return
    try:
        if can_be_removed(new):
            await remove_object(server, ctx, entry)
            write.respond(inject_revision(encode(new), entry.revision))
            return
        value = await encode_for_storage(server, ctx, new)
        if len(value) > MAX_OBJECT_BYTES:
            check_size(value, entry.data)
        expected_revision = 0 if entry.virtual else entry.revision
        revision = await put_within_limits(
            server, ctx, entry.name, value, entry, expected_revision, essential=_is_essential(write)
        )
    except CompareFailed:
        await server.store.flush()
        return
    write.respond(await encode_written(server, ctx, revision, value, entry.name))


def _is_essential(write: Write) -> bool:
    """Whether the write may use the reserve of a full cluster: status, and what lets a deletion end."""
    return write.ctx.info.subresource in STATUS_SUBRESOURCES or "deletionTimestamp" in write.new["metadata"]
