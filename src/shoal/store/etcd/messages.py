"""The requests this store sends to etcd, and the keys in them. Nothing is sent here.

The messages are those that aetcd was generated with; they carry no types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aetcd.rpc as rpc

PAGE = 1000
"""Keys per response, so that a response stays far below the message size limit."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The layout of keys below the prefix, and the translation between store revisions and etcd revisions."""

    prefix: str
    folder: str = "objects"
    """A restored store has a folder of its own, so that it appears as a whole or not at all."""
    offset: int = 0
    """The difference between store revisions and etcd revisions. It is set for a restored store, which must not reuse a
    revision.
    """

    @property
    def everything(self) -> bytes:
        return f"{self.prefix}/".encode()

    @property
    def objects(self) -> bytes:
        return f"{self.prefix}/{self.folder}/".encode()

    @property
    def claim(self) -> bytes:
        return f"{self.prefix}/store".encode()

    @property
    def compaction(self) -> bytes:
        return f"{self.prefix}/compaction".encode()

    @property
    def restoring(self) -> bytes:
        """Names the folder of a restore in progress."""
        return f"{self.prefix}/restoring".encode()

    def note(self, name: str) -> bytes:
        return f"{self.prefix}/notes/{name}".encode()

    def object(self, key: str) -> bytes:
        return self.objects + key.encode()

    def name(self, key: bytes) -> str:
        return key[len(self.objects) :].decode()

    def etcds(self, revision: int) -> int:
        """0 stays 0: no revision."""
        return revision - self.offset if revision else 0

    def ours(self, revision: int) -> int:
        return revision + self.offset if revision else 0


def after(prefix: bytes) -> bytes:
    """Returns the first key after all keys with that prefix."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def put_if(
    key: bytes, value: bytes, expected: int, with_value: bool = False, claim: tuple[bytes, int] | None = None
) -> Any:
    """Writes if the key was last changed at `expected_revision` (0: it does not exist); otherwise returns what is
    there. With a claim and its revision, the claim must be unchanged too; it is the second response.
    """
    return _only_if(key, expected, rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value)), with_value, claim)


def delete_if(key: bytes, expected: int, claim: tuple[bytes, int] | None = None) -> Any:
    return _only_if(key, expected, rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key)), False, claim)


def _only_if(key: bytes, expected: int, operation: Any, with_value: bool, claim: tuple[bytes, int] | None) -> Any:
    compares = [_is_at(key, expected)]
    looks = [rpc.RequestOp(request_range=rpc.RangeRequest(key=key, keys_only=not with_value))]
    if claim is not None:
        compares.append(_is_at(*claim))
        looks.append(rpc.RequestOp(request_range=rpc.RangeRequest(key=claim[0], keys_only=True)))
    return rpc.TxnRequest(compare=compares, success=[operation], failure=looks)


def _is_at(key: bytes, revision: int) -> Any:
    return rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.MOD, key=key, mod_revision=revision)


def get(key: bytes) -> Any:
    return rpc.RangeRequest(key=key)


def page(start: bytes, end: bytes, limit: int, revision: int) -> Any:
    return rpc.RangeRequest(key=start, range_end=end, limit=limit, revision=revision)


def newest_revision(keys: Keys) -> Any:
    """A linearizable read of no key at all: only the header of its response counts."""
    return rpc.RangeRequest(key=keys.note("none"), count_only=True)


def count(folder: bytes) -> Any:
    return rpc.RangeRequest(key=folder, range_end=after(folder), count_only=True)


def compact(revision: int) -> Any:
    return rpc.CompactionRequest(revision=revision)


def watch(start: bytes, end: bytes, revision: int) -> Any:
    created = rpc.WatchCreateRequest(key=start, range_end=end, start_revision=revision, progress_notify=True)
    return rpc.WatchRequest(create_request=created)


def progress() -> Any:
    return rpc.WatchRequest(progress_request=rpc.WatchProgressRequest())


def is_deletion(event: Any) -> bool:
    return bool(event.type == rpc.Event.DELETE)
