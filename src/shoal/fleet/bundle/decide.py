"""Decisions about the bundle of a Worker: what to apply and prune, the rollout order, and its condition. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from shoal.fleet.bundle.objects import FIELD_MANAGER, VERSION_LABEL, WORKER_LABEL, ObjectId, object_id, version_label
from shoal.kinds.clusterapi import kindcluster
from shoal.kinds.fleet import infrav1
from shoal.kinds.versions import KUBERNETES_VERSION
from shoal.objects.conditions import condition_is, get_condition, set_condition
from shoal.objects.ownership import controller_reference


def first_difference(desired: Any, actual: Any, path: str = "") -> str:
    """Returns the path of the first difference, such as `spec.replicas`; empty if there is none. It never contains a
    value.
    """
    if isinstance(desired, Mapping):
        return _first_difference_in_map(desired, actual, path)
    if isinstance(desired, list):
        return _first_difference_in_list(desired, actual, path)
    return "" if desired == actual else path


def _first_difference_in_map(desired: Mapping[str, Any], actual: Any, path: str) -> str:
    if not isinstance(actual, Mapping):
        return "" if not desired and actual is None else path
    for key, value in desired.items():
        difference_path = first_difference(value, actual.get(key), f"{path}.{key}" if path else key)
        if difference_path:
            return difference_path
    return ""


def _first_difference_in_list(desired: list[Any], actual: Any, path: str) -> str:
    actual_items = actual if isinstance(actual, list) else []
    names = [item.get("name") if isinstance(item, Mapping) else None for item in desired]
    if not desired or None in names:
        if len(desired) != len(actual_items):
            return path
        pairs = [(str(number), *pair) for number, pair in enumerate(zip(desired, actual_items, strict=True))]
    else:
        by_name = {item.get("name"): item for item in actual_items if isinstance(item, Mapping)}
        pairs = [(str(name), item, by_name.get(name)) for name, item in zip(names, desired, strict=True)]
    for label, item, other in pairs:
        where = first_difference(item, other, f"{path}[{label}]")
        if where:
            return where
    return ""


Object = dict[str, Any]

BUNDLE_APPLIED = "BundleApplied"
"""Condition type on a Worker."""
FINALIZER = "infrastructure.cluster.x-k8s.io/worker-bundle"
"""On a Worker; removed when its cluster contains nothing of the bundle any more."""

UNPRUNED_KINDS = frozenset({"Namespace", "PersistentVolumeClaim"})
"""Others may use the namespace, and the claim holds data: they are deleted with the Worker only."""

SUPPORTED_INFRASTRUCTURES = frozenset({"embedded"})
"""Infrastructures that a bundle's worker can host: it has no kind command and no containers."""
HUB_ADDRESS_HINT = "start the hub with --listen 0.0.0.0:6443 --advertise-address HOST, or set spec.hubAddress"


@dataclass(frozen=True, slots=True)
class BundleCondition:
    """Fields of the BundleApplied condition."""

    status: str
    reason: str
    message: str


def is_bundle_worker(worker: Object) -> bool:
    """True if it is, or was, a Worker whose cluster gets a bundle."""
    return (
        infrav1.spec_of(worker).get("infrastructure") == infrav1.KIND_WORKER
        or has_finalizer(worker)
        or _kubeconfig_ref(worker) is not None
    )


def has_finalizer(worker: Object) -> bool:
    return FINALIZER in (worker["metadata"].get("finalizers") or ())


def reject_reason(worker: Object) -> BundleCondition | None:
    """Returns why nothing is done for the Worker, whatever its cluster contains."""
    if worker["metadata"].get("namespace") != infrav1.NAMESPACE:
        return BundleCondition("False", "WrongNamespace", f"Workers must be in the namespace {infrav1.NAMESPACE}")
    if infrav1.spec_of(worker).get("infrastructure") != infrav1.KIND_WORKER:
        if _kubeconfig_ref(worker) is not None and not has_finalizer(worker):
            message = "spec.kubeconfigSecretRef requires infrastructure: kind"
        else:
            message = "infrastructure was kind and the Worker has a bundle: set it back to kind, or delete the Worker"
        return BundleCondition("False", "InfrastructureChanged", message)
    unsupported = set(infrav1.spec_of(worker).get("provides") or ()) - SUPPORTED_INFRASTRUCTURES
    if unsupported:
        message = (
            "a worker in a cluster can provide only "
            f"{', '.join(SUPPORTED_INFRASTRUCTURES)}, not {', '.join(sorted(unsupported))}"
        )
        return BundleCondition("False", "InfrastructureNotProvided", message)
    return None


def hub_address(worker: Object, advertised: str) -> str:
    """Returns the address at which its worker reaches the hub."""
    return str(infrav1.spec_of(worker).get("hubAddress") or advertised)


