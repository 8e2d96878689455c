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
FORMAT = 1
CHUNK_BYTES = 1 << 20
LARGEST_CHUNK = 64 << 20
"""No store takes a value of that size. A longer chunk is invalid and is not read into memory."""
LEVEL = 6
_HEAD = struct.Struct(">cII")
_LENGTH = struct.Struct(">I")
_REVISION = struct.Struct(">Q")


class BackupRefused(StoreError):
    """The file is not restored: it is damaged, not a backup, or of a newer Shoal."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Header:
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


class Writer:
    """Passes the bytes of the file to `write`, in order."""

    def __init__(self, write: Callable[[bytes], object], header: Header, keys: Mapping[str, str] | None = None) -> None:
        self._write, self._digest = write, hashlib.sha256()
        self._records = self._size = 0
        self._pending: list[bytes] = []
        self._out(MAGIC + FORMAT.to_bytes(2))
        self._chunk(b"H", _json(asdict(header)))
        if keys:
            self._chunk(b"K", _json(dict(keys)))

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
        self._chunk(b"T", _json({"records": self._records, "sha256": self._digest.hexdigest()}))

    def _flush(self) -> None:
        if self._pending:
            self._chunk(b"R", b"".join(self._pending))
            self._pending.clear()
            self._size = 0

    def _chunk(self, kind: bytes, payload: bytes) -> None:
        self._out(_packed(kind, payload))

    def _out(self, data: bytes) -> None:
        self._digest.update(data)
        self._write(data)


class Reader:
    """Reads the header at once and records on demand. A caller that has read the last record has verified the whole
    file.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        self._digest = hashlib.sha256()
        self.keys: dict[str, str] = {}
        """The certificate authority, the service account key and the administrator's token, if they were included."""
        self._check_magic()
        kind, payload = self._chunk()
        if kind != b"H":
            raise self._unexpected(kind, payload)
        self.header = self._header(payload)

    def records(self) -> Iterator[KeyValue]:
        count = 0
        while True:
            before = self._digest.hexdigest()
            kind, payload = self._chunk()
            if kind == b"K" and not count and not self.keys:
                self.keys = self._parsed(payload)
            elif kind == b"R":
                for record in self._split(payload):
                    count += 1
                    yield record
            elif kind == b"T":
                self._check_end(self._parsed(payload), count, before)
                return
            else:
                raise self._unexpected(kind, payload)

    def _check_magic(self) -> None:
        found = self._file.read(len(MAGIC) + 2)
        self._digest.update(found)
        if not found.startswith(MAGIC):
            if found and MAGIC.startswith(found):
                raise self._damaged("it ends in the middle")
            raise BackupRefused(f"{self._name} is not a Shoal backup", "shoal backup FILE makes one")
        if len(found) < len(MAGIC) + 2:
            raise self._damaged("it ends in the middle")
        number = int.from_bytes(found[len(MAGIC) :])
        if number > FORMAT:
            raise BackupRefused(
                f"{self._name} has backup format {number}, this Shoal reads up to {FORMAT}",
                "use the newer Shoal that made it",
            )
        if number != FORMAT:
            raise self._damaged(f"it names the format {number}, which there never was")

    def _chunk(self) -> tuple[bytes, bytes]:
        kind, length, checksum = _HEAD.unpack(self._exactly(_HEAD.size))
        if length > LARGEST_CHUNK:
            raise self._damaged("a part of it says it is larger than any part can be")
        packed = self._exactly(length)
        if _checksum(kind, packed) != checksum:
            raise self._damaged("a checksum is wrong")
        unpacking = zlib.decompressobj()
        try:
            payload = unpacking.decompress(packed, LARGEST_CHUNK)
        except zlib.error:
            raise self._damaged("a part of it cannot be unpacked") from None
        if not unpacking.eof or unpacking.unused_data:
            raise self._damaged("a part of it cannot be unpacked")
        return kind, payload

    def _exactly(self, length: int) -> bytes:
        found = self._file.read(length)
        if len(found) != length:
            raise self._damaged("it ends in the middle")
        self._digest.update(found)
        return found

    def _split(self, payload: bytes) -> Iterator[KeyValue]:
        at = 0
        try:
            while at < len(payload):
                key, at = _sized(payload, at)
                value, at = _sized(payload, at)
                (revision,) = _REVISION.unpack_from(payload, at)
                at += _REVISION.size
                yield KeyValue(key.decode(), value, revision)
        except (struct.error, UnicodeDecodeError):
            raise self._damaged("a record in it is not one") from None

    def _check_end(self, trailer: dict[str, Any], count: int, digest: str) -> None:
        if trailer.get("records") != count or trailer.get("sha256") != digest:
            raise self._damaged("it does not hold what its end says")
        if self._file.read(1):
            raise self._damaged("it goes on behind its end")

    def _header(self, payload: bytes) -> Header:
        found = self._parsed(payload)
        try:
            return Header(**{name: found[name] for name in Header.__dataclass_fields__})
        except KeyError as error:
            raise self._damaged(f"its header does not say {error}") from None

    def _parsed(self, payload: bytes) -> dict[str, Any]:
        try:
            found = json.loads(payload)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._damaged("a part of it is not JSON")
        return found

    def _unexpected(self, kind: bytes, payload: bytes) -> StoreError:
        if kind == b"E":
            return StoreError(payload.decode(errors="replace"))
        return self._damaged(f"a part of the kind {kind!r} is not where it belongs")

    def _damaged(self, why: str) -> BackupRefused:
        return BackupRefused(
            f"{self._name} is damaged: {why}; nothing of it was restored", "take another copy of it, or an older backup"
        )


def verify(file: BinaryIO, name: str) -> tuple[Header, int]:
    """Reads the whole file and returns the header and the number of records. Raises InvalidBackup."""
    reader = Reader(file, name)
    return reader.header, sum(1 for _ in reader.records())


def failed(reason: str, *, begun: bool) -> bytes:
    """Returns the chunk that is sent in place of the rest when the store cannot be read; the reader raises its
    message.
    """
    return (b"" if begun else MAGIC + FORMAT.to_bytes(2)) + _packed(b"E", reason.encode())


def _packed(kind: bytes, payload: bytes) -> bytes:
    packed = zlib.compress(payload, LEVEL)
    return _HEAD.pack(kind, len(packed), _checksum(kind, packed)) + packed


def _checksum(kind: bytes, packed: bytes) -> int:
    return zlib.crc32(packed, zlib.crc32(kind + _LENGTH.pack(len(packed))))


def _sized(payload: bytes, at: int) -> tuple[bytes, int]:
    (length,) = _LENGTH.unpack_from(payload, at)
    at += _LENGTH.size
    found = payload[at : at + length]
    if len(found) != length:
        raise struct.error
    return found, at + length


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
