"""Small disks, which can be filled."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PIECE = b"x" * 65536


def is_root() -> bool:
    return os.geteuid() == 0


@contextmanager
def small_disk(at: Path, size: str) -> Iterator[Path]:
    at.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(at)], check=True)
    try:
        yield at
    finally:
        # Whatever still has a file open there keeps it, and nobody else sees it.
        subprocess.run(["umount", "-l", str(at)], check=False)


def fill_disk(filler: Path) -> None:
    """Until nothing more fits."""
    with filler.open("wb", buffering=0) as file:
        for piece in (PIECE, b"x"):
            try:
                while True:
                    file.write(piece)
            except OSError:
                continue
