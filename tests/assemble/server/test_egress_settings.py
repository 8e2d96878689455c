"""The egress policy of a hub is that of the workers it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.assemble.workers.processes import _egress_flags
from shoal.client.egress import EgressDenied
from shoal.objects.egress import EgressSettings, parse_networks

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("allowed", ["", "127.0.0.0/8"])
async def test_workers_inside_have_the_policy_of_the_hub(tmp_path: Path, allowed: str) -> None:
    settings = ShoalServerSettings(tmp_path, port=0, egress=EgressSettings(parse_networks(allowed)))
    up = await HubWithWorkers.start(settings, InProcessWorkers(1))
    try:
        for shoal in (up.hub, up.workers[0].shoal):
            egress = shoal.server.settings.egress
            hosted = egress.policy_for("default.east")
            if allowed:
                hosted.check("127.0.0.1", 1)
            else:
                with pytest.raises(EgressDenied):
                    hosted.check("127.0.0.1", 1)
            with pytest.raises(EgressDenied):
                hosted.check("127.0.0.1", shoal.server.port)
            assert not egress.discloses_failures("default.east")
    finally:
        await up.stop()


def test_flags_of_worker_processes() -> None:
    assert _egress_flags(EgressSettings()) == []
    assert _egress_flags(EgressSettings(parse_networks("10.0.0.0/8,::1"))) == ["--allow-egress", "10.0.0.0/8,::1/128"]
