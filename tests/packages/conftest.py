"""One wheel and one environment with it for all tests of a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packages import building


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return building.wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `shoal` in an environment that has just the wheel."""
    return building.environment(tmp_path_factory.mktemp("environment"), wheel)
