"""What a worker may write into the objects it may write: as upstream's NodeRestriction does for nodes.

It looks at the object that is stored, so a worker that has just lost a ManagedCluster is refused, whatever the
authorizer saw. A worker says what it is and what it has seen; who has what is the hub's, labels and taints people's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.apiserver.admission.certificates import RESOURCE as REQUESTS
from shoal.apiserver.core import Call, Core
from shoal.apiserver.paths import ROOT
from shoal.kinds import fleet, joining
from shoal.objects.conditions import get_condition
from shoal.objects.errors import Forbidden

Object = dict[str, Any]

_PEOPLES = ("labels", "finalizers", "ownerReferences")
"""Metadata by which things are selected, held and deleted."""
_HUBS = ("assignedWorker", "lastWorker", "epoch")
_HUBS_CONDITIONS = (fleet.SCHEDULED, fleet.WORKER_READY)
"""Of a ManagedCluster: who has it, and whether that one is heard of, is not for a worker to say."""


def admit(core: Core, call: Call, new: Object, old: Object | None) -> None:
    user = call.user
    if not user.name.startswith((joining.PREFIX, joining.BOOTSTRAP_PREFIX)) or user.cluster != ROOT:
        return
    what = (call.resource.group, call.resource.plural)
    worker = joining.worker_of(user.name, user.groups)
    if what == REQUESTS:
        if old is None and new["spec"].get("signerName") != joining.SIGNER:
            raise _refused(call, new, f"{user.name} may ask the signer {joining.SIGNER} only")
        return
    check = _CHECKS.get(what)
    if not worker or check is None:
        return
    wrong = check(worker, new, old, bool(call.target.subresource))
    if not wrong and what == ("", "secrets"):
        wrong = _not_held(core, worker, new)
    if wrong:
        raise _refused(call, new, wrong)


def admit_delete(core: Core, call: Call, old: Object) -> None:
    """Of the objects a worker may delete, which are Secrets."""
    worker = joining.worker_of(call.user.name, call.user.groups)
    if worker and (call.resource.group, call.resource.plural) == ("", "secrets"):
        cluster = fleet.cluster_of_secret(old["metadata"]["name"])
        if not fleet.is_kubeconfig_of(old, cluster):
            raise _refused(call, old, "it is somebody else's, though it has the name of a kubeconfig")


def worker_wrong(worker: str, new: Object, old: Object | None, subresource: bool) -> str:
    if new["metadata"].get("name") != worker:
        return f"a worker has its own Worker only, {worker}"
    before: Object = old or {"metadata": {}}
    for field in _PEOPLES:
        if (new["metadata"].get(field) or None) != (before["metadata"].get(field) or None):
            return f"a worker may not set the {field} of its Worker"
    if (fleet.spec_of(new).get("taints") or None) != (fleet.spec_of(before).get("taints") or None):
        return "a worker may not set its taints"
    now, then = (obj["metadata"].get("annotations") or {} for obj in (new, before))
    if then.get(fleet.STORE) and now.get(fleet.STORE) != then[fleet.STORE]:
        return "a Worker belongs to the store that took its name"
    if {**now, fleet.STORE: ""} != {**then, fleet.STORE: ""}:
        return f"a worker may set the annotation {fleet.STORE} only"
    return ""


def lease_wrong(worker: str, new: Object, old: Object | None, subresource: bool) -> str:
    named = new["metadata"].get("name") == fleet.lease_name(worker)
    return "" if named else f"a worker has its own Lease only, {fleet.lease_name(worker)}"


def cluster_wrong(worker: str, new: Object, old: Object | None, subresource: bool) -> str:
    if old is None:
        return "a worker creates no ManagedClusters"
    if fleet.assigned_worker(old) != worker:
        return "it is not assigned to this worker"
    if subresource:
        now, then = fleet.status_of(new), fleet.status_of(old)
        changed = [f"status.{field}" for field in _HUBS if now.get(field) != then.get(field)]
        changed += [
            f"the condition {type_}"
            for type_ in _HUBS_CONDITIONS
            if get_condition(new, type_) != get_condition(old, type_)
        ]
        return f"a worker may not change {changed[0]}" if changed else ""
    if fleet.spec_of(new) != fleet.spec_of(old):
        return "a worker may not change the spec of a ManagedCluster"
    if any((new["metadata"].get(key) or None) != (old["metadata"].get(key) or None) for key in _UNCHANGED):
        return "a worker may not change the metadata of a ManagedCluster"
    now_held, held = (obj["metadata"].get("finalizers") or [] for obj in (new, old))
    if now_held != held:
        if not fleet.is_deleting(old):
            return "a worker lets go of a ManagedCluster that is being deleted only"
        if now_held != [each for each in held if each != fleet.FINALIZER]:
            return f"a worker may take off the finalizer {fleet.FINALIZER} only"
    return ""


_UNCHANGED = ("labels", "annotations", "ownerReferences")


def secret_wrong(worker: str, new: Object, old: Object | None, subresource: bool) -> str:
    metadata = new["metadata"]
    cluster = fleet.cluster_of_secret(metadata.get("name") or "")
    if not cluster:
        return "a worker has Secrets with kubeconfigs only"
    if old is not None and not fleet.is_kubeconfig_of(old, cluster):
        return "it is somebody else's, though it has the name of a kubeconfig"
    owners = metadata.get("ownerReferences") or ()
    if len(owners) != 1 or not fleet.is_kubeconfig_of(new, cluster):
        return "a kubeconfig belongs to its ManagedCluster, and to nothing else"
    if new.get("type") != fleet.CLUSTER_SECRET or set(new.get("data") or ()) != {"value"}:
        return f"a kubeconfig is the key value of a Secret of the type {fleet.CLUSTER_SECRET}"
    if (metadata.get("labels") or {}) != {fleet.CLUSTER_NAME: cluster}:
        return f"a kubeconfig has the label {fleet.CLUSTER_NAME} and no other"
    if metadata.get("annotations") or metadata.get("finalizers"):
        return "a kubeconfig has no annotations and no finalizers"
    return ""


_Check = Callable[[str, Object, Object | None, bool], str]
_CHECKS: dict[tuple[str, str], _Check] = {
    (fleet.GROUP, "workers"): worker_wrong,
    ("coordination.k8s.io", "leases"): lease_wrong,
    (fleet.GROUP, "managedclusters"): cluster_wrong,
    ("", "secrets"): secret_wrong,
}


def _not_held(core: Core, worker: str, secret: Object) -> str:
    """Its owner must be the ManagedCluster there is now, and that this worker's."""
    metadata = secret["metadata"]
    cluster = fleet.cluster_of_secret(metadata["name"])
    entry = core.cache.kind(fleet.GROUP, "managedclusters").get(ROOT, metadata["namespace"], cluster)
    managed = entry.object() if entry is not None else None
    if managed is None or fleet.assigned_worker(managed) != worker:
        return "it is not the kubeconfig of a ManagedCluster assigned to this worker"
    if metadata["ownerReferences"][0].get("uid") != managed["metadata"]["uid"]:
        return "it is not the kubeconfig of the ManagedCluster there is now"
    return ""


def _refused(call: Call, obj: Object, why: str) -> Forbidden:
    name = obj["metadata"].get("name") or ""
    return Forbidden(
        f'{call.resource.group_resource} "{name}" is forbidden: {why}',
        name=name,
        group=call.resource.group,
        kind=call.resource.plural,
    )
