"""Decides the next step of a KINDCluster, one at a time: the result is observed before the next is chosen. Pure.

`status.cluster` is the claim. It is written before kind creates the cluster and removed after the cluster is deleted.
Unknown state is observed first: nothing is created, adopted or deleted based on an old list of clusters.
"""

from __future__ import annotations

from typing import Any

from shoal.capi.conditions import FALSE, TRUE, Condition, paused_condition, with_condition
from shoal.capi.metadata_patches import claim_patch, release_patch
from shoal.capi.providers.kind.creation_steps import step_conditions
from shoal.capi.providers.kind.images import image_step
from shoal.capi.providers.kind.job_results import creating_message, job_progress_step, job_result_step
from shoal.capi.providers.kind.kubeconfig_secrets import KubeconfigAccess, is_secret_up_to_date, secrets_of
from shoal.capi.providers.kind.status import (
    CREATE,
    CREATED,
    CREATING,
    DELETE,
    LOAD_IMAGES,
    REMOVING,
    HistoryEntry,
    claim_of,
    is_ready,
    replacing_condition,
    retry_wait,
    status_of,
    with_claim,
    with_new_status,
)
from shoal.capi.providers.kind.status_steps import error_step, status_step, write_step
from shoal.capi.providers.kind.steps import (
    CancelJob,
    CreateCluster,
    DeleteCluster,
    DeleteSecret,
    FetchKubeconfig,
    ForgetJob,
    KindClusterSnapshot,
    KindStep,
    ListClusters,
    PatchObject,
    ReadOwner,
    WaitForChange,
    WriteSecret,
    WriteStatus,
)
from shoal.kinds.clusterapi.capi import annotations_of, control_plane_endpoint, is_deleting, is_paused
from shoal.kinds.clusterapi.kindcluster import (
    ADOPT_ANNOTATION,
    FINALIZER,
    drift_message,
    has_replace_policy,
    immutable_fields,
    kind_cluster_name,
    kind_config,
    spec_error,
)

Object = dict[str, Any]


def decide(snapshot: KindClusterSnapshot) -> KindStep:
    obj, claim = snapshot.obj, claim_of(snapshot.obj)
    if is_paused(snapshot.cluster, obj):
        return write_step(snapshot, with_condition(obj, paused_condition(True, snapshot.cluster), snapshot.now))
    if claim is not None and _is_on_other_host(snapshot, claim):
        return _other_host_step(snapshot, claim)
    if is_deleting(obj):
        return _decide_deletion(snapshot, claim)
    patch = claim_patch(obj, finalizer=FINALIZER)
    if patch is not None:
        return PatchObject(patch)
    if snapshot.job is not None:
        return (
            job_result_step(snapshot, snapshot.job, claim)
            if snapshot.job.done
            else job_progress_step(snapshot, snapshot.job)
        )
    if claim is None:
        return _decide_unclaimed(snapshot)
    if claim["state"] == CREATING:
        return _decide_creating(snapshot, claim)
    if claim["state"] == REMOVING:
        return _removal_step(snapshot, claim) or WriteStatus(with_claim(obj, None))
    return _decide_created(snapshot, claim)


def _decide_unclaimed(snapshot: KindClusterSnapshot) -> KindStep:
    """Nothing is claimed yet: checks whether the cluster may be created."""
    obj, name, listing = snapshot.obj, kind_cluster_name(snapshot.obj), snapshot.listing
    invalid = spec_error(obj)
    if invalid:
        return status_step(snapshot, False, "InvalidSpec", invalid, phase="Failed")
    if snapshot.holder:
        message = f"the kind cluster {name} belongs to KINDCluster {snapshot.holder}; choose another clusterName"
        return status_step(snapshot, False, "NameTaken", message, phase="Pending")
    if listing is None:
        return ListClusters()
    if listing.error is not None:
        return error_step(snapshot, listing.error)
    if name in listing.names:
        return _decide_foreign_cluster(snapshot, name) if listing.fresh else ListClusters()
    delay = retry_wait(obj, CREATE, snapshot.now)
    if delay:
        return WaitForChange(delay)
    if not listing.fresh:
        return ListClusters()
    claim = _new_claim(snapshot, CREATING)
    message, steps = creating_message(snapshot), step_conditions(obj, {})
    return status_step(snapshot, False, "Creating", message, phase="Provisioning", cluster=claim, steps=steps)


def _new_claim(snapshot: KindClusterSnapshot, state: str) -> Object:
    claim = {**immutable_fields(snapshot.obj), "state": state}
    return {**claim, "machine": snapshot.host_id} if snapshot.host_id else claim


def _is_on_other_host(snapshot: KindClusterSnapshot, claim: Object) -> bool:
    return bool(snapshot.host_id and claim.get("machine", snapshot.host_id) != snapshot.host_id)


