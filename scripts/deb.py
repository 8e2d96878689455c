"""`make deb`: a Debian package with Shoal, its libraries and both systemd units, into dist/.

The libraries are compiled for one Python, so there is a package for each release of Debian and each architecture. It
is written without programs of Debian and without root: the same tree gives the same bytes on every machine.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import lzma
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from scripts import environment, wheels
from scripts.environment import HOME, TIME
from scripts.wheels import ROOT, BuildError, Target

RELEASES = {"12": ("3.11", (2, 36)), "13": ("3.13", (2, 41))}
"""The Python and the libc of releases of Debian."""
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
OWN = Path("deploy/debian")
UNITS = Path("deploy/systemd")
CONFIGURATION = "etc/shoal/hub.env"
CONTROL = """\
Package: shoal
Version: {version}
Architecture: {architecture}
Maintainer: The Shoal Authors
Installed-Size: {size}
Depends: python{python}, libc6 (>= {glibc}), libgcc-s1, libstdc++6, zlib1g
Section: admin
Priority: optional
Description: fleet of Kubernetes clusters behind one Kubernetes API
 The program shoal, and systemd units for a hub (shoal-hub) and for workers
 (shoal-worker@NAME). Installing it starts nothing.
"""


def build(directory: Path, release: str, architecture: str, root: Path = ROOT) -> Path:
    """The package of the tree below root."""
    python, glibc = RELEASES[release]
    found = wheels.collect(Target(python, glibc, MACHINES[architecture]), root)
    (own,) = (wheel for wheel in found if wheel.name.startswith("shoal-"))
    version = f"{own.name.split('-')[1]}+deb{release}"
    with tempfile.TemporaryDirectory() as scratch:
        files, control = Path(scratch) / "files", Path(scratch) / "control"
        fill(files, found, python, root)
        control.mkdir()
        for script in ("postinst", "prerm", "postrm"):
            place(root / OWN / script, control / script, 0o755)
        contents = [path for path in sorted(files.rglob("*")) if path.is_file() and not path.is_symlink()]
        facts = {
            "version": version,
            "architecture": architecture,
            "size": sum(path.stat().st_size for path in contents) // 1024,
            "python": python,
            "glibc": f"{glibc[0]}.{glibc[1]}",
        }
        (control / "control").write_text(CONTROL.format(**facts))
        (control / "conffiles").write_text(f"/{CONFIGURATION}\n")
        (control / "md5sums").write_text("".join(f"{md5(path)}  {path.relative_to(files)}\n" for path in contents))
        package = directory / f"shoal_{version}_{architecture}.deb"
        members = {"debian-binary": b"2.0\n", "control.tar.xz": archive(control), "data.tar.xz": archive(files)}
        write_ar(package, members)
    return package


def fill(files: Path, found: list[Path], python: str, root: Path) -> None:
    """All that the package installs."""
    environment.make(files / HOME[1:], found, python, f"/usr/bin/python{python}")
    programs = files / "usr/bin"
    programs.mkdir(parents=True)
    for name in ("shoal", "kubectl-shoal", "kubectl_complete-shoal"):
        (programs / name).symlink_to(f"{HOME}/bin/{name}")
    for unit in sorted((root / UNITS).glob("*.service")):
        place(unit, files / "usr/lib/systemd/system" / unit.name)
    place(root / OWN / "hub.env", files / CONFIGURATION)
    # Kubeconfigs with join tokens are put here.
    (files / CONFIGURATION).parent.chmod(0o700)
    place(root / "LICENSE", files / "usr/share/doc/shoal/copyright")
    place(root / "NOTICE", files / "usr/share/doc/shoal/NOTICE")


def place(file: Path, target: Path, mode: int = 0o644) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)
    target.chmod(mode)


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def archive(folder: Path) -> bytes:
    """A folder as tar.xz in the form that dpkg reads."""
    content = io.BytesIO()
    with (
        lzma.open(content, "wb", preset=3) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for path in [folder, *sorted(folder.rglob("*"))]:
            name = path.relative_to(folder)
            tar.add(path, f"./{name}" if name.parts else ".", recursive=False, filter=_without_builder)
    return content.getvalue()


def _without_builder(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Nothing in it is of the user or of the time of the build."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mtime = TIME
    if member.isdir() and member.mode & 0o777 != 0o700:
        member.mode = 0o755
    return member


def write_ar(file: Path, members: dict[str, bytes]) -> None:
    with file.open("wb") as stream:
        stream.write(b"!<arch>\n")
        for name, content in members.items():
            stream.write(f"{name:<16}{TIME:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode())
            stream.write(content + b"\n" * (len(content) % 2))


def main() -> None:
    machine = next((name for name, each in MACHINES.items() if each == os.uname().machine), "amd64")
    parser = argparse.ArgumentParser(description="Builds the Debian package of Shoal.")
    parser.add_argument("--debian", default="12", choices=list(RELEASES), help="the release of Debian")
    parser.add_argument("--architecture", default=machine, choices=list(MACHINES))
    options = parser.parse_args()
    directory = ROOT / "dist"
    directory.mkdir(exist_ok=True)
    try:
        package = build(directory, options.debian, options.architecture)
    except BuildError as error:
        sys.exit(f"error: {error}")
    print(f"{hashlib.sha256(package.read_bytes()).hexdigest()}  {package.name}")


if __name__ == "__main__":
    main()
