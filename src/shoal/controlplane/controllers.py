"""Builds the workload controllers. Each has its own informers; informers of one kind share one list and watch."""

from __future__ import annotations

from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.controlplane.cronjobs.controller import CronJobReconciler
from shoal.controlplane.daemonsets.controller import DaemonSetReconciler
from shoal.controlplane.deployments.controller import DeploymentReconciler
from shoal.controlplane.endpoints.controller import EndpointsReconciler
from shoal.controlplane.endpointslicemirroring.controller import EndpointSliceMirroringReconciler
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.jobs.controller import JobReconciler
from shoal.controlplane.jobs.orphans import OrphanPodReconciler
from shoal.controlplane.jobs.ttl import TTLAfterFinishedReconciler
from shoal.controlplane.persistentvolume.claim_controller import ClaimReconciler
from shoal.controlplane.persistentvolume.protection import ProtectionReconciler
from shoal.controlplane.persistentvolume.volume_controller import VolumeReconciler
from shoal.controlplane.podbudget.controller import DisruptionReconciler, StaleDisruptionReconciler
from shoal.controlplane.podcontrol.events import new_pod_event_sink
from shoal.controlplane.replicasets.controller import ReplicaSetReconciler
from shoal.controlplane.replicationcontrollers.controller import new_replication_controller_reconciler
from shoal.controlplane.servicecidrs.controller import ServiceCIDRReconciler
from shoal.controlplane.statefulsets.controller import StatefulSetReconciler
from shoal.runtime.event_recorder import EventRecorder, EventSource
from shoal.runtime.manager import Runnable

REPLICA_SET_SOURCE = EventSource("replicaset-controller", "apps/v1", "ReplicaSet")
REPLICATION_CONTROLLER_SOURCE = EventSource("replication-controller", "v1", "ReplicationController")


def new_workload_controllers(client: Client, clock: Clock) -> list[Runnable]:
    hosted = HostedClusterFilter(client, clock)
    recorder = EventRecorder(client.as_controller("event-recorder").in_cluster, clock)
    return [
        hosted,
        recorder,
        *_new_pod_owner_controllers(client, clock, hosted, recorder),
        *_new_batch_controllers(client, clock, hosted, recorder),
        *_new_service_controllers(client, clock, hosted, recorder),
        DisruptionReconciler(client.as_controller("disruption-controller"), clock, hosted, recorder).controller,
        StaleDisruptionReconciler(client.as_controller("disruption-controller"), clock, hosted).controller,
        *_new_volume_controllers(client, clock, hosted, recorder),
    ]


def _new_pod_owner_controllers(
    client: Client, clock: Clock, hosted: HostedClusterFilter, recorder: EventRecorder
) -> list[Runnable]:
    replica_set_events = new_pod_event_sink(recorder, REPLICA_SET_SOURCE)
    replication_controller_events = new_pod_event_sink(recorder, REPLICATION_CONTROLLER_SOURCE)
    return [
        DeploymentReconciler(client.as_controller("deployment-controller"), clock, hosted, recorder).controller,
        ReplicaSetReconciler(
            client.as_controller("replicaset-controller"), clock, hosted, replica_set_events
        ).controller,
        new_replication_controller_reconciler(
            client.as_controller("replication-controller"), clock, hosted, replication_controller_events
        ).controller,
        StatefulSetReconciler(client.as_controller("statefulset-controller"), clock, hosted, recorder).controller,
        DaemonSetReconciler(client.as_controller("daemon-set-controller"), clock, hosted, recorder).controller,
    ]


def _new_batch_controllers(
    client: Client, clock: Clock, hosted: HostedClusterFilter, recorder: EventRecorder
) -> list[Runnable]:
    return [
        JobReconciler(client.as_controller("job-controller"), clock, hosted, recorder).controller,
        OrphanPodReconciler(client.as_controller("job-controller"), clock, hosted).controller,
        TTLAfterFinishedReconciler(client.as_controller("ttl-after-finished-controller"), clock, hosted).controller,
        CronJobReconciler(client.as_controller("cronjob-controller"), clock, hosted, recorder).controller,
    ]


def _new_service_controllers(
    client: Client, clock: Clock, hosted: HostedClusterFilter, recorder: EventRecorder
) -> list[Runnable]:
    return [
        EndpointsReconciler(client.as_controller("endpoint-controller"), clock, hosted).controller,
        EndpointSliceMirroringReconciler(
            client.as_controller("endpointslicemirroring-controller"), clock, hosted, recorder
        ).controller,
        ServiceCIDRReconciler(client.as_controller("service-cidrs-controller"), clock, hosted).controller,
    ]


def _new_volume_controllers(
    client: Client, clock: Clock, hosted: HostedClusterFilter, recorder: EventRecorder
) -> list[Runnable]:
    claim_controller = ClaimReconciler(
        client.as_controller("persistent-volume-binder"), clock, hosted, recorder
    ).controller
    enqueue_claim = claim_controller.queue.add
    protection = ProtectionReconciler(client.as_controller("pvc-protection-controller"), clock, hosted)
    return [
        claim_controller,
        VolumeReconciler(
            client.as_controller("persistent-volume-binder"), clock, hosted, recorder, enqueue_claim
        ).controller,
        protection.claim_controller,
        protection.volume_controller,
    ]
