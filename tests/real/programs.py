"""kubectl as a test calls it: every version this machine has, each call with a home and cache of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.real.building import built
from tests.serving import HANG, Cluster, widget_definition

Object = dict[str, Any]
_NAMED = re.compile(r"kubectl(?:\.(1\.\d+))?")


@cache
def kubectls() -> dict[str, str]:
    """`kubectl-1.27` -> its path. From SHOAL_KUBECTL (a list like PATH), built, PATH, and beside what PATH links to."""
    files = [Path(name) for name in os.environ.get("SHOAL_KUBECTL", "").split(os.pathsep) if name]
    own = built("kubectl")
    files += [own] if own else []
    folders = [Path(name) for name in os.environ.get("PATH", "").split(os.pathsep) if name]
    linked = [Path(os.path.realpath(folder / "kubectl")).parent for folder in folders if (folder / "kubectl").is_file()]
    for folder in [*linked, *folders]:
        files += sorted(file for file in folder.glob("kubectl*") if _NAMED.fullmatch(file.name))
    found: dict[str, str] = {}
    for real in dict.fromkeys(os.path.realpath(file) for file in files if shutil.which(file)):
        found.setdefault(_title(real), real)
    return dict(sorted(found.items()))


def _title(path: str) -> str:
    named = _NAMED.fullmatch(Path(path).name)
    if named and named[1]:
        return f"kubectl-{named[1]}"
    said = subprocess.run([path, "version", "--client", "-o", "json"], capture_output=True, check=True, timeout=HANG)
    number, _, extra = json.loads(said.stdout)["clientVersion"]["gitVersion"].removeprefix("v").partition("-")
    return "-".join(part for part in ("kubectl", ".".join(number.split(".")[:2]), extra) if part)


class Kubectl:
    """One kubectl, logged into one logical cluster."""

    def __init__(self, path: str, title: str, cluster: Cluster, home: Path) -> None:
        self.title = title
        self.cluster = cluster
        self.home = home
        config = cluster.kubeconfig(home / "kubeconfig")
        self._command = [path, f"--kubeconfig={config}", f"--cache-dir={home / 'cache'}"]
        self._environment = {"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(home)}

    @property
    def minor(self) -> int:
        return int(self.title.split("-")[1].split(".")[1])

    def run(
        self, *args: str, given: object = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *args],
            input=given if isinstance(given, str) else manifest(given),
            env=self._environment | (env or {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG,
        )

    def __call__(self, *args: str, given: object = None, env: dict[str, str] | None = None) -> str:
        """What a call that succeeds prints; `given` is its standard input, objects as YAML."""
        done = self.run(*args, given=given, env=env)
        assert done.returncode == 0, f"kubectl {' '.join(args)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def fails(self, *args: str, given: object = None) -> str:
        """What a call that fails complains about."""
        done = self.run(*args, given=given)
        assert done.returncode != 0, f"kubectl {' '.join(args)} succeeded: {done.stdout}"
        return done.stderr

    def json(self, *args: str, given: object = None) -> Any:
        return json.loads(self(*args, "-o", "json", given=given))

    def rows(self, *args: str) -> list[list[str]]:
        """A printed table, header first."""
        return [line.split() for line in self(*args).splitlines() if line.strip()]

    @contextmanager
    def running(self, *args: str) -> Iterator[subprocess.Popen[str]]:
        """A call that goes on beside the test; ended with it."""
        process = subprocess.Popen(
            [*self._command, *args],
            env=self._environment,
            text=True,
            bufsize=1,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        # Whoever reads a line that never comes is told by its end.
        guard = threading.Timer(HANG, process.kill)
        guard.start()
        try:
            yield process
        finally:
            guard.cancel()
            process.kill()
            process.communicate(timeout=HANG)


def manifest(given: object) -> str:
    if given is None:
        return ""
    return yaml.safe_dump_all(given if isinstance(given, list) else [given])


def definition() -> Object:
    """The Widget definition with all that shows in kubectl: columns, categories, descriptions, selectable fields."""
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    made = widget_definition(additionalPrinterColumns=columns, selectableFields=[{"jsonPath": ".spec.color"}])
    made["spec"]["names"] |= {"singular": "widget", "categories": ["all", "toys"]}
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["description"] = "Widget is a thing to build with."
    schema["properties"]["spec"]["properties"]["color"]["description"] = "Color is what it is painted in."
    return made
