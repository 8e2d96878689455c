"""`make dist`: the source archive and the wheel into dist/, and their SHA-256 sums beside them.

The same tree gives the same bytes, wherever and whenever it is built. No compiler and no node are needed: the
dashboard's bundle is in the tree, and nothing else is made.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SUMS = "SHA256SUMS"


def build(directory: Path, *, root: Path = ROOT, targets: tuple[str, ...] = ("sdist", "wheel")) -> list[Path]:
    """The files made, in the order of the targets."""
    made = []
    for target in targets:
        command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(directory)]
        before = set(directory.glob("*"))
        subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        made += sorted(set(directory.glob("*")) - before)
    return made


def sums(files: list[Path]) -> str:
    """As `sha256sum --check` reads them."""
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)


def main() -> None:
    directory = ROOT / "dist"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    text = sums(build(directory))
    (directory / SUMS).write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
