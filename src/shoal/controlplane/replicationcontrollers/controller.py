"""Reconciles ReplicationControllers with the ReplicaSet reconciler. Their selector is a plain label map."""

from __future__ import annotations

from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.podcontrol.control import PodEventSink
from shoal.controlplane.replicasets.controller import ReplicaOwnerKind, ReplicaSetReconciler
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import SELECT_NOTHING, LabelSelector, from_label_selector

Object = dict[str, Any]

REPLICATION_CONTROLLERS = GroupVersionResource("", "v1", "replicationcontrollers")


def selector_of(controller: Object) -> LabelSelector:
    """An empty selector selects nothing."""
    labels = (controller.get("spec") or {}).get("selector")
    try:
        return from_label_selector({"matchLabels": labels}) if labels else SELECT_NOTHING
    except BadRequest:
        return SELECT_NOTHING


REPLICATION_CONTROLLER_OWNER = ReplicaOwnerKind(
    REPLICATION_CONTROLLERS, "v1", "ReplicationController", selector_of, frozenset({"terminatingReplicas"})
)


def new_replication_controller_reconciler(
    client: Client,
    clock: Clock,
    hosted: HostedClusterFilter,
    event_sink: PodEventSink,
) -> ReplicaSetReconciler:
    return ReplicaSetReconciler(client, clock, hosted, event_sink, REPLICATION_CONTROLLER_OWNER)
