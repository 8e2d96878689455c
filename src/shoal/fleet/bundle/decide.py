"""Decisions about the bundle of a Worker: what to apply and prune, the rollout order, and its condition. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from shoal.fleet.bundle.differences import difference
from shoal.fleet.bundle.objects import MANAGER, VERSION, WORKER, Id, id_of, label_of
from shoal.kinds import fleet, joining, kindcluster
from shoal.kinds.versions import KUBERNETES
from shoal.objects.conditions import condition_is, get_condition, set_condition
from shoal.objects.ownership import controller_reference

Object = dict[str, Any]

APPLIED = "BundleApplied"
"""Condition type on a Worker."""
FINALIZER = "infrastructure.cluster.x-k8s.io/worker-bundle"
"""On a Worker; removed when its cluster contains nothing of the bundle any more."""

NEVER_PRUNED = frozenset({"Namespace", "PersistentVolumeClaim"})
"""Others may use the namespace, and the claim holds data: they are deleted with the Worker only."""

PROVIDES = frozenset({"embedded"})
"""Infrastructures that a bundle's worker can host: it has no kind command and no containers."""
HINT = "start the hub with --listen 0.0.0.0:6443 --advertise-address HOST, or set spec.hubAddress"


@dataclass(frozen=True, slots=True)
class Said:
    """Fields of the BundleApplied condition."""

    status: str
    reason: str
    message: str


def is_declared(worker: Object) -> bool:
    """True if it is, or was, a Worker whose cluster gets a bundle."""
    return (
        fleet.spec_of(worker).get("infrastructure") == fleet.KIND or is_held(worker) or _reference(worker) is not None
    )


def is_held(worker: Object) -> bool:
    return FINALIZER in (worker["metadata"].get("finalizers") or ())


def refusal(worker: Object) -> Said | None:
    """Returns why nothing is done for the Worker, whatever its cluster contains."""
    if worker["metadata"].get("namespace") != fleet.NAMESPACE:
        return Said("False", "WrongNamespace", f"Workers are in the namespace {fleet.NAMESPACE}")
    if fleet.spec_of(worker).get("infrastructure") != fleet.KIND:
        if _reference(worker) is not None and not is_held(worker):
            message = "spec.kubeconfigSecretRef is for a Worker with infrastructure: kind"
        else:
            message = "it was infrastructure: kind and has a bundle: set it back, or delete the Worker"
        return Said("False", "InfrastructureChanged", message)
    others = set(fleet.spec_of(worker).get("provides") or ()) - PROVIDES
    if others:
        message = f"a worker in a cluster provides {', '.join(PROVIDES)}, not {', '.join(sorted(others))}"
        return Said("False", "InfrastructureNotProvided", message)
    return None


def hub_address(worker: Object, advertised: str) -> str:
    """Returns the address at which its worker reaches the hub."""
    return str(fleet.spec_of(worker).get("hubAddress") or advertised)


def unreachable_hub(worker: Object, advertised: str) -> Said | None:
    """A worker in another cluster cannot reach a hub that advertises a loopback address."""
    if fleet.spec_of(worker).get("hubAddress") or not _is_loopback(urlsplit(advertised).hostname or ""):
        return None
    message = f"the hub is at {advertised}, which no other cluster reaches; {HINT}"
    return Said("False", "HubNotReachable", message)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# --- the cluster ---


def _reference(worker: Object) -> Object | None:
    return fleet.spec_of(worker).get("kubeconfigSecretRef") or None


def makes_cluster(worker: Object) -> bool:
    """True if it names no cluster, so that one is created for it."""
    return _reference(worker) is None


def kubeconfig_secret(worker: Object) -> tuple[str, str, str]:
    """Returns namespace, name and key."""
    reference = _reference(worker)
    if reference is not None:
        return reference["namespace"], reference["name"], reference.get("key") or "value"
    name = worker["metadata"]["name"]
    return worker["metadata"]["namespace"], kindcluster.secret_name(name), kindcluster.SECRET_KEY


