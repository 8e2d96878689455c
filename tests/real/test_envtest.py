"""controller-runtime's own suites, which start an API server by envtest, on Shoal's stand-in.

`envtest.yaml` has how many specs pass with the real programs, and which are known to fail here: it is a ratchet.
SHOAL_ENVTEST=real runs the suites with the real programs instead, to see what they say.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from shoal.assemble.envtest.assets import write_assets
from tests.real.building import MODULES, PROGRAMS, program

RESULTS: dict[str, dict[str, object]] = yaml.safe_load(Path(__file__).with_name("envtest.yaml").read_text())
SECONDS = 600


def name(suite: str) -> str:
    return f"controllerruntime-{suite}.test"


@dataclass(frozen=True)
class Run:
    passed: int
    failed: frozenset[str]
    seconds: float


def run(suite: str, assets: Path, report: Path, **environment: str) -> Run:
    binary = program(name(suite))
    assert binary is not None
    began = time.monotonic()
    # Some specs give a webhook server one second to come up; on a busy machine it may need a second attempt.
    flags = ["-test.timeout=580s", "-ginkgo.no-color", "-ginkgo.flake-attempts=2"]
    done = subprocess.run(
        [binary, *flags, f"-ginkgo.json-report={report}"],
        cwd=package(suite),
        env=os.environ | {"KUBEBUILDER_ASSETS": str(assets)} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    seconds = time.monotonic() - began
    assert report.is_file(), done.stdout[-2000:] + done.stderr[-2000:]
    passed, failed = 0, set()
    for each in json.loads(report.read_text()):
        for spec in each["SpecReports"] or ():
            if spec["State"] == "passed" and spec["LeafNodeType"] == "It":
                passed += 1
            elif spec["State"] not in ("passed", "pending", "skipped"):
                failed.add(" ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]]))
    return Run(passed, frozenset(failed), seconds)


def package(suite: str) -> Path:
    """Where the suite's files are: suites read their manifests by relative paths."""
    wanted = PROGRAMS[name(suite)]
    found = subprocess.run(
        ["go", "list", "-mod=readonly", "-f", "{{.Dir}}", wanted.package],
        cwd=MODULES / wanted.module, env=os.environ | {"GOWORK": "off"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return Path(found.stdout.strip())


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    directory = tmp_path / "assets"
    write_assets(directory)
    if os.environ.get("SHOAL_ENVTEST") == "real":
        for each in ("kube-apiserver", "etcd"):
            (directory / each).unlink()
            (directory / each).symlink_to(program(each) or each)
    return directory


@pytest.mark.parametrize("suite", RESULTS)
def test_a_suite_passes_as_far_as_is_known(suite: str, assets: Path, tmp_path: Path) -> None:
    if program(name(suite)) is None:
        pytest.skip(name(suite))
    known = RESULTS[suite]
    found = run(suite, assets, tmp_path / "report.json", SHOAL_ENVTEST_LOOPS="none")
    print(f"{suite}: {found.passed} pass in {found.seconds:.1f} s; with the real programs {known['real']}")
    expected = known["failing"]
    assert isinstance(expected, list)
    assert found.failed <= set(expected), "these passed before"
    assert found.passed + len(found.failed) == known["real"]
