"""The requests this store sends to etcd, and the keys in them. Nothing is sent here.

The messages are those that aetcd was generated with; they carry no types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aetcd.rpc as rpc

PAGE_SIZE = 1000
"""Keys per response, so that a response stays far below the message size limit."""


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """The layout of keys below the prefix, and the translation between store revisions and etcd revisions."""

    prefix: str
    folder: str = "objects"
    """A restored store has a folder of its own, so that it appears as a whole or not at all."""
    revision_offset: int = 0
    """The difference between store revisions and etcd revisions. It is set for a restored store, which must not reuse a
    revision.
    """

    @property
    def root_prefix(self) -> bytes:
        return f"{self.prefix}/".encode()

    @property
    def objects_prefix(self) -> bytes:
        return f"{self.prefix}/{self.folder}/".encode()

    @property
    def claim_key(self) -> bytes:
        return f"{self.prefix}/store".encode()

    @property
    def compaction_key(self) -> bytes:
        return f"{self.prefix}/compaction".encode()

    @property
    def restore_key(self) -> bytes:
        """Names the folder of a restore in progress."""
        return f"{self.prefix}/restoring".encode()

    def metadata_key(self, name: str) -> bytes:
        return f"{self.prefix}/notes/{name}".encode()

    def object_key(self, key: str) -> bytes:
        return self.objects_prefix + key.encode()

    def store_key(self, key: bytes) -> str:
        return key[len(self.objects_prefix) :].decode()

    def to_etcd_revision(self, revision: int) -> int:
        """0 stays 0: no revision."""
        return revision - self.revision_offset if revision else 0

    def from_etcd_revision(self, revision: int) -> int:
        return revision + self.revision_offset if revision else 0


def prefix_end(prefix: bytes) -> bytes:
    """Returns the first key after all keys with that prefix."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def put_if_unchanged(
    key: bytes, value: bytes, expected_revision: int, with_value: bool = False, claim: tuple[bytes, int] | None = None
) -> Any:
    """Writes if the key was last changed at `expected_revision` (0: it does not exist); otherwise returns what is
    there. With a claim and its revision, the claim must be unchanged too; it is the second response.
    """
    return _txn_if_unchanged(
        key, expected_revision, rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value)), with_value, claim
    )


def delete_if_unchanged(key: bytes, expected_revision: int, claim: tuple[bytes, int] | None = None) -> Any:
    return _txn_if_unchanged(
        key, expected_revision, rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key)), False, claim
    )


def _txn_if_unchanged(
    key: bytes, expected_revision: int, operation: Any, with_value: bool, claim: tuple[bytes, int] | None
) -> Any:
    compares = [_compare_mod_revision(key, expected_revision)]
    failure_reads = [rpc.RequestOp(request_range=rpc.RangeRequest(key=key, keys_only=not with_value))]
    if claim is not None:
        compares.append(_compare_mod_revision(*claim))
        failure_reads.append(rpc.RequestOp(request_range=rpc.RangeRequest(key=claim[0], keys_only=True)))
    return rpc.TxnRequest(compare=compares, success=[operation], failure=failure_reads)


def _compare_mod_revision(key: bytes, revision: int) -> Any:
    return rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.MOD, key=key, mod_revision=revision)


def get(key: bytes) -> Any:
    return rpc.RangeRequest(key=key)


def page(start: bytes, end: bytes, limit: int, revision: int) -> Any:
    return rpc.RangeRequest(key=start, range_end=end, limit=limit, revision=revision)


def newest_revision(keys: KeyLayout) -> Any:
    """A linearizable read of no key at all: only the header of its response counts."""
    return rpc.RangeRequest(key=keys.metadata_key("none"), count_only=True)


def count(folder: bytes) -> Any:
    return rpc.RangeRequest(key=folder, range_end=prefix_end(folder), count_only=True)


def compact(revision: int) -> Any:
    return rpc.CompactionRequest(revision=revision)


def watch(start: bytes, end: bytes, revision: int) -> Any:
    created = rpc.WatchCreateRequest(key=start, range_end=end, start_revision=revision, progress_notify=True)
    return rpc.WatchRequest(create_request=created)


def progress() -> Any:
    return rpc.WatchRequest(progress_request=rpc.WatchProgressRequest())


def is_deletion(event: Any) -> bool:
    return bool(event.type == rpc.Event.DELETE)
