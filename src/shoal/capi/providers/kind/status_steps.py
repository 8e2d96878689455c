"""Steps that write the status of a KINDCluster, and do nothing where it does not change. Pure."""

from __future__ import annotations

from typing import Any

from shoal.capi.conditions import FALSE, TRUE, UNKNOWN, Condition, conditions_of
from shoal.capi.providers.kind.errors import KindError
from shoal.capi.providers.kind.status import (
    NO_CLUSTER,
    claim_of,
    replacement_of,
    replacing_condition,
    with_new_status,
)
from shoal.capi.providers.kind.steps import ForgetJob, KindClusterSnapshot, KindStep, WaitForChange, WriteStatus
from shoal.kinds.clusterapi.capi import is_deleting

Object = dict[str, Any]


def error_step(snapshot: KindClusterSnapshot, error: KindError | None, reason: str = "") -> KindStep:
    """The state of the cluster is unknown; it does not count as deleted.

    An error with the same reason keeps its first message: later ones may differ only by a timestamp.
    """
    assert error is not None
    obj, claim = snapshot.obj, claim_of(snapshot.obj)
    reason, message = reason or error.reason, error.message
    last_ready = conditions_of(obj).get("Ready")
    if last_ready is not None and last_ready.reason == reason:
        message = last_ready.message
    return status_step(
        snapshot,
        None if claim is not None else False,
        reason,
        message,
        phase="Deleting" if is_deleting(obj) else "Failed" if claim is None else "Unknown",
        failure=message,
        up_to_date=None,
    )


def status_step(
    snapshot: KindClusterSnapshot,
    ready: bool | None,
    reason: str,
    message: str = "",
    *,
    phase: str,
    forgets_job: bool = False,
    up_to_date: Condition | None = NO_CLUSTER,
    failure: str = "",
    **fields: Any,
) -> KindStep:
    """`up_to_date` None: keeps the last UpToDate condition."""
    status = {True: TRUE, False: FALSE, None: UNKNOWN}[ready]
    if phase == "Failed" and not failure:
        failure = message
    replacement = replacement_of(snapshot.obj)
    if up_to_date is NO_CLUSTER and replacement is not None:
        up_to_date = replacing_condition(replacement["message"])
    if up_to_date is None:
        up_to_date = conditions_of(snapshot.obj).get("UpToDate", NO_CLUSTER)
    condition = Condition("Ready", status, reason, message)
    new = with_new_status(
        snapshot.obj, snapshot.now, ready=condition, phase=phase, failure=failure, up_to_date=up_to_date, **fields
    )
    return write_step(snapshot, new, forgets_job=forgets_job)


def write_step(snapshot: KindClusterSnapshot, new: Object, *, forgets_job: bool = False) -> KindStep:
    if new is not snapshot.obj:
        return WriteStatus(new, forgets_job)
    return ForgetJob() if forgets_job else WaitForChange()
