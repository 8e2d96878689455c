"""Reads a store in etcd at one revision while servers write it, and restores a store into etcd from a backup.

A restored store goes into a folder of its own below the prefix, and one transaction on the claim makes it the store. It
appears as a whole or not at all, no server sees the old objects disappear, and the old objects are kept.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import aetcd.rpc as rpc

from shoal.store.etcd import messages
from shoal.store.etcd.connection import Connection, EtcdSettings
from shoal.store.etcd.messages import Keys
from shoal.store.etcd.opening import RESTORED, Claim, check_members, check_nothing_foreign, oldest_revision, read_claim
from shoal.store.interface import Compacted, FutureRevision, KeyValue, StoreFormat, StoreUnavailable

PAGE = 64
TOGETHER = 100
TOGETHER_BYTES = 512 << 10
"""etcd's defaults allow at most 128 operations and 1.5 MiB per transaction."""


class EtcdSnapshot:
    kind = "etcd"

    def __init__(self, connection: Connection, found: Claim, compacted: int, revision: int) -> None:
        self._connection, self._keys = connection, found.keys
        self.ancestors: tuple[str, ...] = (found.ancestor,) if found.ancestor else ()
        self.id, self.newest, self.revision = found.id, found.revision, revision or found.revision
        if self.revision > self.newest:
            raise FutureRevision(revision, self.newest)
        if self.revision < compacted:
            raise Compacted(revision, compacted)

    @classmethod
    async def open(cls, settings: EtcdSettings, revision: int = 0) -> Self:
        """Raises Compacted, FutureRevision, StoreFormatError or StoreUnavailable."""
        connection = Connection(settings)
        try:
            found = await _look(connection, Keys(settings.prefix))
            if found is None:
                raise StoreUnavailable(f"etcd at {settings.where}: there is no Shoal store below {settings.prefix}/")
            oldest = await oldest_revision(connection, found.keys, found.created)
            return cls(connection, found, oldest, revision)
        except BaseException:
            await connection.close()
            raise

    async def get(self, key: str) -> bytes | None:
        answer = await self._connection.call(lambda member: member.kv.Range, messages.get(self._keys.object(key)))
        return bytes(answer.kvs[0].value) if answer.kvs else None

    async def note(self, name: str) -> bytes | None:
        answer = await self._connection.call(lambda member: member.kv.Range, messages.get(self._keys.note(name)))
        return bytes(answer.kvs[0].value) if answer.kvs else None

    async def strays(self) -> dict[str, int]:
        """Returns the folders below the prefix that do not belong to the store, and how many keys they hold."""
        known = {self._keys.folder, "notes"}
        low, end, found = self._keys.everything, messages.after(self._keys.everything), dict[str, int]()
        while True:
            answer = await self._connection.call(lambda member: member.kv.Range, messages.page(low, end, 1, 0))
            if not answer.kvs:
                return found
            name, slash, _ = answer.kvs[0].key[len(self._keys.everything) :].decode(errors="replace").partition("/")
            low = answer.kvs[0].key + b"\0"
            if slash:
                folder = self._keys.everything + f"{name}/".encode()
                low = messages.after(folder)
                if name not in known:
                    counted = await self._connection.call(lambda member: member.kv.Range, messages.count(folder))
                    found[folder.decode()] = int(counted.count)

    async def pages(self) -> AsyncIterator[Sequence[KeyValue]]:
        low, end, at = self._keys.objects, messages.after(self._keys.objects), self._keys.etcds(self.revision)
        while low:
            request = messages.page(low, end, PAGE, at)
            try:
                answer = await self._connection.call(lambda member: member.kv.Range, request)
            except Compacted:
                raise StoreUnavailable(
                    f"revision {self.revision} was compacted while it was read: changes come too fast; try again"
                ) from None
            if answer.kvs:
                yield [KeyValue(self._keys.name(i.key), i.value, self._keys.ours(i.mod_revision)) for i in answer.kvs]
            low = answer.kvs[-1].key + b"\0" if answer.more else b""

    async def close(self) -> None:
        await self._connection.close()


