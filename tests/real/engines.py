"""The engine that answers, for tests that need an image in it; they are skipped where it is not."""

from __future__ import annotations

import pytest

from tests.real.containers import engine as engines
from tests.real.containers.artifacts import Failure


def engine_with(image: str) -> engines.Engine:
    found = engines.found()
    if found is None:
        pytest.skip("container engine")
    try:
        found.docker("image", "inspect", image)
    except Failure:
        pytest.skip(f"{image} in the engine (make containers builds it)")
    return found
