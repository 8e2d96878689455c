"""`shoal backup`: one file with a whole store at one revision, from the store itself or from a running server.

The file gets its name when it is complete and has been read back; until then it is a hidden file beside it.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlencode

from shoal.assemble.backup_file import encoded
from shoal.assemble.datadir import DataDirError
from shoal.assemble.identity import NOTE, read_identity
from shoal.assemble.snapshots import open_snapshot
from shoal.assemble.store_settings import StoreSettings
from shoal.client.https import HttpsTransport
from shoal.client.kubeconfig import load_endpoint
from shoal.clock import SystemClock
from shoal.objects.errors import Forbidden, Unauthorized
from shoal.store.backup.format import Header, verify
from shoal.store.backup.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class BackupAsked:
    file: Path
    data_dir: Path
    store: StoreSettings
    kubeconfig: Path | None = None
    """The kubeconfig of a running server, which is used in place of the store."""
    revision: int = 0
    with_keys: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    header: Header
    records: int
    size: int


def backup(asked: BackupAsked) -> Taken:
    """Raises StoreError, DataDirError, Unreachable or a StatusError; then there is no file."""
    if asked.file.exists():
        raise DataDirError(f"{asked.file} is there already", "give another name; an older backup is never written over")
    if not asked.file.absolute().parent.is_dir():
        raise DataDirError(f"{asked.file.parent} is not a directory", "make it first, or give another name")
    hidden = asked.file.with_name(f".{asked.file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            asyncio.run(_fill(file, asked))
            file.flush()
            os.fsync(file.fileno())
        with hidden.open("rb") as file:
            header, records = verify(file, str(asked.file))
        size = hidden.stat().st_size
        _name(hidden, asked.file)
    finally:
        hidden.unlink(missing_ok=True)
    return Taken(header, records, size)


def _name(hidden: Path, file: Path) -> None:
    """Gives the file its name. Unlike a rename, a link never replaces a file, but not every file system supports
    links.
    """
    try:
        os.link(hidden, file)
    except FileExistsError:
        raise DataDirError(f"{file} was made by somebody else meanwhile", "give another name") from None
    except OSError:
        hidden.rename(file)
    handle = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


async def _fill(file: BinaryIO, asked: BackupAsked) -> None:
    pieces = _from_server(asked, asked.kubeconfig) if asked.kubeconfig is not None else _from_store(asked)
    async with aclosing(pieces):  # type: ignore[type-var]
        async for piece in pieces:
            await asyncio.to_thread(file.write, piece)


async def _from_store(asked: BackupAsked) -> AsyncIterator[bytes]:
    async with open_snapshot(asked.data_dir, asked.store, asked.revision) as snapshot:
        keys = await _keys(asked, snapshot) if asked.with_keys else None
        async for piece in encoded(snapshot, SystemClock().now(), keys):
            yield piece


async def _keys(asked: BackupAsked, snapshot: Snapshot) -> Mapping[str, str]:
    """Returns the identity that the servers of a shared store keep in it, or that of the data directory."""
    kept = await snapshot.note(NOTE)
    own: Mapping[str, str] | None = json.loads(kept) if kept else read_identity(asked.data_dir)
    if own is None:
        raise DataDirError(f"the keys are not in {asked.data_dir}", "leave out --with-keys, or give its --data-dir")
    return own


async def _from_server(asked: BackupAsked, kubeconfig: Path) -> AsyncIterator[bytes]:
    endpoint = load_endpoint(kubeconfig)
    transport = HttpsTransport(endpoint.server.partition("/clusters/")[0], endpoint.tls)
    headers = {"authorization": f"Bearer {endpoint.token}"} if endpoint.token else {}
    query = urlencode({"revision": asked.revision, "keys": "true" if asked.with_keys else "false"})
    try:
        status, pieces = await transport.stream("GET", "/backup", query, headers)
        if status != 200:
            _refuse(status, b"".join([piece async for piece in pieces]))
        async for piece in pieces:
            yield piece
    finally:
        await transport.close()


def _refuse(status: int, body: bytes) -> None:
    try:
        message = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        message = f"the server answered {status}"
    if status in (401, 403):
        raise (Unauthorized if status == 401 else Forbidden)(message)
    raise DataDirError(message, "a server of an older Shoal gives no backups: give its --data-dir")