def hub_unreachable(worker: Object, advertised: str) -> BundleCondition | None:
    """A worker in another cluster cannot reach a hub that advertises a loopback address."""
    if infrav1.spec_of(worker).get("hubAddress") or not _is_loopback(urlsplit(advertised).hostname or ""):
        return None
    message = f"the hub address {advertised} is not reachable from other clusters; {HUB_ADDRESS_HINT}"
    return BundleCondition("False", "HubNotReachable", message)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# --- the cluster ---


def _kubeconfig_ref(worker: Object) -> Object | None:
    return infrav1.spec_of(worker).get("kubeconfigSecretRef") or None


def needs_kind_cluster(worker: Object) -> bool:
    """True if it names no cluster, so that one is created for it."""
    return _kubeconfig_ref(worker) is None


def kubeconfig_secret(worker: Object) -> tuple[str, str, str]:
    """Returns namespace, name and key."""
    reference = _kubeconfig_ref(worker)
    if reference is not None:
        return reference["namespace"], reference["name"], reference.get("key") or "value"
    name = worker["metadata"]["name"]
    return worker["metadata"]["namespace"], kindcluster.config_secret_name(name), kindcluster.KUBECONFIG_KEY


def kind_cluster(worker: Object) -> Object:
    """Returns the KINDCluster, which is created once: a kind cluster cannot be changed later."""
    metadata, spec = worker["metadata"], infrav1.spec_of(worker)
    minor = _minor(str(spec.get("version") or ""))
    nodes: list[Object] = [{"role": kindcluster.CONTROL_PLANE}]
    if spec.get("nodes"):
        nodes.append({"role": "worker", "count": int(spec["nodes"])})
    return {
        "apiVersion": kindcluster.API_VERSION,
        "kind": kindcluster.KIND,
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": {WORKER_LABEL: metadata["name"]},
            "ownerReferences": [controller_reference(worker, infrav1.API_VERSION, infrav1.WORKER)],
        },
        "spec": {
            "clusterName": metadata["name"],
            "kubernetesVersion": minor if minor in kindcluster.NODE_IMAGE_TAGS else _minor(KUBERNETES_VERSION),
            "nodes": nodes,
        },
    }


def _minor(version: str) -> str:
    return ".".join(version.removeprefix("v").split(".")[:2])


def cluster_not_ready(cluster: Object) -> BundleCondition:
    """Returns the condition while the kubeconfig of a KINDCluster does not exist yet."""
    ready = get_condition(cluster, "Ready") or {}
    detail = ready.get("message") or ready.get("reason") or "not reconciled yet"
    name = f"{cluster['metadata']['namespace']}/{cluster['metadata']['name']}"
    return BundleCondition("False", "ClusterNotReady", f"KINDCluster {name}: {detail}")


def has_owner(obj: Object, owner: Object) -> bool:
    references = obj["metadata"].get("ownerReferences") or ()
    return any(one.get("uid") == owner["metadata"]["uid"] for one in references)


# --- diff ---


@dataclass(frozen=True, slots=True)
class BundleDiff:
    apply: list[tuple[Object, str]]
    """Objects that differ, with the path of the first difference; the path is empty if the object does not exist."""
    prune: list[Object]
    """Objects of another version's bundle that this one does not have."""
    deleting: list[Object]
    """Objects that are being deleted; they can be created again only when they are gone."""


def diff_bundle(desired: Sequence[Object], actual: Mapping[ObjectId, Object], version: str) -> BundleDiff:
    diff = BundleDiff([], [], [])
    for obj in desired:
        existing = actual.get(object_id(obj))
        if existing is not None and "deletionTimestamp" in existing["metadata"]:
            diff.deleting.append(existing)
            continue
        obj = _keep_claim_spec(obj, existing) if existing is not None else obj
        differing_path = first_difference(_without_type(obj), existing) if existing is not None else ""
        if existing is None or differing_path:
            diff.apply.append((obj, differing_path))
    desired_ids = {object_id(obj) for obj in desired}
    diff.prune.extend(
        obj
        for id_, obj in sorted(actual.items())
        if id_ not in desired_ids
        and id_[0] not in UNPRUNED_KINDS
        and "deletionTimestamp" not in obj["metadata"]
        and (obj["metadata"].get("labels") or {}).get(VERSION_LABEL) not in (None, version_label(version))
    )
    return diff


def _without_type(obj: Object) -> Object:
    """Drops apiVersion and kind: items of a list do not have them."""
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}


def _keep_claim_spec(obj: Object, existing: Object) -> Object:
    """Keeps the spec of an existing claim, which somebody may have expanded: API servers reject shrinking."""
    if obj["kind"] != "PersistentVolumeClaim":
        return obj
    return {**obj, "spec": {key: existing["spec"].get(key, value) for key, value in obj["spec"].items()}}


def is_bundle_namespace(namespace: Object) -> bool:
    """True if the bundle created the namespace. One that existed before is used as it is, and stays."""
    return any(entry.get("manager") == FIELD_MANAGER for entry in namespace["metadata"].get("managedFields") or ())


