"""Decides the next step of a MachineDeployment: its MachineSet, the replicas of all its MachineSets, its status, its
deletion. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.capi.conditions import only, paused_condition
from shoal.capi.machinedeployments.rollout import Set, limits_of, plan, scale_only
from shoal.capi.machinedeployments.sets import in_place, new_set, revision_of
from shoal.capi.machinedeployments.status import is_complete, machine_deployment_status
from shoal.capi.replicas import selector
from shoal.capi.templates import differences, expired
from shoal.capi.writing import claimed, released
from shoal.kinds.capi import (
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
class Snapshot:
    deployment: Object
    cluster: Object | None
    sets: Sequence[Object]
    """Controlled MachineSets, deleting ones included."""
    machines: Sequence[Object] = ()
    """Machines of those MachineSets."""
    has_template: bool = True
    orphans: Sequence[Object] = ()
    """MachineSets of its Cluster without a controller."""


@dataclass(frozen=True, slots=True)
class Decision:
    patch: Object | None = None
    """Patch of the MachineDeployment. The rest is decided again after it."""
    create: Object | None = None
    update: tuple[tuple[Object, Object], ...] = ()
    """MachineSets and their patches."""
    delete: tuple[Object, ...] = ()
    status: Object | None = None
    """The MachineDeployment with the status to write."""
    again: float | None = None


def decide(seen: Snapshot, now: float, stamp: str) -> Decision:
    """`now_rfc3339` is `now` as text."""
    deployment = seen.deployment
    if is_paused(seen.cluster, deployment):
        new = only(deployment, paused_condition(True, seen.cluster), stamp)
        return Decision(status=None if new is deployment else new)
    if is_deleting(deployment):
        if not seen.sets:
            return Decision(patch=released(deployment, MACHINE_DEPLOYMENT_FINALIZER))
        going = tuple(each for each in seen.sets if not is_deleting(each))
        return Decision(delete=going, status=_status(seen, stamp))
    if seen.cluster is None:
        return Decision()  # enqueued again with its Cluster
    adopted = _adopted(seen)
    if adopted:
        return Decision(update=adopted)  # enqueued again after the adoption
    current, old = newest(deployment, seen.sets, now)
    create = None
    if current is None and not deployment["spec"].get("paused"):
        current = create = new_set(deployment, old, now)
    intents = _intents(deployment, current, old)
    if create is not None:
        create["spec"]["replicas"] = intents.pop(create["metadata"]["name"], 0)
    done = create is None and is_complete(deployment)
    return Decision(
        patch=_patch(deployment, seen.cluster, current),
        create=create,
        update=_updates(deployment, create, current, seen.sets, intents),
        delete=tuple(each for each in old if done and _is_spent(each)),
        status=_status(seen, stamp),
        again=_rollout_time(deployment, now),
    )


def _adopted(seen: Snapshot) -> tuple[tuple[Object, Object], ...]:
    deployment = seen.deployment
    wanted = selector(deployment["spec"].get("selector"), {DEPLOYMENT_NAME: deployment["metadata"]["name"]})
    owner = owner_reference(deployment, API_VERSION, MACHINE_DEPLOYMENT, controller=True)
    found = [each for each in seen.orphans if not is_deleting(each) and wanted.matches(labels_of(each))]
    return tuple((each, patch) for each in found if (patch := claimed(each, owner=owner)) is not None)


def newest(deployment: Object, sets: Sequence[Object], now: float) -> tuple[Object | None, list[Object]]:
    """The MachineSet that matches the template, and the others, oldest first."""
    wanted = deployment["spec"]["template"]
    ordered = sorted(sets, key=lambda each: (each["metadata"].get("creationTimestamp", ""), each["metadata"]["name"]))
    fitting = [
        each
        for each in ordered
        if not is_deleting(each)
        and not differences(each["spec"]["template"], wanted)
        and not expired(deployment, each, now)
    ]
    current = max(fitting, key=lambda each: int(each["spec"].get("replicas", 0)), default=None)
    return current, [each for each in ordered if each is not current]


def _intents(deployment: Object, current: Object | None, old: Sequence[Object]) -> dict[str, int]:
    limits = limits_of(deployment["spec"])
    olds = [_numbers(each) for each in old]
    if deployment["spec"].get("paused"):
        return scale_only(limits, _numbers(current) if current is not None else None, olds)
    assert current is not None
    return plan(limits, _numbers(current), olds)


def _numbers(machine_set: Mapping[str, Any]) -> Set:
    status = machine_set.get("status") or {}
    replicas = 0 if is_deleting(machine_set) else int(machine_set["spec"].get("replicas", 0))
    return Set(
        machine_set["metadata"]["name"],
        replicas,
        int(status.get("replicas", 0)),
        int(status.get("availableReplicas", 0)),
    )


def _updates(
    deployment: Object,
    create: Object | None,
    current: Object | None,
    sets: Sequence[Object],
    intents: Mapping[str, int],
) -> tuple[tuple[Object, Object], ...]:
    found = []
    for each in sets:
        if is_deleting(each):
            continue
        patch = in_place(deployment, each, is_current=create is None and each is current, others=sets)
        replicas = intents.get(each["metadata"]["name"])
        if replicas is not None:
            patch = {**patch, "spec": {**(patch.get("spec") or {}), "replicas": replicas}}
        if patch:
            found.append((each, patch))
    return tuple(found)


def _patch(deployment: Object, cluster: Object, current: Object | None) -> Object | None:
    patch = claimed(
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


def _is_spent(machine_set: Object) -> bool:
    metadata, status = machine_set["metadata"], machine_set.get("status") or {}
    return (
        not is_deleting(machine_set)
        and not machine_set["spec"].get("replicas")
        and status.get("replicas") == 0
        and status.get("observedGeneration", 0) >= metadata.get("generation", 0)
    )


def _rollout_time(deployment: Object, now: float) -> float | None:
    after = parse_time((deployment["spec"].get("rollout") or {}).get("after"))
    return after - now + 1 if after is not None and after >= now else None


def _status(seen: Snapshot, stamp: str) -> Object | None:
    new = machine_deployment_status(seen.deployment, seen.sets, seen.machines, seen.has_template, stamp)
    return None if new is seen.deployment else new
