"""A container of Debian whose first process is systemd, and the Debian package of this tree and of a next version."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from scripts import deb
from shoal import __version__
from tests.packages.building import ROOT
from tests.real.commands import until
from tests.real.containers.debian_image import NAME
from tests.real.containers.engine import Engine

NEXT = "99.0.0"
HUB = "hub.example.com"
"""As docs/installing.md names it."""
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}


class Machine:
    def __init__(self, engine: Engine, name: str, *flags: str) -> None:
        self._engine, self._name = engine, name
        mounts = [word for path in ("/run", "/run/lock", "/tmp") for word in ("--tmpfs", path)]
        engine.docker("run", "--detach", "--privileged", "--name", name, *mounts, *flags, NAME)
        until(lambda: self.state() in ("running", "degraded"))

    def state(self) -> str:
        return self.sh("systemctl is-system-running || true").strip()

    def sh(self, script: str) -> str:
        """What is typed by root in its home."""
        return self._engine.docker("exec", "--workdir", "/root", self._name, "bash", "-euo", "pipefail", "-c", script)

    def put(self, file: Path) -> None:
        self._engine.docker("cp", file, f"{self._name}:/root/{file.name}")

    def get(self, name: str, directory: Path) -> Path:
        self._engine.docker("cp", f"{self._name}:/root/{name}", directory / name)
        return directory / name

    def show(self, unit: str, name: str) -> str:
        return self.sh(f"systemctl show --property {name} --value {unit}").strip()

    @property
    def address(self) -> str:
        shown = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        return self._engine.docker("inspect", "--format", shown, self._name).strip()

    def remove(self) -> None:
        self._engine.docker("rm", "--force", "--volumes", self._name)


def package(directory: Path) -> Path:
    """That of this tree for Debian 12."""
    return deb.build(directory, "12", ARCHITECTURE[os.uname().machine])


def next_package(directory: Path) -> Path:
    """The same with another version."""
    root = directory / "tree"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("deploy", "requirements", "src"):
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    for name in ("LICENSE", "NOTICE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    file = root / "src/shoal/__init__.py"
    text = file.read_text()
    assert __version__ in text
    file.write_text(text.replace(__version__, NEXT))
    return deb.build(directory, "12", ARCHITECTURE[os.uname().machine], root)
