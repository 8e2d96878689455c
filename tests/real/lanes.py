"""Lanes of upstream's e2e.test: each on a cluster of its own of one `shoal hub --root-profile cluster` process.

So lanes run beside each other, and serial specs need no care: one lane runs its specs one by one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.processes import command
from tests.real.building import program

SPECS = Path(__file__).parent / "specs"
LANES = 16
"""Specs wait nearly all of their time: eight of them leave a core idle."""
LONG = {
    "0.0.0.0 hostIP": 300,
    "when suspended": 300,
    "500 podspec": 260,
    "finite tolerations": 130,
    "only evicts pods without": 125,
    "doesn't evict pod with tolerations": 125,
    "CronJob": 100,
    "orphan deletion of custom": 95,
    "surge pods": 85,
    "MinReadySeconds": 85,
    "NodeLease": 80,
    "NoExecuteTaintManager": 65,
    "SchedulerPreemption": 65,
    "SchedulerPriorities": 65,
    "Multi-AZ": 65,
    "unmanaged pods": 65,
    "StatefulSet": 40,
    "Ephemeralstorage": 32,
}
SHORT = 10
"""Parts of the names of specs that wait for long, and about how many seconds; any other takes about SHORT."""
FLAGS = [
    "--provider=skeleton",
    "--allowed-not-ready-nodes=-1",
    "--minStartupPods=-1",
    "--e2e-verify-service-account=false",
    "--dump-logs-on-failure=false",
    "--disable-log-dump",
    "--ginkgo.no-color",
    "--ginkgo.v",
]
HANG = 60.0
ROOT_LANE = "lane-0"
Object = dict[str, Any]
Results = dict[str, str]
"""Spec -> first line of its failure; empty: it passed."""

needs_programs = pytest.mark.skipif(
    program("e2e.test") is None or program("kubectl") is None, reason="conformance (no e2e.test, or no kubectl)"
)


def names(file: str) -> list[str]:
    return [line for line in (SPECS / file).read_text().splitlines() if line and not line.startswith("#")]


class Hub:
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


@dataclass(frozen=True)
class Lanes:
    hub: Hub
    directory: Path
    nodes: tuple[Object, ...]
    """Stand in every cluster from the start."""

    def run(self, wanted: Iterable[str], passing: set[str]) -> Results:
        """Of the specs that do not pass. Those not known to pass may wait for ever: alone, and not for long."""
        wanted = list(wanted)
        together = [(specs, "25m") for specs in deal([name for name in wanted if name in passing])]
        alone = [([name], "15m" if is_slow(name) else "3m") for name in wanted if name not in passing]
        with ThreadPoolExecutor(LANES) as pool:
            found = list(pool.map(lambda job: self._lane(f"lane-{job[0]}", *job[1]), enumerate(together + alone)))
        results = {name: failure for some in found for name, failure in some.items()}
        return {name: results.get(name, "not run") for name in wanted if results.get(name, "not run")}

    def _lane(self, name: str, specs: list[str], timeout: str) -> Results:
        home = self.directory / name
        home.mkdir()
        config = self._cluster(home)
        report = home / "report.json"
        focus = "|".join(re.escape(name) for name in specs)
        arguments = [
            *FLAGS,
            f"--num-nodes={len(self.nodes)}",
            f"--kubeconfig={config}",
            f"--kubectl-path={program('kubectl')}",
            f"--report-dir={home}",
        ]
        arguments += [f"--ginkgo.timeout={timeout}", f"--ginkgo.json-report={report}", f"--ginkgo.focus=(?:{focus})$"]
        with (home / "log").open("wb") as log:
            subprocess.run(
                [str(program("e2e.test")), *arguments],
                stdout=log,
                stderr=log,
                env={"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(home)},
                check=False,
            )
        if not report.exists():
            last = (home / "log").read_text(errors="replace").splitlines()[-1:]
            return dict.fromkeys(specs, f"e2e.test wrote no report: {last}")
        return read(json.loads(report.read_text()))

    def _cluster(self, home: Path) -> Path:
        """A cluster with every built-in kind: root for the first lane, a logical cluster for each other."""
        file = home / "kubeconfig"
        file.write_text(yaml.safe_dump(self.hub.config))
        if home.name != ROOT_LANE:
            metadata, spec = {"name": home.name}, {"profile": "cluster"}
            kind = {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster"}
            create(file, {**kind, "metadata": metadata, "spec": spec})
            root = self.hub.config["clusters"][0]["cluster"]["server"].partition("/clusters/")[0]
            own = [
                {"name": entry["name"], "cluster": entry["cluster"] | {"server": f"{root}/clusters/{home.name}"}}
                for entry in self.hub.config["clusters"]
            ]
            file.write_text(yaml.safe_dump(self.hub.config | {"clusters": own}))
        for node in self.nodes:
            create(file, node)
        return file


def report(wanted: list[str], failing: Results, passing: set[str], say: Callable[[str], None]) -> Results:
    """Says what does not pass; answers what ought to."""
    say(f"\n{len(wanted) - len(failing)} of {len(wanted)} pass")
    for name, failure in failing.items():
        say(f"  {name}\n      {failure}")
    if file := os.environ.get("SHOAL_PASSING"):
        with Path(file).open("a") as stream:
            stream.writelines(f"{name}\n" for name in wanted if name not in failing)
    return {name: why for name, why in failing.items() if name in passing}


def chosen(specs: list[str]) -> list[str]:
    return [name for name in specs if os.environ.get("SHOAL_SPECS", "") in name]


def deal(specs: list[str]) -> list[list[str]]:
    """Lanes of about equal length."""
    lanes: list[list[str]] = [[] for _ in range(LANES)]
    for name in sorted(specs, key=weight, reverse=True):
        min(lanes, key=lambda lane: sum(map(weight, lane))).append(name)
    return [lane for lane in lanes if lane]


def is_slow(name: str) -> bool:
    return "[Slow]" in name


def weight(name: str) -> int:
    """About how many seconds a spec takes."""
    return next((seconds for part, seconds in LONG.items() if part in name), SHORT)


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


def create(config: Path, obj: Object) -> None:
    subprocess.run(
        [str(program("kubectl")), f"--kubeconfig={config}", f"--cache-dir={config.parent / 'cache'}", "create", "-f-"],
        input=json.dumps(obj),
        text=True,
        stdout=subprocess.DEVNULL,
        check=True,
    )
