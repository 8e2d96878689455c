"""One test per kubectl of this machine; all of them are marked real."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.programs import Kubectl, definition, kubectls
from tests.serving import Cluster

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
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
