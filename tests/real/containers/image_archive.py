"""Images of containers as archives in docker's format, which `docker load` and `ctr images import` read.

A layer is a folder, taken with its owners and modes. Times are left out: the same folders make the same image.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.real.containers.artifacts import run

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def write(archive: Path, names: Sequence[str], layers: Sequence[Path], config: Mapping[str, Any]) -> None:
    """`config` has the fields of the OCI image configuration: Env, Entrypoint, Cmd, User, StopSignal."""
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="layers-") as scratch:
        files = [_layer(folder, Path(scratch) / str(number)) for number, folder in enumerate(layers)]
        digests = [_digest(file) for file in files]
        machine = os.uname().machine
        text = json.dumps(
            {
                "architecture": ARCHITECTURE.get(machine, machine),
                "os": "linux",
                "created": "1970-01-01T00:00:00Z",
                "config": {"Env": [f"PATH={PATH}"], **config},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
                "history": [{"created": "1970-01-01T00:00:00Z"} for _ in digests],
            }
        ).encode()
        config_name = f"{hashlib.sha256(text).hexdigest()}.json"
        paths = [f"{digest}/layer.tar" for digest in digests]
        manifest = json.dumps([{"Config": config_name, "RepoTags": list(names), "Layers": paths}]).encode()
        with tarfile.open(archive, "w") as made:
            _add(made, "manifest.json", manifest)
            _add(made, config_name, text)
            for path, file in zip(paths, files, strict=True):
                made.add(file, path, filter=_timeless)


def image_id(archive: Path) -> str:
    """As an engine names the image once it is loaded."""
    with tarfile.open(archive) as made:
        member = made.extractfile("manifest.json")
        assert member is not None
        (described,) = json.load(member)
    return f"sha256:{str(described['Config']).removesuffix('.json')}"


def place(program: Path, target: Path) -> None:
    """A program into the folder of a layer, without copying it where the file system allows that."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(program, target)
    except OSError:
        shutil.copy2(program, target)


def _layer(folder: Path, file: Path) -> Path:
    order = ("--sort=name", "--mtime=@0", "--numeric-owner", "--xattrs", "--xattrs-include=security.capability")
    run("tar", *order, "--format=posix", "--pax-option=delete=atime,delete=ctime", "-C", folder, "-cf", file, ".")
    return file


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _timeless(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = 0
    return member
