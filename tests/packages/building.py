"""The wheel, and an environment that has nothing of this checkout in it.

Only the wheel itself is installed, by pip and without a package index. What it depends on is found by a .pth file in
the packages of the environment the tests run in; their own .pth files, which lead to `src/`, are not read there.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from types import ModuleType

import pytest

from tests.serving import HANG

ROOT = Path(__file__).parents[2]


def script(name: str) -> ModuleType:
    """One of `scripts/`, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wheel(directory: Path, root: Path = ROOT) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (made,) = script("dist").build(directory, root=root, targets=("wheel",))
    assert isinstance(made, Path)
    return made


def environment(directory: Path, wheel: Path) -> Path:
    """The folder of its programs."""
    venv.create(directory, with_pip=False, symlinks=True)
    python = directory / "bin" / "python"
    flags = ["--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*_pip(), "--python", str(python), "install", *flags, str(wheel)], check=True, timeout=HANG)
    packages = sysconfig.get_path("purelib", "venv", {"base": str(directory), "platbase": str(directory)})
    (Path(packages) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return directory / "bin"


def clean(**more: str) -> dict[str, str]:
    """What a program of that environment is started with: no path into this checkout, no hub of somebody's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SHOAL", "KUBECONFIG"))}
    return {**kept, **more}


def _pip() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    outside = os.path.realpath(sys.executable)
    if subprocess.run([outside, "-m", "pip", "--version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("pip (neither in the environment of the tests nor in its Python)")
    return [outside, "-m", "pip"]
