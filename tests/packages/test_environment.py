"""The environment of the image and of the Debian package, from small wheels and from a library of this environment."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts import environment
from scripts.wheels import LOCK, ROOT, Target, requirements

POINTS = "[console_scripts]\nshoal = shoal.cli.main:main\nkubectl-shoal = shoal.cli.main:main\n"
SHOAL = {
    "shoal/__init__.py": "",
    "shoal/cli/main.py": "def main():\n    import sys\n    print('shoal', *sys.argv[1:])\n",
    "shoal/tests/sample.c": "is a file of Shoal",
    "shoal-1.0.dist-info/entry_points.txt": POINTS,
}
LIBRARY = {
    "library/__init__.py": "",
    "library/py.typed": "",
    "library/core.pyi": "",
    "library/core.pyx": "",
    "library/include/core.h": "",
    "library/tests/__init__.py": "",
    "library/inner/tests/data/tests/more.py": "",
    "library-2.0.data/purelib/beside.py": "",
    "library-2.0.data/scripts/library": "#!python\n",
    "library-2.0.dist-info/METADATA": "Name: library\n",
}


def wheel(directory: Path, name: str, files: dict[str, str]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return file


def made(directory: Path) -> Path:
    wheels = [wheel(directory / "wheels", "shoal-1.0", SHOAL), wheel(directory / "wheels", "library-2.0", LIBRARY)]
    environment.make(directory / "made", wheels, "3.13", sys.executable)
    return directory / "made"


def contents(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir()}


def test_what_no_run_reads_is_left_out(tmp_path: Path) -> None:
    directory = made(tmp_path)
    packages = "lib/python3.13/site-packages"
    assert contents(directory) == {
        "pyvenv.cfg",
        *(f"bin/{name}" for name in ("kubectl-shoal", "python", "python3", "shoal")),
        *(f"{packages}/{name}" for name in SHOAL),
        f"{packages}/beside.py",
        f"{packages}/library/__init__.py",
        f"{packages}/library/py.typed",
        f"{packages}/library-2.0.dist-info/METADATA",
    }


def test_the_same_wheels_make_the_same_files(tmp_path: Path) -> None:
    def facts(directory: Path) -> list[tuple[str, int, float, str]]:
        found = []
        for path in sorted(directory.rglob("*")):
            status = path.lstat()
            content = os.readlink(path) if path.is_symlink() else "" if path.is_dir() else path.read_text()
            found.append((str(path.relative_to(directory)), status.st_mode, status.st_mtime, content))
        return found

    first = facts(made(tmp_path / "1"))
    before = os.umask(0o077)
    try:
        assert facts(made(tmp_path / "2")) == first
    finally:
        os.umask(before)
    assert {mode & 0o777 for name, mode, _, _ in first if name.endswith((".py", "/cli"))} == {0o644, 0o755}


def test_its_programs_run_with_the_python_of_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "made"
    monkeypatch.setattr(environment, "HOME", str(home))
    version = "{}.{}".format(*sys.version_info)
    environment.make(home, [wheel(tmp_path / "wheels", "shoal-1.0", SHOAL)], version, os.path.realpath(sys.executable))
    done = subprocess.run([home / "bin/shoal", "up"], env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "shoal up\n", "")


def test_a_wheel_cannot_write_elsewhere(tmp_path: Path) -> None:
    outside = wheel(tmp_path, "outside-1.0", {"../../outside": ""})
    with pytest.raises(ValueError, match=r"^outside-1.0-py3-none-any.whl has a file outside the environment: "):
        environment.make(tmp_path / "made", [outside], "3.13", sys.executable)


@pytest.mark.skipif(platform.system() != "Linux", reason="ELF is the format of Linux")
@pytest.mark.parametrize("name", ["yaml._yaml", "uvloop.loop", "orjson"])
def test_a_library_is_loaded_without_what_debuggers_read(name: str, tmp_path: Path) -> None:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    if spec.submodule_search_locations is not None:
        (file,) = Path(spec.submodule_search_locations[0]).glob("*.so")
    else:
        file = Path(str(spec.origin))
    whole = file.read_bytes()
    short = environment.loadable(whole)
    assert len(short) < len(whole)
    assert environment.loadable(short) == short
    copy = tmp_path / file.name
    copy.write_bytes(short)
    script = f"import ctypes; ctypes.PyDLL({str(copy)!r})"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_what_is_no_shared_object_stays() -> None:
    assert environment.loadable(b"#!/bin/sh\n") == b"#!/bin/sh\n"
    assert environment.loadable(b"") == b""


def test_a_library_that_is_there_twice_is_there_once(tmp_path: Path) -> None:
    files = {"library/lib/a.so.1": "same", "library/lib/a.so.1.2": "same", "library/b.so": "other"}
    environment.unpack(wheel(tmp_path, "library-2.0", files), tmp_path / "packages")
    environment.trim(tmp_path / "packages")
    (link,) = (path for path in (tmp_path / "packages").rglob("*.so*") if path.is_symlink())
    assert (link.name, os.readlink(link), link.read_text()) == ("a.so.1.2", "a.so.1", "same")


def test_the_lines_of_the_lock_file_for_a_target() -> None:
    lock = (ROOT / LOCK).read_text()
    old, new = (list(requirements(Target(version, (2, 36), "x86_64"), lock)) for version in ("3.11", "3.13"))
    assert len(old) == len(new)
    for lines in (old, new):
        assert [line.partition("==")[0] for line in lines].count("numpy") == 1
        assert all(" --hash=sha256:" in line and ";" not in line for line in lines)
    assert set(old) != set(new)
    pinned = {line.partition(" ")[0] for line in lock.splitlines() if "==" in line}
    assert {line.partition(" ")[0] for line in [*old, *new]} == pinned


def test_wheels_for_older_libraries_run_on_newer_ones() -> None:
    platforms = Target("3.13", (2, 36), "aarch64").platforms
    assert {"manylinux_2_36_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"} <= set(platforms)
    assert "manylinux_2_37_aarch64" not in platforms
