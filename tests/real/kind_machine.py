"""A kind cluster made directly by kind, with Shoal's image in it, and Helm releases in that cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packages.manifests import CHART
from tests.real.building import built
from tests.real.containers.engine import Engine
from tests.real.containers.node_image import NAME as NODE_IMAGE
from tests.real.containers.shoal_image import REPOSITORY
from tests.real.hubs import KubectlAt
from tests.real.programs import kubectls

Object = dict[str, Any]

LONG = 900.0
"""Seconds for what takes a minute on an idle machine."""
FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ").search
SMALL = {"requests": {"cpu": "20m", "memory": "128Mi"}}


def until(look: Callable[[], object], seconds: float = LONG) -> None:
    """A look that fails is a look in vain: servers start and stop meanwhile."""
    end, last = time.monotonic() + seconds, ""
    while time.monotonic() < end:
        try:
            if look():
                return
            last = "it is not so"
        except (AssertionError, KeyError, subprocess.TimeoutExpired) as error:
            last = str(error)
        time.sleep(0.5)
    raise AssertionError(f"it did not come to that: {last}")


class KindCluster:
    def __init__(self, engine: Engine, name: str, directory: Path) -> None:
        self.engine, self.name, self.directory = engine, name, directory
        self.kubeconfig = directory / "kubeconfig"
        self.kubectl = KubectlAt(self.kubeconfig, directory / "home")

    def kind(self, *words: str | Path) -> str:
        done = subprocess.run(
            ["kind", *words],
            env=os.environ | self.engine.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONG,
        )
        assert done.returncode == 0, f"kind {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def create(self) -> None:
        flags = ("--image", NODE_IMAGE, "--kubeconfig", self.kubeconfig, "--wait", "10m")
        self.kind("create", "cluster", "--name", self.name, *flags)

    def delete(self) -> None:
        self.kind("delete", "cluster", "--name", self.name, "--kubeconfig", self.kubeconfig)

    def load(self, *images: str) -> None:
        self.kind("load", "docker-image", "--name", self.name, *images)

    def tag(self, image: str, other: str) -> None:
        """A second name for an image, in the node."""
        node = f"{self.name}-control-plane"
        self.engine.docker("exec", node, "ctr", "-n", "k8s.io", "images", "tag", "--force", image, other)

    @property
    def gateway(self) -> str:
        """The address of this machine in the network of kind clusters."""
        configs = json.loads(self.engine.docker("network", "inspect", "kind"))[0]["IPAM"]["Config"]
        return next(str(config["Gateway"]) for config in configs if "." in config.get("Gateway", ""))

    def apply(self, *objects: Object) -> None:
        file = self.directory / "applied.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        self.kubectl("apply", "-f", str(file))


class Release:
    """A release of the chart, with what the tests need of the namespace it is in."""

    def __init__(self, cluster: KindCluster, helm: str, namespace: str, chart: Path = CHART) -> None:
        path = built(helm)
        if path is None:
            pytest.skip(f"{helm} (not built)")
        self._path, self.cluster, self.namespace, self.chart = path, cluster, namespace, chart
        self.directory = cluster.directory / namespace
        self.directory.mkdir(exist_ok=True)

    def helm(self, *words: str) -> str:
        environ = {"HOME": str(self.directory), "PATH": os.environ["PATH"], "KUBECONFIG": str(self.cluster.kubeconfig)}
        command = [str(self._path), *words, "--namespace", self.namespace]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=LONG)
        assert done.returncode == 0, f"helm {' '.join(words)}: {done.stdout}{done.stderr}{self._state()}"
        return done.stdout

    def _state(self) -> str:
        with suppress(AssertionError):
            return self.kubectl("get", "pods,events", "-o", "wide")
        return ""

    def install(self, values: Object, tag: str = "new", chart: Path | None = None) -> None:
        """Or upgrades it; returns when all pods are ready."""
        file = self.directory / "values.yaml"
        image = {"repository": REPOSITORY, "tag": tag}
        file.write_text(yaml.safe_dump({"image": image, **values}))
        self.chart = chart or self.chart
        flags = ("--install", "--create-namespace", "--values", str(file), "--wait", "--timeout", "14m")
        self.helm("upgrade", "shoal", str(self.chart), *flags)

    def uninstall(self) -> None:
        self.helm("uninstall", "shoal", "--wait", "--timeout", "5m")

    def remove(self) -> None:
        """With its volumes."""
        self.cluster.kubectl("delete", "namespace", self.namespace, "--wait=false", "--ignore-not-found")

    def kubectl(self, *words: str) -> str:
        return self.cluster.kubectl("-n", self.namespace, *words)

    def get(self, *what: str) -> Object:
        found: Object = json.loads(self.kubectl("get", *what, "-o", "json"))
        return found

    def pod(self, part: str) -> Object:
        """The one pod of a part, such as hub."""
        (found,) = self.get("pods", "-l", f"app.kubernetes.io/name=shoal-{part}")["items"]
        pod: Object = found
        return pod

    @contextmanager
    def hub(self, name: str = "hub.kubeconfig") -> Iterator[KubectlAt]:
        """A kubectl of the hub's administrator, through a port-forward, as docs/installing.md has it."""
        file = self.directory / name
        file.write_text(self.kubectl("exec", "shoal-hub-0", "--", "shoal", "kubeconfig"))
        file.chmod(0o600)
        with self.forwarded(file) as kubectl:
            yield kubectl

    @contextmanager
    def forwarded(self, kubeconfig: Path) -> Iterator[KubectlAt]:
        """With an administrator's kubeconfig of before, whatever it names as the server."""
        with self._forward() as port:
            config = yaml.safe_load(kubeconfig.read_text())
            config["clusters"][0]["cluster"]["server"] = f"https://localhost:{port}"
            local = kubeconfig.with_suffix(".local")
            local.write_text(yaml.safe_dump(config))
            yield KubectlAt(local, self.directory / "home")

    @contextmanager
    def _forward(self) -> Iterator[int]:
        program = list(kubectls().values())[-1]
        command = [program, f"--kubeconfig={self.cluster.kubeconfig}", "-n", self.namespace, "port-forward"]
        process = subprocess.Popen(
            [*command, "service/shoal-hub", ":6443"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert process.stdout is not None
        guard = threading.Timer(LONG, process.kill)
        guard.start()
        try:
            line = process.stdout.readline()
            found = FORWARDING(line)
            assert found is not None, line
            yield int(found[1])
        finally:
            guard.cancel()
            process.kill()
            process.communicate()
