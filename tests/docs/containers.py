"""What readers of pages with real containers have: an engine, kind, and the images that no registry gives them here.

The images have the names that the pages and Shoal's defaults use. `hostname -I` of such a machine prints the address of
the engine's bridge first: containers reach it, and it leads nowhere else. The ports are those of the page, because one
reader works at a time. What a page leaves in the engine is removed, and kind clusters that it leaves are a fault.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.beginnings import call, shoal_up
from tests.docs.pages import Page
from tests.docs.readers import kept_wheels, reader
from tests.docs.running import ENGINE, ENGINE_AND_SHOAL, KIND_CLUSTER
from tests.docs.scenario import Scenario
from tests.real.containers import base_image, node_image
from tests.real.containers.artifacts import Failure
from tests.real.containers.engine import Engine
from tests.real.containers.shoal_image import make_image
from tests.real.containers.workload_images import BUSYBOX
from tests.real.engines import engine_with

PATIENCE = 1800.0
"""For a step that makes kind clusters, on a machine that does much else."""
OWN = "team/app:1"
"""An image of the reader's own, as docs/kind.md names it."""
SHOAL = "ghcr.io/shoal/shoal:0.1.0"
"""As `make image` names the image, and Shoal the one of its workers."""
BUILT = "registry.example/shoal:0.1.0"
"""As docs/installing.md names the image that it builds."""
HERE = "shoal"
"""The kind cluster that docs/installing.md installs the chart in, and the container and the volume that it makes."""
HOSTNAME = """#!/bin/sh
if [ "$*" = -I ]; then echo {address}; else exec {program} "$@"; fi
"""


def container_reader(page: Page, variant: str, place: Path) -> Scenario:
    engine = engine_with(node_image.NAME)
    scenario = reader(page, variant, place, patience=PATIENCE, own_ports=True)
    programs = place / "bin"
    docker = shutil.which("docker", path=engine.environment["PATH"])
    assert docker is not None
    (programs / "docker").symlink_to(docker)
    if engine.host:
        scenario.environment["DOCKER_HOST"] = engine.host
    hostname = shutil.which("hostname") or "false"
    (programs / "hostname").write_text(HOSTNAME.format(address=bridge(engine), program=hostname))
    (programs / "hostname").chmod(0o755)
    return scenario


def bridge(engine: Engine) -> str:
    """The address of this machine in the default network of the engine."""
    (network,) = json.loads(engine.docker("network", "inspect", "bridge"))
    return next(str(config["Gateway"]) for config in network["IPAM"]["Config"] if "." in config.get("Gateway", ""))


@contextmanager
def container_engine(scenario: Scenario) -> Iterator[None]:
    engine = engine_with(base_image.NAME)
    with _left_as_it_was(engine):
        make_image(engine, SHOAL)
        yield


@contextmanager
def shoal_and_engine(scenario: Scenario) -> Iterator[None]:
    engine = engine_with(BUSYBOX)
    with _left_as_it_was(engine), shoal_up(scenario):
        engine.docker("tag", BUSYBOX, OWN)
        yield


@contextmanager
def kind_cluster(scenario: Scenario) -> Iterator[None]:
    """kubectl is at it. The wheels of the clone's first image are there: its build downloads nothing."""
    with container_engine(scenario):
        kept_wheels(scenario.directory)
        kubeconfig = scenario.home / ".kube" / "config"
        call(scenario, "kind", "create", "cluster", "--name", HERE, "--image", node_image.NAME, "--wait", "10m")
        assert kubeconfig.is_file()
        yield
        call(scenario, "kind", "delete", "cluster", "--name", HERE)


@contextmanager
def _left_as_it_was(engine: Engine) -> Iterator[None]:
    before = in_the_engine(engine)
    if HERE in before.clusters | before.containers | before.volumes:
        pytest.skip(f"an engine without a kind cluster, a container and a volume that are called {HERE}")
    try:
        yield
        left = sorted(in_the_engine(engine).clusters - before.clusters)
        assert left == [], f"the page leaves kind clusters: {left}"
    finally:
        for name in in_the_engine(engine).clusters - before.clusters:
            _delete_cluster(engine, name)
        now = in_the_engine(engine)
        for name in now.containers - before.containers:
            engine.docker("rm", "--force", "--volumes", name)
        for name in now.volumes - before.volumes:
            with suppress(Failure):  # one without a name went with its container
                engine.docker("volume", "rm", name)
        for name in now.images - before.images:
            engine.docker("image", "rm", name)


class InTheEngine(NamedTuple):
    clusters: set[str]
    containers: set[str]
    volumes: set[str]
    images: set[str]
    """Those of the names that pages give."""


def in_the_engine(engine: Engine) -> InTheEngine:
    def listed(*words: str) -> set[str]:
        return set(engine.docker(*words).split())

    cluster = "io.x-k8s.kind.cluster"
    return InTheEngine(
        listed("ps", "--all", "--filter", f"label={cluster}", "--format", f'{{{{.Label "{cluster}"}}}}'),
        listed("ps", "--all", "--format", "{{.Names}}"),
        listed("volume", "ls", "--quiet"),
        listed("images", "--format", "{{.Repository}}:{{.Tag}}") & {OWN, SHOAL, BUILT},
    )


def _delete_cluster(engine: Engine, name: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        command = ["kind", "delete", "cluster", "--name", name, "--kubeconfig", f"{directory}/kubeconfig"]
        subprocess.run(command, env=os.environ | engine.environment, check=True, capture_output=True)


CONTAINER_BEGINNINGS: dict[str, Callable[[Scenario], AbstractContextManager[None]]] = {
    ENGINE: container_engine,
    ENGINE_AND_SHOAL: shoal_and_engine,
    KIND_CLUSTER: kind_cluster,
}
