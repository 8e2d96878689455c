"""Format of the log of a hosted cluster at the hub: a base with everything, then increments. Pure.

A record (a base or an increment) is compressed JSON lines, cut into segments that fit a Secret. Every segment names its
record and part; a record names the revision it follows and has a digest. So corrupted or missing parts are detected,
and are never taken for less data.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from shoal.objects.errors import ShoalError

FORMAT = 1
MAX_SEGMENT_BYTES = 700_000
"""Bytes of a segment; a Secret holds a megabyte."""
COMPRESSION_LEVEL = 4

EntryChanges = Mapping[str, bytes | None]
"""Keys of the store and their values; None: deleted."""


class SegmentMissing(ShoalError):
    """A part of the log is missing."""


class LogCorrupted(ShoalError):
    """A part of the log is corrupted."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    since: int
    """The revision it follows; 0: a base, which follows nothing."""
    revision: int
    """Everything written up to here is in it, or in what it follows."""
    changes: EntryChanges
    token_keys: tuple[str, ...] = ()
    """In a base: the public keys that tokens of the cluster are signed with."""
    templates: EntryChanges = field(default_factory=dict)
    """Machine templates that the cluster shares with others of its namespace."""


@dataclass(frozen=True, slots=True)
class ReplayedState:
    revision: int
    entries: dict[str, bytes]
    token_keys: tuple[str, ...]
    last_segment: int
    """Number of the last segment it was built from."""
    templates: dict[str, bytes] = field(default_factory=dict)
    """Machine templates that the cluster shares with others of its namespace."""


@dataclass(frozen=True, slots=True)
class _SegmentHeader:
    first: int
    parts: int
    digest: str


def encode_record(record: LogRecord, epoch: int, first: int, max_bytes: int = MAX_SEGMENT_BYTES) -> list[bytes]:
    """Returns its segments, numbered from `first` on. The same record gives the same bytes."""
    header = {"since": record.since, "revision": record.revision, "tokenKeys": list(record.token_keys)}
    # In the header, where workers that do not know them ignore them.
    templates = {key: None if value is None else value.decode() for key, value in record.templates.items()}
    lines = [orjson.dumps({**header, "changes": len(record.changes), "templates": templates})]
    for key, value in record.changes.items():
        lines.append(orjson.dumps([key, None if value is None else value.decode()]))
    compressed = gzip.compress(b"\n".join(lines), COMPRESSION_LEVEL, mtime=0)
    pieces = [compressed[at : at + max_bytes] for at in range(0, len(compressed), max_bytes)]
    digest = hashlib.sha256(compressed).hexdigest()
    segment_header = {"format": FORMAT, "epoch": epoch, "first": first, "parts": len(pieces), "digest": digest}
    return [
        orjson.dumps({**segment_header, "number": first + index}) + b"\n" + piece for index, piece in enumerate(pieces)
    ]


def replay_log(segments: Iterable[bytes], epoch: int, first: int, revision: int) -> ReplayedState:
    """Returns the state of the cluster from all consecutive segments from `first` on. Raises SegmentMissing or
    LogCorrupted if they do not reach that revision or are invalid.
    """
    state: ReplayedState | None = None
    parts: list[bytes] = []
    current: _SegmentHeader | None = None
    number = first
    for number, segment in enumerate(segments, first):
        heading, piece = _parse_segment(segment, epoch, number)
        if current is not None and heading.first != current.first:
            # Its worker ended in the middle of the record and started again with a base.
            parts, current = [], None
        if current is None:
            if heading.first != number:
                raise LogCorrupted(f"segment {number} of the log is not the first part of a record")
            current = heading
        parts.append(piece)
        if len(parts) == heading.parts:
            state = _apply_record(state, _decode_record(b"".join(parts), heading), number)
            parts, current = [], None
    if state is None:
        raise SegmentMissing(f"the log has no complete base from segment {first} on")
    if state.revision < revision:
        raise SegmentMissing(f"the log ends at revision {state.revision}, before the expected revision {revision}")
    return state


def _parse_segment(segment: bytes, epoch: int, number: int) -> tuple[_SegmentHeader, bytes]:
    line, _, piece = segment.partition(b"\n")
    try:
        fields: dict[str, Any] = orjson.loads(line)
        header = _SegmentHeader(int(fields["first"]), int(fields["parts"]), str(fields["digest"]))
        identity = fields["format"], fields["epoch"], fields["number"]
    except (ValueError, KeyError, TypeError):
        raise LogCorrupted(f"segment {number} of the log cannot be decoded") from None
    if identity[0] != FORMAT:
        raise LogCorrupted(f"segment {number} of the log has format {identity[0]}, this worker reads {FORMAT}")
    if identity[1:] != (epoch, number):
        raise LogCorrupted(f"segment {number} of the log is labelled segment {identity[2]} of epoch {identity[1]}")
    return header, piece


def _decode_record(compressed: bytes, heading: _SegmentHeader) -> LogRecord:
    if hashlib.sha256(compressed).hexdigest() != heading.digest:
        raise LogCorrupted(f"digest mismatch in the log record that starts at segment {heading.first}")
    first, *lines = gzip.decompress(compressed).split(b"\n")
    header = orjson.loads(first)
    changes: dict[str, bytes | None] = {}
    for line in lines:
        key, value = orjson.loads(line)
        changes[key] = None if value is None else value.encode()
    if len(changes) != header["changes"]:
        raise LogCorrupted(
            f"the log record that starts at segment {heading.first} has a wrong number of changes: {len(changes)}"
        )
    templates = {key: None if value is None else value.encode() for key, value in header.get("templates", {}).items()}
    return LogRecord(header["since"], header["revision"], changes, tuple(header["tokenKeys"]), templates)


def _apply_record(state: ReplayedState | None, record: LogRecord, number: int) -> ReplayedState:
    if not record.since:
        state = ReplayedState(record.revision, {}, record.token_keys, number)
    elif state is None:
        raise SegmentMissing(f"the log has no complete base before segment {number}")
    elif record.since != state.revision:
        raise SegmentMissing(
            f"segment {number} of the log follows revision {record.since}, but the previous one is {state.revision}"
        )
    _apply_changes(state.entries, record.changes)
    _apply_changes(state.templates, record.templates)
    return ReplayedState(record.revision, state.entries, state.token_keys, number, state.templates)


def _apply_changes(entries: dict[str, bytes], changes: EntryChanges) -> None:
    for key, value in changes.items():
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value
