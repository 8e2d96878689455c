"""Which of two messages about one ManagedCluster is the newer, and what a digest of the hub's tells. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.fleet.bus.interface import Mark, Message, Name
from shoal.objects import digest

Object = dict[str, Any]

FEW = 32
"""Objects that are fetched one by one whatever their share; if more than a quarter differs, all come as one list."""


def is_stale(known: Mark | None, told: Mark) -> bool:
    """Whether a message is older than what is known, and to be dropped. The same one again is not.

    Within one object the epoch decides first: what was said when another worker had it no longer counts, however
    late it comes. Between two objects of one name, and within an epoch, the hub's revision does.
    """
    if known is None:
        return False
    if told.uid == known.uid and told.epoch != known.epoch:
        return told.epoch < known.epoch
    return told.revision < known.revision


@dataclass(frozen=True, slots=True)
class Held:
    """What a worker knows, as it tells the hub."""

    revisions: Mapping[str, int]
    """By `namespace/name`."""
    buckets: int

    @property
    def text(self) -> str:
        return digest.encode(digest.sums(self.revisions.items(), self.buckets))


@dataclass(frozen=True, slots=True)
class Difference:
    fetch: tuple[Name, ...] = ()
    """New, or changed."""
    released: tuple[Name, ...] = ()
    """Not the worker's any more, or gone."""


def is_cheaper_whole(found: Difference, ours: Held) -> bool:
    return len(found.fetch) > max(FEW, len(ours.revisions) // 4)


def held(messages: Mapping[Name, Message]) -> Held:
    revisions = {message.subject: message.mark.revision for message in messages.values()}
    return Held(revisions, digest.buckets_for(len(revisions)))


def difference(ours: Held, answer: Object) -> Difference | None:
    """From what the hub says about the buckets that differ. None: it does not know digests, and has sent a list."""
    if answer.get("kind") != "Digest":
        return None
    theirs: dict[str, str] = answer["items"]
    fetch = [key for key, revision in theirs.items() if ours.revisions.get(key) != int(revision)]
    looked_at = set(answer["buckets"])
    mine = [key for key in ours.revisions if digest.bucket_of(key, ours.buckets) in looked_at]
    return Difference(_names(fetch), _names([key for key in mine if key not in theirs]))


def _names(keys: list[str]) -> tuple[Name, ...]:
    return tuple((key.partition("/")[0], key.partition("/")[2]) for key in sorted(keys))
