"""The backup file: a header, records in chunks, a trailer. It is streamed both ways and every part is verified.

    file    = "SHOALBAK" format(2) chunk…
    chunk   = type(1) length(4) crc32(4) zlib(payload)      the checksum is of type, length and what follows
    types   H header, JSON; K keys, JSON, at most one; R records; T trailer, JSON, the last;
            E the reason why the sender could not continue
    record  = key length(4) key value length(4) value revision(8)

Numbers are big-endian. The trailer holds the number of records and the SHA-256 of every byte before it, so truncated
files and trailing bytes are detected.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from shoal.objects.errors import StoreError
from shoal.store.interface import KeyValue

MAGIC = b"SHOALBAK"
FORMAT_VERSION = 1
CHUNK_BYTES = 1 << 20
MAX_CHUNK_BYTES = 64 << 20
"""No store takes a value of that size. A longer chunk is invalid and is not read into memory."""
COMPRESSION_LEVEL = 6
_CHUNK_HEADER = struct.Struct(">cII")
_LENGTH = struct.Struct(">I")
_REVISION = struct.Struct(">Q")


class InvalidBackup(StoreError):
    """The file is not restored: it is damaged, not a backup, or of a newer Shoal."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class BackupHeader:
    store: str
    """The ID of the store."""
    kind: str
    """The kind of store it was taken from, sqlite or etcd. It can be restored into either."""
    revision: int
    """The revision of the state in the file."""
    newest: int
    """The newest revision of the store when the file was made; above `revision` for a point in the past."""
    time: str
    version: str
    """The version of Shoal that made it."""


class BackupWriter:
    """Passes the bytes of the file to `write`, in order."""

    def __init__(
        self, write: Callable[[bytes], object], header: BackupHeader, keys: Mapping[str, str] | None = None
    ) -> None:
        self._write, self._digest = write, hashlib.sha256()
        self._records = self._size = 0
        self._pending: list[bytes] = []
        self._emit(MAGIC + FORMAT_VERSION.to_bytes(2))
        self._write_chunk(b"H", _to_json(asdict(header)))
        if keys:
            self._write_chunk(b"K", _to_json(dict(keys)))

    @property
    def records(self) -> int:
        return self._records

    def add(self, record: KeyValue) -> None:
        key = record.key.encode()
        parts = _LENGTH.pack(len(key)), key, _LENGTH.pack(len(record.value)), record.value
        self._pending += (*parts, _REVISION.pack(record.revision))
        self._size += len(key) + len(record.value) + 16
        self._records += 1
        if self._size >= CHUNK_BYTES:
            self._flush()

    def add_all(self, records: Iterable[KeyValue]) -> None:
        for record in records:
            self.add(record)

    def close(self) -> None:
        """Writes the trailer; the file is valid only after that."""
        self._flush()
        self._write_chunk(b"T", _to_json({"records": self._records, "sha256": self._digest.hexdigest()}))

    def _flush(self) -> None:
        if self._pending:
            self._write_chunk(b"R", b"".join(self._pending))
            self._pending.clear()
            self._size = 0

    def _write_chunk(self, kind: bytes, payload: bytes) -> None:
        self._emit(_pack_chunk(kind, payload))

    def _emit(self, data: bytes) -> None:
        self._digest.update(data)
        self._write(data)


