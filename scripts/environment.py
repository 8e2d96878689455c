"""A virtual environment for the Python of another machine, unpacked from wheels, without what no run reads.

Nothing is compiled and no program of the target runs, so the target may have another architecture. The same wheels
give the same bytes. The image (image.py) and the Debian package (deb.py) contain such an environment.
"""

from __future__ import annotations

import configparser
import hashlib
import os
import shutil
import struct
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

TIME = 1580601600
"""The time of every file: that of the files in a wheel by hatchling."""
HOME = "/opt/shoal"
"""Where the environment is on the target. The scripts name it."""
NEEDLESS_FOLDERS = frozenset({"tests"})
NEEDLESS_SUFFIXES = frozenset({".a", ".c", ".cpp", ".h", ".hpp", ".pxd", ".pxi", ".pyi", ".pyx"})
"""Of what compilers and type checkers read."""
ELF_64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")


def make(directory: Path, wheels: Iterable[Path], python: str, interpreter: str) -> None:
    """`python` is a version such as 3.13, `interpreter` the path of that Python on the target."""
    packages = directory / "lib" / f"python{python}" / "site-packages"
    packages.mkdir(parents=True)
    for wheel in sorted(wheels):
        unpack(wheel, packages)
    trim(packages)
    programs = directory / "bin"
    programs.mkdir()
    for name in ("python", "python3"):
        (programs / name).symlink_to(interpreter)
    for name, entry in console_scripts(packages):
        module, function = entry.split(":")
        (programs / name).write_text(
            f"#!{HOME}/bin/python\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
        )
    home = Path(interpreter).parent
    (directory / "pyvenv.cfg").write_text(
        f"home = {home}\ninclude-system-site-packages = false\nversion = {python}\nexecutable = {interpreter}\n"
    )
    settle(directory)


def unpack(wheel: Path, packages: Path) -> None:
    """What pip does with it, except that programs of libraries are left out."""
    with zipfile.ZipFile(wheel) as archive:
        name, version, *_ = wheel.name.split("-")
        data = f"{name}-{version}.data/"
        for member in archive.infolist():
            path = member.filename
            if path.startswith(data):
                kind, _, path = path.removeprefix(data).partition("/")
                if kind not in ("platlib", "purelib"):
                    continue
            target = packages / path
            if not target.resolve().is_relative_to(packages.resolve()):
                raise ValueError(f"{wheel.name} has a file outside the environment: {member.filename}")
            if member.is_dir():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(member))


def trim(packages: Path) -> None:
    """Removes tests, sources of compilers, and of shared objects what is not loaded; links equal files."""
    # Innermost first: a folder that goes may lie in one that goes.
    for path in sorted(packages.rglob("*"), reverse=True):
        name = path.relative_to(packages)
        is_needless = path.name in NEEDLESS_FOLDERS if path.is_dir() else path.suffix in NEEDLESS_SUFFIXES
        if name.parts[0] != "shoal" and is_needless:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    files: dict[str, Path] = {}
    for path in sorted(packages.rglob("*.so*")):
        path.write_bytes(loadable(path.read_bytes()))
        first = files.setdefault(hashlib.sha256(path.read_bytes()).hexdigest(), path)
        if first != path:
            path.unlink()
            path.symlink_to(os.path.relpath(first, path.parent))


def loadable(content: bytes) -> bytes:
    """A shared object without symbols for debuggers: its segments alone, which are all that the loader reads."""
    if not content.startswith(ELF_64_LITTLE_ENDIAN):
        return content
    fields = list(ELF_HEADER.unpack_from(content))
    start, size, count = fields[5], fields[9], fields[10]
    end = start + size * count
    for number in range(count):
        _, _, offset, _, _, length, _, _ = PROGRAM_HEADER.unpack_from(content, start + size * number)
        end = max(end, offset + length)
    # The offset, the number and the names of the sections, which come after the segments.
    fields[6], fields[12], fields[13] = 0, 0, 0
    return ELF_HEADER.pack(*fields) + content[ELF_HEADER.size : end]


def console_scripts(packages: Path) -> Iterator[tuple[str, str]]:
    """Those of Shoal."""
    (file,) = packages.glob("shoal-*.dist-info/entry_points.txt")
    points = configparser.ConfigParser(delimiters=("=",))
    points.read_string(file.read_text())
    yield from sorted(points["console_scripts"].items())


def settle(directory: Path) -> None:
    """Modes and times that depend on nothing of the machine that builds."""
    for path in sorted(directory.rglob("*"), reverse=True):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent == directory / "bin" else 0o644)
        os.utime(path, (TIME, TIME), follow_symlinks=False)
    directory.chmod(0o755)
    os.utime(directory, (TIME, TIME))
