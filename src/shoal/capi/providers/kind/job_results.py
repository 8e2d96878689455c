"""Decides what the status of a KINDCluster tells of the kind job that runs or has ended. Pure."""

from __future__ import annotations

from typing import Any

from shoal.capi.conditions import Condition
from shoal.capi.providers.kind.creation_steps import completed_conditions, step_conditions
from shoal.capi.providers.kind.errors import ALREADY_EXISTS, COMMAND_FAILED, NAME_BUSY
from shoal.capi.providers.kind.images import image_progress_step, image_result_step
from shoal.capi.providers.kind.status import (
    CREATED,
    DELETE,
    LOAD_IMAGES,
    REMOVING,
    HistoryEntry,
    next_retry,
    replacement_of,
    with_progress,
)
from shoal.capi.providers.kind.status_steps import status_step, write_step
from shoal.capi.providers.kind.steps import ForgetJob, JobState, KindClusterSnapshot, KindStep
from shoal.kinds.clusterapi.capi import is_deleting
from shoal.kinds.clusterapi.kindcluster import kind_cluster_name

Object = dict[str, Any]


def creating_message(snapshot: KindClusterSnapshot) -> str:
    if replacement_of(snapshot.obj) is None:
        return ""
    return f"Creating cluster {kind_cluster_name(snapshot.obj)} in place of the one that was deleted"


def job_progress_step(snapshot: KindClusterSnapshot, job: JobState) -> KindStep:
    if job.action == DELETE:
        # The reason of the removal is already in the status.
        return write_step(snapshot, with_progress(snapshot.obj, job.progress))
    if job.action == LOAD_IMAGES:
        return image_progress_step(snapshot, job)
    message, steps = creating_message(snapshot), step_conditions(snapshot.obj, job.steps)
    return status_step(snapshot, False, "Creating", message, phase="Provisioning", progress=job.progress, steps=steps)


def job_result_step(snapshot: KindClusterSnapshot, job: JobState, claim: Object | None) -> KindStep:
    """The job has ended; its result is written in one status update."""
    obj, error = snapshot.obj, job.error
    if job.action == LOAD_IMAGES:
        return image_result_step(snapshot, job)
    if claim is None or (error is None and job.action == DELETE):
        return ForgetJob()
    if error is None:
        access = snapshot.kubeconfig.access if snapshot.kubeconfig is not None else None
        new_claim = {**claim, "state": CREATED, **({"id": access.id} if access is not None else {})}
        entries, replacement = [HistoryEntry("Created", "Cluster was successfully created")], replacement_of(obj)
        if replacement is not None:
            text = f"Cluster {claim['name']} was created in place of the former one: {replacement['message']}"
            entries.append(HistoryEntry("Replaced", text))
        return status_step(
            snapshot,
            False,
            "Created",
            phase="Provisioning",
            cluster=new_claim,
            retry=None,
            replacement=None,
            steps=completed_conditions(obj),
            events=entries,
            forgets_job=True,
        )
    retry = next_retry(obj, job.action, snapshot.now, snapshot.retry_delays.initial, snapshot.retry_delays.maximum)
    if job.action == DELETE:
        return _job_failure_step(
            snapshot, "DeletionFailed", f"Cluster cannot be deleted: {error.message}", claim, retry
        )
    next_claim = None if error.reason in (ALREADY_EXISTS, NAME_BUSY) else {**claim, "state": REMOVING}
    reason = "CreationFailed" if error.reason == COMMAND_FAILED else error.reason
    message, steps = f"Cluster cannot be created: {error.message}", step_conditions(obj, job.steps)
    return _job_failure_step(snapshot, reason, message, next_claim, retry, steps)


def _job_failure_step(
    snapshot: KindClusterSnapshot,
    reason: str,
    message: str,
    claim: Object | None,
    retry: Object,
    steps: list[Condition] | None = None,
) -> KindStep:
    return status_step(
        snapshot,
        False,
        reason,
        message,
        phase="Deleting" if is_deleting(snapshot.obj) else "Failed",
        failure=message,
        cluster=claim,
        retry=retry,
        steps=steps,
        events=[HistoryEntry(reason, message)],
        forgets_job=True,
    )