class BackupReader:
    """Reads the header at once and records on demand. A caller that has read the last record has verified the whole
    file.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        self._digest = hashlib.sha256()
        self.keys: dict[str, str] = {}
        """The certificate authority, the service account key and the administrator's token, if they were included."""
        self._check_magic()
        kind, payload = self._read_chunk()
        if kind != b"H":
            raise self._unexpected_chunk_error(kind, payload)
        self.header = self._parse_header(payload)

    def records(self) -> Iterator[KeyValue]:
        count = 0
        while True:
            digest_before = self._digest.hexdigest()
            kind, payload = self._read_chunk()
            if kind == b"K" and not count and not self.keys:
                self.keys = self._parse_json(payload)
            elif kind == b"R":
                for record in self._parse_records(payload):
                    count += 1
                    yield record
            elif kind == b"T":
                self._check_trailer(self._parse_json(payload), count, digest_before)
                return
            else:
                raise self._unexpected_chunk_error(kind, payload)

    def _check_magic(self) -> None:
        header = self._file.read(len(MAGIC) + 2)
        self._digest.update(header)
        if not header.startswith(MAGIC):
            if header and MAGIC.startswith(header):
                raise self._damage_error("the file is truncated")
            raise InvalidBackup(f"{self._name} is not a Shoal backup", "make one: shoal backup FILE")
        if len(header) < len(MAGIC) + 2:
            raise self._damage_error("the file is truncated")
        version = int.from_bytes(header[len(MAGIC) :])
        if version > FORMAT_VERSION:
            raise InvalidBackup(
                f"{self._name} has backup format {version}, this Shoal reads up to {FORMAT_VERSION}",
                "use the newer Shoal that made it",
            )
        if version != FORMAT_VERSION:
            raise self._damage_error(f"unknown format version {version}")

    def _read_chunk(self) -> tuple[bytes, bytes]:
        kind, length, checksum = _CHUNK_HEADER.unpack(self._read_exactly(_CHUNK_HEADER.size))
        if length > MAX_CHUNK_BYTES:
            raise self._damage_error("a chunk exceeds the maximum chunk size")
        packed = self._read_exactly(length)
        if _checksum(kind, packed) != checksum:
            raise self._damage_error("checksum mismatch")
        decompressor = zlib.decompressobj()
        try:
            payload = decompressor.decompress(packed, MAX_CHUNK_BYTES)
        except zlib.error:
            raise self._damage_error("a chunk cannot be decompressed") from None
        if not decompressor.eof or decompressor.unused_data:
            raise self._damage_error("a chunk cannot be decompressed")
        return kind, payload

    def _read_exactly(self, length: int) -> bytes:
        data = self._file.read(length)
        if len(data) != length:
            raise self._damage_error("the file is truncated")
        self._digest.update(data)
        return data

    def _parse_records(self, payload: bytes) -> Iterator[KeyValue]:
        offset = 0
        try:
            while offset < len(payload):
                key, offset = _read_sized(payload, offset)
                value, offset = _read_sized(payload, offset)
                (revision,) = _REVISION.unpack_from(payload, offset)
                offset += _REVISION.size
                yield KeyValue(key.decode(), value, revision)
        except (struct.error, UnicodeDecodeError):
            raise self._damage_error("a record is malformed") from None

    def _check_trailer(self, trailer: dict[str, Any], count: int, digest: str) -> None:
        if trailer.get("records") != count or trailer.get("sha256") != digest:
            raise self._damage_error("the records do not match the trailer")
        if self._file.read(1):
            raise self._damage_error("there is data after the trailer")

    def _parse_header(self, payload: bytes) -> BackupHeader:
        fields = self._parse_json(payload)
        try:
            return BackupHeader(**{name: fields[name] for name in BackupHeader.__dataclass_fields__})
        except KeyError as error:
            raise self._damage_error(f"the header lacks {error}") from None

    def _parse_json(self, payload: bytes) -> dict[str, Any]:
        try:
            value = json.loads(payload)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise self._damage_error("a chunk is not a JSON object")
        return value

    def _unexpected_chunk_error(self, kind: bytes, payload: bytes) -> StoreError:
        if kind == b"E":
            return StoreError(payload.decode(errors="replace"))
        return self._damage_error(f"unexpected chunk of type {kind!r}")

    def _damage_error(self, reason: str) -> InvalidBackup:
        return InvalidBackup(
            f"{self._name} is damaged: {reason}; nothing was restored",
            "use another copy of the file, or an older backup",
        )


def verify(file: BinaryIO, name: str) -> tuple[BackupHeader, int]:
    """Reads the whole file and returns the header and the number of records. Raises InvalidBackup."""
    reader = BackupReader(file, name)
    return reader.header, sum(1 for _ in reader.records())


def error_chunk(reason: str, *, started: bool) -> bytes:
    """Returns the chunk that is sent in place of the rest when the store cannot be read; the reader raises its
    message.
    """
    return (b"" if started else MAGIC + FORMAT_VERSION.to_bytes(2)) + _pack_chunk(b"E", reason.encode())


def _pack_chunk(kind: bytes, payload: bytes) -> bytes:
    packed = zlib.compress(payload, COMPRESSION_LEVEL)
    return _CHUNK_HEADER.pack(kind, len(packed), _checksum(kind, packed)) + packed


def _checksum(kind: bytes, packed: bytes) -> int:
    return zlib.crc32(packed, zlib.crc32(kind + _LENGTH.pack(len(packed))))


def _read_sized(payload: bytes, offset: int) -> tuple[bytes, int]:
    (length,) = _LENGTH.unpack_from(payload, offset)
    offset += _LENGTH.size
    data = payload[offset : offset + length]
    if len(data) != length:
        raise struct.error
    return data, offset + length


def _to_json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
