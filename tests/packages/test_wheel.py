"""The wheel of a release: what is in it, that the same tree gives the same bytes, and that it runs by itself."""

from __future__ import annotations

import email
import hashlib
import os
import signal
import subprocess
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from shoal import __version__
from tests.packages import building
from tests.packages.building import ROOT, clean, script
from tests.serving import HANG

SOURCE = ROOT / "src"
NEEDED = (
    "shoal/dashboard/static/index.html",
    "shoal/kinds/crds/root/managedclusters.infrastructure.cluster.x-k8s.io.yaml",
    "shoal/kinds/crds/cluster/nodepools.karpenter.sh.yaml",
    "shoal/kinds/data/resources.json",
    "shoal/py.typed",
)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (made,) = script("dist").build(tmp_path_factory.mktemp("sdist"), targets=("sdist",))
    assert isinstance(made, Path)
    return made


def test_everything_of_the_package_is_in_it(wheel: Path) -> None:
    assert wheel.name == f"shoal-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        about = f"shoal-{__version__}.dist-info"
        metadata = email.message_from_bytes(archive.read(f"{about}/METADATA"))
        entry_points = archive.read(f"{about}/entry_points.txt").decode()
    assert set(NEEDED) <= names
    tree = {
        str(path.relative_to(SOURCE))
        for path in (SOURCE / "shoal").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if name.startswith("shoal/")} == tree
    assert {f"{about}/licenses/LICENSE", f"{about}/licenses/NOTICE"} <= names
    assert not [name for name in names if not name.startswith(("shoal/", f"{about}/"))]
    assert (metadata["Version"], metadata["License-Expression"]) == (__version__, "Apache-2.0")
    for name in ("shoal", "kubectl-shoal", "kubectl_complete-shoal"):
        assert f"{name} = shoal.cli.main:main" in entry_points


def test_the_same_tree_gives_the_same_bytes(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    """Built again from the source archive, elsewhere and with other times and modes of its files."""
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    assert (root / "Makefile").exists(), "the tests and all else are in the source archive, too"
    for file in root.rglob("*.py"):
        os.utime(file, (1, 1))
    again = building.wheel(tmp_path / "again", root)
    assert digest(again) == digest(wheel)
    text = script("dist").sums([wheel])
    assert text == f"{digest(wheel)}  {wheel.name}\n"


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_it_runs_without_this_checkout(programs: Path, tmp_path: Path) -> None:
    """`shoal up`, a ManagedCluster that runs, `shoal status`, and an end that leaves the data."""
    data = tmp_path / "data"
    environ = clean(SHOAL_DATA_DIR=str(data), HOME=str(tmp_path))
    found = "import shoal; print(shoal.__file__)"
    where = shoal(programs, environ, tmp_path, "-c", found, program="python")
    assert where.startswith(str(programs.parent)), "not that of the checkout"
    assert shoal(programs, environ, tmp_path, "--version") == f"shoal, version {__version__}\n"
    with tempfile.TemporaryFile() as said:
        up = subprocess.Popen(
            [programs / "shoal", "up", "--listen", "127.0.0.1:0", "--workers", "1"], stderr=said, env=environ
        )
        try:
            until(lambda: b"\nnext: " in os.pread(said.fileno(), 1 << 20, 0), up)
            applied = shoal(programs, environ, tmp_path, "apply", "-f", str(ROOT / "examples" / "clusters.yaml"))
            assert len(applied.splitlines()) == 2
            until(lambda: phases(programs, environ, tmp_path) == {"Running"}, up)
            up.send_signal(signal.SIGTERM)
            assert up.wait(HANG) == 0
        finally:
            up.kill()
            up.wait()
        assert b"Traceback" not in os.pread(said.fileno(), 1 << 20, 0)
    assert shoal(programs, environ, tmp_path, "fsck").splitlines()[-1]


def shoal(programs: Path, environ: dict[str, str], cwd: Path, *arguments: str, program: str = "shoal") -> str:
    done = subprocess.run(
        [programs / program, *arguments], capture_output=True, text=True, timeout=HANG, env=environ, cwd=cwd
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def phases(programs: Path, environ: dict[str, str], cwd: Path) -> set[str]:
    rows = yaml.safe_load(shoal(programs, environ, cwd, "status", "-o", "yaml"))["managed clusters"]
    assert len(rows) == 2
    return {row["phase"] for row in rows}


def until(holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + HANG
    while not holds():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.2)
