"""Reconciles PersistentVolumeClaims: binds each to an existing or a provisioned volume."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.requests import Client, Kind
from shoal.clock import Clock, rfc3339
from shoal.controlplane.hosted import HostedClusters
from shoal.controlplane.volumes.decide import (
    Around,
    Bind,
    Lose,
    Provision,
    SetClass,
    Step,
    Wait,
    bound_claim,
    bound_volume,
    chosen_node,
    claim_status,
    decide_claim,
    is_late,
)
from shoal.controlplane.volumes.index import ClaimUsers, VolumeIndex, claimant
from shoal.controlplane.volumes.matching import Place, is_bound_to
from shoal.controlplane.volumes.simulated import made_volume, volume_name
from shoal.kinds.pod_state import is_terminal
from shoal.kinds.storage import SIMULATED_PROVISIONER, default_class
from shoal.kinds.volumes import BIND_COMPLETED, PROVISIONERS, SELECTED_NODE, class_of
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.dependents import Dependents
from shoal.runtime.gate import Gate
from shoal.runtime.loop import Loop
from shoal.runtime.ownwrites import OwnWrites
from shoal.runtime.recorder import Recorder, Source

Object = dict[str, Any]

CLAIMS = Kind("", "v1", "persistentvolumeclaims")
VOLUMES = Kind("", "v1", "persistentvolumes", namespaced=False)
CLASSES = Kind("storage.k8s.io", "v1", "storageclasses", namespaced=False)
SOURCE = Source("persistentvolume-controller", "v1", "PersistentVolumeClaim")
PROVISIONER = Source(SIMULATED_PROVISIONER, "v1", "PersistentVolumeClaim")
UNSEEN_SECONDS = 5.0
"""Safety net. The controller's writes normally arrive through the informer; this covers an informer that was lost
meanwhile.
"""
WORKERS = 16


class ClaimLoop:
    """Keys are claims. The informers are shared with other controllers and are run elsewhere."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        hosted: HostedClusters,
        recorder: Recorder,
        claims: Dependents,
        volumes: Dependents,
        classes: Dependents,
        nodes: Dependents,
        users: ClaimUsers,
        index: VolumeIndex,
    ) -> None:
        self._client, self._clock, self._hosted, self._recorder = client, clock, hosted, recorder
        self._claims, self._volumes, self._nodes = claims, volumes, nodes
        self._users, self._index = users, index
        self.loop: Loop[Key] = Loop("volume-claims", clock, self.reconcile, WORKERS)
        self._gate: Gate[Key] = Gate(self.loop.queue.add, claims, volumes, nodes)
        self._claim_writes: OwnWrites[Key] = OwnWrites(claims)
        self._volume_writes: OwnWrites[Key] = OwnWrites(volumes)
        self._unbound: dict[str, set[Key]] = {}
        """By cluster."""
        self._told: dict[Key, tuple[str, str]] = {}
        claims.listeners.append(self._claim_changed)
        volumes.listeners.append(self._volume_changed)
        classes.listeners.append(self._class_changed)
        users.listeners.append(self._used)

    def _claim_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        if now is None or BIND_COMPLETED in (now["metadata"].get("annotations") or {}):
            self._bound_or_gone(key)
        else:
            self._unbound.setdefault(key[0], set()).add(key)
        self.loop.queue.add(key)

    def _bound_or_gone(self, key: Key) -> None:
        waiting = self._unbound.get(key[0], set())
        waiting.discard(key)
        if not waiting:
            self._unbound.pop(key[0], None)
        self._told.pop(key, None)

    def _volume_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        for claim in {claimant(key, before), claimant(key, now)} - {None}:
            self.loop.queue.add(claim)  # type: ignore[arg-type]
        if now is None or not now["spec"].get("claimRef"):
            self._wake(key[0], class_of(now or before or {"metadata": {}}) or "", key[2])

    def _class_changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        self._wake(key[0], key[2], "")

    def _wake(self, cluster: str, storage_class: str, volume: str) -> None:
        """Enqueues unbound claims of the class, of no class, or that request the volume."""
        for key in self._unbound.get(cluster, ()):
            claim = self._claims.get(key)
            if claim is not None:
                asked = claim["spec"].get("volumeName")
                if asked == volume if asked else (class_of(claim) or storage_class) == storage_class:
                    self.loop.queue.add(key)

    def _used(self, key: Key) -> None:
        if key in self._unbound.get(key[0], ()):
            self.loop.queue.add(key)

    async def reconcile(self, key: Key) -> float | None:
        claim = self._claims.get(key)
        if claim is None:
            self._claim_writes.forget(key)
            self._volume_writes.forget(key)
            return None
        if not self._gate.admits(key) or not self._hosted.admits(key[0], self.loop.queue.add, key):
            return None
        if not self._claim_writes.in_sight(key) or not self._volume_writes.in_sight(key):
            return UNSEEN_SECONDS
        around = await self._around(key, claim)
        try:
            await self._carry_out(key, claim, around, decide_claim(claim, around))
        except NotFound:
            return None  # the watch delivers the deletion
        return None

    async def _around(self, key: Key, claim: Object) -> Around:
        name = claim["spec"].get("volumeName")
        named = self._volumes.get((key[0], "", name)) if name else None
        if name or BIND_COMPLETED in (claim["metadata"].get("annotations") or {}):
            return Around(named=named)
        storage_class, default = await self._classes(key[0], claim)
        place, waiting = self._consumers(key, claim) if is_late(storage_class) else (None, ())
        candidates = self._index.candidates(key, class_of(claim) or "")
        return Around(candidates, None, storage_class, default, place, waiting)

    async def _classes(self, cluster: str, claim: Object) -> tuple[Object | None, str]:
        """Returns the class the claim names, or the name of the default class. Read from the server: the informer lacks
        classes that were never written.
        """
        name, client = class_of(claim), self._client.at(cluster)
        if name is None:
            found, _ = await client.list_all(CLASSES)
            return None, default_class(found)
        try:
            return (await client.get(CLASSES, name) if name else None), ""
        except NotFound:
            return None, ""

    def _consumers(self, key: Key, claim: Object) -> tuple[Place | None, tuple[str, ...]]:
        pods = [pod for pod in self._users.of(key) if not is_terminal(pod)]
        pods.sort(key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]))
        node = chosen_node(claim) or next((n for pod in pods if (n := pod["spec"].get("nodeName"))), "")
        if node:
            found = self._nodes.get((key[0], "", node))
            return Place(node, ((found or {"metadata": {}})["metadata"].get("labels") or {})), ()
        return None, tuple(pod["metadata"]["name"] for pod in pods)

    async def _carry_out(self, key: Key, claim: Object, around: Around, step: Step) -> None:
        match step:
            case Bind(volume):
                more = {SELECTED_NODE: around.place.name} if around.place is not None else {}
                await self._bind(key, claim, volume, more)
            case Provision(place):
                await self._provision(key, claim, around.storage_class or {}, place)
            case SetClass(name):
                await self._update(key, {**claim, "spec": {**claim["spec"], "storageClassName": name}})
            case Wait():
                await self._wait(key, claim, step)
            case Lose(reason, message):
                if (claim.get("status") or {}).get("phase") != "Lost":
                    await self._status(key, claim, {"phase": "Lost"})
                    self._recorder.record(SOURCE, key[0], claim, "Warning", reason, message)

    async def _provision(self, key: Key, claim: Object, storage_class: Object, place: Place | None) -> None:
        client, name = self._client.at(key[0]), volume_name(claim)
        try:
            volume = await client.create(VOLUMES, made_volume(claim, storage_class, place))
            self._volume_writes.wrote(key, volume)
            said = f"Successfully provisioned volume {name}"
            self._recorder.record(PROVISIONER, key[0], claim, "Normal", "ProvisioningSucceeded", said)
        except AlreadyExists:
            volume = await client.get(VOLUMES, name)
        if is_bound_to(volume, claim):
            more = dict.fromkeys(PROVISIONERS, SIMULATED_PROVISIONER)
            await self._bind(key, claim, volume, more | ({SELECTED_NODE: place.name} if place is not None else {}))

    async def _bind(self, key: Key, claim: Object, volume: Object, more: dict[str, str]) -> None:
        """Binds the volume first, so that two claims cannot both take it. After an interruption the next reconcile
        continues from there.
        """
        client = self._client.at(key[0])
        changed = bound_volume(volume, claim)
        if changed is not None:
            volume = await client.update(VOLUMES, changed)
            self._volume_writes.wrote(key, volume)
        if (volume.get("status") or {}).get("phase") != "Bound":
            status = {"phase": "Bound", "lastPhaseTransitionTime": rfc3339(self._clock.now())}
            volume = await client.update(VOLUMES, {**volume, "status": status}, "status")
            self._volume_writes.wrote(key, volume)
        bound = bound_claim(claim, volume, more if not claim["spec"].get("volumeName") else {})
        if bound is not None:
            claim = await self._update(key, bound)
        status = claim_status(claim, volume)
        if status != claim.get("status"):
            await self._status(key, claim, status)

    async def _wait(self, key: Key, claim: Object, step: Wait) -> None:
        if step.provisioner:
            before = claim["metadata"].get("annotations") or {}
            annotations = before | dict.fromkeys(PROVISIONERS, step.provisioner)
            if annotations != before:
                claim = await self._update(
                    key, {**claim, "metadata": {**claim["metadata"], "annotations": annotations}}
                )
        if (claim.get("status") or {}).get("phase") != "Pending":
            await self._status(key, claim, {"phase": "Pending"})
        if step.reason and self._told.get(key) != (step.reason, step.message):
            self._told[key] = step.reason, step.message
            self._recorder.record(SOURCE, key[0], claim, step.type, step.reason, step.message)

    async def _update(self, key: Key, claim: Object) -> Object:
        written = await self._client.at(key[0]).update(CLAIMS, claim)
        self._claim_writes.wrote(key, written)
        return written

    async def _status(self, key: Key, claim: Object, status: Object) -> None:
        written = await self._client.at(key[0]).update(CLAIMS, {**claim, "status": status}, "status")
        self._claim_writes.wrote(key, written)
