"""Reconciles PersistentVolumeClaims: binds each to an existing or a provisioned volume."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key, key_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock, rfc3339
from shoal.controlplane.hosted_clusters import HostedClusterFilter
from shoal.controlplane.persistentvolume.decide import (
    BindVolume,
    ClaimAction,
    ClaimContext,
    MarkLost,
    ProvisionVolume,
    SetStorageClass,
    WaitForVolume,
    bound_claim,
    bound_volume,
    claim_status,
    decide_claim,
    is_delayed_binding,
    selected_node,
)
from shoal.controlplane.persistentvolume.index import (
    by_claim_reference,
    by_used_claim,
    changed_claims,
    claim_key_of,
    free_by_class,
    is_unbound,
    unbound_by_cluster,
)
from shoal.controlplane.persistentvolume.simulated_provisioner import new_volume, volume_name
from shoal.controlplane.persistentvolume.volume_match import ConsumerNode, is_bound_to
from shoal.controlplane.podcontrol.control import PODS
from shoal.kinds.core.persistentvolume import PROVISIONER_ANNOTATIONS, SELECTED_NODE, storage_class_of
from shoal.kinds.core.pod.status import is_terminal
from shoal.kinds.storage.storage import SIMULATED_PROVISIONER, default_storage_class_name
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.cache_sync import CacheSyncGate
from shoal.runtime.controller import Controller
from shoal.runtime.event_recorder import EventRecorder, EventSource
from shoal.runtime.expectations import WriteExpectations
from shoal.runtime.informer import Informer

Object = dict[str, Any]

CLAIMS = GroupVersionResource("", "v1", "persistentvolumeclaims")
VOLUMES = GroupVersionResource("", "v1", "persistentvolumes", namespaced=False)
NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
STORAGE_CLASSES = GroupVersionResource("storage.k8s.io", "v1", "storageclasses", namespaced=False)
EVENT_SOURCE = EventSource("persistentvolume-controller", "v1", "PersistentVolumeClaim")
PROVISIONER_EVENT_SOURCE = EventSource(SIMULATED_PROVISIONER, "v1", "PersistentVolumeClaim")
EXPECTATIONS_RETRY_SECONDS = 5.0
"""Safety net. The controller's writes normally arrive through the informer; this covers an informer that was lost
meanwhile.
"""
WORKERS = 16


class ClaimReconciler:
    """Keys are claims."""

    def __init__(self, client: Client, clock: Clock, hosted: HostedClusterFilter, recorder: EventRecorder) -> None:
        self._client, self._clock, self._hosted_filter, self._recorder = client, clock, hosted, recorder
        wildcard = client.in_cluster("*")
        self._claims = claims = Informer(wildcard, CLAIMS, clock, indexers=(unbound_by_cluster,))
        self._volumes = volumes = Informer(wildcard, VOLUMES, clock, indexers=(by_claim_reference, free_by_class))
        self._nodes = nodes = Informer(wildcard, NODES, clock)
        self._pods = Informer(wildcard, PODS, clock, indexers=(by_used_claim,))
        self.controller: Controller[Key] = Controller("volume-claims", clock, self.reconcile, WORKERS)
        self._cache_sync: CacheSyncGate[Key] = CacheSyncGate(self.controller.queue.add, claims, volumes, nodes)
        self._claim_expectations: WriteExpectations[Key] = WriteExpectations(claims)
        self._volume_expectations: WriteExpectations[Key] = WriteExpectations(volumes)
        self._last_events: dict[Key, tuple[str, str]] = {}
        self.controller.watch(claims, self._on_claim)
        self.controller.watch(volumes, self._on_volume)
        self.controller.watch(Informer(wildcard, STORAGE_CLASSES, clock), self._on_storage_class)
        self.controller.watch(self._pods, self._on_pod)
        self.controller.sources.append(nodes.run)

    def _on_claim(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None or not is_unbound(new):
            self._last_events.pop(key, None)
        self.controller.queue.add(key)

    def _on_volume(self, key: Key, old: Object | None, new: Object | None) -> None:
        for claim in {claim_key_of(key, old), claim_key_of(key, new)} - {None}:
            self.controller.queue.add(claim)  # type: ignore[arg-type]
        if new is None or not new["spec"].get("claimRef"):
            self._enqueue_unbound(key[0], storage_class_of(new or old or {"metadata": {}}) or "", key[2])

    def _on_storage_class(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._enqueue_unbound(key[0], key[2], "")

    def _enqueue_unbound(self, cluster: str, storage_class: str, volume: str) -> None:
        """Enqueues unbound claims of the class, of no class, or that request the volume."""
        for claim in self._claims.by_index(unbound_by_cluster, cluster):
            requested_volume = claim["spec"].get("volumeName")
            if (
                requested_volume == volume
                if requested_volume
                else (storage_class_of(claim) or storage_class) == storage_class
            ):
                self.controller.queue.add(key_of(claim))

    def _on_pod(self, key: Key, old: Object | None, new: Object | None) -> None:
        for claim_key in changed_claims(key, old, new):
            claim = self._claims.get(claim_key)
            if claim is not None and is_unbound(claim):
                self.controller.queue.add(claim_key)

    async def reconcile(self, key: Key) -> float | None:
        claim = self._claims.get(key)
        if claim is None:
            self._claim_expectations.forget(key)
            self._volume_expectations.forget(key)
            return None
        if not self._cache_sync.allow(key) or not self._hosted_filter.accepts(key[0], self.controller.queue.add, key):
            return None
        if not self._claim_expectations.satisfied(key) or not self._volume_expectations.satisfied(key):
            return EXPECTATIONS_RETRY_SECONDS
        context = await self._claim_context(key, claim)
        try:
            await self._execute(key, claim, context, decide_claim(claim, context))
        except NotFound:
            return None  # the watch delivers the deletion
        return None

    async def _claim_context(self, key: Key, claim: Object) -> ClaimContext:
        name = claim["spec"].get("volumeName")
        requested_volume = self._volumes.get((key[0], "", name)) if name else None
        if name or not is_unbound(claim):
            return ClaimContext(requested_volume=requested_volume)
        storage_class, default = await self._storage_class(key[0], claim)
        consumer_node, waiting_pods = self._consumer(key, claim) if is_delayed_binding(storage_class) else (None, ())
        candidates = [
            *self._volumes.by_index(by_claim_reference, key),
            *self._volumes.by_index(free_by_class, (key[0], storage_class_of(claim) or "")),
        ]
        return ClaimContext(candidates, None, storage_class, default, consumer_node, waiting_pods)

    async def _storage_class(self, cluster: str, claim: Object) -> tuple[Object | None, str]:
        """Returns the class the claim names, or the name of the default class. Read from the server: the informer lacks
        classes that were never written.
        """
        name, client = storage_class_of(claim), self._client.in_cluster(cluster)
        if name is None:
            classes, _ = await client.list_all(STORAGE_CLASSES)
            return None, default_storage_class_name(classes)
        try:
            return (await client.get(STORAGE_CLASSES, name) if name else None), ""
        except NotFound:
            return None, ""

    def _consumer(self, key: Key, claim: Object) -> tuple[ConsumerNode | None, tuple[str, ...]]:
        pods = [pod for pod in self._pods.by_index(by_used_claim, key) if not is_terminal(pod)]
        pods.sort(key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]))
        node = selected_node(claim) or next((n for pod in pods if (n := pod["spec"].get("nodeName"))), "")
        if node:
            node_object = self._nodes.get((key[0], "", node))
            return ConsumerNode(node, ((node_object or {"metadata": {}})["metadata"].get("labels") or {})), ()
        return None, tuple(pod["metadata"]["name"] for pod in pods)

    async def _execute(self, key: Key, claim: Object, context: ClaimContext, action: ClaimAction) -> None:
        match action:
            case BindVolume(volume):
                extra_annotations = (
                    {SELECTED_NODE: context.consumer_node.name} if context.consumer_node is not None else {}
                )
                await self._bind(key, claim, volume, extra_annotations)
            case ProvisionVolume(consumer_node):
                await self._provision(key, claim, context.storage_class or {}, consumer_node)
            case SetStorageClass(name):
                await self._update_claim(key, {**claim, "spec": {**claim["spec"], "storageClassName": name}})
            case WaitForVolume():
                await self._report_waiting(key, claim, action)
            case MarkLost(reason, message):
                if (claim.get("status") or {}).get("phase") != "Lost":
                    await self._update_status(key, claim, {"phase": "Lost"})
                    self._recorder.record(EVENT_SOURCE, key[0], claim, "Warning", reason, message)

    async def _provision(
        self, key: Key, claim: Object, storage_class: Object, consumer_node: ConsumerNode | None
    ) -> None:
        client, name = self._client.in_cluster(key[0]), volume_name(claim)
        try:
            volume = await client.create(VOLUMES, new_volume(claim, storage_class, consumer_node))
            self._volume_expectations.expect(key, volume)
            message = f"Successfully provisioned volume {name}"
            self._recorder.record(PROVISIONER_EVENT_SOURCE, key[0], claim, "Normal", "ProvisioningSucceeded", message)
        except AlreadyExists:
            volume = await client.get(VOLUMES, name)
        if is_bound_to(volume, claim):
            extra_annotations = dict.fromkeys(PROVISIONER_ANNOTATIONS, SIMULATED_PROVISIONER)
            await self._bind(
                key,
                claim,
                volume,
                extra_annotations | ({SELECTED_NODE: consumer_node.name} if consumer_node is not None else {}),
            )

    async def _bind(self, key: Key, claim: Object, volume: Object, extra_annotations: dict[str, str]) -> None:
        """Binds the volume first, so that two claims cannot both take it. After an interruption the next reconcile
        continues from there.
        """
        client = self._client.in_cluster(key[0])
        updated_volume = bound_volume(volume, claim)
        if updated_volume is not None:
            volume = await client.update(VOLUMES, updated_volume)
            self._volume_expectations.expect(key, volume)
        if (volume.get("status") or {}).get("phase") != "Bound":
            status = {"phase": "Bound", "lastPhaseTransitionTime": rfc3339(self._clock.now())}
            volume = await client.update(VOLUMES, {**volume, "status": status}, "status")
            self._volume_expectations.expect(key, volume)
        updated_claim = bound_claim(claim, volume, extra_annotations if not claim["spec"].get("volumeName") else {})
        if updated_claim is not None:
            claim = await self._update_claim(key, updated_claim)
        status = claim_status(claim, volume)
        if status != claim.get("status"):
            await self._update_status(key, claim, status)

    async def _report_waiting(self, key: Key, claim: Object, action: WaitForVolume) -> None:
        if action.provisioner:
            before = claim["metadata"].get("annotations") or {}
            annotations = before | dict.fromkeys(PROVISIONER_ANNOTATIONS, action.provisioner)
            if annotations != before:
                claim = await self._update_claim(
                    key, {**claim, "metadata": {**claim["metadata"], "annotations": annotations}}
                )
        if (claim.get("status") or {}).get("phase") != "Pending":
            await self._update_status(key, claim, {"phase": "Pending"})
        if action.reason and self._last_events.get(key) != (action.reason, action.message):
            self._last_events[key] = action.reason, action.message
            self._recorder.record(EVENT_SOURCE, key[0], claim, action.type, action.reason, action.message)

    async def _update_claim(self, key: Key, claim: Object) -> Object:
        updated = await self._client.in_cluster(key[0]).update(CLAIMS, claim)
        self._claim_expectations.expect(key, updated)
        return updated

    async def _update_status(self, key: Key, claim: Object, status: Object) -> None:
        updated = await self._client.in_cluster(key[0]).update(CLAIMS, {**claim, "status": status}, "status")
        self._claim_expectations.expect(key, updated)
