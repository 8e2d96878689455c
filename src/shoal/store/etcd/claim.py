"""Opens a store in etcd: checks the etcd version, the owner of the prefix and the start of its history. Then watches
the claim.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import aetcd.rpc as rpc
import grpc

from shoal.store.etcd import messages
from shoal.store.etcd.connection import CALL_TIMEOUT_SECONDS, EtcdConnection, TransientError
from shoal.store.etcd.messages import KeyLayout
from shoal.store.interface import StoreFormatError, StoreLost, StoreUnavailable

FORMAT_VERSION = 1
RESTORED_FORMAT_VERSION = 2
"""The format of a restored store: its claim names the folder of its objects and the revision offset."""
MIN_ETCD_VERSION = (3, 5, 13)
"""Older versions may lose acknowledged writes, or report progress before the events it covers."""
WATCH_RETRY_SECONDS = 1.0
"""Seconds before an interrupted watch of the claim begins again."""
_STARTING_ERRORS = ("before receiving SETTINGS frame", "Handshake read failed (Endpoint closing)")
"""etcd listens but does not serve yet, or not in time."""


@dataclass(frozen=True, slots=True)
class StoreClaim:
    id: str
    created_revision: int
    """The revision at which the store began."""
    revision: int
    """The newest revision when the claim was read."""
    keys: KeyLayout
    restored_from: str = ""
    """The ID of the store it was restored from."""
    mod_revision: int = 0
    """etcd's own revision of the claim."""


async def check_members(connection: EtcdConnection) -> None:
    """Requires that at least one member answers and that every one that answers is new enough. Members that have just
    been started are retried. Other failures are raised at once, because a wrong flag stays wrong.
    """
    await connection.retry(lambda: _check_members(connection))


async def _check_members(connection: EtcdConnection) -> None:
    failures = []
    for member in connection.members:
        try:
            status = await member.maintenance.Status(
                rpc.StatusRequest(), timeout=CALL_TIMEOUT_SECONDS, metadata=connection.headers
            )
        except grpc.aio.AioRpcError as error:
            failures.append(connection.store_error(member, error))
            continue
        if _version(status.version) < MIN_ETCD_VERSION:
            oldest = ".".join(map(str, MIN_ETCD_VERSION))
            raise StoreFormatError(
                f"etcd at {member.endpoint} is version {status.version}; Shoal needs {oldest} or newer; "
                "older versions can lose acknowledged writes"
            )
    if len(failures) == len(connection.members):
        message = "; ".join(map(str, failures))
        raise (TransientError if any(sign in message for sign in _STARTING_ERRORS) else StoreUnavailable)(message)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.partition("-")[0].split(".") if part.isdigit())


async def ensure_claim(connection: EtcdConnection, keys: KeyLayout, expected_id: str) -> StoreClaim:
    """Returns the store below the prefix and creates it if nothing is there. `expected_id` is the ID this server has
    served before.
    """
    store_claim = await read_claim(connection, keys)
    if store_claim is None:
        if expected_id:
            raise _lost_error(
                connection, keys, f"there is no Shoal store below {keys.prefix}/, but this server served {expected_id}"
            )
        await _create_claim(connection, keys)
        store_claim = await read_claim(connection, keys)
        assert store_claim is not None
    if expected_id and expected_id not in (store_claim.id, store_claim.restored_from):
        raise _lost_error(
            connection,
            keys,
            f"the store below {keys.prefix}/ is {store_claim.id}, but this server served {expected_id}",
        )
    return store_claim


def _lost_error(connection: EtcdConnection, keys: KeyLayout, reason: str) -> StoreLost:
    return StoreLost(
        f"etcd at {connection.settings.endpoints_text}: {reason}",
        f"check --etcd-servers and --etcd-prefix ({keys.prefix}), or restore etcd from a snapshot; "
        "to begin with an empty store give another --data-dir",
    )


