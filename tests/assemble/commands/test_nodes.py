"""`shoal nodes`: what it creates, what it leaves unchanged, and which flags it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from shoal.assemble.commands.nodes import NodeNotSimulated, SimulatedNodesConfig, SimulatedNodesProcess
from shoal.cli.main import shoal
from shoal.client.rest import Client
from shoal.controlplane.kubelet.informers import NODES
from tests.controlplane.world import world

Object = dict[str, Any]


class SharedClient(Client):
    """A client that is not closed by the command."""

    async def close(self) -> None:
        pass


async def names(client: Client) -> list[str]:
    return [node["metadata"]["name"] for node in (await client.list_all(NODES))[0]]


@pytest.mark.anyio
async def test_nodes_are_made_once_and_go_only_when_asked(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        await given.cluster("a")
        client = SharedClient(given.server.transport(), "admin", cluster="a")
        wanted = SimulatedNodesConfig(3, "n", {"cpu": "8"}, ("a", "b"), {"pool": "x"}, events=True)
        await (await SimulatedNodesProcess.start(client, wanted)).stop()
        assert await names(client) == ["n-0", "n-1", "n-2"]
        node = await client.get(NODES, "n-1")
        assert node["metadata"]["labels"] == {
            "shoal.dev/simulated": "true",
            "kubernetes.io/hostname": "n-1",
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": "b",
            "pool": "x",
        }
        assert node["metadata"]["annotations"]["shoal.dev/events"] == "true"
        assert node["status"]["capacity"] == {"cpu": "8"}
        running = await SimulatedNodesProcess.start(client, SimulatedNodesConfig(2, "n", cleanup=True))
        assert await names(client) == ["n-0", "n-1", "n-2"]
        await running.stop()
        assert await names(client) == ["n-2"], "those it was asked for"


@pytest.mark.anyio
async def test_a_node_of_others_is_not_taken(tmp_path: Path) -> None:
    async with world(tmp_path, loops=False) as given:
        await given.cluster("a")
        client = SharedClient(given.server.transport(), "admin", cluster="a")
        await client.create(NODES, {"metadata": {"name": "n-0"}})
        with pytest.raises(NodeNotSimulated, match="node n-0 exists already and is not simulated"):
            await SimulatedNodesProcess.start(client, SimulatedNodesConfig(1, "n"))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--cpu", "many"], "Invalid value for '--cpu': many: quantities must match"),
        (["--pods", "0"], "Invalid value for '--pods': 0: must be greater than 0"),
        (["--label", "pool"], "--label pool: give KEY=VALUE"),
        (["--prefix", "A_b"], "--prefix A_b: a lowercase RFC 1123 subdomain"),
        (["--cleanup"], "--cleanup requires --count: only nodes created by this command are deleted"),
    ],
)
def test_wrong_flags_are_named(flags: list[str], said: str, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("{}")
    done = CliRunner().invoke(shoal, ["nodes", "--kubeconfig", str(file), *flags])
    assert done.exit_code == 2
    assert said in done.output
