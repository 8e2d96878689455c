"""Decides the next step of a KINDCluster, one at a time: the result is observed before the next is chosen. Pure.

`status.cluster` is the claim. It is written before kind creates the cluster and removed after the cluster is deleted.
Unknown state is observed first: nothing is created, adopted or deleted based on an old list of clusters.
"""

from __future__ import annotations

from typing import Any

from shoal.capi.conditions import FALSE, TRUE, UNKNOWN, Condition, only, own_conditions, paused_condition
from shoal.capi.providers.kind.answers import ALREADY_EXISTS, FAILED, Problem
from shoal.capi.providers.kind.kubeconfigs import Access, is_same, secrets_of
from shoal.capi.providers.kind.status import (
    CREATE,
    CREATED,
    CREATING,
    DELETE,
    NO_CLUSTER,
    REMOVING,
    Event,
    claim_of,
    failed_again,
    is_ready,
    resting,
    with_claim,
    with_progress,
    written,
)
from shoal.capi.providers.kind.steps import (
    Cancel,
    Create,
    DeleteSecret,
    Fetch,
    Look,
    Mark,
    Patch,
    Remove,
    Settle,
    Snapshot,
    Step,
    Wait,
    Work,
    Write,
    WriteSecret,
)
from shoal.capi.writing import claimed, released
from shoal.kinds.capi import annotations_of, endpoint_of, is_deleting, is_paused
from shoal.kinds.kindcluster import ADOPT, FINALIZER, config_of, difference, name_of, problem, replaces, shape_of

Object = dict[str, Any]


def decide(seen: Snapshot) -> Step:
    obj, claim = seen.obj, claim_of(seen.obj)
    if is_paused(seen.cluster, obj):
        return _written(seen, only(obj, paused_condition(True, seen.cluster), seen.now))
    if claim is not None and _is_elsewhere(seen, claim):
        return _elsewhere(seen, claim)
    if is_deleting(obj):
        return _deletion(seen, claim)
    patch = claimed(obj, finalizer=FINALIZER)
    if patch is not None:
        return Patch(patch)
    if seen.work is not None:
        return _settled(seen, seen.work, claim) if seen.work.done else _working(seen, seen.work)
    if claim is None:
        return _unclaimed(seen)
    if claim["state"] == CREATING:
        return _unmade(seen, claim)
    if claim["state"] == REMOVING:
        return _removal(seen, claim) or Write(with_claim(obj, None))
    return _standing(seen, claim)


def _unclaimed(seen: Snapshot) -> Step:
    """Nothing is claimed yet: checks whether the cluster may be created."""
    obj, name, listing = seen.obj, name_of(seen.obj), seen.listing
    refused = problem(obj)
    if refused:
        return _say(seen, False, "InvalidSpec", refused, phase="Failed")
    if seen.holder:
        message = f"the kind cluster {name} belongs to KINDCluster {seen.holder}; choose another clusterName"
        return _say(seen, False, "NameTaken", message, phase="Pending")
    if listing is None:
        return Look()
    if listing.problem is not None:
        return _trouble(seen, listing.problem)
    if name in listing.names:
        return _foreign(seen, name) if listing.fresh else Look()
    pause = resting(obj, CREATE, seen.now)
    if pause:
        return Wait(pause)
    if not listing.fresh:
        return Look()
    claim = _claim(seen, CREATING)
    return _say(seen, False, "Creating", phase="Provisioning", cluster=claim)


def _claim(seen: Snapshot, state: str) -> Object:
    claim = {**shape_of(seen.obj), "state": state}
    return {**claim, "machine": seen.machine} if seen.machine else claim


def _is_elsewhere(seen: Snapshot, claim: Object) -> bool:
    return bool(seen.machine and claim.get("machine", seen.machine) != seen.machine)


def _elsewhere(seen: Snapshot, claim: Object) -> Step:
    """A cluster on another machine cannot be observed from here: it does not count as deleted."""
    if annotations_of(seen.obj).get(ADOPT) == "true":
        return Write(with_claim(seen.obj, {**claim, "machine": seen.machine}))
    message = (
        f"cluster {claim['name']} was made on another machine ({claim['machine']}): run Shoal there, or give it up"
        f' with the annotation {ADOPT}: "true"'
    )
    return _say(seen, None, "OnAnotherMachine", message, phase="Unknown", up_to_date=None)


def _foreign(seen: Snapshot, name: str) -> Step:
    """A cluster of that name exists, and nothing shows that it is ours."""
    obj = seen.obj
    if annotations_of(obj).get(ADOPT) != "true":
        message = (
            f"there is a kind cluster {name} that was not made for this KINDCluster: delete it, choose another"
            f' clusterName, or take it over with the annotation {ADOPT}: "true"'
        )
        return _say(seen, False, "ForeignCluster", message, phase="Pending")
    if seen.fetched is None or not seen.fetched.fresh:
        return Fetch(name)
    access = seen.fetched.access
    if access is None:
        return _trouble(seen, seen.fetched.problem, "AdoptionFailed")
    claim = {**_claim(seen, CREATED), "adopted": True, "id": access.id}
    told = Event("Adopted", f"Cluster {name}, which somebody else made, was taken over")
    return _say(seen, False, "Adopted", phase="Provisioning", cluster=claim, events=[told])