def kind_cluster(worker: Object) -> Object:
    """Returns the KINDCluster, which is created once: a kind cluster cannot be changed later."""
    metadata, spec = worker["metadata"], fleet.spec_of(worker)
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
            "labels": {WORKER: metadata["name"]},
            "ownerReferences": [controller_reference(worker, fleet.API_VERSION, fleet.WORKER)],
        },
        "spec": {
            "clusterName": metadata["name"],
            "kubernetesVersion": minor if minor in kindcluster.TAGS else _minor(KUBERNETES),
            "nodes": nodes,
        },
    }


def _minor(version: str) -> str:
    return ".".join(version.removeprefix("v").split(".")[:2])


def cluster_said(cluster: Object) -> Said:
    """Returns the condition while the kubeconfig of a KINDCluster does not exist yet."""
    ready = get_condition(cluster, "Ready") or {}
    told = ready.get("message") or ready.get("reason") or "it was not looked at yet"
    name = f"{cluster['metadata']['namespace']}/{cluster['metadata']['name']}"
    return Said("False", "ClusterNotReady", f"KINDCluster {name}: {told}")


def has_owner(obj: Object, owner: Object) -> bool:
    references = obj["metadata"].get("ownerReferences") or ()
    return any(one.get("uid") == owner["metadata"]["uid"] for one in references)


# --- join tokens ---


def needs_token(worker: Object) -> bool:
    """True until the worker is heard. One that becomes silent may have lost its certificate: a token for the same store
    helps.
    """
    joined = (worker["metadata"].get("annotations") or {}).get(fleet.STORE)
    return not joining.is_expelled(worker) and not (joined and condition_is(worker, fleet.READY))


def good_token(secrets: Iterable[Object], worker: str, now: float) -> str:
    """Returns the Worker's join token that expires last; empty if there is none."""
    tokens = [token for secret in secrets if (token := joining.read_token(secret)) is not None]
    good = [token for token in tokens if token.joins and token.worker == worker and not token.has_expired(now)]
    best = max(good, key=lambda token: (token.expires or 0.0, token.id), default=None)
    return f"{best.id}.{best.secret}" if best is not None else ""


# --- diff ---


@dataclass(frozen=True, slots=True)
class Changes:
    apply: list[tuple[Object, str]]
    """Objects that differ, with the path of the first difference; the path is empty if the object does not exist."""
    prune: list[Object]
    """Objects of another version's bundle that this one does not have."""
    going: list[Object]
    """Objects that are being deleted; they can be created again only when they are gone."""


def changes(wanted: Sequence[Object], found: Mapping[Id, Object], version: str) -> Changes:
    made = Changes([], [], [])
    for obj in wanted:
        there = found.get(id_of(obj))
        if there is not None and "deletionTimestamp" in there["metadata"]:
            made.going.append(there)
            continue
        obj = _as_claimed(obj, there) if there is not None else obj
        where = difference(_content(obj), there) if there is not None else ""
        if there is None or where:
            made.apply.append((obj, where))
    kept = {id_of(obj) for obj in wanted}
    made.prune.extend(
        obj
        for id_, obj in sorted(found.items())
        if id_ not in kept
        and id_[0] not in NEVER_PRUNED
        and "deletionTimestamp" not in obj["metadata"]
        and (obj["metadata"].get("labels") or {}).get(VERSION) not in (None, label_of(version))
    )
    return made


def _content(obj: Object) -> Object:
    """Drops apiVersion and kind: items of a list do not have them."""
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}


def _as_claimed(obj: Object, there: Object) -> Object:
    """Keeps the spec of an existing claim, which somebody may have expanded: API servers reject shrinking."""
    if obj["kind"] != "PersistentVolumeClaim":
        return obj
    return {**obj, "spec": {key: there["spec"].get(key, value) for key, value in obj["spec"].items()}}


def is_ours(namespace: Object) -> bool:
    """True if the bundle created the namespace. One that existed before is used as it is, and stays."""
    return any(entry.get("manager") == MANAGER for entry in namespace["metadata"].get("managedFields") or ())


