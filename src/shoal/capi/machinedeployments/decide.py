"""Decides the next step of a MachineDeployment: its MachineSet, the replicas of all its MachineSets, its status, its
deletion. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.capi.conditions import paused_condition, with_condition
from shoal.capi.machinedeployments.machine_sets import in_place_patch, new_machine_set, revision_of
from shoal.capi.machinedeployments.rollout import MachineSetScale, plan_rollout, rollout_limits, scale_while_paused
from shoal.capi.machinedeployments.status import is_rollout_complete, machine_deployment_status
from shoal.capi.metadata_patches import claim_patch, release_patch
from shoal.capi.replicas import effective_selector
from shoal.capi.templates import is_rollout_after_expired, rollout_reasons
from shoal.kinds.clusterapi.capi import (
    API_VERSION,
    CLUSTER,
    CLUSTER_NAME,
    DEPLOYMENT_NAME,
    MACHINE_DEPLOYMENT,
    MACHINE_DEPLOYMENT_FINALIZER,
    REVISION,
    annotations_of,
    is_deleting,
    is_paused,
    labels_of,
    owner_reference,
)
from shoal.objects.duration import parse_time

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MachineDeploymentSnapshot:
    deployment: Object
    cluster: Object | None
    machine_sets: Sequence[Object]
    """Controlled MachineSets, deleting ones included."""
    machines: Sequence[Object] = ()
    """Machines of those MachineSets."""
    missing_template: str = ""
    """Why no Machine can be made of its infrastructure template."""
    orphans: Sequence[Object] = ()
    """MachineSets of its Cluster without a controller."""


@dataclass(frozen=True, slots=True)
class MachineDeploymentDecision:
    patch: Object | None = None
    """Patch of the MachineDeployment. The rest is decided again after it."""
    create: Object | None = None
    update: tuple[tuple[Object, Object], ...] = ()
    """MachineSets and their patches."""
    delete: tuple[Object, ...] = ()
    status: Object | None = None
    """The MachineDeployment with the status to write."""
    requeue_after: float | None = None


def decide(snapshot: MachineDeploymentSnapshot, now: float, now_rfc3339: str) -> MachineDeploymentDecision:
    """`now_rfc3339` is `now` as text."""
    deployment = snapshot.deployment
    if is_paused(snapshot.cluster, deployment):
        new = with_condition(deployment, paused_condition(True, snapshot.cluster), now_rfc3339)
        return MachineDeploymentDecision(status=None if new is deployment else new)
    if is_deleting(deployment):
        if not snapshot.machine_sets:
            return MachineDeploymentDecision(patch=release_patch(deployment, MACHINE_DEPLOYMENT_FINALIZER))
        to_delete = tuple(each for each in snapshot.machine_sets if not is_deleting(each))
        return MachineDeploymentDecision(delete=to_delete, status=_status(snapshot, now_rfc3339))
    if snapshot.cluster is None:
        return MachineDeploymentDecision()  # enqueued again with its Cluster
    adopted = _adoption_patches(snapshot)
    if adopted:
        return MachineDeploymentDecision(update=adopted)  # enqueued again after the adoption
    current, old = find_new_and_old_sets(deployment, snapshot.machine_sets, now)
    create = None
    if current is None and not deployment["spec"].get("paused"):
        current = create = new_machine_set(deployment, old, now)
    intents = _scale_intents(deployment, current, old)
    if create is not None:
        create["spec"]["replicas"] = intents.pop(create["metadata"]["name"], 0)
    is_done = create is None and is_rollout_complete(deployment)
    return MachineDeploymentDecision(
        patch=_patch(deployment, snapshot.cluster, current),
        create=create,
        update=_set_patches(deployment, create, current, snapshot.machine_sets, intents),
        delete=tuple(each for each in old if is_done and _is_scaled_to_zero(each)),
        status=_status(snapshot, now_rfc3339),
        requeue_after=_seconds_to_rollout_after(deployment, now),
    )


def _adoption_patches(snapshot: MachineDeploymentSnapshot) -> tuple[tuple[Object, Object], ...]:
    deployment = snapshot.deployment
    label_selector = effective_selector(
        deployment["spec"].get("selector"), {DEPLOYMENT_NAME: deployment["metadata"]["name"]}
    )
    owner = owner_reference(deployment, API_VERSION, MACHINE_DEPLOYMENT, controller=True)
    matches = [each for each in snapshot.orphans if not is_deleting(each) and label_selector.matches(labels_of(each))]
    return tuple((each, patch) for each in matches if (patch := claim_patch(each, owner=owner)) is not None)


def find_new_and_old_sets(deployment: Object, sets: Sequence[Object], now: float) -> tuple[Object | None, list[Object]]:
    """The MachineSet that matches the template, and the others, oldest first."""
    desired = deployment["spec"]["template"]
    ordered = sorted(sets, key=lambda each: (each["metadata"].get("creationTimestamp", ""), each["metadata"]["name"]))
    candidates = [
        each
        for each in ordered
        if not is_deleting(each)
        and not rollout_reasons(each["spec"]["template"], desired)
        and not is_rollout_after_expired(deployment, each, now)
    ]
    current = max(candidates, key=lambda each: int(each["spec"].get("replicas", 0)), default=None)
    return current, [each for each in ordered if each is not current]


def _scale_intents(deployment: Object, current: Object | None, old: Sequence[Object]) -> dict[str, int]:
    limits = rollout_limits(deployment["spec"])
    olds = [_set_scale(each) for each in old]
    if deployment["spec"].get("paused"):
        return scale_while_paused(limits, _set_scale(current) if current is not None else None, olds)
    assert current is not None
    return plan_rollout(limits, _set_scale(current), olds)


def _set_scale(machine_set: Mapping[str, Any]) -> MachineSetScale:
    status = machine_set.get("status") or {}
    replicas = 0 if is_deleting(machine_set) else int(machine_set["spec"].get("replicas", 0))
    return MachineSetScale(
        machine_set["metadata"]["name"],
        replicas,
        int(status.get("replicas", 0)),
        int(status.get("availableReplicas", 0)),
    )


def _set_patches(
    deployment: Object,
    create: Object | None,
    current: Object | None,
    sets: Sequence[Object],
    intents: Mapping[str, int],
) -> tuple[tuple[Object, Object], ...]:
    patches = []
    for each in sets:
        if is_deleting(each):
            continue
        patch = in_place_patch(deployment, each, is_current=create is None and each is current, others=sets)
        replicas = intents.get(each["metadata"]["name"])
        if replicas is not None:
            patch = {**patch, "spec": {**(patch.get("spec") or {}), "replicas": replicas}}
        if patch:
            patches.append((each, patch))
    return tuple(patches)


def _patch(deployment: Object, cluster: Object, current: Object | None) -> Object | None:
    patch = claim_patch(
        deployment,
        finalizer=MACHINE_DEPLOYMENT_FINALIZER,
        owner=owner_reference(cluster, API_VERSION, CLUSTER, controller=False),
        labels={CLUSTER_NAME: deployment["spec"]["clusterName"]},
    )
    revision = str(revision_of(current)) if current is not None else ""
    if revision and annotations_of(deployment).get(REVISION) != revision:
        metadata = {**((patch or {}).get("metadata") or {}), "annotations": {REVISION: revision}}
        return {"metadata": metadata}
    return patch


def _is_scaled_to_zero(machine_set: Object) -> bool:
    metadata, status = machine_set["metadata"], machine_set.get("status") or {}
    return (
        not is_deleting(machine_set)
        and not machine_set["spec"].get("replicas")
        and status.get("replicas") == 0
        and status.get("observedGeneration", 0) >= metadata.get("generation", 0)
    )


def _seconds_to_rollout_after(deployment: Object, now: float) -> float | None:
    after = parse_time((deployment["spec"].get("rollout") or {}).get("after"))
    return after - now + 1 if after is not None and after >= now else None


def _status(snapshot: MachineDeploymentSnapshot, now_rfc3339: str) -> Object | None:
    new = machine_deployment_status(
        snapshot.deployment, snapshot.machine_sets, snapshot.machines, snapshot.missing_template, now_rfc3339
    )
    return None if new is snapshot.deployment else new
