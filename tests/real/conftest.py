"""One test per kubectl of this machine; all of them are marked real, except those with the mark containers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.containers import engine as engines
from tests.real.containers import node_image
from tests.real.containers.shoal_image import shoal_image
from tests.real.engines import engine_with
from tests.real.kind_machine import KindCluster
from tests.real.programs import Kubectl, definition, kubectls
from tests.serving import Cluster

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("containers") is None:
            item.add_marker(pytest.mark.real)


@pytest.fixture(params=kubectls() or [pytest.param("none", marks=pytest.mark.skip(reason="kubectl"))])
def kubectl(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectls()[request.param], request.param, cluster, tmp_path)


@pytest.fixture
def widgets(kubectl: Kubectl) -> Cluster:
    """The cluster of kubectl serves Widgets."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    kubectl.cluster.post(path, definition()).ok()
    return kubectl.cluster


@pytest.fixture
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> engines.Engine:
    """An engine that answers and has the node image, or what the test module names as its NEEDED_IMAGE. Processes of
    the test find it, and kind, docker and kubectl.
    """
    found = engine_with(getattr(request.module, "NEEDED_IMAGE", node_image.NAME))
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture(scope="session")
def kind_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KindCluster]:
    """One for all tests that deploy Shoal's own image, `shoal_image(engine, "new")`, which its node has."""
    engine = engine_with(node_image.NAME)
    image = shoal_image(engine, "new")
    made = KindCluster(engine, f"shoal-image-{os.getpid()}", tmp_path_factory.mktemp("kind"))
    try:
        made.create()
        made.load(image)
        yield made
    finally:
        made.delete()
