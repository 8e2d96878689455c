"""What runs Shoal outside a cluster: the units of systemd, and the workflows of a hosted CI."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packages.building import ROOT
from tests.packages.manifests import DEPLOY, check_arguments
from tests.serving import HANG

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
EXPOSED = 20
"""In tenths, of what systemd-analyze says; a unit without any hardening has 96."""
SPLIT = "$SHOAL_FLAGS"
"""The flags of the administrator, none or several."""


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_start_what_there_is(unit: Path) -> None:
    lines = unit.read_text().splitlines()
    (start,) = (line.removeprefix("ExecStart=") for line in lines if line.startswith("ExecStart="))
    program, *arguments = shlex.split(start)
    assert program == "/opt/shoal/bin/shoal"
    assert arguments[-1] == SPLIT
    check_arguments(arguments[:-1])
    (example,) = (line.partition("SHOAL_FLAGS=")[2] for line in lines if line.startswith("# Additional flags"))
    check_arguments([*arguments[:-1], *shlex.split(example)])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_understands_and_confines_them(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze")
    # It looks for the program, which is not in /opt here.
    text = unit.read_text().replace("/opt/shoal/bin/shoal ", f"{sys.executable} ")
    copy = tmp_path / unit.name.replace("@.", "@far.")
    copy.write_text(text)
    checked = analyze("verify", str(copy))
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    rated = analyze("security", "--offline=yes", f"--threshold={EXPOSED}", str(copy))
    if "Unknown option" in rated.stderr or "unrecognized option" in rated.stderr:
        pytest.skip("systemd-analyze security --offline (an old one)")
    assert rated.returncode == 0, rated.stdout.splitlines()[-1]
    bare = tmp_path / "bare.service"
    bare.write_text(f"[Service]\nExecStart={sys.executable}\n")
    assert analyze("security", "--offline=yes", f"--threshold={EXPOSED}", str(bare)).returncode != 0


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", "--no-pager", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG)


def jobs(workflow: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return found


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.name)
def test_workflows_are_pinned_and_may_little(workflow: Path) -> None:
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}
    for name, job in jobs(workflow).items():
        assert job["timeout-minutes"] > 0, name
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/none@v1"))
            for line in step.get("run", "").splitlines():
                made = re.match(r"make (\w+)", line)
                assert made is None or f"\n{made[1]}:" in (ROOT / "Makefile").read_text()


def test_ci_runs_what_everybody_runs() -> None:
    ran = [step["run"] for step in jobs(ROOT / ".github/workflows/ci.yml")["everything"]["steps"] if "run" in step]
    assert ran == [".ci/run"]
    cached = (ROOT / ".github/workflows/ci.yml").read_text()
    assert "~/.cache/shoal/bin" in cached
    named = re.findall(r"'(tests/real/[\w./]+?)(?:/\*\*)?'|go-version-file: (\S+)", cached)
    paths = [one or other for one, other in named]
    assert len(paths) == 3
    assert all((ROOT / path).exists() for path in paths)
