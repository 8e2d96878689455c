"""Upstream's own conformance specs (e2e.test) against a `shoal hub --root-profile cluster` process.

Each lane is one e2e.test on a logical cluster of its own, so lanes run beside each other and serial specs need
no care. `specs/server.txt` needs the API server alone, `specs/loops.txt` its loops too; `specs/passing.txt` is
the ratchet: what it names has to pass. SHOAL_SPECS=TEXT runs only the specs whose name contains TEXT.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.processes import command
from tests.real.building import program

SPECS = Path(__file__).parent / "specs"
LANES = 6
FLAGS = [
    "--provider=skeleton",
    "--num-nodes=0",
    "--allowed-not-ready-nodes=-1",
    "--minStartupPods=-1",
    "--e2e-verify-service-account=false",
    "--dump-logs-on-failure=false",
    "--disable-log-dump",
    "--ginkgo.no-color",
    "--ginkgo.v",
]
HANG = 60.0
Results = dict[str, str]
"""Spec -> first line of its failure; empty: it passed."""


def names(file: str) -> list[str]:
    return [line for line in (SPECS / file).read_text().splitlines() if line and not line.startswith("#")]


class Up:
    """A `shoal hub --root-profile cluster` whose log is a file: a pipe nobody reads would stop it."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "data"
        log = directory / "shoal.log"
        with log.open("wb") as stream:
            self._process = subprocess.Popen(
                command(*("hub", "--root-profile", "cluster", "--data-dir", str(self.data), "--listen", "127.0.0.1:0")),
                stderr=stream,
            )
        end = time.monotonic() + HANG
        while "next: " not in log.read_text():
            assert self._process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        self.config: Any = yaml.safe_load((self.data / "kubeconfig").read_text())

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(HANG)


pytestmark = pytest.mark.skipif(
    program("e2e.test") is None or program("kubectl") is None, reason="conformance (no e2e.test, or no kubectl)"
)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    up = Up(tmp_path)
    yield up
    up.close()


def test_conformance(up: Up, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wanted = [name for name in names("server.txt") + names("loops.txt") if os.environ.get("SHOAL_SPECS", "") in name]
    kept = set(names("passing.txt"))
    lanes = deal([name for name in wanted if name in kept])
    # What is not known to pass may wait for ever: alone, and not for long.
    rest = [([name], "15m" if "[Slow]" in name else "2m") for name in wanted if name not in kept]
    jobs = [(specs, "15m") for specs in lanes] + rest
    with ThreadPoolExecutor(LANES) as pool:
        found = pool.map(lambda job: run(up, tmp_path / f"lane-{job[0]}", *job[1]), enumerate(jobs))
        results = {name: failure for some in found for name, failure in some.items()}
    failing = {name: results.get(name, "not run") for name in wanted if results.get(name, "not run")}
    with capfd.disabled():
        print(f"\n{len(wanted) - len(failing)} of {len(wanted)} pass")
        for name, failure in failing.items():
            print(f"  {name}\n      {failure}")
    if file := os.environ.get("SHOAL_PASSING"):
        Path(file).write_text("".join(f"{name}\n" for name in wanted if name not in failing))
    assert {name: failing[name] for name in names("passing.txt") if name in failing} == {}


def deal(specs: list[str]) -> list[list[str]]:
    """Lanes of about equal length, whole subjects together; a slow spec counts for many."""
    subjects: dict[str, list[str]] = {}
    for name in specs:
        subjects.setdefault(name if "[Slow]" in name else " ".join(name.split()[:2]), []).append(name)
    lanes: list[list[str]] = [[] for _ in range(LANES)]
    for group in sorted(subjects.values(), key=weight, reverse=True):
        min(lanes, key=weight).extend(group)
    return [lane for lane in lanes if lane]


def weight(specs: list[str]) -> int:
    return sum(40 if "[Slow]" in name else 1 for name in specs)


def run(up: Up, home: Path, specs: list[str], timeout: str) -> Results:
    home.mkdir()
    config = kubeconfig(up, home)
    report = home / "report.json"
    focus = "|".join(re.escape(name) for name in specs)
    command = [str(program("e2e.test")), *FLAGS, f"--kubeconfig={config}", f"--kubectl-path={program('kubectl')}"]
    with (home / "log").open("wb") as log:
        subprocess.run(
            [
                *command,
                f"--report-dir={home}",
                f"--ginkgo.timeout={timeout}",
                f"--ginkgo.json-report={report}",
                f"--ginkgo.focus=(?:{focus})$",
            ],
            stdout=log,
            stderr=log,
            env={"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(home)},
            check=False,
        )
    if not report.exists():
        last = (home / "log").read_text(errors="replace").splitlines()[-1:]
        return dict.fromkeys(specs, f"e2e.test wrote no report: {last}")
    return read(json.loads(report.read_text()))


def read(suites: Any) -> Results:
    results = {}
    for spec in (spec for suite in suites for spec in suite["SpecReports"]):
        if spec["LeafNodeType"] != "It":
            continue
        name = " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
        if spec["State"] == "passed":
            results[name] = ""
        elif spec["State"] != "skipped" or spec.get("Failure", {}).get("Message"):
            lines = spec.get("Failure", {}).get("Message", "").strip().splitlines() or [spec["State"]]
            results[name] = " ".join(line.strip() for line in lines[:2])[:400]
    return results


ROOT_LANE = "lane-0"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "bench"},
    "status": {
        "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
        "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Bench", "message": "nothing runs here"}],
    },
}
"""Some specs want to name a node; none of these runs anything on it."""


def kubeconfig(up: Up, home: Path) -> Path:
    """A cluster with every built-in kind for each lane: root for the first, a logical cluster for the others."""
    file = home / "kubeconfig"
    file.write_text(yaml.safe_dump(up.config))
    if home.name == ROOT_LANE:
        create(file, NODE)
        return file
    api_version = "core.shoal.dev/v1alpha1"
    spec = {"profile": "cluster"}
    create(file, {"apiVersion": api_version, "kind": "LogicalCluster", "metadata": {"name": home.name}, "spec": spec})
    root = up.config["clusters"][0]["cluster"]["server"].partition("/clusters/")[0]
    own = [
        {"name": entry["name"], "cluster": entry["cluster"] | {"server": f"{root}/clusters/{home.name}"}}
        for entry in up.config["clusters"]
    ]
    file.write_text(yaml.safe_dump(up.config | {"clusters": own}))
    create(file, NODE)
    return file


def create(config: Path, obj: dict[str, Any]) -> None:
    subprocess.run(
        [str(program("kubectl")), f"--kubeconfig={config}", f"--cache-dir={config.parent / 'cache'}", "create", "-f-"],
        input=json.dumps(obj),
        text=True,
        stdout=subprocess.DEVNULL,
        check=True,
    )