def _other_host_step(snapshot: KindClusterSnapshot, claim: Object) -> KindStep:
    """A cluster on another machine cannot be observed from here: it does not count as deleted."""
    if annotations_of(snapshot.obj).get(ADOPT_ANNOTATION) == "true":
        return WriteStatus(with_claim(snapshot.obj, {**claim, "machine": snapshot.host_id}))
    message = (
        f"cluster {claim['name']} was created on another machine ({claim['machine']}): run Shoal there, or give it up"
        f' with the annotation {ADOPT_ANNOTATION}: "true"'
    )
    return status_step(snapshot, None, "OnAnotherMachine", message, phase="Unknown", up_to_date=None)


def _decide_foreign_cluster(snapshot: KindClusterSnapshot, name: str) -> KindStep:
    """A cluster of that name exists, and nothing shows that it is ours."""
    obj = snapshot.obj
    if annotations_of(obj).get(ADOPT_ANNOTATION) != "true":
        message = (
            f"kind cluster {name} exists and was not created for this KINDCluster: delete it, choose another"
            f' clusterName, or take it over with the annotation {ADOPT_ANNOTATION}: "true"'
        )
        return status_step(snapshot, False, "ForeignCluster", message, phase="Pending")
    if snapshot.kubeconfig is None or not snapshot.kubeconfig.fresh:
        return FetchKubeconfig(name)
    access = snapshot.kubeconfig.access
    if access is None:
        return error_step(snapshot, snapshot.kubeconfig.error, "AdoptionFailed")
    claim = {**_new_claim(snapshot, CREATED), "adopted": True, "id": access.id}
    entry = HistoryEntry("Adopted", f"Existing cluster {name} was adopted")
    return status_step(snapshot, False, "Adopted", phase="Provisioning", cluster=claim, events=[entry])


def _decide_creating(snapshot: KindClusterSnapshot, claim: Object) -> KindStep:
    """Claimed but not created: kind must be started, or was interrupted."""
    obj, name, listing = snapshot.obj, claim["name"], snapshot.listing
    if listing is None or not listing.fresh:
        return ListClusters()
    if listing.error is not None:
        return error_step(snapshot, listing.error)
    if name not in listing.names:
        if drift_message(obj, claim) or spec_error(obj):
            return WriteStatus(with_claim(obj, None))
        return CreateCluster(name, kind_config(obj))
    is_owned = _owns_cluster(snapshot, claim)
    if not isinstance(is_owned, bool):
        return is_owned
    if not is_owned:
        return _abandon_claim(
            snapshot, "ForeignCluster", f"Another cluster {name} was created outside Shoal in the meantime"
        )
    entry = HistoryEntry("Interrupted", f"Creation of cluster {name} was interrupted; deleting the incomplete cluster")
    return status_step(
        snapshot,
        False,
        "Interrupted",
        phase="Provisioning",
        cluster={**claim, "state": REMOVING},
        steps=step_conditions(obj, {}),
        events=[entry],
    )


def _owns_cluster(snapshot: KindClusterSnapshot, claim: Object) -> KindStep | bool:
    """Whether the cluster with the name is the one that was created for this object. Only positive evidence makes it
    another's: a broken cluster cannot tell.
    """
    if claim.get("id"):
        if snapshot.kubeconfig is None or not snapshot.kubeconfig.fresh:
            return FetchKubeconfig(claim["name"])
        return snapshot.kubeconfig.access is None or snapshot.kubeconfig.access.id == claim["id"]
    if snapshot.owner_marker is None:
        return ReadOwner(claim["name"])
    return snapshot.owner_marker.value in (None, snapshot.obj["metadata"]["uid"])


def _removal_step(snapshot: KindClusterSnapshot, claim: Object) -> KindStep | None:
    """None: nothing of the claimed cluster is left."""
    listing = snapshot.listing
    if listing is None or not listing.fresh:
        return ListClusters()
    if listing.error is not None:
        return error_step(snapshot, listing.error)
    if claim["name"] not in listing.names:
        return None
    delay = retry_wait(snapshot.obj, DELETE, snapshot.now)
    if delay:
        return WaitForChange(delay)
    is_owned = _owns_cluster(snapshot, claim)
    if isinstance(is_owned, bool):
        return DeleteCluster(claim["name"]) if is_owned else None
    return is_owned


def _decide_created(snapshot: KindClusterSnapshot, claim: Object) -> KindStep:
    """The cluster was created: checks that it exists, matches the spec, and that its kubeconfig is in the Secrets."""
    name, listing = claim["name"], snapshot.listing
    if listing is None:
        return ListClusters()
    if listing.error is not None:
        return error_step(snapshot, listing.error)
    if name not in listing.names:
        if not listing.fresh:
            return ListClusters()
        return _abandon_claim(snapshot, "ClusterLost", f"Cluster {name} was deleted outside Shoal; recreating it")
    current = _up_to_date(snapshot, claim)
    if current.reason == "Replacing":
        return _replacement_step(snapshot, claim, current)
    if snapshot.kubeconfig is None:
        return FetchKubeconfig(name)
    access = snapshot.kubeconfig.access
    if access is None:
        return error_step(snapshot, snapshot.kubeconfig.error, "KubeconfigUnavailable")
    if claim.get("id", access.id) != access.id:
        return _abandon_claim(snapshot, "ForeignCluster", f"Cluster {name} was deleted and recreated outside Shoal")
    step = _secret_step(snapshot, name, access) or _provisioned_step(snapshot, claim, access, current)
    return image_step(snapshot, claim) if isinstance(step, WaitForChange) else step


