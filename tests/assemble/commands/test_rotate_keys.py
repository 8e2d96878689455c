"""`shoal rotate-ca --cluster` while somebody else writes the object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.commands.rotate_keys import rotate_keys
from shoal.client.rest import GroupVersionResource
from shoal.fleet.resources import LOGICAL_CLUSTERS
from shoal.kinds.fleet.keys import requested_keys
from tests.controlplane.world import world

pytestmark = pytest.mark.anyio


async def test_a_write_between_read_and_request_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as given:
        client = given.client
        await given.cluster("east")
        before = requested_keys(await client.get(LOGICAL_CLUSTERS, "east"))
        request = client.merge_patch

        async def request_late(gvr: GroupVersionResource, name: str, patch: Any, namespace: str) -> Any:
            monkeypatch.setattr(client, "merge_patch", request)
            await request(gvr, name, {"metadata": {"labels": {"written": "meanwhile"}}}, namespace)
            return await request(gvr, name, patch, namespace)

        monkeypatch.setattr(client, "merge_patch", request_late)
        rotated = await rotate_keys(client, "east", "", finish=False, timeout_seconds=60)
        obj = await client.get(LOGICAL_CLUSTERS, "east")
        assert rotated.generation == requested_keys(obj).generation == before.generation + 1
        assert obj["metadata"]["labels"] == {"written": "meanwhile"}
