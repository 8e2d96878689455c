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
from shoal.store.etcd.claim import (
    RESTORED_FORMAT_VERSION,
    StoreClaim,
    check_members,
    check_prefix_empty,
    oldest_revision,
    read_claim,
)
from shoal.store.etcd.connection import EtcdConnection, EtcdSettings
from shoal.store.etcd.messages import KeyLayout
from shoal.store.interface import Compacted, FutureRevision, KeyValue, StoreFormatError, StoreUnavailable

PAGE_SIZE = 64
MAX_TXN_OPERATIONS = 100
MAX_TXN_BYTES = 512 << 10
"""etcd's defaults allow at most 128 operations and 1.5 MiB per transaction."""


class EtcdSnapshot:
    kind = "etcd"

    def __init__(self, connection: EtcdConnection, claim: StoreClaim, compacted_revision: int, revision: int) -> None:
        self._connection, self._keys = connection, claim.keys
        self.ancestors: tuple[str, ...] = (claim.restored_from,) if claim.restored_from else ()
        self.id, self.newest_revision, self.revision = claim.id, claim.revision, revision or claim.revision
        if self.revision > self.newest_revision:
            raise FutureRevision(revision, self.newest_revision)
        if self.revision < compacted_revision:
            raise Compacted(revision, compacted_revision)

    @classmethod
    async def open(cls, settings: EtcdSettings, revision: int = 0) -> Self:
        """Raises Compacted, FutureRevision, StoreFormatError or StoreUnavailable."""
        connection = EtcdConnection(settings)
        try:
            claim = await _read_existing_claim(connection, KeyLayout(settings.prefix))
            if claim is None:
                raise StoreUnavailable(
                    f"etcd at {settings.endpoints_text}: there is no Shoal store below {settings.prefix}/"
                )
            oldest = await oldest_revision(connection, claim.keys, claim.created_revision)
            return cls(connection, claim, oldest, revision)
        except BaseException:
            await connection.close()
            raise

    async def get(self, key: str) -> bytes | None:
        answer = await self._connection.call(lambda member: member.kv.Range, messages.get(self._keys.object_key(key)))
        return bytes(answer.kvs[0].value) if answer.kvs else None

    async def get_metadata(self, name: str) -> bytes | None:
        answer = await self._connection.call(
            lambda member: member.kv.Range, messages.get(self._keys.metadata_key(name))
        )
        return bytes(answer.kvs[0].value) if answer.kvs else None

    async def orphaned_prefixes(self) -> dict[str, int]:
        """Returns the folders below the prefix that do not belong to the store, and how many keys they hold."""
        own_folders = {self._keys.folder, "notes"}
        start, end, counts = self._keys.root_prefix, messages.prefix_end(self._keys.root_prefix), dict[str, int]()
        while True:
            answer = await self._connection.call(lambda member: member.kv.Range, messages.page(start, end, 1, 0))
            if not answer.kvs:
                return counts
            name, slash, _ = answer.kvs[0].key[len(self._keys.root_prefix) :].decode(errors="replace").partition("/")
            start = answer.kvs[0].key + b"\0"
            if slash:
                folder = self._keys.root_prefix + f"{name}/".encode()
                start = messages.prefix_end(folder)
                if name not in own_folders:
                    counted = await self._connection.call(lambda member: member.kv.Range, messages.count(folder))
                    counts[folder.decode()] = int(counted.count)

    async def pages(self) -> AsyncIterator[Sequence[KeyValue]]:
        start, end, etcd_revision = (
            self._keys.objects_prefix,
            messages.prefix_end(self._keys.objects_prefix),
            self._keys.to_etcd_revision(self.revision),
        )
        while start:
            request = messages.page(start, end, PAGE_SIZE, etcd_revision)
            try:
                answer = await self._connection.call(lambda member: member.kv.Range, request)
            except Compacted:
                raise StoreUnavailable(f"revision {self.revision} was compacted during the read; try again") from None
            if answer.kvs:
                yield [
                    KeyValue(self._keys.store_key(i.key), i.value, self._keys.from_etcd_revision(i.mod_revision))
                    for i in answer.kvs
                ]
            start = answer.kvs[-1].key + b"\0" if answer.more else b""

    async def close(self) -> None:
        await self._connection.close()


