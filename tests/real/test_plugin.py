"""kubectl finds its plugin `shoal`, runs it, and completes what is typed after it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shoal import __version__
from tests.real.programs import kubectls
from tests.serving import HANG

PROGRAM = f"#!{sys.executable}\nfrom shoal.cli.main import main\nmain()\n"


@pytest.mark.parametrize("name", kubectls() or [pytest.param("none", marks=pytest.mark.skip(reason="kubectl"))])
def test_kubectl_runs_and_completes_it(name: str, tmp_path: Path) -> None:
    for program in ("kubectl-shoal", "kubectl_complete-shoal"):
        (tmp_path / program).write_text(PROGRAM)
        (tmp_path / program).chmod(0o755)

    def kubectl(*arguments: str) -> tuple[int, str, str]:
        environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
        done = subprocess.run(
            [kubectls()[name], *arguments], capture_output=True, text=True, env=environ, timeout=HANG, check=False
        )
        return done.returncode, done.stdout, done.stderr

    assert kubectl("shoal", "--version") == (0, f"shoal, version {__version__}\n", "")
    code, _, said = kubectl("shoal", "staus")
    assert (code, said.splitlines()) == (2, ["error: No such command 'staus'.", "hint: kubectl shoal status --help"])
    assert str(tmp_path / "kubectl-shoal") in kubectl("plugin", "list", "--name-only=false")[1]
    code, out, _ = kubectl("__complete", "shoal", "st")
    if "status" not in out and code == 0:
        pytest.skip(f"completion of plugins ({name} has none)")
    assert out.splitlines() == ["status\tprints workers, clusters and workloads of the fleet", ":4"]
