"""The image that the Containerfile of Shoal starts from, under its name: Debian 13 has Python 3.13."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.real.containers import image_archive
from tests.real.containers.artifacts import Artifact
from tests.real.containers.rootfs import rootfs

NAME = "docker.io/library/python:3.13-slim"
ROOTFS = rootfs("python-rootfs", "trixie", ("ca-certificates", "python3", "python3-pip", "python3-venv"))


def _make(archive: Path) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="image-") as scratch:
        links = Path(scratch) / "usr/local/bin"
        links.mkdir(parents=True)
        (links / "python").symlink_to("/usr/bin/python3")
        image_archive.write(archive, [NAME], [ROOTFS.path, Path(scratch)], {"Cmd": ["python3"]})


base_image = Artifact("python.tar", f"{NAME} with python as a link", _make, parts=(ROOTFS,))
