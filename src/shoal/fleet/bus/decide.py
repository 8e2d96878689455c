"""Decides which of two messages about one ManagedCluster is newer, and evaluates a digest of the hub. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.fleet.bus.interface import BusMessage, MessageVersion, Name
from shoal.objects import digest

Object = dict[str, Any]

MAX_SINGLE_FETCHES = 32
"""Objects that are fetched one by one whatever their share. If more than a quarter differs, all are listed."""


def is_stale(current: MessageVersion | None, received: MessageVersion) -> bool:
    """Returns whether a message is older than the current one and has to be dropped. The same message again is not.

    For one object the epoch decides first: what was sent while another worker had it no longer counts, however late it
    arrives. Between two objects of one name, and within an epoch, the hub's revision decides.
    """
    if current is None:
        return False
    if received.uid == current.uid and received.epoch != current.epoch:
        return received.epoch < current.epoch
    return received.revision < current.revision


@dataclass(frozen=True, slots=True)
class HeldRevisions:
    """The revisions a worker has, as it sends them to the hub."""

    revisions: Mapping[str, int]
    """By `namespace/name`."""
    buckets: int

    @property
    def encode_digest(self) -> str:
        return digest.encode(digest.bucket_sums(self.revisions.items(), self.buckets))


@dataclass(frozen=True, slots=True)
class DigestDiff:
    fetch: tuple[Name, ...] = ()
    """New or changed."""
    released: tuple[Name, ...] = ()
    """No longer assigned to the worker, or deleted."""


def prefers_full_list(diff: DigestDiff, held: HeldRevisions) -> bool:
    return len(diff.fetch) > max(MAX_SINGLE_FETCHES, len(held.revisions) // 4)


def held_revisions(messages: Mapping[Name, BusMessage]) -> HeldRevisions:
    revisions = {message.subject: message.version.revision for message in messages.values()}
    return HeldRevisions(revisions, digest.buckets_for(len(revisions)))


def diff_digest(held: HeldRevisions, digest_response: Object) -> DigestDiff | None:
    """Compares with what the hub returned for the buckets that differ. Returns None if the hub does not support digests
    and has sent a list.
    """
    if digest_response.get("kind") != "Digest":
        return None
    hub_revisions: dict[str, str] = digest_response["items"]
    fetch = [key for key, revision in hub_revisions.items() if held.revisions.get(key) != int(revision)]
    differing_buckets = set(digest_response["buckets"])
    local_keys = [key for key in held.revisions if digest.bucket_of(key, held.buckets) in differing_buckets]
    return DigestDiff(_names(fetch), _names([key for key in local_keys if key not in hub_revisions]))


def _names(keys: list[str]) -> tuple[Name, ...]:
    return tuple((key.partition("/")[0], key.partition("/")[2]) for key in sorted(keys))
