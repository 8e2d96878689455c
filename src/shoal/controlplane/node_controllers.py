"""Builds the node controllers: all of them for a Shoal store, or the simulated kubelet alone for any API server."""

from __future__ import annotations

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.controlplane.kubelet.cluster_source import HostedClusterSource, SingleClusterSource
from shoal.controlplane.kubelet.controller import Kubelet
from shoal.controlplane.kubelet.informers import NodeInformers
from shoal.controlplane.kubelet.nodelease import LeaseRenewer
from shoal.controlplane.kubelet.stages import Stages
from shoal.controlplane.nodelifecycle.controller import NodeLifecycleReconciler
from shoal.runtime.event_recorder import EventRecorder
from shoal.runtime.manager import Runnable


def new_node_controllers(client: Client, clock: Clock, stages: Stages | None = None) -> list[Runnable]:
    """For the logical clusters of profile `cluster` in one store. `client` is that of the root cluster."""
    client = client.as_controller("simulated-kubelet")
    informers = NodeInformers(HostedClusterSource(client, clock), clock)
    recorder = EventRecorder(client.in_cluster, clock)
    kubelet = Kubelet(informers, clock, recorder, stages)
    lifecycle = NodeLifecycleReconciler(informers, clock)
    return [
        informers,
        recorder,
        kubelet.node_controller,
        kubelet.pod_controller,
        lifecycle.taint_controller,
        lifecycle.eviction_controller,
    ]


def new_simulated_node_controllers(client: Client, clock: Clock, stages: Stages | None = None) -> list[Runnable]:
    """For the single cluster of an API server, whose own control plane monitors nodes by their Leases."""
    informers = NodeInformers(SingleClusterSource(client), clock)
    recorder = EventRecorder(client.in_cluster, clock)
    kubelet = Kubelet(informers, clock, recorder, stages)
    leases = LeaseRenewer(informers, clock)
    return [informers, recorder, kubelet.node_controller, kubelet.pod_controller, leases.controller]
