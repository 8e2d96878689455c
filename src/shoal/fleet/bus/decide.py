"""Decides which of two messages about one ManagedCluster is newer, and evaluates a digest of the hub. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.fleet.bus.interface import Mark, Message, Name
from shoal.objects import digest

Object = dict[str, Any]

FEW = 32
"""Objects that are fetched one by one whatever their share. If more than a quarter differs, all are listed."""


def is_stale(known: Mark | None, told: Mark) -> bool:
    """Returns whether a message is older than the current one and has to be dropped. The same message again is not.

    For one object the epoch decides first: what was sent while another worker had it no longer counts, however late it
    arrives. Between two objects of one name, and within an epoch, the hub's revision decides.
    """
    if known is None:
        return False
    if told.uid == known.uid and told.epoch != known.epoch:
        return told.epoch < known.epoch
    return told.revision < known.revision


@dataclass(frozen=True, slots=True)
class Held:
    """The revisions a worker has, as it sends them to the hub."""

    revisions: Mapping[str, int]
    """By `namespace/name`."""
    buckets: int

    @property
    def text(self) -> str:
        return digest.encode(digest.sums(self.revisions.items(), self.buckets))


@dataclass(frozen=True, slots=True)
class Difference:
    fetch: tuple[Name, ...] = ()
    """New or changed."""
    released: tuple[Name, ...] = ()
    """No longer assigned to the worker, or deleted."""


def is_cheaper_whole(found: Difference, ours: Held) -> bool:
    return len(found.fetch) > max(FEW, len(ours.revisions) // 4)


def held(messages: Mapping[Name, Message]) -> Held:
    revisions = {message.subject: message.mark.revision for message in messages.values()}
    return Held(revisions, digest.buckets_for(len(revisions)))


def difference(ours: Held, answer: Object) -> Difference | None:
    """Compares with what the hub returned for the buckets that differ. Returns None if the hub does not support digests
    and has sent a list.
    """
    if answer.get("kind") != "Digest":
        return None
    theirs: dict[str, str] = answer["items"]
    fetch = [key for key, revision in theirs.items() if ours.revisions.get(key) != int(revision)]
    looked_at = set(answer["buckets"])
    mine = [key for key in ours.revisions if digest.bucket_of(key, ours.buckets) in looked_at]
    return Difference(_names(fetch), _names([key for key in mine if key not in theirs]))


def _names(keys: list[str]) -> tuple[Name, ...]:
    return tuple((key.partition("/")[0], key.partition("/")[2]) for key in sorted(keys))