@dataclass(frozen=True, slots=True)
class Making:
    """How a backup is restored into etcd."""

    store: str
    """The new ID."""
    ancestor: str
    base: int
    """The first revision is above it."""
    replace: bool = False
    """Replace an existing store."""
    note: tuple[str, bytes] | None = None
    """Metadata that is stored with the store unless it exists."""


@dataclass(frozen=True, slots=True)
class Made:
    revision: int
    aside: str
    """Where the objects of the replaced store are; empty if there was none."""


async def make_store(settings: EtcdSettings, making: Making, records: Iterable[KeyValue]) -> Made:
    """Raises StoreFormatError if a store exists and is not to be replaced."""
    connection = Connection(settings)
    keys = Keys(settings.prefix)
    try:
        before = await _look(connection, keys)
        if before is not None and not making.replace:
            raise StoreFormat(
                f"etcd at {settings.where}: below {keys.prefix}/ there is a store ({before.id}); nothing was written"
            )
        await _clear_unfinished(connection, keys)
        if before is None:
            await check_nothing_foreign(connection, keys)
        keys = replace(keys, folder=f"objects-{making.store[:8]}")
        await _txn(connection, [_put(keys.restoring, keys.folder.encode())])
        for batch in _batches(records):
            await _txn(connection, [_put(keys.object(record.key), record.value) for record in batch])
        revision = await _establish(connection, keys, making, before)
    finally:
        await connection.close()
    return Made(revision, before.keys.objects.decode() if before is not None else "")


async def _look(connection: Connection, keys: Keys) -> Claim | None:
    await connection.authenticate()
    await check_members(connection)
    return await read_claim(connection, keys)


async def _clear_unfinished(connection: Connection, keys: Keys) -> None:
    answer = await connection.call(lambda member: member.kv.Range, messages.get(keys.restoring))
    for found in answer.kvs:
        folder = f"{keys.prefix}/{found.value.decode()}/".encode()
        left = rpc.DeleteRangeRequest(key=folder, range_end=messages.after(folder))
        await _txn(connection, [rpc.RequestOp(request_delete_range=left), _delete(keys.restoring)])


async def _establish(connection: Connection, keys: Keys, making: Making, before: Claim | None) -> int:
    """Commits the claim: from here on it is the store."""
    answer = await connection.call(lambda member: member.kv.Range, messages.newest_revision(keys))
    offset = max(0, making.base - int(answer.header.revision))
    record = {"format": RESTORED, "id": making.store, "objects": keys.folder, "offset": offset}
    value = json.dumps({**record, "restoredFrom": making.ancestor}).encode()
    if making.note is not None:
        name, text = making.note
        await connection.call(lambda member: member.kv.Txn, messages.put_if(keys.note(name), text, 0))
    there = before.written if before is not None else 0
    compare = rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.MOD, key=keys.claim, mod_revision=there)
    request = rpc.TxnRequest(compare=[compare], success=[_put(keys.claim, value), _delete(keys.restoring)])
    done = await connection.once(lambda member: member.kv.Txn, request)
    if not done.succeeded:
        raise StoreUnavailable(f"somebody else made a store below {keys.prefix}/ meanwhile; nothing was replaced")
    return int(done.header.revision) + offset


def _batches(records: Iterable[KeyValue]) -> Iterator[list[KeyValue]]:
    batch: list[KeyValue] = []
    size = 0
    for record in records:
        if batch and (len(batch) == TOGETHER or size + len(record.value) > TOGETHER_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += len(record.value) + len(record.key)
    if batch:
        yield batch


async def _txn(connection: Connection, operations: list[Any]) -> None:
    """Idempotent, so it may be sent twice."""
    await connection.call(lambda member: member.kv.Txn, rpc.TxnRequest(success=operations))


def _put(key: bytes, value: bytes) -> Any:
    return rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value))


def _delete(key: bytes) -> Any:
    return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))