def owned_by_other(namespace: Object, worker: str) -> BundleCondition | None:
    """Returns the condition if the cluster belongs to another Worker."""
    other = (namespace["metadata"].get("labels") or {}).get(WORKER_LABEL, worker)
    if other == worker or not is_bundle_namespace(namespace):
        return None
    return BundleCondition(
        "False", "ClusterTaken", f"Namespace {namespace['metadata']['name']} belongs to the bundle of worker {other}"
    )


def unavailable_reason(deployment: Object | None) -> str:
    """Returns why the worker does not run yet, as its Deployment reports; empty if it does."""
    if deployment is None:
        return "does not exist yet"
    status = deployment.get("status") or {}
    if int(status.get("observedGeneration") or 0) < int(deployment["metadata"].get("generation") or 0):
        return "last change is not observed yet"
    counts = [int(status.get(field) or 0) for field in ("replicas", "updatedReplicas", "availableReplicas")]
    if counts == [1, 1, 1]:
        return ""
    progress = get_condition(deployment, "Progressing") or {}
    failed = progress.get("status") == "False" or condition_is(deployment, "ReplicaFailure")
    failure = get_condition(deployment, "ReplicaFailure") or progress if failed else {}
    return str(failure.get("message") or "pod is not available yet")


# --- rollout ---


@dataclass(frozen=True, slots=True)
class BundleRelease:
    """What is rolled out to one Worker after another."""

    version: str
    image: str

    def __str__(self) -> str:
        return f"{self.version} ({self.image})"


@dataclass(frozen=True, slots=True)
class RolloutState:
    """Rollout progress of a Worker."""

    name: str
    release: BundleRelease | None
    """The release that was last begun; None if none was."""
    is_settled: bool
    """It has been available since, or never was before: the rollout cannot have made it worse."""
    is_reachable: bool


def rollout_state(worker: Object) -> RolloutState:
    state, is_unreachable = bundle_of(worker), condition_is(worker, BUNDLE_APPLIED, "Unknown")
    settled = state.get("availableRevision") in (None, state.get("revision"))
    return RolloutState(worker["metadata"]["name"], release_of(worker), settled, not is_unreachable)


def bundle_of(worker: Object) -> Object:
    state: Object = infrav1.status_of(worker).get("bundle") or {}
    return state


def release_of(worker: Object) -> BundleRelease | None:
    state = bundle_of(worker)
    return BundleRelease(str(state.get("version")), str(state.get("image"))) if state.get("version") else None


def release_for(worker: Object, release: BundleRelease) -> BundleRelease:
    """What a Worker is to have: `release`, the hub's, or an image of its own."""
    image = infrav1.spec_of(worker).get("image")
    return BundleRelease(release.version, str(image)) if image else release


def has_own_image(worker: Object) -> bool:
    """Such a Worker takes no part in the rollout of the hub's release."""
    return bool(infrav1.spec_of(worker).get("image"))


def rollout_blocker(name: str, rollout: Iterable[RolloutState], release: BundleRelease) -> str:
    """Returns the Worker whose update is first or in progress; empty if this one may proceed. A Worker that never had a
    bundle, or has begun this release, does not wait. No Worker waits for a cluster that does not answer to begin.
    """
    states = {each.name: each for each in rollout}
    own = states.get(name)
    if own is None or own.release in (None, release):
        return ""
    in_progress = [each.name for each in states.values() if each.release == release and not each.is_settled]
    if in_progress:
        return min(in_progress)
    outdated = [each for each in states.values() if each.release not in (None, release)]
    first_name = min(each.name for each in outdated if each.is_reachable or each.name == name)
    return "" if first_name == name else first_name


# --- status ---


def bundle_status(worker: Object, condition: BundleCondition, state: Object | None, now: str) -> Object | None:
    """Returns the whole status; None if it is current."""
    generation = worker["metadata"].get("generation")
    updated = set_condition(
        worker,
        BUNDLE_APPLIED,
        condition.status,
        reason=condition.reason,
        message=condition.message,
        observed_generation=generation,
        now=now,
    )
    status = infrav1.status_of(updated)
    if state is not None and state != status.get("bundle"):
        status = {**status, "bundle": state}
    return None if status == infrav1.status_of(worker) else status


def bundle_state(worker: Object, release: BundleRelease, revision: str, cluster: str, now: str) -> Object:
    """Returns `status.bundle` as of the moment this release is applied."""
    current = bundle_of(worker)
    fields = {"version": release.version, "image": release.image, "revision": revision, "cluster": cluster}
    if fields.items() <= current.items():
        return current
    was_available = bool(current.get("revision")) and current.get("availableRevision") == current["revision"]
    if was_available and current.get("image") != release.image:
        fields["previousImage"] = str(current.get("image"))
    return {**current, **fields, "time": now}
