"""How readers come to a page: with a clone of the repository, with the wheel, or with Shoal on their PATH already."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import pytest

from tests.docs.pages import ROOT, Page
from tests.docs.running import needs_more
from tests.docs.scenario import HANG, Scenario, shoal_commands
from tests.packages.building import script, wheel
from tests.real.building import program
from tests.real.programs import kubectls

PACKAGES = Path(click.__file__).parents[1]
"""Where the packages are that Shoal depends on; its own .pth file there is not read by way of PYTHONPATH or another."""
OF_THE_MACHINE = {"docker", "make", "pip", "python3"}
NewScenario = Callable[..., Scenario]
CLONED = (
    *("Makefile", "pyproject.toml", "LICENSE", "NOTICE", "README.md"),
    *("requirements", "scripts", "src", "examples", "deploy"),
)


def tools(page: Page) -> dict[str, Path]:
    """Programs of the outside world that a page calls; the test is not run where one is missing."""
    found: dict[str, Path] = {}
    for name in sorted(needs_more(page) - OF_THE_MACHINE):
        newest = list(kubectls().values())[-1:] if name == "kubectl" else []
        file = Path(newest[0]) if newest else program("helm4" if name == "helm" else name)
        if file is None:
            pytest.skip(name)
        found[name] = file
    return found


def reader(page: Page, variant: str, place: Path, *, patience: float = HANG, own_ports: bool = False) -> Scenario:
    readers = {"": _with_shoal, "clone": _with_clone, "wheel": _with_wheel}
    return readers[variant](partial(Scenario, patience=patience, own_ports=own_ports), page, place)


def kept_wheels(clone: Path) -> None:
    """What images and packages are built from: downloaded once for all readers."""
    wheels = Path("build/wheels")
    (ROOT / wheels).mkdir(parents=True, exist_ok=True)
    (clone / wheels).parent.mkdir()
    (clone / wheels).symlink_to(ROOT / wheels)


def _with_shoal(new: NewScenario, page: Page, place: Path) -> Scenario:
    return new(page, place, shoal_commands() | tools(page))


def _with_clone(new: NewScenario, page: Page, place: Path) -> Scenario:
    """What `make` would install is there already: `.venv` leads to the packages of the tests, and nowhere else."""
    clone = place / "shoal"
    clone.mkdir()
    for name in CLONED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, clone / name)
        else:
            shutil.copy(ROOT / name, clone / name)
    bootstrap = script("bootstrap")
    environment = clone / ".venv"
    bootstrap.run([sys.executable, "-m", "venv", "--without-pip", str(environment)])
    version = bootstrap.environment_version(str(environment))
    packages = Path(bootstrap.site_packages(str(environment), version))
    (packages / "dependencies.pth").write_text(f"{PACKAGES}\n")
    bootstrap.link_project(str(clone), str(environment), version)
    for group in ("runtime", "dev"):
        stamp = bootstrap.stamp(group, str(clone), version)
        Path(bootstrap.stamp_path(str(environment), group)).write_text(stamp)
    return new(page, place, tools(page), clone=clone)


def _with_wheel(new: NewScenario, page: Page, place: Path) -> Scenario:
    """pip installs the wheel alone; what it depends on are the packages of the tests, by PYTHONPATH."""
    scenario = new(page, place, tools(page))
    wheel(scenario.directory)
    (place / "bin" / "python3").write_text(f'#!/bin/sh\nexec {Path(sys.executable).resolve()} "$@"\n')
    (place / "bin" / "python3").chmod(0o755)
    scenario.environment |= {
        "PYTHONPATH": str(PACKAGES),
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_COMPILE": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    return scenario
