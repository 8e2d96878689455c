"""The image, built by `make image` on a base without a registry: its size, its confinement, and a `shoal up` in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal import __version__
from tests.packages.building import ROOT
from tests.real.commands import until
from tests.real.containers import base_image
from tests.real.containers.artifacts import Failure
from tests.real.containers.engine import Engine
from tests.real.containers.shoal_image import make_image
from tests.real.hubs import KubectlAt

pytestmark = [pytest.mark.containers, pytest.mark.smoke]

NEEDED_IMAGE = base_image.NAME
NAME = f"shoal-test-{os.getpid()}"
"""Of the image, of the container and of its volume."""
MOST_ABOVE_BASE = 150_000_000
COMPILED = """
import aetcd, aiohttp, cryptography.x509, grpc, highspy, httptools, jsonschema_rs, msgspec, orjson, uvloop, yaml
import numpy.linalg
assert yaml.__with_libyaml__
print(numpy.linalg.inv([[0.5]])[0][0], highspy.Highs().numConstrs)
"""
"""Each shared object is loaded, although its symbols are cut off."""


@pytest.fixture
def image(engine: Engine) -> Iterator[Engine]:
    assert make_image(engine, NAME).splitlines()[-1] == NAME
    yield engine
    for words in (("rm", "--force", NAME), ("volume", "rm", NAME), ("image", "rm", NAME)):
        with suppress(Failure):
            engine.docker(*words)


def inspect(engine: Engine, kind: str, name: str) -> dict[str, Any]:
    (found,) = json.loads(engine.docker(kind, "inspect", name))
    assert isinstance(found, dict)
    return found


def start(engine: Engine, directory: Path) -> KubectlAt:
    """`shoal up` as docs/installing.md has it, on any free port, and a kubectl of it once its health check passes."""
    engine.docker(
        *("run", "--detach", "--name", NAME, "--read-only", "--tmpfs", "/tmp", "--volume", f"{NAME}:/var/lib/shoal"),
        *("--publish", "127.0.0.1:0:6443", NAME, "up", "--listen", "0.0.0.0:6443"),
    )
    until(lambda: inspect(engine, "container", NAME)["State"]["Health"]["Status"] == "healthy")
    config = yaml.safe_load(engine.docker("exec", NAME, "shoal", "kubeconfig"))
    (published,) = inspect(engine, "container", NAME)["NetworkSettings"]["Ports"]["6443/tcp"]
    (cluster,) = config["clusters"]
    cluster["cluster"]["server"] = f"https://127.0.0.1:{published['HostPort']}"
    directory.mkdir(exist_ok=True)
    (directory / "kubeconfig").write_text(yaml.safe_dump(config))
    return KubectlAt(directory / "kubeconfig", directory / "home")


def phases(engine: Engine) -> list[str]:
    """Of the hosted clusters."""
    status = yaml.safe_load(engine.docker("exec", NAME, "shoal", "status", "-o", "yaml"))
    return [row["phase"] for row in status["managed clusters"]]


def test_it_is_small_confined_and_serves(image: Engine, tmp_path: Path) -> None:
    sizes = [int(inspect(image, "image", name)["Size"]) for name in (NAME, NEEDED_IMAGE)]
    assert sizes[0] - sizes[1] <= MOST_ABOVE_BASE
    config = inspect(image, "image", NAME)["Config"]
    assert config["User"] == "65532:65532"
    assert config["Labels"] == {"org.opencontainers.image.version": __version__}
    alone = ("run", "--rm", "--network", "none", "--read-only")
    assert image.docker(*alone, NAME, "--version") == f"shoal, version {__version__}\n"
    assert image.docker(*alone, "--entrypoint", "python", NAME, "-c", COMPILED).split() == ["2.0", "0"]

    kubectl = start(image, tmp_path / "first")
    assert image.docker("exec", NAME, "id", "-u").strip() == "65532"
    with pytest.raises(Failure, match="Read-only file system"):
        image.docker("exec", "--user", "0", NAME, "touch", "/opt/shoal/file")
    kubectl("create", "configmap", "kept", "--from-literal", "value=1")
    kubectl("apply", "-f", str(ROOT / "examples" / "clusters.yaml"))
    until(lambda: phases(image) == ["Running", "Running"])

    # Killed, and another container on the same volume.
    image.docker("kill", "--signal", "KILL", NAME)
    image.docker("rm", NAME)
    kubectl = start(image, tmp_path / "second")
    assert kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.value}") == "1"
    until(lambda: phases(image) == ["Running", "Running"])
    image.docker("stop", "--time", "60", NAME)
    state = inspect(image, "container", NAME)["State"]
    assert (state["ExitCode"], state["OOMKilled"]) == (0, False)
    assert "Traceback" not in image.docker("logs", NAME)
