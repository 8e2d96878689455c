"""Shoal's own image: that of this tree by `make image`, or that of an earlier commit by its `deploy/Containerfile`.

The Containerfile of an earlier commit installs packages by pip, and the build has no network. The wheels are downloaded
on this machine, where pip finds its index. The build takes them from the image it begins with, which is that of
`base_image` and has them in a layer.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from packaging.requirements import Requirement

from tests.real.containers import base_image, image_archive
from tests.real.containers.artifacts import Artifact, Failure, run
from tests.real.containers.base_image import ROOTFS
from tests.real.containers.engine import Engine

ROOT = Path(__file__).parents[3]
REPOSITORY = "shoal.test/shoal"
BASE = "shoal.test/python:3.13"
PYTHON = "3.13"
BUILD_BACKEND = ("hatchling", "packaging", "pathspec", "pluggy", "tomlkit", "trove-classifiers")
"""What `pip install .` needs besides."""
PLATFORMS = {"x86_64": "x86_64", "aarch64": "aarch64"}
MANYLINUX = ("manylinux_2_28", "manylinux_2_26", "manylinux_2_17", "manylinux2014")
PIP_CONFIG = "[global]\nno-index = true\nfind-links = /wheels\n"


def locked(file: Path) -> dict[str, str]:
    """The lines of each requirement with its hashes, by name; those for other versions of Python are left out."""
    found: dict[str, str] = {}
    for block in file.read_text().replace(" \\\n", "\0").splitlines():
        line, *hashes = block.split("\0")
        if not line or line.startswith("#"):
            continue
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate(
            {"python_full_version": f"{PYTHON}.0", "python_version": PYTHON}
        ):
            continue
        requirement.marker = None
        found[requirement.name] = " \\\n".join([str(requirement), *hashes])
    return found


def _requirements() -> str:
    runtime, development = (locked(ROOT / "requirements" / f"{name}.txt") for name in ("runtime", "dev"))
    return "\n".join([*runtime.values(), *(development[name] for name in BUILD_BACKEND)]) + "\n"


def _make_wheels(target: Path) -> None:
    target.mkdir()
    file = target.with_name("requirements.txt")
    file.write_text(_requirements())
    machine = os.uname().machine
    platforms = [f"{tag}_{PLATFORMS.get(machine, machine)}" for tag in MANYLINUX]
    flags = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--python-version", PYTHON]
    flags += [word for abi in ("cp313", "abi3", "none") for word in ("--abi", abi)]
    flags += [word for platform in (*platforms, "any") for word in ("--platform", platform)]
    run(sys.executable, "-m", "pip", "download", "--quiet", *flags, "--dest", target, "--requirement", file)
    file.unlink()


def _make_base(archive: Path) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="image-") as scratch:
        layer = Path(scratch)
        for folder in ("usr/local/bin", "etc"):
            (layer / folder).mkdir(parents=True)
        (layer / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        (layer / "etc/pip.conf").write_text(PIP_CONFIG)
        run("cp", "-a", "--reflink=auto", WHEELS.path, layer / "wheels")
        image_archive.write(archive, [BASE], [ROOTFS.path, layer], {"Cmd": ["python3"]})


WHEELS = Artifact("wheels", _requirements(), _make_wheels)
BUILD_BASE = Artifact("build-base.tar", f"{BASE} {PIP_CONFIG}", _make_base, parts=(ROOTFS, WHEELS))


def shoal_image(engine: Engine, tag: str, commit: str = "") -> str:
    """Builds the image of this tree, or of that commit, and returns its name. What did not change is not built anew."""
    name = f"{REPOSITORY}:{tag}"
    if commit:
        _build_earlier(engine, name, commit)
    else:
        make_image(engine, name)
    return name


def make_image(engine: Engine, name: str) -> str:
    """Returns what `make image` prints. The environment of the tests is the one that make would set up."""
    options = [f"python={sys.executable}", "PYTHON=true", f"BASE={base_image.NAME}", "ENGINE=docker", f"TAG={name}"]
    return run("make", "--no-print-directory", "--directory", ROOT, "image", *options, env=engine.environment)


def _build_earlier(engine: Engine, name: str, commit: str) -> None:
    BUILD_BASE.build()
    engine.load(BUILD_BASE, BASE)
    with tempfile.TemporaryDirectory(prefix="shoal-image-") as scratch:
        tree = Path(scratch)
        export(tree, commit)
        file = tree / "deploy/Containerfile"
        file.write_text(file.read_text().replace("FROM python:3.13-slim", f"FROM {BASE}"))
        engine.docker("build", "--quiet", "--force-rm", "--network", "none", "--file", file, "--tag", name, tree)


def export(target: Path, commit: str) -> None:
    """Writes the files of a commit."""
    done = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise Failure(f"git archive {commit}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(target, filter="data")


def has_commit(commit: str) -> bool:
    done = subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True, check=False)
    return done.returncode == 0
