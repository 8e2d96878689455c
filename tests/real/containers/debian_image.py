"""Debian 12 with systemd as its first process and the Python that the Debian package of Shoal runs on."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.real.containers import image_archive
from tests.real.containers.artifacts import Artifact, run
from tests.real.containers.rootfs import rootfs

NAME = "localhost/debian:12-systemd"
PACKAGES = ("systemd-sysv", "dbus", "python3.11", "libstdc++6", "procps")
ROOTFS = rootfs("systemd-rootfs", "bookworm", PACKAGES)
NEEDLESS = ("getty.target", "systemd-binfmt.service", "sys-kernel-config.mount", "sys-kernel-debug.mount")
"""A container has no terminals, and these are of the machine that it runs on."""
INIT = "mount --make-rshared / && exec /sbin/init"
"""As on a machine: without shared mounts services do not see the credentials that systemd loads for them."""
CONFIG = {
    "Cmd": ["/bin/sh", "-c", INIT],
    "Env": [f"PATH={image_archive.PATH}", "container=docker"],
    "StopSignal": "SIGRTMIN+3",
}


def _make(archive: Path) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="image-") as scratch:
        debian, layer = Path(scratch) / "debian", Path(scratch) / "layer"
        run("cp", "-a", "--reflink=auto", ROOTFS.path, debian)
        # Each container makes one; they would all have this.
        (debian / "etc/machine-id").write_text("")
        (debian / "var/lib/dbus/machine-id").unlink(missing_ok=True)
        units = layer / "etc/systemd/system"
        units.mkdir(parents=True)
        for name in NEEDLESS:
            (units / name).symlink_to("/dev/null")
        image_archive.write(archive, [NAME], [debian, layer], CONFIG)


debian_image = Artifact("debian.tar", f"{NAME} {CONFIG} without {NEEDLESS}", _make, parts=(ROOTFS,))
