"""Format of the log of a hosted cluster at the hub: a base with everything, then increments. Pure.

A record (a base or an increment) is compressed JSON lines, cut into segments that fit a Secret. Every segment names its
record and part; a record names the revision it follows and has a digest. So corrupted or missing parts are detected,
and are never taken for less data.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from shoal.objects.errors import ShoalError

FORMAT = 1
LARGEST = 700_000
"""Bytes of a segment; a Secret holds a megabyte."""
LEVEL = 4

Changes = Mapping[str, bytes | None]
"""Keys of the store and their values; None: deleted."""


class Missing(ShoalError):
    """A part of the log is missing."""


class Torn(ShoalError):
    """A part of the log is corrupted."""


@dataclass(frozen=True, slots=True)
class Record:
    since: int
    """The revision it follows; 0: a base, which follows nothing."""
    revision: int
    """Everything written up to here is in it, or in what it follows."""
    changes: Changes
    token_keys: tuple[str, ...] = ()
    """In a base: the public keys that tokens of the cluster are signed with."""


@dataclass(frozen=True, slots=True)
class State:
    revision: int
    entries: dict[str, bytes]
    token_keys: tuple[str, ...]
    last: int
    """Number of the last segment it was built from."""


@dataclass(frozen=True, slots=True)
class _Heading:
    first: int
    parts: int
    digest: str


def encode(record: Record, epoch: int, first: int, largest: int = LARGEST) -> list[bytes]:
    """Returns its segments, numbered from `first` on. The same record gives the same bytes."""
    about = {"since": record.since, "revision": record.revision, "tokenKeys": list(record.token_keys)}
    lines = [orjson.dumps({**about, "changes": len(record.changes)})]
    for key, value in record.changes.items():
        lines.append(orjson.dumps([key, None if value is None else value.decode()]))
    packed = gzip.compress(b"\n".join(lines), LEVEL, mtime=0)
    pieces = [packed[at : at + largest] for at in range(0, len(packed), largest)]
    digest = hashlib.sha256(packed).hexdigest()
    heading = {"format": FORMAT, "epoch": epoch, "first": first, "parts": len(pieces), "digest": digest}
    return [orjson.dumps({**heading, "number": first + index}) + b"\n" + piece for index, piece in enumerate(pieces)]


def replay(segments: Iterable[bytes], epoch: int, first: int, revision: int) -> State:
    """Returns the state of the cluster from all consecutive segments from `first` on. Raises SegmentMissing or
    LogCorrupted if they do not reach that revision or are invalid.
    """
    state: State | None = None
    waiting: list[bytes] = []
    open_record: _Heading | None = None
    number = first
    for number, segment in enumerate(segments, first):
        heading, piece = _read(segment, epoch, number)
        if open_record is not None and heading.first != open_record.first:
            # Its worker ended in the middle of the record and started again with a base.
            waiting, open_record = [], None
        if open_record is None:
            if heading.first != number:
                raise Torn(f"segment {number} of the log is not the first part of anything")
            open_record = heading
        waiting.append(piece)
        if len(waiting) == heading.parts:
            state = _follow(state, _record(b"".join(waiting), heading), number)
            waiting, open_record = [], None
    if state is None:
        raise Missing(f"the log has no complete base from segment {first} on")
    if state.revision < revision:
        raise Missing(f"the log ends at revision {state.revision}, and was said to reach {revision}")
    return state


def _read(segment: bytes, epoch: int, number: int) -> tuple[_Heading, bytes]:
    line, _, piece = segment.partition(b"\n")
    try:
        said: dict[str, Any] = orjson.loads(line)
        found = _Heading(int(said["first"]), int(said["parts"]), str(said["digest"]))
        told = said["format"], said["epoch"], said["number"]
    except (ValueError, KeyError, TypeError):
        raise Torn(f"segment {number} of the log cannot be read") from None
    if told[0] != FORMAT:
        raise Torn(f"segment {number} of the log has format {told[0]}, this worker reads {FORMAT}")
    if told[1:] != (epoch, number):
        raise Torn(f"segment {number} of the log says that it is {told[2]} of epoch {told[1]}")
    return found, piece


def _record(packed: bytes, heading: _Heading) -> Record:
    if hashlib.sha256(packed).hexdigest() != heading.digest:
        raise Torn(f"the record of the log from segment {heading.first} on is not what was shipped")
    first, *lines = gzip.decompress(packed).split(b"\n")
    about = orjson.loads(first)
    changes: dict[str, bytes | None] = {}
    for line in lines:
        key, value = orjson.loads(line)
        changes[key] = None if value is None else value.encode()
    if len(changes) != about["changes"]:
        raise Torn(f"the record of the log from segment {heading.first} on has {len(changes)} changes")
    return Record(about["since"], about["revision"], changes, tuple(about["tokenKeys"]))


def _follow(state: State | None, record: Record, number: int) -> State:
    if not record.since:
        entries = {key: value for key, value in record.changes.items() if value is not None}
        return State(record.revision, entries, record.token_keys, number)
    if state is None:
        raise Missing(f"the log has no complete base before segment {number}")
    if record.since != state.revision:
        raise Missing(f"segment {number} of the log follows revision {record.since}, and before it is {state.revision}")
    for key, value in record.changes.items():
        if value is None:
            state.entries.pop(key, None)
        else:
            state.entries[key] = value
    return State(record.revision, state.entries, state.token_keys, number)