def _replacement_step(snapshot: KindClusterSnapshot, claim: Object, current: Condition) -> KindStep:
    """From here on the kind cluster is deleted, and created as the spec is then."""
    entry = HistoryEntry("Replacing", f"{current.message}; deleting cluster {claim['name']} with everything in it")
    return status_step(
        snapshot,
        False,
        "Replacing",
        f"Deleting cluster {claim['name']}, to create another one",
        phase="Provisioning",
        up_to_date=current,
        cluster={**claim, "state": REMOVING},
        replacement={"message": current.message.partition(": ")[2], "since": snapshot.now},
        steps=step_conditions(snapshot.obj, {}),
        events=[entry],
    )


def _up_to_date(snapshot: KindClusterSnapshot, claim: Object) -> Condition:
    obj = snapshot.obj
    changes = drift_message(obj, claim)
    if not changes:
        return Condition("UpToDate", TRUE, "UpToDate")
    invalid = spec_error(obj)
    if invalid:
        return Condition("UpToDate", FALSE, "InvalidSpec", invalid)
    if not has_replace_policy(obj):
        message = (
            f"{changes}; an existing cluster cannot be changed: revert the change, or set replacePolicy: Replace, "
            "which deletes it with everything in it and creates another"
        )
        return Condition("UpToDate", FALSE, "ChangeRefused", message)
    if snapshot.holder:
        message = f"the kind cluster {kind_cluster_name(obj)} belongs to KINDCluster {snapshot.holder}"
        return Condition("UpToDate", FALSE, "NameTaken", message)
    return replacing_condition(f"Replacing cluster {claim['name']}: {changes}")


def _secret_step(snapshot: KindClusterSnapshot, name: str, access: KubeconfigAccess) -> KindStep | None:
    """Steps for Secrets that are not current. Before one is written, the kubeconfig is fetched again."""
    existing = {secret["metadata"]["name"]: secret for secret in snapshot.secrets}
    desired = list(secrets_of(snapshot.obj, name, snapshot.cluster, access.text))
    for secret in desired:
        current = existing.pop(secret["metadata"]["name"], None)
        if current is not None and is_secret_up_to_date(secret, current):
            continue
        if secret["metadata"]["name"] in snapshot.foreign_secrets:
            message = f"Secret {secret['metadata']['name']} exists and was not created for this KINDCluster"
            return status_step(
                snapshot, False, "SecretTaken", message, phase="Failed", failure=message, up_to_date=None
            )
        if snapshot.kubeconfig is None or not snapshot.kubeconfig.fresh:
            return FetchKubeconfig(name)
        return WriteSecret(secret)
    return next((DeleteSecret(secret) for secret in existing.values()), None)


def _provisioned_step(
    snapshot: KindClusterSnapshot, claim: Object, access: KubeconfigAccess, current: Condition
) -> KindStep:
    endpoint = {"host": access.host, "port": access.port}
    if control_plane_endpoint(snapshot.obj) != endpoint:
        return PatchObject({"spec": {"controlPlaneEndpoint": endpoint}})
    new_claim = claim if claim.get("id") else {**claim, "id": access.id}
    retry = status_of(snapshot.obj).get("retry") or {}
    new = with_new_status(
        snapshot.obj,
        snapshot.now,
        ready=Condition("Ready", TRUE, "Ready"),
        phase="Provisioned",
        cluster=new_claim,
        up_to_date=current,
        retry=retry if retry.get("action") == LOAD_IMAGES else None,
        replacement=None,
        events=[] if is_ready(snapshot.obj) else [HistoryEntry("Ready", f"Cluster {claim['name']} is ready")],
    )
    return write_step(snapshot, new)


def _decide_deletion(snapshot: KindClusterSnapshot, claim: Object | None) -> KindStep:
    obj, job = snapshot.obj, snapshot.job
    patch = release_patch(obj, FINALIZER)
    if patch is None:
        return WaitForChange()
    if job is not None and job.done:
        return job_result_step(snapshot, job, claim) if job.action == DELETE else ForgetJob()
    if job is not None:
        if job.action in (CREATE, LOAD_IMAGES):
            return CancelJob()
        return status_step(snapshot, False, "Deleting", phase="Deleting", progress=job.progress)
    removal = _removal_step(snapshot, claim) if claim is not None else None
    if removal is not None:
        return removal
    for secret in snapshot.secrets:
        return DeleteSecret(secret)
    return PatchObject(patch)


def _abandon_claim(snapshot: KindClusterSnapshot, reason: str, message: str) -> KindStep:
    """Gives up the claim: a cluster with the name, if any, is not ours."""
    return status_step(
        snapshot, False, reason, message, phase="Pending", cluster=None, events=[HistoryEntry(reason, message)]
    )
