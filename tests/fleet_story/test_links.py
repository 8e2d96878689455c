"""Three `shoal worker` processes on the default bus, their links cut and restored during changes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tests.fleet_story.fleet_processes import Apart
from tests.fleet_story.link_cuts import carries_what_changed, survives_cuts
from tests.fleet_story.links import Links

NAMES = [f"c{number:02}" for number in range(24)]


def test_three_workers_whose_links_are_cut(tmp_path: Path) -> None:
    with Links() as links, closing(Apart(tmp_path, links)) as fleet:
        names = survives_cuts(fleet, NAMES)
        carries_what_changed(fleet, names)
