"""Opens a store in etcd: checks the etcd version, the owner of the prefix and the start of its history."""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import dataclass, replace
from typing import Any

import aetcd.rpc as rpc
import grpc

from shoal.store.etcd import messages
from shoal.store.etcd.connection import CALL_SECONDS, Connection, Transient
from shoal.store.etcd.messages import Keys
from shoal.store.interface import StoreFormat, StoreLost, StoreUnavailable

FORMAT = 1
RESTORED = 2
"""The format of a restored store: its claim names the folder of its objects and the revision offset."""
OLDEST_VERSION = (3, 5, 13)
"""Older versions may lose acknowledged writes, or report progress before the events it covers."""
_WAKING = ("before receiving SETTINGS frame", "Handshake read failed (Endpoint closing)")
"""etcd listens but does not serve yet, or not in time."""


@dataclass(frozen=True, slots=True)
class Claim:
    id: str
    created: int
    """The revision at which the store began."""
    revision: int
    """The newest revision when the claim was read."""
    keys: Keys
    ancestor: str = ""
    """The ID of the store it was restored from."""
    written: int = 0
    """etcd's own revision of the claim."""


async def check_members(connection: Connection) -> None:
    """Requires that at least one member answers and that every one that answers is new enough. Members that have just
    been started are retried. Other failures are raised at once, because a wrong flag stays wrong.
    """
    await connection.patiently(lambda: _check_members(connection))


async def _check_members(connection: Connection) -> None:
    failures = []
    for member in connection.members:
        try:
            status = await member.maintenance.Status(
                rpc.StatusRequest(), timeout=CALL_SECONDS, metadata=connection.headers
            )
        except grpc.aio.AioRpcError as error:
            failures.append(connection.failed(member, error))
            continue
        if _version(status.version) < OLDEST_VERSION:
            oldest = ".".join(map(str, OLDEST_VERSION))
            raise StoreFormat(
                f"etcd at {member.endpoint} is version {status.version}; Shoal needs {oldest} or newer, "
                "because older ones can lose acknowledged writes"
            )
    if len(failures) == len(connection.members):
        said = "; ".join(map(str, failures))
        raise (Transient if any(sign in said for sign in _WAKING) else StoreUnavailable)(said)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.partition("-")[0].split(".") if part.isdigit())


async def claim(connection: Connection, keys: Keys, known: str) -> Claim:
    """Returns the store below the prefix and creates it if nothing is there. `expected_id` is the ID this server has
    served before.
    """
    found = await read_claim(connection, keys)
    if found is None:
        if known:
            raise _lost(
                connection, keys, f"there is no Shoal store below {keys.prefix}/, but this server served {known}"
            )
        await _make(connection, keys)
        found = await read_claim(connection, keys)
        assert found is not None
    if known and known not in (found.id, found.ancestor):
        raise _lost(connection, keys, f"the store below {keys.prefix}/ is {found.id}, but this server served {known}")
    return found


def _lost(connection: Connection, keys: Keys, what: str) -> StoreLost:
    return StoreLost(
        f"etcd at {connection.settings.where}: {what}",
        f"check --etcd-servers and --etcd-prefix ({keys.prefix}), or restore etcd from a snapshot; "
        "to begin with an empty store give another --data-dir",
    )


async def read_claim(connection: Connection, keys: Keys) -> Claim | None:
    answer = await connection.call(lambda member: member.kv.Range, messages.get(keys.claim))
    if not answer.kvs:
        return None
    found = answer.kvs[0]
    keys = Keys(keys.prefix)
    try:
        record = json.loads(found.value)
        number, name = int(record["format"]), str(record["id"])
        if number == RESTORED:
            keys = replace(keys, folder=str(record["objects"]), offset=int(record["offset"]))
    except (ValueError, KeyError, TypeError):
        raise StoreFormat(
            f"{keys.claim.decode()} in etcd was not written by Shoal; give another --etcd-prefix"
        ) from None
    if number not in (FORMAT, RESTORED):
        raise StoreFormat(f"the store below {keys.prefix}/ has format {number}, this Shoal reads up to {RESTORED}")
    # The history of a restored store begins with its claim, not with the first key that was copied.
    created = found.mod_revision if number == RESTORED else found.create_revision
    ancestor = str(record.get("restoredFrom") or "")
    revisions = keys.ours(created), keys.ours(answer.header.revision)
    return Claim(name, *revisions, keys, ancestor, found.mod_revision)


async def _make(connection: Connection, keys: Keys) -> None:
    begun = await connection.call(lambda member: member.kv.Range, messages.get(keys.restoring))
    if begun.kvs:
        raise StoreFormat(
            f"below {keys.prefix}/ a restore was begun and did not end; run shoal restore again, it begins anew"
        )
    try:
        await check_nothing_foreign(connection, keys)
    except StoreFormat:
        claim = await connection.call(lambda member: member.kv.Range, messages.get(keys.claim))
        if claim.kvs:
            return  # the keys belong to a server that has claimed the prefix meanwhile
        raise
    record = json.dumps({"format": FORMAT, "id": str(uuid.uuid4())}).encode()
    # Another server may be faster; then its claim is kept and read next.
    await connection.call(lambda member: member.kv.Txn, messages.put_if(keys.claim, record, 0))


async def check_nothing_foreign(connection: Connection, keys: Keys) -> None:
    """Raises StoreFormatError if the prefix holds keys although it has no store."""
    start = keys.everything
    foreign = await connection.call(
        lambda member: member.kv.Range, messages.page(start, messages.after(start), 1, revision=0)
    )
    if foreign.kvs:
        raise StoreFormat(
            f"below {keys.prefix}/ etcd holds keys of another program ({foreign.kvs[0].key.decode(errors='replace')});"
            " give an --etcd-prefix that is free"
        )


async def oldest_revision(connection: Connection, keys: Keys, created: int) -> int:
    """Returns how far back history reaches: etcd reports it when it refuses a watch from the very beginning."""

    async def ask() -> int:
        member = connection.member
        call = member.watch.Watch(metadata=connection.headers)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await call.write(messages.watch(keys.claim, b"", keys.etcds(created)))
                while True:
                    response: Any = await call.read()
                    if response is grpc.aio.EOF:
                        raise Transient(f"etcd at {member.endpoint} ended a watch")
                    if response.compact_revision:
                        return keys.ours(int(response.compact_revision))
                    if response.events:
                        return created
        except grpc.aio.AioRpcError as error:
            raise connection.failed(member, error) from None
        except TimeoutError:
            raise Transient(f"etcd at {member.endpoint} does not answer") from None
        finally:
            call.cancel()

    return await connection.patiently(ask)
