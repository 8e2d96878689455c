"""Builds the node controllers: all of them for a Shoal store, or the simulated kubelet alone for any API server."""

from __future__ import annotations

from typing import Protocol

from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.controlplane.nodes.controller import Kubelet
from shoal.controlplane.nodes.heartbeats import Heartbeats
from shoal.controlplane.nodes.lifecycle.controller import NodeLifecycle
from shoal.controlplane.nodes.places import HostedClusters, OneCluster
from shoal.controlplane.nodes.stages import Stages
from shoal.controlplane.nodes.view import View
from shoal.runtime.recorder import Recorder


class Runnable(Protocol):
    name: str

    async def run(self) -> None: ...


def node_loops(client: Client, clock: Clock, stages: Stages | None = None) -> list[Runnable]:
    """For the logical clusters of profile `cluster` in one store. `client` is that of the root cluster."""
    view = View(HostedClusters(client, clock), clock)
    kubelet = Kubelet(view, clock, Recorder(client.at, clock), stages)
    lifecycle = NodeLifecycle(view, clock)
    return [view, kubelet.nodes, kubelet.pods, lifecycle.taints, lifecycle.evictions]


def simulated_node_loops(client: Client, clock: Clock, stages: Stages | None = None) -> list[Runnable]:
    """For the single cluster of an API server, whose own control plane monitors nodes by their Leases."""
    view = View(OneCluster(client), clock)
    kubelet = Kubelet(view, clock, Recorder(client.at, clock), stages)
    return [view, kubelet.nodes, kubelet.pods, Heartbeats(view, clock).loop]
