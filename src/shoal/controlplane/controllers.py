"""Builds the workload controllers and their shared informers: each kind is watched once for all clusters."""

from __future__ import annotations

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.clock import Clock
from shoal.controlplane.controller_history import CONTROLLER_REVISIONS
from shoal.controlplane.cronjobs.controller import CRON_JOBS, CronJobReconciler
from shoal.controlplane.daemonsets.controller import DAEMON_SETS, NODES, DaemonSetReconciler
from shoal.controlplane.deployments.controller import DEPLOYMENTS, DeploymentReconciler
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.infrastructure_controllers import SharedInformers, new_infrastructure_controllers
from shoal.controlplane.jobs.controller import JOBS, JobReconciler
from shoal.controlplane.jobs.orphans import OrphanPodReconciler
from shoal.controlplane.jobs.ttl import TTLAfterFinishedReconciler
from shoal.controlplane.podcontrol.control import PODS
from shoal.controlplane.podcontrol.events import new_pod_event_sink
from shoal.controlplane.replicasets.controller import REPLICA_SETS, ReplicaSetReconciler
from shoal.controlplane.replicationcontrollers.controller import (
    REPLICATION_CONTROLLERS,
    new_replication_controller_reconciler,
)
from shoal.controlplane.statefulsets.controller import CLAIMS, STATEFUL_SETS, StatefulSetReconciler
from shoal.runtime.controller import Controller
from shoal.runtime.event_recorder import EventRecorder, EventSource
from shoal.runtime.indexed_informer import IndexedInformer


def new_workload_controllers(client: Client, clock: Clock) -> list[Controller[Key]]:
    wildcard, hosted = client.in_cluster("*"), HostedClusterFilter(client, clock)
    deployments = IndexedInformer(wildcard, DEPLOYMENTS, clock)
    replica_sets = IndexedInformer(wildcard, REPLICA_SETS, clock)
    pods = IndexedInformer(wildcard, PODS, clock)
    recorder = EventRecorder(client.in_cluster, clock)
    deployment_controller = DeploymentReconciler(client, clock, hosted, deployments, replica_sets, recorder).controller
    event_sink = new_pod_event_sink(recorder, EventSource("replicaset-controller", "apps/v1", "ReplicaSet"))
    replica_set_controller = ReplicaSetReconciler(client, clock, hosted, replica_sets, pods, event_sink).controller
    deployment_controller.sources += [hosted.run, deployments.run]
    replica_set_controller.sources += [replica_sets.run, pods.run, recorder.run]
    claims = IndexedInformer(wildcard, CLAIMS, clock)
    nodes = IndexedInformer(wildcard, NODES, clock)
    shared = SharedInformers(hosted, recorder, pods, nodes, claims, deployments, replica_sets)
    return [
        deployment_controller,
        replica_set_controller,
        *_new_pod_set_controllers(client, clock, shared),
        *_new_batch_controllers(client, clock, hosted, pods, recorder),
        *new_infrastructure_controllers(client, clock, shared),
    ]


def _new_pod_set_controllers(client: Client, clock: Clock, shared: SharedInformers) -> list[Controller[Key]]:
    wildcard, hosted, recorder = client.in_cluster("*"), shared.hosted, shared.recorder
    pods, claims, nodes = shared.pods, shared.claims, shared.nodes
    replication_controllers = IndexedInformer(wildcard, REPLICATION_CONTROLLERS, clock)
    stateful_sets = IndexedInformer(wildcard, STATEFUL_SETS, clock)
    daemon_sets = IndexedInformer(wildcard, DAEMON_SETS, clock)
    revisions = IndexedInformer(wildcard, CONTROLLER_REVISIONS, clock)
    event_sink = new_pod_event_sink(recorder, EventSource("replication-controller", "v1", "ReplicationController"))
    rc_controller = new_replication_controller_reconciler(
        client, clock, hosted, replication_controllers, pods, event_sink
    ).controller
    stateful_set_controller = StatefulSetReconciler(
        client, clock, hosted, stateful_sets, pods, claims, revisions, recorder
    ).controller
    daemon_set_controller = DaemonSetReconciler(
        client, clock, hosted, daemon_sets, pods, nodes, revisions, recorder
    ).controller
    rc_controller.sources += [replication_controllers.run]
    stateful_set_controller.sources += [stateful_sets.run, claims.run, revisions.run]
    daemon_set_controller.sources += [daemon_sets.run, nodes.run]
    return [rc_controller, stateful_set_controller, daemon_set_controller]


def _new_batch_controllers(
    client: Client, clock: Clock, hosted: HostedClusterFilter, pods: IndexedInformer, recorder: EventRecorder
) -> list[Controller[Key]]:
    wildcard = client.in_cluster("*")
    jobs, cron_jobs = IndexedInformer(wildcard, JOBS, clock), IndexedInformer(wildcard, CRON_JOBS, clock)
    job_controller = JobReconciler(client, clock, hosted, jobs, pods, recorder).controller
    orphan_controller = OrphanPodReconciler(client, clock, hosted, jobs, pods).controller
    ttl_controller = TTLAfterFinishedReconciler(client, clock, hosted, jobs).controller
    cron_job_controller = CronJobReconciler(client, clock, hosted, cron_jobs, jobs, recorder).controller
    job_controller.sources += [jobs.run]
    cron_job_controller.sources += [cron_jobs.run]
    return [job_controller, orphan_controller, ttl_controller, cron_job_controller]
