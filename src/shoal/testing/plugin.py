"""The pytest plugin: `shoal_cluster`, `shoal_clusters`, `shoal_crds`, and the mark `shoal(nodes=…, profile=…)`.

Every pytest run of an environment with Shoal loads it, so it imports nothing of Shoal itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from shoal.testing.cluster import Cluster
    from shoal.testing.server import ServerProcess


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "shoal(nodes=0, profile='cluster'): configures the cluster of the fixture shoal_cluster"
    )


@pytest.fixture(scope="session")
def shoal_server() -> Iterator[ServerProcess]:
    """One Shoal for all tests of this process; with xdist, one for each worker."""
    from shoal.testing.server import ServerProcess  # noqa: PLC0415

    server = ServerProcess()
    yield server
    server.stop()


@pytest.fixture
def shoal_clusters(
    shoal_server: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Cluster]]:
    """A function that makes clusters, `shoal_clusters(nodes=2)`; they go with the test."""
    clusters: list[Cluster] = []

    def make(*, nodes: int = 0, profile: str = "cluster") -> Cluster:
        file = tmp_path_factory.mktemp("shoal") / "kubeconfig"
        clusters.append(shoal_server.make_cluster(file, profile=profile, nodes=nodes))
        return clusters[-1]

    yield make
    for cluster in clusters:
        shoal_server.remove_cluster(cluster)


@pytest.fixture
def shoal_cluster(request: pytest.FixtureRequest, shoal_clusters: Callable[..., Cluster]) -> Cluster:
    """A cluster of this test's own: `url`, `token`, `authority`, `kubeconfig`, `as_dict()`."""
    mark = request.node.get_closest_marker("shoal")
    return shoal_clusters(**(mark.kwargs if mark is not None else {}))


@pytest.fixture
def shoal_crds(shoal_cluster: Cluster) -> Callable[..., list[str]]:
    """A function that makes the cluster serve CustomResourceDefinitions: objects, YAML files or directories of them."""

    def add(*sources: dict[str, Any] | str | Path) -> list[str]:
        return shoal_cluster.add_crds(_read_crds(sources))

    return add


def _read_crds(sources: tuple[dict[str, Any] | str | Path, ...]) -> Iterator[dict[str, Any]]:
    import yaml  # noqa: PLC0415

    for source in sources:
        if isinstance(source, dict):
            yield source
            continue
        path = Path(source)
        files = sorted([*path.glob("*.yaml"), *path.glob("*.yml")]) if path.is_dir() else [path]
        for file in files:
            for body in yaml.safe_load_all(file.read_text()):
                if isinstance(body, dict) and body.get("kind") == "CustomResourceDefinition":
                    yield body
