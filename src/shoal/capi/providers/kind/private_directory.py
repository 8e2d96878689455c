"""Private directories for kind's kubeconfig and config, and the end of those that a killed Shoal left.

Both files may have credentials. A lock on the directory tells whether its process still runs, whatever its id.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX, UNLOCKED_PREFIX = "shoal-kind-", ".shoal-kind-"
MEMORY = Path("/dev/shm")
"""Used where the disk is full: the deletion of a cluster makes room."""


@contextmanager
def private_directory() -> Iterator[Path]:
    unlocked = _new_directory()
    directory = unlocked.with_name(unlocked.name.removeprefix("."))
    try:
        with _lock(unlocked):
            # Under this name it may be taken for one that a killed process left.
            unlocked.rename(directory)
            yield directory
    finally:
        for each in (unlocked, directory):
            shutil.rmtree(each, ignore_errors=True)


def end_orphans() -> list[Path]:
    """Kills the processes of directories whose Shoal was killed, removes these directories, and returns them."""
    orphans = []
    for parent in {Path(tempfile.gettempdir()), MEMORY}:
        for directory in parent.glob(f"{PREFIX}*"):
            with suppress(OSError):
                if directory.stat().st_uid != os.getuid() or not directory.is_dir():
                    continue
                with _lock(directory):
                    _kill_processes(directory)
                    shutil.rmtree(directory, ignore_errors=True)
                    orphans.append(directory)
    return orphans


def _new_directory() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix=UNLOCKED_PREFIX))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not MEMORY.is_dir():
            raise
    return Path(tempfile.mkdtemp(prefix=UNLOCKED_PREFIX, dir=MEMORY))


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Raises OSError if a process has it. The system releases it when that process ends in any way."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _kill_processes(directory: Path) -> None:
    """kind ends with its Shoal, but programs that it runs do not. Their environment names the directory."""
    mark = f"KUBECONFIG={directory}/".encode()
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in file.read_bytes():
                os.kill(int(file.parent.name), signal.SIGKILL)
