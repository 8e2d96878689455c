"""Builds the workload controllers and their shared informers: each kind is watched once for all clusters."""

from __future__ import annotations

from shoal.client.reflector import Key
from shoal.client.requests import Client
from shoal.clock import Clock
from shoal.controlplane.cronjobs.controller import CRON_JOBS, CronJobLoop
from shoal.controlplane.daemonsets.controller import DAEMON_SETS, NODES, DaemonSetLoop
from shoal.controlplane.deployments.controller import DEPLOYMENTS, DeploymentLoop
from shoal.controlplane.history import REVISIONS
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.jobs.controller import JOBS, JobLoop
from shoal.controlplane.jobs.orphans import OrphanLoop
from shoal.controlplane.jobs.ttl import ExpiryLoop
from shoal.controlplane.podcontrol.control import PODS
from shoal.controlplane.podcontrol.telling import pod_events
from shoal.controlplane.replicasets.controller import REPLICA_SETS, ReplicaSetLoop
from shoal.controlplane.replicationcontrollers.controller import CONTROLLERS, replication_controller_loop
from shoal.controlplane.statefulsets.controller import CLAIMS, STATEFUL_SETS, StatefulSetLoop
from shoal.controlplane.surroundings import Shared, surrounding_loops
from shoal.runtime.dependents import Dependents
from shoal.runtime.loop import Loop
from shoal.runtime.recorder import Recorder, Source


def workload_loops(client: Client, clock: Clock) -> list[Loop[Key]]:
    everywhere, hosted = client.at("*"), HostedClusters(client, clock)
    deployments = Dependents(everywhere, DEPLOYMENTS, clock)
    sets = Dependents(everywhere, REPLICA_SETS, clock)
    pods = Dependents(everywhere, PODS, clock)
    recorder = Recorder(client.at, clock)
    first = DeploymentLoop(client, clock, hosted, deployments, sets, recorder).loop
    tell = pod_events(recorder, Source("replicaset-controller", "apps/v1", "ReplicaSet"))
    second = ReplicaSetLoop(client, clock, hosted, sets, pods, tell).loop
    first.sources += [hosted.run, deployments.run]
    second.sources += [sets.run, pods.run, recorder.run]
    claims = Dependents(everywhere, CLAIMS, clock)
    nodes = Dependents(everywhere, NODES, clock)
    shared = Shared(hosted, recorder, pods, nodes, claims, deployments, sets)
    return [
        first,
        second,
        *_more_loops(client, clock, shared),
        *_batch_loops(client, clock, hosted, pods, recorder),
        *surrounding_loops(client, clock, shared),
    ]


def _more_loops(client: Client, clock: Clock, shared: Shared) -> list[Loop[Key]]:
    everywhere, hosted, recorder = client.at("*"), shared.hosted, shared.recorder
    pods, claims, nodes = shared.pods, shared.claims, shared.nodes
    controllers = Dependents(everywhere, CONTROLLERS, clock)
    stateful_sets = Dependents(everywhere, STATEFUL_SETS, clock)
    daemon_sets = Dependents(everywhere, DAEMON_SETS, clock)
    revisions = Dependents(everywhere, REVISIONS, clock)
    tell = pod_events(recorder, Source("replication-controller", "v1", "ReplicationController"))
    first = replication_controller_loop(client, clock, hosted, controllers, pods, tell).loop
    second = StatefulSetLoop(client, clock, hosted, stateful_sets, pods, claims, revisions, recorder).loop
    third = DaemonSetLoop(client, clock, hosted, daemon_sets, pods, nodes, revisions, recorder).loop
    first.sources += [controllers.run]
    second.sources += [stateful_sets.run, claims.run, revisions.run]
    third.sources += [daemon_sets.run, nodes.run]
    return [first, second, third]


def _batch_loops(
    client: Client, clock: Clock, hosted: HostedClusters, pods: Dependents, recorder: Recorder
) -> list[Loop[Key]]:
    everywhere = client.at("*")
    jobs, cron_jobs = Dependents(everywhere, JOBS, clock), Dependents(everywhere, CRON_JOBS, clock)
    first = JobLoop(client, clock, hosted, jobs, pods, recorder).loop
    orphans = OrphanLoop(client, clock, hosted, jobs, pods).loop
    expiry = ExpiryLoop(client, clock, hosted, jobs).loop
    second = CronJobLoop(client, clock, hosted, cron_jobs, jobs, recorder).loop
    first.sources += [jobs.run]
    second.sources += [cron_jobs.run]
    return [first, orphans, expiry, second]