@dataclass(frozen=True, slots=True)
class EtcdRestoreSpec:
    """How a backup is restored into etcd."""

    store_id: str
    """The new ID."""
    restored_from: str
    base_revision: int
    """The first revision is above it."""
    replace: bool = False
    """Replace an existing store."""
    metadata: tuple[str, bytes] | None = None
    """Metadata that is stored with the store unless it exists."""


@dataclass(frozen=True, slots=True)
class EtcdRestoreResult:
    revision: int
    replaced_prefix: str
    """Where the objects of the replaced store are; empty if there was none."""


async def restore_store(
    settings: EtcdSettings, spec: EtcdRestoreSpec, records: Iterable[KeyValue]
) -> EtcdRestoreResult:
    """Raises StoreFormatError if a store exists and is not to be replaced."""
    connection = EtcdConnection(settings)
    keys = KeyLayout(settings.prefix)
    try:
        existing = await _read_existing_claim(connection, keys)
        if existing is not None and not spec.replace:
            raise StoreFormatError(
                f"etcd at {settings.endpoints_text}: a store "
                f"({existing.id}) exists below {keys.prefix}/; nothing was written"
            )
        await _delete_unfinished_restore(connection, keys)
        if existing is None:
            await check_prefix_empty(connection, keys)
        keys = replace(keys, folder=f"objects-{spec.store_id[:8]}")
        await _txn(connection, [_put(keys.restore_key, keys.folder.encode())])
        for batch in _batches(records):
            await _txn(connection, [_put(keys.object_key(record.key), record.value) for record in batch])
        revision = await _commit_claim(connection, keys, spec, existing)
    finally:
        await connection.close()
    return EtcdRestoreResult(revision, existing.keys.objects_prefix.decode() if existing is not None else "")


async def _read_existing_claim(connection: EtcdConnection, keys: KeyLayout) -> StoreClaim | None:
    await connection.authenticate()
    await check_members(connection)
    return await read_claim(connection, keys)


async def _delete_unfinished_restore(connection: EtcdConnection, keys: KeyLayout) -> None:
    answer = await connection.call(lambda member: member.kv.Range, messages.get(keys.restore_key))
    for marker in answer.kvs:
        folder = f"{keys.prefix}/{marker.value.decode()}/".encode()
        delete_request = rpc.DeleteRangeRequest(key=folder, range_end=messages.prefix_end(folder))
        await _txn(connection, [rpc.RequestOp(request_delete_range=delete_request), _delete(keys.restore_key)])


async def _commit_claim(
    connection: EtcdConnection, keys: KeyLayout, spec: EtcdRestoreSpec, existing: StoreClaim | None
) -> int:
    """Commits the claim: from here on it is the store."""
    answer = await connection.call(lambda member: member.kv.Range, messages.newest_revision(keys))
    offset = max(0, spec.base_revision - int(answer.header.revision))
    record = {"format": RESTORED_FORMAT_VERSION, "id": spec.store_id, "objects": keys.folder, "offset": offset}
    value = json.dumps({**record, "restoredFrom": spec.restored_from}).encode()
    if spec.metadata is not None:
        name, text = spec.metadata
        await connection.call(lambda member: member.kv.Txn, messages.put_if_unchanged(keys.metadata_key(name), text, 0))
    existing_mod_revision = existing.mod_revision if existing is not None else 0
    compare = rpc.Compare(
        result=rpc.Compare.EQUAL, target=rpc.Compare.MOD, key=keys.claim_key, mod_revision=existing_mod_revision
    )
    request = rpc.TxnRequest(compare=[compare], success=[_put(keys.claim_key, value), _delete(keys.restore_key)])
    answer_txn = await connection.call_once(lambda member: member.kv.Txn, request)
    if not answer_txn.succeeded:
        raise StoreUnavailable(f"another process created a store below {keys.prefix}/; nothing was replaced")
    return int(answer_txn.header.revision) + offset


def _batches(records: Iterable[KeyValue]) -> Iterator[list[KeyValue]]:
    batch: list[KeyValue] = []
    size = 0
    for record in records:
        if batch and (len(batch) == MAX_TXN_OPERATIONS or size + len(record.value) > MAX_TXN_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += len(record.value) + len(record.key)
    if batch:
        yield batch


async def _txn(connection: EtcdConnection, operations: list[Any]) -> None:
    """Idempotent, so it may be sent twice."""
    await connection.call(lambda member: member.kv.Txn, rpc.TxnRequest(success=operations))


def _put(key: bytes, value: bytes) -> Any:
    return rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value))


def _delete(key: bytes) -> Any:
    return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))
