"""Reconciles ReplicationControllers with the ReplicaSet reconciler. Their selector is a plain label map."""

from __future__ import annotations

from typing import Any

from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.podcontrol.control import Teller
from shoal.controlplane.replicasets.controller import Owners, ReplicaSetLoop
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import NOTHING, LabelSelector, from_label_selector
from shoal.runtime.dependents import Dependents

Object = dict[str, Any]

CONTROLLERS = Kind("", "v1", "replicationcontrollers")


def selector_of(controller: Object) -> LabelSelector:
    """An empty selector selects nothing."""
    labels = (controller.get("spec") or {}).get("selector")
    try:
        return from_label_selector({"matchLabels": labels}) if labels else NOTHING
    except BadRequest:
        return NOTHING


OWNERS = Owners(CONTROLLERS, "v1", "ReplicationController", selector_of, frozenset({"terminatingReplicas"}))


def replication_controller_loop(
    client: Client, clock: Clock, hosted: HostedClusters, controllers: Dependents, pods: Dependents, tell: Teller
) -> ReplicaSetLoop:
    return ReplicaSetLoop(client, clock, hosted, controllers, pods, tell, OWNERS)