def _unmade(seen: Snapshot, claim: Object) -> Step:
    """Claimed but not created: kind must be started, or was interrupted."""
    obj, name, listing = seen.obj, claim["name"], seen.listing
    if listing is None or not listing.fresh:
        return Look()
    if listing.problem is not None:
        return _trouble(seen, listing.problem)
    if name not in listing.names:
        if difference(obj, claim) or problem(obj):
            return Write(with_claim(obj, None))
        return Create(name, config_of(obj))
    mine = _is_mine(seen, claim)
    if not isinstance(mine, bool):
        return mine
    if not mine:
        return _lost(seen, "ForeignCluster", f"A cluster {name} was made by somebody else in the meantime")
    told = Event("Interrupted", f"The creation of cluster {name} was interrupted; what is left of it is removed")
    return _say(seen, False, "Interrupted", phase="Provisioning", cluster={**claim, "state": REMOVING}, events=[told])


def _is_mine(seen: Snapshot, claim: Object) -> Step | bool:
    """Whether the cluster with the name is the one that was created for this object. Only positive evidence makes it
    another's: a broken cluster cannot tell.
    """
    if claim.get("id"):
        if seen.fetched is None or not seen.fetched.fresh:
            return Fetch(claim["name"])
        return seen.fetched.access is None or seen.fetched.access.id == claim["id"]
    if seen.marked is None:
        return Mark(claim["name"])
    return seen.marked.value in (None, seen.obj["metadata"]["uid"])


def _removal(seen: Snapshot, claim: Object) -> Step | None:
    """None: nothing of the claimed cluster is left."""
    listing = seen.listing
    if listing is None or not listing.fresh:
        return Look()
    if listing.problem is not None:
        return _trouble(seen, listing.problem)
    if claim["name"] not in listing.names:
        return None
    pause = resting(seen.obj, DELETE, seen.now)
    if pause:
        return Wait(pause)
    mine = _is_mine(seen, claim)
    if isinstance(mine, bool):
        return Remove(claim["name"]) if mine else None
    return mine


def _working(seen: Snapshot, work: Work) -> Step:
    if work.action == DELETE:
        # The reason of the removal is already in the status.
        return _written(seen, with_progress(seen.obj, work.progress))
    return _say(seen, False, "Creating", phase="Provisioning", progress=work.progress)


def _settled(seen: Snapshot, work: Work, claim: Object | None) -> Step:
    """The job has ended; its result is written in one status update."""
    obj, failed = seen.obj, work.problem
    if claim is None or (failed is None and work.action == DELETE):
        return Settle()
    if failed is None:
        access = seen.fetched.access if seen.fetched is not None else None
        made = {**claim, "state": CREATED, **({"id": access.id} if access is not None else {})}
        told = Event("Created", "Cluster was successfully created")
        return _say(seen, False, "Created", phase="Provisioning", cluster=made, retry=None, events=[told], settles=True)
    retry = failed_again(obj, work.action, seen.now, seen.pauses.first, seen.pauses.longest)
    if work.action == DELETE:
        return _failed(seen, "DeletionFailed", f"Cluster cannot be deleted: {failed.message}", claim, retry)
    after = None if failed.reason == ALREADY_EXISTS else {**claim, "state": REMOVING}
    reason = "CreationFailed" if failed.reason == FAILED else failed.reason
    return _failed(seen, reason, f"Cluster cannot be created: {failed.message}", after, retry)


def _failed(seen: Snapshot, reason: str, message: str, claim: Object | None, retry: Object) -> Step:
    return _say(
        seen,
        False,
        reason,
        message,
        phase="Deleting" if is_deleting(seen.obj) else "Failed",
        failure=message,
        cluster=claim,
        retry=retry,
        events=[Event(reason, message)],
        settles=True,
    )


def _standing(seen: Snapshot, claim: Object) -> Step:
    """The cluster was created: checks that it exists, matches the spec, and that its kubeconfig is in the Secrets."""
    name, listing = claim["name"], seen.listing
    if listing is None:
        return Look()
    if listing.problem is not None:
        return _trouble(seen, listing.problem)
    if name not in listing.names:
        if not listing.fresh:
            return Look()
        return _lost(seen, "ClusterLost", f"Cluster {name} was deleted behind Shoal's back; it is made anew")
    current = _up_to_date(seen, claim)
    if current.reason == "Replacing":
        told = Event("Replacing", current.message)
        return _say(seen, False, "Replacing", phase="Provisioning", cluster={**claim, "state": REMOVING}, events=[told])
    if seen.fetched is None:
        return Fetch(name)
    access = seen.fetched.access
    if access is None:
        return _trouble(seen, seen.fetched.problem, "KubeconfigUnavailable")
    if claim.get("id", access.id) != access.id:
        return _lost(seen, "ForeignCluster", f"Cluster {name} was deleted and made anew by somebody else")
    return _kubeconfig(seen, name, access) or _provisioned(seen, claim, access, current)


