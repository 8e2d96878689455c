"""`shoal up` is killed at random moments of creating and deleting kind clusters of real containers.

In rounds of five kills. SHOAL_KIND_ROUNDS names a file with the rounds that have passed, one line each; a run goes on
with the rounds that have none there.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.containers.engine import Engine
from tests.real.kind_fleet import KindFleet, own_prefix

pytestmark = [pytest.mark.containers, pytest.mark.soak]

ROUNDS, KILLS = 4, 5
CLUSTERS = 3
LONGEST = 40.0
"""Seconds: longer than one creation takes on a quiet machine."""
DELETION = 1.5
"""Seconds that one deletion takes there. Half of the kills that follow one are within them."""
RESULTS = "SHOAL_KIND_ROUNDS"


@pytest.fixture
def fleet(engine: Engine, tmp_path: Path) -> Iterator[KindFleet]:
    fleet = KindFleet(tmp_path, own_prefix("kills"), dict(os.environ))
    yield fleet
    fleet.end()


def passed_rounds() -> dict[int, str]:
    file = os.environ.get(RESULTS)
    if not file or not Path(file).exists():
        return {}
    return {json.loads(line)["round"]: line for line in Path(file).read_text().splitlines()}


@pytest.mark.parametrize("number", range(ROUNDS))
def test_what_is_declared_exists_after_kills_at_random_moments(number: int, fleet: KindFleet) -> None:
    if number in passed_rounds():
        pytest.skip(f"round {number} of kills ({RESULTS} says that it has passed)")
    dice = random.Random(number)
    declared: set[str] = set()
    moments = []
    for _ in range(KILLS):
        while len(declared) < CLUSTERS:
            declared.add(fleet.create())
        deleted = dice.sample(sorted(declared), dice.choice((0, 1, 1, 2)))
        for name in deleted:
            fleet.delete(name)
            declared.remove(name)
        delay = dice.uniform(0.0, DELETION if deleted and dice.random() < 0.5 else LONGEST)
        time.sleep(delay)
        moments.append(f"{delay:.1f} s: {fleet.activities()}")
        fleet.kill()
        fleet.start()
        # Also right after a start nothing may exist that was never asked for.
        assert fleet.kind_clusters() <= set(fleet.objects())
    fleet.settles(declared)
    for name in declared:
        fleet.answers_for(name)
    for name in declared:
        fleet.delete(name)
    fleet.settles(())
    assert fleet.containers() == []
    assert list(fleet.temporary.iterdir()) == []
    assert fleet.controller_restarts() == {}
    if RESULTS in os.environ:
        with Path(os.environ[RESULTS]).open("a") as file:
            file.write(json.dumps({"round": number, "moments": moments}) + "\n")
