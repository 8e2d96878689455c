"""The wheels of an environment: Shoal's own, and the locked libraries for a Python, a libc and an architecture.

The libraries are downloaded by the pip of this machine, as it is configured, and checked against the hashes of the
lock file. They are kept in build/wheels, so that the next build needs no package index.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from scripts import dist

ROOT = Path(__file__).parent.parent
LOCK = Path("requirements/runtime.txt")
KEPT = ROOT / "build" / "wheels"


class BuildError(Exception):
    """What is wrong, and what to do about it."""


@dataclass(frozen=True)
class Target:
    python: str
    """Such as 3.13."""
    glibc: tuple[int, int]
    machine: str
    """As uname prints it: x86_64 or aarch64."""

    @property
    def abi(self) -> str:
        return f"cp{self.python.replace('.', '')}"

    @property
    def platforms(self) -> list[str]:
        """All that wheels may be tagged with to run there. pip does not know that newer ones include older ones."""
        major, newest = self.glibc
        tags = [f"manylinux_{major}_{minor}" for minor in range(newest, 4, -1)]
        return [f"{tag}_{self.machine}" for tag in (*tags, "manylinux2014", "manylinux2010", "manylinux1", "linux")]

    @property
    def markers(self) -> dict[str, str]:
        return {
            "implementation_name": "cpython",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }


def collect(target: Target, root: Path = ROOT) -> list[Path]:
    """The wheels of the tree below root: its own and those that it has locked."""
    own = KEPT / "shoal"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    return [*libraries(target, (root / LOCK).read_text()), *dist.build(own, root=root, targets=("wheel",))]


def libraries(target: Target, lock: str) -> list[Path]:
    lines = "\n".join(requirements(target, lock))
    digest = hashlib.sha256(f"{target}\n{lines}".encode()).hexdigest()[:12]
    folder = KEPT / f"{target.abi}-{target.machine}-{digest}"
    if not folder.is_dir():
        unfinished = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        file = unfinished / "requirements.txt"
        file.write_text(lines)
        download(target, file, unfinished)
        file.unlink()
        unfinished.rename(folder)
    return sorted(folder.iterdir())


def requirements(target: Target, lock: str) -> Iterator[str]:
    """Those lines of the lock file that are for the target, without their markers: pip would ask its own Python."""
    for line in lock.replace("\\\n", " ").splitlines():
        text, hashes, rest = line.partition(" --hash")
        if text.strip() and not text.startswith("#"):
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate(target.markers):
                yield f"{requirement.name}{requirement.specifier}{hashes}{rest}"


def download(target: Target, file: Path, folder: Path) -> None:
    flags = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--require-hashes"]
    python = ["--python-version", target.python, "--implementation", "cp"]
    abis = [word for abi in (target.abi, "abi3", "none") for word in ("--abi", abi)]
    platforms = [word for platform in target.platforms for word in ("--platform", platform)]
    selection = ["--only-binary", ":all:", *python, *abis, *platforms]
    command = [*pip(), "download", *flags, *selection, "--dest", str(folder), "-r", str(file)]
    if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode != 0:
        raise BuildError(
            f"the libraries for Python {target.python} on {target.machine} cannot be downloaded\n"
            "hint: see the output above; pip config list prints the configured package index"
        )


def pip() -> list[str]:
    """That of this environment, else of the Python it was created from."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    return [os.path.realpath(sys.executable), "-m", "pip"]
