"""The audit log backend: appends lines to a file and rotates it by size.

Lines of one event loop turn are written together. A write error is logged and never fails a request.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

log = logging.getLogger("shoal.apiserver")

STDOUT = "-"
MEGABYTE = 1024 * 1024


class AuditLogBackend:
    def __init__(self, path: str, max_size_mb: int = 100, max_backups: int = 0) -> None:
        """`max_backups` is the number of rotated files kept (0: all). Path `-` is the standard output, which is not
        rotated.
        """
        self._path = Path(path) if path != STDOUT else None
        self._max_bytes, self._max_backups = max_size_mb * MEGABYTE, max_backups
        self._lines: list[bytes] = []
        self._is_failing = False
        self._size = 0
        self._file = sys.stdout.fileno() if self._path is None else self._open(self._path)

    def _open(self, path: Path) -> int:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(file).st_size
        return file

    def write(self, line: bytes) -> None:
        """Appends one line, given without its line end."""
        if not self._lines:
            asyncio.get_running_loop().call_soon(self.flush)
        self._lines.append(line)

    def flush(self) -> None:
        if not self._lines:
            return
        data = b"\n".join([*self._lines, b""])
        self._lines.clear()
        try:
            if self._path is not None and self._size and self._size + len(data) > self._max_bytes:
                self._rotate(self._path)
            self._size += len(data)
            while data:
                data = data[os.write(self._file, data) :]
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                log.error("the audit log cannot be written: %s", error)
            self._is_failing = True

    def _rotate(self, path: Path) -> None:
        timestamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
        path.rename(path.with_name(f"{path.stem}-{timestamp}{path.suffix}"))
        os.close(self._file)
        self._file = self._open(path)
        if self._max_backups:
            backups = sorted(backup for backup in path.parent.iterdir() if self._is_backup(backup.name, path))
            for backup in backups[: -self._max_backups]:
                backup.unlink(missing_ok=True)

    @staticmethod
    def _is_backup(name: str, path: Path) -> bool:
        if not (name.startswith(path.stem + "-") and name.endswith(path.suffix)):
            return False
        try:
            datetime.strptime(name[len(path.stem) + 1 : len(name) - len(path.suffix)], "%Y-%m-%dT%H-%M-%S.%f")
        except ValueError:
            return False
        return True

    def close(self) -> None:
        self.flush()
        if self._path is not None:
            os.close(self._file)
