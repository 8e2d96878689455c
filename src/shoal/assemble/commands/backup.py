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

from shoal.assemble.storage.backup_stream import encode_backup
from shoal.assemble.storage.config import StoreSettings
from shoal.assemble.storage.datadir import DataDirError
from shoal.assemble.storage.identity import IDENTITY_METADATA, read_identity
from shoal.assemble.storage.snapshot import open_snapshot
from shoal.client.https import HttpsTransport
from shoal.client.kubeconfig import load_rest_config
from shoal.clock import SystemClock
from shoal.objects.errors import Forbidden, Unauthorized
from shoal.store.backup.format import BackupHeader, verify
from shoal.store.backup.snapshot import StoreSnapshot


@dataclass(frozen=True, slots=True)
class BackupOptions:
    file: Path
    data_dir: Path
    store: StoreSettings
    kubeconfig: Path | None = None
    """The kubeconfig of a running server, which is used in place of the store."""
    revision: int = 0
    with_keys: bool = False


@dataclass(frozen=True, slots=True)
class BackupResult:
    header: BackupHeader
    records: int
    size: int


def backup(options: BackupOptions) -> BackupResult:
    """Raises StoreError, DataDirError, Unreachable or a StatusError; then there is no file."""
    if options.file.exists():
        raise DataDirError(f"{options.file} exists already", "give another name; existing backups are not overwritten")
    if not options.file.absolute().parent.is_dir():
        raise DataDirError(f"{options.file.parent} is not a directory", "create it first, or give another name")
    hidden = options.file.with_name(f".{options.file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            asyncio.run(_write_backup(file, options))
            file.flush()
            os.fsync(file.fileno())
        with hidden.open("rb") as file:
            header, records = verify(file, str(options.file))
        size = hidden.stat().st_size
        _publish_file(hidden, options.file)
    finally:
        hidden.unlink(missing_ok=True)
    return BackupResult(header, records, size)


def _publish_file(hidden: Path, file: Path) -> None:
    """Gives the file its name. Unlike a rename, a link never replaces a file, but not every file system supports
    links.
    """
    try:
        os.link(hidden, file)
    except FileExistsError:
        raise DataDirError(f"{file} was created by another process in the meantime", "give another name") from None
    except OSError:
        hidden.rename(file)
    handle = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


async def _write_backup(file: BinaryIO, options: BackupOptions) -> None:
    chunks = _from_server(options, options.kubeconfig) if options.kubeconfig is not None else _from_store(options)
    async with aclosing(chunks):  # type: ignore[type-var]
        async for chunk in chunks:
            await asyncio.to_thread(file.write, chunk)


async def _from_store(options: BackupOptions) -> AsyncIterator[bytes]:
    async with open_snapshot(options.data_dir, options.store, options.revision) as snapshot:
        keys = await _identity_keys(options, snapshot) if options.with_keys else None
        async for piece in encode_backup(snapshot, SystemClock().now(), keys):
            yield piece


async def _identity_keys(options: BackupOptions, snapshot: StoreSnapshot) -> Mapping[str, str]:
    """Returns the identity that the servers of a shared store keep in it, or that of the data directory."""
    stored = await snapshot.get_metadata(IDENTITY_METADATA)
    own: Mapping[str, str] | None = json.loads(stored) if stored else read_identity(options.data_dir)
    if own is None:
        raise DataDirError(f"the keys are not in {options.data_dir}", "leave out --with-keys, or give its --data-dir")
    return own


async def _from_server(options: BackupOptions, kubeconfig: Path) -> AsyncIterator[bytes]:
    endpoint = load_rest_config(kubeconfig)
    transport = HttpsTransport(endpoint.server.partition("/clusters/")[0], endpoint.tls_context)
    headers = {"authorization": f"Bearer {endpoint.token}"} if endpoint.token else {}
    query = urlencode({"revision": options.revision, "keys": "true" if options.with_keys else "false"})
    try:
        status, chunks = await transport.stream("GET", "/backup", query, headers)
        if status != 200:
            _raise_response_error(status, b"".join([chunk async for chunk in chunks]))
        async for chunk in chunks:
            yield chunk
    finally:
        await transport.close()


def _raise_response_error(status: int, body: bytes) -> None:
    try:
        message = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        message = f"the server answered {status}"
    if status in (401, 403):
        raise (Unauthorized if status == 401 else Forbidden)(message)
    raise DataDirError(message, "this version of Shoal serves no backups: give its --data-dir")
