"""`spec.access` as the hub accepts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.fleet.resources import MANAGED_CLUSTERS
from shoal.objects.errors import Invalid
from tests.fleet.fleets import managed, server

pytestmark = pytest.mark.anyio

Object = dict[str, Any]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"users": ["alice"]}], "spec.access[0].role: Required value"),
        ([{"role": "", "users": ["alice"]}], "spec.access[0].role"),
        ([{"role": "a/b", "users": ["alice"]}], "spec.access[0].role"),
        ([{"role": "..", "users": ["alice"]}], "spec.access[0].role"),
        ([{"role": "view"}], "spec.access[0]: Invalid value: at least one user or group is required"),
        ([{"role": "view", "users": [], "groups": []}], "at least one user or group is required"),
        ([{"role": "view", "users": [""]}], "spec.access[0].users[0]"),
        ([{"role": "view", "users": ["a", "a"]}], 'spec.access[0].users[1]: Duplicate value: "a"'),
        ([{"role": "view", "users": ["a"]}] * 2, "spec.access[1]: Duplicate value"),
        ([{"role": "view", "users": [f"u{n}" for n in range(257)]}], "must have at most 256 items"),
        ([{"role": f"r{n}", "users": ["a"]} for n in range(33)], "must have at most 32 items"),
    ],
)
async def test_entries_that_are_rejected(tmp_path: Path, entries: list[Object], message: str) -> None:
    async with server(tmp_path) as hub:
        with pytest.raises(Invalid) as rejected:
            await hub.create(MANAGED_CLUSTERS, managed("east", access=entries), "default")
        assert message in str(rejected.value)


async def test_entries_that_are_accepted(tmp_path: Path) -> None:
    entries = [
        {"role": "view", "users": ["alice", "system:serviceaccount:ci:deployer"]},
        {"role": "system:aggregate-to-view", "groups": ["developers"], "users": []},
        {"role": "...a", "groups": ["*"]},
    ]
    async with server(tmp_path) as hub:
        made = await hub.create(MANAGED_CLUSTERS, managed("east", access=entries), "default")
        assert made["spec"]["access"] == entries