def taken(namespace: Object, worker: str) -> Said | None:
    """Returns the condition if the cluster belongs to another Worker."""
    other = (namespace["metadata"].get("labels") or {}).get(WORKER, worker)
    if other == worker or not is_ours(namespace):
        return None
    return Said(
        "False", "ClusterTaken", f"Namespace {namespace['metadata']['name']} is of the bundle of worker {other}"
    )


def unavailable(deployment: Object | None) -> str:
    """Returns why the worker does not run yet, as its Deployment reports; empty if it does."""
    if deployment is None:
        return "it is not there yet"
    status = deployment.get("status") or {}
    if int(status.get("observedGeneration") or 0) < int(deployment["metadata"].get("generation") or 0):
        return "its last change was not acted on yet"
    counts = [int(status.get(field) or 0) for field in ("replicas", "updatedReplicas", "availableReplicas")]
    if counts == [1, 1, 1]:
        return ""
    progress = get_condition(deployment, "Progressing") or {}
    failed = progress.get("status") == "False" or condition_is(deployment, "ReplicaFailure")
    worst = get_condition(deployment, "ReplicaFailure") or progress if failed else {}
    return str(worst.get("message") or "its pod is not available yet")


# --- rollout ---


@dataclass(frozen=True, slots=True)
class Release:
    """What is rolled out to one Worker after another."""

    version: str
    image: str

    def __str__(self) -> str:
        return f"{self.version} ({self.image})"


@dataclass(frozen=True, slots=True)
class Standing:
    """Rollout progress of a Worker."""

    name: str
    release: Release | None
    """The release that was last begun; None if none was."""
    settled: bool
    """It has been available since, or never was before: the rollout cannot have made it worse."""
    reachable: bool


def standing(worker: Object) -> Standing:
    bundle, dark = bundle_of(worker), condition_is(worker, APPLIED, "Unknown")
    settled = bundle.get("availableRevision") in (None, bundle.get("revision"))
    return Standing(worker["metadata"]["name"], release_of(worker), settled, not dark)


def bundle_of(worker: Object) -> Object:
    found: Object = fleet.status_of(worker).get("bundle") or {}
    return found


def release_of(worker: Object) -> Release | None:
    bundle = bundle_of(worker)
    return Release(str(bundle.get("version")), str(bundle.get("image"))) if bundle.get("version") else None


def waits_for(name: str, everybody: Iterable[Standing], release: Release) -> str:
    """Returns the Worker whose update is first or in progress; empty if this one may proceed. A Worker that never had a
    bundle, or has begun this release, does not wait. No Worker waits for a cluster that does not answer to begin.
    """
    known = {one.name: one for one in everybody}
    mine = known.get(name)
    if mine is None or mine.release in (None, release):
        return ""
    going_on = [one.name for one in known.values() if one.release == release and not one.settled]
    if going_on:
        return min(going_on)
    waiting = [one for one in known.values() if one.release not in (None, release)]
    first = min(one.name for one in waiting if one.reachable or one.name == name)
    return "" if first == name else first


# --- status ---


def told(worker: Object, said: Said, bundle: Object | None, now: str) -> Object | None:
    """Returns the whole status; None if it is current."""
    generation = worker["metadata"].get("generation")
    found = set_condition(
        worker,
        APPLIED,
        said.status,
        reason=said.reason,
        message=said.message,
        observed_generation=generation,
        now=now,
    )
    status = fleet.status_of(found)
    if bundle is not None and bundle != status.get("bundle"):
        status = {**status, "bundle": bundle}
    return None if status == fleet.status_of(worker) else status


def begun(worker: Object, release: Release, revision: str, cluster: str, now: str) -> Object:
    """Returns `status.bundle` as of the moment this release is applied."""
    before = bundle_of(worker)
    given = {"version": release.version, "image": release.image, "revision": revision, "cluster": cluster}
    return before if given.items() <= before.items() else {**before, **given, "time": now}
