"""The backup file: it round-trips, and nothing else is accepted as one."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.objects.errors import StoreError
from shoal.store.backup import format as backup_format
from shoal.store.backup.format import BackupHeader, BackupReader, BackupWriter, InvalidBackup, error_chunk, verify
from shoal.store.interface import KeyValue

HEADER = BackupHeader("0b8f", "sqlite", 41, 57, "2026-11-16T08:00:00Z", "0.1.0")
KEYS = {"admin-token": "t\n"}
records = st.lists(
    st.builds(KeyValue, st.text(st.characters(exclude_categories=["Cs"])), st.binary(), st.integers(0, 2**64 - 1)),
    max_size=12,
)


def backup_bytes(items: Sequence[KeyValue], keys: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    writer = BackupWriter(out.write, HEADER, keys)
    writer.add_all(items)
    writer.close()
    return out.getvalue()


def invalid_backup_of(data: bytes) -> InvalidBackup:
    with pytest.raises(InvalidBackup) as failed:
        verify(io.BytesIO(data), "file")
    return failed.value


@given(records)
def test_what_goes_in_comes_out(items: list[KeyValue]) -> None:
    reader = BackupReader(io.BytesIO(backup_bytes(items, KEYS)), "file")
    assert reader.header == HEADER
    assert list(reader.records()) == items
    assert reader.keys == KEYS
    assert verify(io.BytesIO(backup_bytes(items)), "file") == (HEADER, len(items))


def test_chunks_are_small_and_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_format, "CHUNK_BYTES", 1000)
    pieces: list[bytes] = []
    writer = BackupWriter(pieces.append, HEADER)
    items = [KeyValue(f"/{n}", b"v" * 100, n) for n in range(100)]
    writer.add_all(items)
    assert len(pieces) > 10, "records leave while others come"
    writer.close()
    assert list(BackupReader(io.BytesIO(b"".join(pieces)), "file").records()) == items


WHOLE = backup_bytes([KeyValue(f"core/configmaps/root/default/c{n}", b'{"n":%d}' % n, n + 2) for n in range(20)], KEYS)


def test_truncation_at_any_byte_is_found() -> None:
    for end in range(len(WHOLE)):
        message = str(invalid_backup_of(WHOLE[:end]))
        assert "the file is truncated" in message if end else message == "file is not a Shoal backup"


@settings(max_examples=400)
@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_changed_byte_is_found(at: int, change: int) -> None:
    changed = bytearray(WHOLE)
    changed[at] ^= change
    invalid_backup_of(bytes(changed))


@given(st.binary(min_size=1, max_size=64))
def test_what_comes_behind_the_end_is_found(more: bytes) -> None:
    assert "there is data after the trailer" in str(invalid_backup_of(WHOLE + more))


@given(st.binary(max_size=200))
def test_anything_else_is_refused(data: bytes) -> None:
    invalid_backup_of(data)
    invalid_backup_of(WHOLE[:10] + data)


def test_a_newer_format_is_refused_with_what_to_do() -> None:
    error = invalid_backup_of(b"SHOALBAK" + (2).to_bytes(2) + WHOLE[10:])
    assert str(error) == "file has backup format 2, this Shoal reads up to 1"
    assert error.hint == "use the newer Shoal that made it"
    assert "unknown format version 0" in str(invalid_backup_of(b"SHOALBAK" + bytes(2) + WHOLE[10:]))


def test_parts_left_out_or_twice_are_found() -> None:
    parts = split(WHOLE)
    head, (header, keys, data, trailer) = WHOLE[:10], parts
    invalid_backup_of(head + header + keys + trailer)
    invalid_backup_of(head + header + keys + data + data + trailer)
    invalid_backup_of(head + header + data + keys + trailer)
    invalid_backup_of(head + keys + header + data + trailer)
    invalid_backup_of(head + data + trailer)
    assert verify(io.BytesIO(head + header + keys + data + trailer), "file")[1] == 20


def test_nothing_large_is_read_into_memory() -> None:
    huge = struct.pack(">cII", b"H", 1 << 31, 0)
    assert "exceeds the maximum chunk size" in str(invalid_backup_of(WHOLE[:10] + huge))
    packed = zlib.compress(bytes(backup_format.MAX_CHUNK_BYTES + 1), 1)
    bomb = struct.pack(">cII", b"H", len(packed), backup_format._checksum(b"H", packed)) + packed
    assert "cannot be decompressed" in str(invalid_backup_of(WHOLE[:10] + bomb))


def test_why_a_server_could_not_go_on_is_said() -> None:
    head, (header, keys, data, _) = WHOLE[:10], split(WHOLE)
    for sent in (error_chunk("gone", started=False), head + header + keys + data + error_chunk("gone", started=True)):
        with pytest.raises(StoreError, match=r"^gone$"):
            verify(io.BytesIO(sent), "file")


def split(data: bytes) -> list[bytes]:
    parts, at = [], 10
    while at < len(data):
        size = 9 + struct.unpack_from(">cII", data, at)[1]
        parts.append(data[at : at + size])
        at += size
    return parts
