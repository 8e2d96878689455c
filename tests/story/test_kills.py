"""kill -9 in the middle of a step, and the same command again: the story ends the same, and nothing is left."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.etcd import Etcd
from tests.story.everything import Inventory
from tests.story.fleets import HUB, WORKERS, Fleet
from tests.story.story import STEPS, Story

Kill = tuple[str, float]
"""Which process, and how many seconds after the step was begun, or after the kill before."""

MOMENTS = (0.0, 0.02, 0.06, 0.15, 0.3)
VICTIMS = {"up": (False, HUB), "hub": (True, HUB), "worker": (True, WORKERS[0])}
"""Whether workers are apart, and which process is killed."""


def live(story: Story, inventory: Inventory, kills: Mapping[str, Sequence[Kill]]) -> None:
    for step in STEPS:
        writing = threading.Thread(target=story.begin, args=(step,))
        writing.start()
        for victim, seconds in kills.get(step, ()):
            time.sleep(seconds)
            story.fleet.restart(victim)
        writing.join()
        story.finish(step)
        if step == "scale":
            inventory.learn(story.hub, story.inside("east"))
            story.check_nodes()


def survive(fleet: Fleet, kills: Mapping[str, Sequence[Kill]]) -> None:
    try:
        story = Story(fleet)
        inventory = Inventory(fleet)
        live(story, inventory, kills)
        inventory.nothing_is_left()
        inventory.comes_to_rest()
        story.close()
    finally:
        fleet.close()


def test_up_is_killed_in_every_step(tmp_path: Path) -> None:
    survive(Fleet(tmp_path, apart=False), {step: [(HUB, 0.03 * number)] for number, step in enumerate(STEPS)})


def test_a_worker_and_its_hub_are_killed_in_turn(tmp_path: Path) -> None:
    first, second = WORKERS
    kills = {
        "clusters": [(HUB, 0.15)],
        "deployment": [(first, 0.03)],
        "scale": [(HUB, 0.06), (second, 0.1)],
        "delete_clusters": [(first, 0.03)],
    }
    survive(Fleet(tmp_path, apart=True), kills)


@pytest.mark.soak
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("who", VICTIMS)
def test_killed_at_several_moments(tmp_path: Path, store: Etcd | None, who: str, step: str) -> None:
    apart, victim = VICTIMS[who]
    survive(Fleet(tmp_path, apart=apart, etcd=store), {step: [(victim, seconds) for seconds in MOMENTS]})


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_killed_at_any_moment(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    apart = bool(seed % 2)
    victims = (HUB, *WORKERS) if apart else (HUB,)
    kills = {step: [(dice.choice(victims), dice.uniform(0, 0.5)) for _ in range(dice.randrange(3))] for step in STEPS}
    survive(Fleet(tmp_path, apart=apart), kills)
