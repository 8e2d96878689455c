"""The checker finds each of the bugs that are planted, and nothing where none is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

import pytest

from tests.serving import Server
from tests.soak.clients import Place
from tests.soak.history import Problem
from tests.soak.load import Load, said
from tests.soak.planted import Doubling, Losing, Unguarded, lagging, skipping, store_of, swapping

Plant = Callable[[], AbstractContextManager[None]]


def run(directory: Path, plant: Plant) -> list[Problem]:
    with plant():
        server = Server(directory)
        try:
            place = Place([("127.0.0.1", server.port)], server.token, server.context)
            load = Load(place, workers=10, followers=2, keys=4, pause=0.0)
            load.start()
            load.more(500)
            return load.end()
        finally:
            server.stop()


def test_nothing_is_wrong_where_nothing_is(tmp_path: Path) -> None:
    found = run(tmp_path, nullcontext)
    assert found == [], said(found)


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        pytest.param(partial(store_of, Losing), "lost", id="an acknowledged write is lost"),
        pytest.param(lagging, "stale", id="reads from a cache that lags behind"),
        pytest.param(skipping, "gap", id="a watch skips an event"),
        pytest.param(swapping, "swapped", id="a watch swaps two events"),
        pytest.param(partial(store_of, Unguarded), "precondition", id="an update over another one"),
        pytest.param(partial(store_of, Doubling), "twice", id="a write is done twice"),
    ],
)
def test_a_planted_bug_is_found(tmp_path: Path, plant: Plant, kind: str) -> None:
    found = run(tmp_path, plant)
    assert kind in {each.kind for each in found}, said(found)
