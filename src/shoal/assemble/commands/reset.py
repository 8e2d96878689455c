"""`shoal reset`: removes a data directory. It refuses other directories and directories in use."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from shoal.assemble.storage.datadir import DataDirError

MARKER_FILE = "format"
"""The file that every data directory has. It is removed last, so an interrupted removal leaves a valid data
directory.
"""


@dataclass(frozen=True, slots=True)
class DataDirContents:
    path: Path
    workers: tuple[str, ...]
    """Data directories of workers in it."""
    size: int
    """Bytes."""


def inspect_data_dir(path: Path) -> DataDirContents:
    """Raises DataDirError if it is not a data directory."""
    if path.is_symlink():
        raise DataDirError(f"{path} is a symbolic link", f"give the directory itself: {path.resolve()}")
    if not path.is_dir():
        raise DataDirError(f"there is no data directory {path}", "shoal reset --data-dir DIR removes another")
    if not (path / MARKER_FILE).is_file():
        raise DataDirError(f"{path} is not a Shoal data directory", "it has no file 'format'; nothing was removed")
    workers = tuple(sorted(each.parent.name for each in path.glob(f"workers/*/{MARKER_FILE}")))
    return DataDirContents(path, workers, sum(file.lstat().st_size for file in path.rglob("*") if file.is_file()))


def remove_data_dir(path: Path) -> None:
    """Removes everything. Raises DataDirError, and removes nothing, if a process holds it or one of the workers in
    it.
    """
    with _lock_all([path, *path.glob("workers/*")]):
        for each in sorted(path.iterdir()):
            if each.name in (MARKER_FILE, "lock"):
                continue
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink()
        (path / MARKER_FILE).unlink()
        (path / "lock").unlink(missing_ok=True)
    path.rmdir()


@contextmanager
def _lock_all(directories: list[Path]) -> Iterator[None]:
    """Locks all of them, so that no server starts in a directory that is being removed."""
    with ExitStack() as stack:
        for directory in directories:
            if not (directory / MARKER_FILE).is_file():
                continue
            lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            stack.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = os.pread(lock, 32, 0).decode().strip() or "unknown"
                hint = f"stop it first: kill {holder}" if holder.isdigit() else "stop it first"
                raise DataDirError(f"{directory} is in use by the shoal process {holder}", hint) from None
        yield
