"""Root file systems of Debian by debootstrap, and single Debian packages unpacked without being installed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.real.containers.artifacts import Absent, Artifact, Failure, remove, run

PACKAGES = (
    "busybox-static",
    "containerd",
    "debootstrap",
    "docker.io",
    "iptables",
    "libdevmapper1.02.1",
    "libip4tc2",
    "libip6tc2",
    "libmnl0",
    "libnetfilter-conntrack3",
    "libnfnetlink0",
    "libnftnl11",
    "libxtables12",
    "runc",
    "tini",
)
"""Of the engine, of debootstrap, and busybox. Unpacked into the cache, they start no service and replace no program."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
DISPENSABLE = (
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache/apt",
    "var/lib/apt/lists",
)


def _unpack(target: Path) -> None:
    for name in ("apt-get", "dpkg"):
        if shutil.which(name) is None:
            raise Absent(f"{name} (packages of Debian are unpacked)")
    downloads = target.with_name("downloads")
    remove(downloads)
    downloads.mkdir()
    target.mkdir()
    # As root apt would hand the download to a user who cannot write here.
    download = (
        "sh",
        "-c",
        'cd "$0" && exec apt-get -qq -o APT::Sandbox::User=root download "$@"',
        downloads,
        *PACKAGES,
    )
    try:
        run(*download)
    except Failure:
        run("apt-get", "-qq", "update")
        run(*download)
    for package in sorted(downloads.iterdir()):
        run("dpkg", "-x", package, target)
    remove(downloads)


UNPACKED = Artifact("debian", " ".join(PACKAGES), _unpack)


def rootfs(name: str, suite: str, packages: tuple[str, ...]) -> Artifact:
    def make(target: Path) -> None:
        if os.geteuid() != 0:
            raise Absent("root (for debootstrap)")
        if not KEYRING.is_file():
            raise Absent(f"{KEYRING} (for debootstrap)")
        scripts = UNPACKED.path / "usr/share/debootstrap"
        program = UNPACKED.path / "usr/sbin/debootstrap"
        included = f"--include={','.join(packages)}"
        run(program, "--variant=minbase", included, suite, target, env={"DEBOOTSTRAP_DIR": str(scripts)})
        for folder in DISPENSABLE:
            for entry in (target / folder).iterdir():
                remove(entry)

    return Artifact(name, " ".join((suite, *packages, "without", *DISPENSABLE)), make, parts=(UNPACKED,))