async def read_claim(connection: EtcdConnection, keys: KeyLayout) -> StoreClaim | None:
    answer = await connection.call(lambda member: member.kv.Range, messages.get(keys.claim_key))
    if not answer.kvs:
        return None
    item = answer.kvs[0]
    keys = KeyLayout(keys.prefix)
    try:
        record = json.loads(item.value)
        version, store_id = int(record["format"]), str(record["id"])
        if version == RESTORED_FORMAT_VERSION:
            keys = replace(keys, folder=str(record["objects"]), revision_offset=int(record["offset"]))
    except (ValueError, KeyError, TypeError):
        raise StoreFormatError(
            f"{keys.claim_key.decode()} in etcd was not written by Shoal; give another --etcd-prefix"
        ) from None
    if version not in (FORMAT_VERSION, RESTORED_FORMAT_VERSION):
        raise StoreFormatError(
            f"the store below {keys.prefix}/ has format {version}, this Shoal reads up to {RESTORED_FORMAT_VERSION}"
        )
    # The history of a restored store begins with its claim, not with the first key that was copied.
    created_revision = item.mod_revision if version == RESTORED_FORMAT_VERSION else item.create_revision
    restored_from = str(record.get("restoredFrom") or "")
    revisions = keys.from_etcd_revision(created_revision), keys.from_etcd_revision(answer.header.revision)
    return StoreClaim(store_id, *revisions, keys, restored_from, item.mod_revision)


async def _create_claim(connection: EtcdConnection, keys: KeyLayout) -> None:
    restore_marker = await connection.call(lambda member: member.kv.Range, messages.get(keys.restore_key))
    if restore_marker.kvs:
        raise StoreFormatError(
            f"an unfinished restore was found below {keys.prefix}/; run shoal restore again, it starts over"
        )
    try:
        await check_prefix_empty(connection, keys)
    except StoreFormatError:
        claim = await connection.call(lambda member: member.kv.Range, messages.get(keys.claim_key))
        if claim.kvs:
            return  # the keys belong to a server that has claimed the prefix meanwhile
        raise
    record = json.dumps({"format": FORMAT_VERSION, "id": str(uuid.uuid4())}).encode()
    # Another server may be faster; then its claim is kept and read next.
    await connection.call(lambda member: member.kv.Txn, messages.put_if_unchanged(keys.claim_key, record, 0))


async def check_prefix_empty(connection: EtcdConnection, keys: KeyLayout) -> None:
    """Raises StoreFormatError if the prefix holds keys although it has no store."""
    start = keys.root_prefix
    foreign = await connection.call(
        lambda member: member.kv.Range, messages.page(start, messages.prefix_end(start), 1, revision=0)
    )
    if foreign.kvs:
        raise StoreFormatError(
            f"etcd holds keys of another program below {keys.prefix}/ ({foreign.kvs[0].key.decode(errors='replace')});"
            " give an unused --etcd-prefix"
        )


async def oldest_revision(connection: EtcdConnection, keys: KeyLayout, created_revision: int) -> int:
    """Returns how far back history reaches: etcd reports it when it refuses a watch from the very beginning."""

    async def probe() -> int:
        member = connection.member
        call = member.watch.Watch(metadata=connection.headers)
        try:
            async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
                await call.write(messages.watch(keys.claim_key, b"", keys.to_etcd_revision(created_revision)))
                while True:
                    response: Any = await call.read()
                    if response is grpc.aio.EOF:
                        raise TransientError(f"etcd at {member.endpoint} ended a watch")
                    if response.compact_revision:
                        return keys.from_etcd_revision(int(response.compact_revision))
                    if response.events:
                        return created_revision
        except grpc.aio.AioRpcError as error:
            raise connection.store_error(member, error) from None
        except TimeoutError:
            raise TransientError(f"etcd at {member.endpoint} does not answer") from None
        finally:
            call.cancel()

    return await connection.retry(probe)


async def watch_claim(
    connection: EtcdConnection, keys: KeyLayout, mod_revision: int, on_change: Callable[[], Awaitable[None]]
) -> None:
    """Calls `on_change`, which raises if it is another store, when the claim has changed since etcd revision
    `mod_revision`. A server must not continue with objects that a restore has replaced. Every write is compared with
    the claim too, so this watch is for servers that only read. Lost connections are reported by the live watch.
    """
    while True:
        call: Any = None
        try:
            await connection.authenticate()
            call = connection.member.watch.Watch(metadata=connection.headers)
            await call.write(messages.watch(keys.claim_key, b"", mod_revision + 1))
            changed_at = await _next_change(call)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, StoreUnavailable):
            changed_at = 0
        finally:
            if call is not None:
                call.cancel()
        if changed_at:
            mod_revision = changed_at
            await on_change()
        await asyncio.sleep(WATCH_RETRY_SECONDS)


async def _next_change(call: Any) -> int:
    """Returns the revision of a change, or the compact revision before which changes are unknown; 0 when the stream has
    ended.
    """
    while (response := await call.read()) is not grpc.aio.EOF:
        if response.compact_revision:
            return int(response.compact_revision)
        if response.events:
            return int(response.events[-1].kv.mod_revision)
    return 0