def _up_to_date(seen: Snapshot, claim: Object) -> Condition:
    obj = seen.obj
    changed = difference(obj, claim)
    if not changed:
        return Condition("UpToDate", TRUE, "UpToDate")
    refused = problem(obj)
    if refused:
        return Condition("UpToDate", FALSE, "InvalidSpec", refused)
    if not replaces(obj):
        message = f"{changed}; a cluster that exists is not changed: put it back, or set replacePolicy: Replace"
        return Condition("UpToDate", FALSE, "ChangeRefused", message)
    if seen.holder:
        message = f"the kind cluster {name_of(obj)} belongs to KINDCluster {seen.holder}"
        return Condition("UpToDate", FALSE, "NameTaken", message)
    return Condition("UpToDate", FALSE, "Replacing", f"Cluster {claim['name']} is replaced: {changed}")


def _kubeconfig(seen: Snapshot, name: str, access: Access) -> Step | None:
    """Steps for Secrets that are not current. Before one is written, the kubeconfig is fetched again."""
    found = {secret["metadata"]["name"]: secret for secret in seen.secrets}
    wanted = list(secrets_of(seen.obj, name, seen.cluster, access.text))
    for secret in wanted:
        there = found.pop(secret["metadata"]["name"], None)
        if there is not None and is_same(secret, there):
            continue
        if secret["metadata"]["name"] in seen.taken:
            message = f"the Secret {secret['metadata']['name']} is there and was not made for this KINDCluster"
            return _say(seen, False, "SecretTaken", message, phase="Failed", failure=message, up_to_date=None)
        if seen.fetched is None or not seen.fetched.fresh:
            return Fetch(name)
        return WriteSecret(secret)
    return next((DeleteSecret(secret) for secret in found.values()), None)


def _provisioned(seen: Snapshot, claim: Object, access: Access, current: Condition) -> Step:
    endpoint = {"host": access.host, "port": access.port}
    if endpoint_of(seen.obj) != endpoint:
        return Patch({"spec": {"controlPlaneEndpoint": endpoint}})
    made = claim if claim.get("id") else {**claim, "id": access.id}
    new = written(
        seen.obj,
        seen.now,
        ready=Condition("Ready", TRUE, "Ready"),
        phase="Provisioned",
        cluster=made,
        up_to_date=current,
        retry=None,
        events=[] if is_ready(seen.obj) else [Event("Ready", f"Cluster {claim['name']} is ready")],
    )
    return _written(seen, new)


def _deletion(seen: Snapshot, claim: Object | None) -> Step:
    obj, work = seen.obj, seen.work
    patch = released(obj, FINALIZER)
    if patch is None:
        return Wait()
    if work is not None and work.done:
        return _settled(seen, work, claim) if work.action == DELETE else Settle()
    if work is not None:
        if work.action == CREATE:
            return Cancel()
        return _say(seen, False, "Deleting", phase="Deleting", progress=work.progress)
    left = _removal(seen, claim) if claim is not None else None
    if left is not None:
        return left
    for secret in seen.secrets:
        return DeleteSecret(secret)
    return Patch(patch)


def _lost(seen: Snapshot, reason: str, message: str) -> Step:
    """Gives up the claim: a cluster with the name, if any, is not ours."""
    return _say(seen, False, reason, message, phase="Pending", cluster=None, events=[Event(reason, message)])


def _trouble(seen: Snapshot, found: Problem | None, reason: str = "") -> Step:
    """The state of the cluster is unknown; it does not count as deleted.

    An error with the same reason keeps its first message: later ones may differ only by a timestamp.
    """
    assert found is not None
    obj, claim = seen.obj, claim_of(seen.obj)
    reason, message = reason or found.reason, found.message
    known = own_conditions(obj).get("Ready")
    if known is not None and known.reason == reason:
        message = known.message
    return _say(
        seen,
        None if claim is not None else False,
        reason,
        message,
        phase="Deleting" if is_deleting(obj) else "Failed" if claim is None else "Unknown",
        failure=message,
        up_to_date=None,
    )


def _say(
    seen: Snapshot,
    ready: bool | None,
    reason: str,
    message: str = "",
    *,
    phase: str,
    settles: bool = False,
    up_to_date: Condition | None = NO_CLUSTER,
    failure: str = "",
    **fields: Any,
) -> Step:
    """`up_to_date` None: keeps the last UpToDate condition."""
    status = {True: TRUE, False: FALSE, None: UNKNOWN}[ready]
    if phase == "Failed" and not failure:
        failure = message
    if up_to_date is None:
        up_to_date = own_conditions(seen.obj).get("UpToDate", NO_CLUSTER)
    condition = Condition("Ready", status, reason, message)
    new = written(seen.obj, seen.now, ready=condition, phase=phase, failure=failure, up_to_date=up_to_date, **fields)
    return _written(seen, new, settles=settles)


def _written(seen: Snapshot, new: Object, *, settles: bool = False) -> Step:
    if new is not seen.obj:
        return Write(new, settles)
    return Settle() if settles else Wait()
