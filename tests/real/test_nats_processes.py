"""Three `shoal worker` processes over a real nats-server, their links to it and to the hub cut under change."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.fleet_story.fleet_processes import Apart
from tests.fleet_story.link_cuts import carries_what_changed, survives_cuts
from tests.fleet_story.links import Links
from tests.real.bus import NATS, nats_server

NAMES = [f"c{number:02}" for number in range(60)]


@pytest.mark.skipif(NATS is None, reason="nats-server")
def test_three_workers_whose_links_are_cut(tmp_path: Path) -> None:
    with nats_server(tmp_path) as nats, Links() as links, closing(Apart(tmp_path, links, nats.port)) as fleet:
        names = survives_cuts(fleet, NAMES)
        carries_what_changed(fleet, names)
