"""Reconciles KINDClusters: executes the steps that `decide` returns until none is left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from shoal.capi.informers import CLUSTERS, SECRETS, NamespacedName, has_changed, namespaced_name, versions
from shoal.capi.providers.kind.command import KindRunner
from shoal.capi.providers.kind.decide import decide
from shoal.capi.providers.kind.errors import FAILURES, KindError
from shoal.capi.providers.kind.inventory import KindInventory
from shoal.capi.providers.kind.jobs import KindJob, KindJobs
from shoal.capi.providers.kind.kubeconfig_secrets import KubeconfigAccess, may_overwrite, parse_kubeconfig
from shoal.capi.providers.kind.status import CREATED, claim_of, new_history_entries
from shoal.capi.providers.kind.steps import (
    CancelJob,
    CreateCluster,
    DeleteCluster,
    DeleteSecret,
    EngineImages,
    FetchedKubeconfig,
    FetchKubeconfig,
    ForgetJob,
    InspectImages,
    JobState,
    KindClusterList,
    KindClusterSnapshot,
    KindStep,
    ListClusters,
    LoadImages,
    OwnerMarker,
    PatchObject,
    ReadOwner,
    RetryDelays,
    WaitForChange,
    WriteSecret,
    WriteStatus,
)
from shoal.capi.writer import Writer
from shoal.client import rest
from shoal.client.kubeconfig import KubeconfigError, new_client, parse, rest_config_of
from shoal.client.reflector import Key
from shoal.client.rest import GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.kinds.clusterapi import capi, kindcluster
from shoal.objects.errors import AlreadyExists, StatusError
from shoal.runtime.controller import Controller, RequeueError
from shoal.runtime.event_recorder import NORMAL, WARNING, EventRecorder, EventSource
from shoal.runtime.informer import Informer

log = logging.getLogger("shoal.capi.kind")


NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
TIMEOUT = 5.0
_SOURCE = "kind's kubeconfig"


async def owner_uid_of(kubeconfig: str) -> str | None:
    """The uid, empty if no Node has one. None: the API does not respond, or there are no Nodes yet."""
    try:
        client = new_client(rest_config_of(parse(kubeconfig, _SOURCE), source=_SOURCE), "shoal-kind")
    except KubeconfigError:
        return None
    try:
        async with asyncio.timeout(TIMEOUT):
            nodes, _ = await client.list_all(NODES)
    except (StatusError, Unreachable, TimeoutError):
        return None
    finally:
        await client.close()
    if not nodes:
        return None
    return max(capi.labels_of(node).get(kindcluster.OWNER_NODE_LABEL, "") for node in nodes)


Object = dict[str, Any]

KIND_CLUSTERS = rest.GroupVersionResource(kindcluster.GROUP, kindcluster.VERSION, kindcluster.PLURAL)
EVENT_SOURCE = EventSource("kind-provider", f"{kindcluster.GROUP}/{kindcluster.VERSION}", kindcluster.KIND)
WORKERS = 16
"""Some wait for kind while others proceed."""
MAX_STEPS = 100
"""More than any object needs: guards against an endless loop."""


@dataclass(slots=True)
class KindObservations:
    """What was observed since the key was taken from the queue."""

    after_list: int
    """Lists with a higher number are fresh."""
    kubeconfig: FetchedKubeconfig | None = None
    owner_marker: OwnerMarker | None = None
    foreign_secrets: set[str] = field(default_factory=set)
    engine_images: EngineImages | None = None


class KindClusterReconciler:
    def __init__(
        self,
        client: rest.Client,
        clock: Clock,
        command: KindRunner,
        *,
        max_parallel_creates: int,
        resync_seconds: float,
        retry_delays: RetryDelays,
    ) -> None:
        self._client, self._clock, self._command = client, clock, command
        self._resync_seconds, self._retry_delays = resync_seconds, retry_delays
        self._writer = Writer(client)
        self.recorder = EventRecorder(lambda _: client, clock)
        self.kind_clusters = Informer(client, KIND_CLUSTERS, clock, indexers=(by_kind_name, by_uid))
        self.clusters = Informer(client, CLUSTERS, clock)
        self.secrets = Informer(client, SECRETS, clock, labels=kindcluster.OWNER_UID_LABEL, indexers=(by_owner,))
        self.controller: Controller[NamespacedName] = Controller(
            "capi-kindclusters", clock, self.reconcile, workers=WORKERS
        )
        self.controller.sources.append(self._resync)
        self.inventory = KindInventory(command)
        self.jobs = KindJobs(command, max_parallel_creates, self._on_job)
        self._access: dict[str, KubeconfigAccess] = {}
        self._job_ended_at: dict[str, int] = {}
        """By uid: how many lists had been started when its job last made progress."""
        self._claim_lock = asyncio.Lock()
        self.kind_clusters.add_event_handler(self._on_object)
        self.clusters.add_event_handler(self._on_cluster)
        self.secrets.add_event_handler(self._on_secret)

    def _on_object(self, key: Key, old: Object | None, new: Object | None) -> None:
        """Objects that wait for the same name are enqueued too."""
        self.controller.queue.add(key[1:])
        for obj in versions(old, new):
            for name in by_kind_name(key, obj):
                for other in self.kind_clusters.by_index(by_kind_name, name):
                    self.controller.queue.add(namespaced_name(other))

    def _on_cluster(self, key: Key, old: Object | None, new: Object | None) -> None:
        if not has_changed(old, new, _relevant_cluster_state):
            return
        for cluster in versions(old, new):
            reference = (cluster.get("spec") or {}).get("infrastructureRef") or {}
            if reference.get("kind") == kindcluster.KIND:
                self.controller.queue.add((key[1], reference["name"]))

    def _on_secret(self, key: Key, old: Object | None, new: Object | None) -> None:
        for secret in versions(old, new):
            for uid in by_owner(key, secret):
                self._enqueue_uid(uid)

    def _on_job(self, uid: str) -> None:
        self._job_ended_at[uid] = self.inventory.started
        self._enqueue_uid(uid)

    def _enqueue_uid(self, uid: str) -> None:
        for obj in self.kind_clusters.by_index(by_uid, uid):
            self.controller.queue.add(namespaced_name(obj))

    async def _resync(self) -> None:
        """Detects clusters that changed outside of Shoal. Without a KINDCluster nothing is listed."""
        while True:
            await self._clock.sleep(self._resync_seconds)
            if self.kind_clusters.objects:
                await self.inventory.list_after(self.inventory.started)
                for obj in list(self.kind_clusters.objects.values()):
                    self.controller.queue.add(namespaced_name(obj))

    async def reconcile(self, key: NamespacedName) -> float | None:
        for informer in (self.kind_clusters, self.clusters, self.secrets):
            await informer.wait_for_sync()
        observations = KindObservations(self.inventory.started)
        for _ in range(MAX_STEPS):
            obj = self.kind_clusters.get(("", *key))
            if obj is None:
                await self._forget_deleted()
                return None
            step = decide(self._snapshot(obj, observations))
            if isinstance(step, WaitForChange):
                return step.seconds
            await self._execute(step, obj, observations)
        raise RequeueError(f"reconcile exceeded {MAX_STEPS} steps")

    async def _forget_deleted(self) -> None:
        """Cancels the jobs of objects that were deleted without our finalizer being removed."""
        for uid in {*self._job_ended_at, *self._access, *self.jobs.uids()}:
            if not self.kind_clusters.by_index(by_uid, uid):
                self._job_ended_at.pop(uid, None)
                self._access.pop(uid, None)
                await self.jobs.cancel(uid)

    def _snapshot(self, obj: Object, observations: KindObservations) -> KindClusterSnapshot:
        metadata = obj["metadata"]
        uid, last, job = metadata["uid"], self.inventory.last, self.jobs.get(metadata["uid"])
        listing = None
        if last is not None:
            fresh = last.number > max(observations.after_list, self._job_ended_at.get(uid, 0))
            listing = KindClusterList(last.names, last.error, fresh)
        return KindClusterSnapshot(
            obj=obj,
            cluster=self.clusters.get(("", metadata["namespace"], capi.owner_name(obj, capi.CLUSTER))),
            holder=self._name_holder(obj),
            listing=listing,
            job=_job_state(job) if job is not None else None,
            kubeconfig=observations.kubeconfig or self._cached_kubeconfig(obj, job),
            owner_marker=observations.owner_marker,
            secrets=self.secrets.by_index(by_owner, uid),
            foreign_secrets=frozenset(observations.foreign_secrets),
            now=rfc3339(self._clock.now()),
            host_id=self._command.host_id,
            retry_delays=self._retry_delays,
            engine_images=observations.engine_images,
        )

    def _cached_kubeconfig(self, obj: Object, job: KindJob | None) -> FetchedKubeconfig | None:
        """The kubeconfig that kind returned earlier, as long as it is of the claimed cluster."""
        if job is not None:
            return FetchedKubeconfig(job.access, None, fresh=True) if job.access is not None else None
        access, claim = self._access.get(obj["metadata"]["uid"]), claim_of(obj) or {}
        if access is None or claim.get("state") != CREATED or claim.get("id") != access.id:
            return None
        return FetchedKubeconfig(access, None, fresh=False)

    def _name_holder(self, obj: Object) -> str:
        """The KINDCluster that has the name: the one that claims it, else the oldest that wants it."""
        name, uid = kindcluster.kind_cluster_name(obj), obj["metadata"]["uid"]
        if (claim_of(obj) or {}).get("name") == name:
            return ""
        others = [other for other in self.kind_clusters.by_index(by_kind_name, name) if other["metadata"]["uid"] != uid]
        claimers = [other for other in others if (claim_of(other) or {}).get("name") == name]
        older = [other for other in others if _wants_cluster(other) and _age_key(other) < _age_key(obj)]
        holder = next(iter([*claimers, *sorted(older, key=_age_key)]), None)
        return "/".join(namespaced_name(holder)) if holder is not None else ""

    async def _execute(self, step: KindStep, obj: Object, observations: KindObservations) -> None:
        uid = obj["metadata"]["uid"]
        match step:
            case PatchObject(body):
                await self._writer.patch(self.kind_clusters, obj, body)
                if capi.is_deleting(obj):  # its finalizer is gone, and so is the cluster
                    self._record(obj, NORMAL, "Deleted", f"Cluster {kindcluster.kind_cluster_name(obj)} is gone")
            case WriteStatus(new, forgets_job):
                await self._write(obj, new)
                if forgets_job:
                    self._forget_job(uid, observations)
            case ListClusters():
                await self.inventory.list_after(max(observations.after_list, self._job_ended_at.get(uid, 0)))
            case FetchKubeconfig(name):
                observations.kubeconfig = await self._fetch(uid, name)
            case ReadOwner(name):
                observations.owner_marker = OwnerMarker(await self._read_owner(name))
            case InspectImages(names):
                observations.engine_images = await self.inventory.inspect_images(names)
            case LoadImages(name, images):
                self.jobs.load_images(uid, name, images)
                self._record(obj, NORMAL, "LoadingImages", f"Loading {', '.join(images)} into cluster {name}")
            case CreateCluster(name, config):
                self._access.pop(uid, None)
                observations.kubeconfig = observations.owner_marker = None
                self.jobs.create(uid, name, config)
                self._record(obj, NORMAL, "Creating", f"Creating cluster {name}")
            case DeleteCluster(name):
                self.jobs.delete(uid, name)
                self._record(obj, NORMAL, "Deleting", f"Deleting cluster {name}")
            case CancelJob():
                await self.jobs.cancel(uid)
                self._job_ended_at[uid] = self.inventory.started
            case ForgetJob():
                self._forget_job(uid, observations)
            case WriteSecret(secret):
                await self._write_secret(secret, observations)
            case DeleteSecret(secret):
                await self._writer.delete(self.secrets, secret)

    async def _write(self, obj: Object, new: Object) -> None:
        if claim_of(obj) is not None or claim_of(new) is None:
            await self._write_status(obj, new)
            return
        async with self._claim_lock:
            # Another may have claimed the name while this one waited; then everything is decided again.
            if not self._name_holder(obj):
                await self._write_status(obj, new)

    async def _write_status(self, obj: Object, new: Object) -> None:
        await self._writer.update_status(self.kind_clusters, new)
        has_failed = bool((new.get("status") or {}).get("failureMessage"))
        for entry in new_history_entries(obj, new):
            is_warning = has_failed or entry.reason in FAILURES
            self._record(obj, WARNING if is_warning else NORMAL, entry.reason, entry.message)

    def _record(self, obj: Object, type_: str, reason: str, message: str) -> None:
        self.recorder.record(EVENT_SOURCE, "", obj, type_, reason, message)

    def _forget_job(self, uid: str, observations: KindObservations) -> None:
        job = self.jobs.get(uid)
        if job is not None and job.access is not None:
            self._access[uid] = job.access
            observations.kubeconfig = FetchedKubeconfig(job.access, None, fresh=True)
        self.jobs.forget_finished(uid)

    async def _fetch(self, uid: str, name: str) -> FetchedKubeconfig:
        try:
            access = parse_kubeconfig(await self._command.kubeconfig(name))
        except KindError as problem:
            return FetchedKubeconfig(None, problem, fresh=True)
        self._access[uid] = access
        return FetchedKubeconfig(access, None, fresh=True)

    async def _read_owner(self, name: str) -> str | None:
        try:
            return await owner_uid_of(await self._command.kubeconfig(name))
        except KindError:
            return None

    async def _write_secret(self, desired: Object, observations: KindObservations) -> None:
        namespace, name = namespaced_name(desired)
        existing = self.secrets.get(("", namespace, name))
        if existing is None:
            try:
                await self._writer.create(self.secrets, desired)
                return
            except AlreadyExists:
                existing = await self._client.get(SECRETS, name, namespace)
            if not may_overwrite(desired, existing):
                observations.foreign_secrets.add(name)
                return
        labels = {**capi.labels_of(existing), **capi.labels_of(desired)}
        metadata = {**existing["metadata"], "labels": labels}
        await self._writer.update(self.secrets, {**existing, "metadata": metadata, "data": desired["data"]})


def _job_state(job: KindJob) -> JobState:
    return JobState(job.action, job.done, job.error, job.progress, job.steps, job.images)


def by_kind_name(key: Key, obj: Object) -> Iterable[str]:
    """Index by the names of the kind clusters that an object wants and claims."""
    claim = claim_of(obj)
    return {kindcluster.kind_cluster_name(obj), *([claim["name"]] if claim is not None else [])}


def by_uid(key: Key, obj: Object) -> Iterable[str]:
    return (obj["metadata"]["uid"],)


def by_owner(key: Key, secret: Object) -> Iterable[str]:
    """Index by the uid of the KINDCluster that the label names."""
    return (capi.labels_of(secret).get(kindcluster.OWNER_UID_LABEL, ""),)


def _wants_cluster(obj: Object) -> bool:
    """Whether it would create the cluster if the name were free."""
    return not capi.is_deleting(obj) and (claim_of(obj) is None or kindcluster.has_replace_policy(obj))


def _age_key(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["creationTimestamp"], obj["metadata"]["uid"]


def _relevant_cluster_state(cluster: Object) -> Any:
    return cluster["metadata"]["uid"], capi.is_paused(cluster, cluster)
