"""Machines without anybody who makes them: for each EmbeddedMachine a Node at another API server, for `shoal nodes`.

What a provider of Cluster API does, at a management cluster where none runs.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from shoal.client.kubeconfig import load
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.kinds.clusterapi.embedded import new_node, provider_id
from shoal.kinds.clusterapi.simulated_node import SIMULATED_LABEL
from shoal.objects.errors import AlreadyExists, NotFound, StatusError

MACHINES = GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "embeddedmachines")
NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
Object = dict[str, Any]


class Infrastructure:
    """Runs from `with` to its end. `machines` is where the EmbeddedMachines are, `nodes` where their Nodes go."""

    def __init__(self, machines: Path, nodes: Path) -> None:
        self._machines, self._nodes = machines, nodes
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Infrastructure:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    async def _run(self) -> None:
        machines, nodes = load(self._machines), load(self._nodes)
        while not self._ended.is_set():
            with suppress(StatusError, Unreachable):
                await self._look(machines, nodes)
            await asyncio.sleep(0.1)
        await machines.close()
        await nodes.close()

    async def _look(self, machines: Client, nodes: Client) -> None:
        wanted = {each["metadata"]["name"]: each for each in (await machines.list_all(MACHINES))[0]}
        for name, machine in wanted.items():
            if not (machine["spec"].get("providerID") or "deletionTimestamp" in machine["metadata"]):
                await self._start(machines, nodes, name, machine)
        for found in (await nodes.list_all(NODES, labels=f"{SIMULATED_LABEL}=true"))[0]:
            metadata = found["metadata"]
            if metadata["name"] not in wanted and "deletionTimestamp" not in metadata:
                with suppress(NotFound):
                    await nodes.delete(NODES, metadata["name"])

    async def _start(self, machines: Client, nodes: Client, name: str, machine: Object) -> None:
        namespace = machine["metadata"]["namespace"]
        made = new_node(machine, "v1.36.4", labels={SIMULATED_LABEL: "true"}, annotations={}, taints=())
        with suppress(AlreadyExists):
            await nodes.create(NODES, made)
        status = {"status": {"initialization": {"provisioned": True}}}
        await machines.merge_patch(MACHINES, name, status, namespace, "status")
        await machines.merge_patch(MACHINES, name, {"spec": {"providerID": provider_id(namespace, name)}}, namespace)
