"""The Debian package: what is in it, that the same tree gives the same bytes, and what its scripts run.

Its libraries are left out: no package index is asked. tests/real/test_debian_machine.py installs it.
"""

from __future__ import annotations

import io
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from scripts import deb, wheels
from shoal import __version__
from tests.packages.building import ROOT

VERSION = f"{__version__}+deb12"
SCRIPTS = ("postinst", "postrm", "prerm")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same one twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wheels, "libraries", lambda target, lock: [])
        patch.setattr(wheels, "KEPT", tmp_path_factory.mktemp("wheels"))
        return [deb.build(tmp_path_factory.mktemp("package"), "12", "arm64") for _ in range(2)]


def members(package: Path) -> dict[str, bytes]:
    content = package.read_bytes()
    assert content.startswith(b"!<arch>\n")
    position, found = 8, {}
    while position < len(content):
        head = content[position : position + 60]
        name, size = head[:16].decode().strip(), int(head[48:58])
        assert head[58:] == b"`\n"
        found[name] = content[position + 60 : position + 60 + size]
        position += 60 + size + size % 2
    return found


def archive(package: Path, name: str) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(members(package)[f"{name}.tar.xz"]))


def text(package: Path, name: str) -> str:
    with archive(package, "control") as control:
        file = control.extractfile(f"./{name}")
        assert file is not None
        return file.read().decode()


def test_the_same_tree_gives_the_same_bytes(packages: list[Path]) -> None:
    first, second = packages
    assert first.read_bytes() == second.read_bytes()
    assert first.name == f"shoal_{VERSION}_arm64.deb"


def test_what_it_says_of_itself(packages: list[Path]) -> None:
    assert list(members(packages[0])) == ["debian-binary", "control.tar.xz", "data.tar.xz"]
    assert members(packages[0])["debian-binary"] == b"2.0\n"
    fields = dict(line.split(": ", 1) for line in text(packages[0], "control").splitlines() if line[0] != " ")
    assert (fields["Package"], fields["Version"], fields["Architecture"]) == ("shoal", VERSION, "arm64")
    assert fields["Depends"] == "python3.11, libc6 (>= 2.36), libgcc-s1, libstdc++6, zlib1g"
    assert text(packages[0], "conffiles") == "/etc/shoal/hub.env\n"


def test_what_it_installs(packages: list[Path]) -> None:
    with archive(packages[0], "data") as data:
        entries = {entry.name[1:]: entry for entry in data.getmembers()}
        assert {(entry.uname, entry.gname, entry.uid, entry.gid) for entry in entries.values()} == {
            ("root", "root", 0, 0)
        }
        for name in ("shoal", "kubectl-shoal", "kubectl_complete-shoal"):
            assert entries[f"/usr/bin/{name}"].linkname == f"/opt/shoal/bin/{name}"
            assert entries[f"/opt/shoal/bin/{name}"].mode == 0o755
        assert entries["/opt/shoal/bin/python"].linkname == "/usr/bin/python3.11"
        assert "/opt/shoal/lib/python3.11/site-packages/shoal/__init__.py" in entries
        assert entries["/etc/shoal"].mode == 0o700, "kubeconfigs with join tokens are put there"
        for unit in (ROOT / "deploy/systemd").glob("*.service"):
            file = data.extractfile(f"./usr/lib/systemd/system/{unit.name}")
            assert file is not None
            assert file.read() == unit.read_bytes()


def test_dpkg_reads_it(packages: list[Path], tmp_path: Path) -> None:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb")
    shown = subprocess.run(
        ["dpkg-deb", "--show", "--showformat", "${Package} ${Version} ${Architecture}", packages[0]],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == f"shoal {VERSION} arm64"
    subprocess.run(["dpkg-deb", "--raw-extract", packages[0], tmp_path / "raw"], check=True)
    if shutil.which("md5sum") is not None:
        sums = ["md5sum", "--check", "--quiet", "DEBIAN/md5sums"]
        subprocess.run(sums, cwd=tmp_path / "raw", check=True)


@pytest.mark.parametrize("name", SCRIPTS)
def test_its_scripts_are_of_the_shell_of_debian(packages: list[Path], name: str) -> None:
    script = text(packages[0], name)
    assert script == (ROOT / "deploy/debian" / name).read_text()
    assert script.startswith("#!/bin/sh\nset -e\n")
    done = subprocess.run(["sh", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_flags_that_it_brings_are_those_of_the_unit() -> None:
    lines = (ROOT / "deploy/debian/hub.env").read_text().splitlines()
    (example,) = (line for line in lines if "SHOAL_FLAGS=" in line)
    unit = (ROOT / "deploy/systemd/shoal-hub.service").read_text()
    assert example.startswith("#"), "the hub listens on this machine only until it is told otherwise"
    assert example.removeprefix("#") in unit
    assert shlex.split(example.partition("SHOAL_FLAGS=")[2])[0] == "--listen"


def test_a_release_of_debian_that_is_not_known_is_refused() -> None:
    command = [sys.executable, "-m", "scripts.deb", "--debian", "11"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "argument --debian: invalid choice: '11'" in done.stderr
