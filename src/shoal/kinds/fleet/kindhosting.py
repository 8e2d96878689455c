"""ManagedClusters with `infrastructure: kind`: what they need of a machine, what a Worker offers for them, and what of
their spec is rejected. Pure.

Such a cluster is a KINDCluster on the machine of its Worker. It stays on that machine, and nothing of it can be changed
in place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from shoal.kinds.clusterapi.kindcluster import NODE_IMAGE_TAGS
from shoal.kinds.versions import KUBERNETES_VERSION, OLDEST_MINOR
from shoal.objects.errors import Cause, forbidden_field, not_supported

Object = dict[str, Any]

EMBEDDED, KIND = "embedded", "kind"
"""Values of `spec.infrastructure`."""
REPLACE = "Replace"
"""Value of `spec.replacePolicy`."""
NODE_CPU, NODE_MEMORY = "500m", "1Gi"
"""What a node of a kind cluster needs of the machine before anything runs in it."""
MAX_NODES = 64
"""As many containers a KINDCluster may have in one role."""
MAX_NAME = 36
"""The names of containers, and so of hosts, contain the name of the kind cluster and a role."""

KIND_ANNOTATION = "shoal.dev/kind"
"""Annotation of a worker's Lease: its KindOffer."""
KIND_AVAILABLE = "KindAvailable"
"""Condition of a Worker: whether kind and a container engine answer on its machine."""
AVAILABLE = "EngineAnswers"
"""Reason of the condition. The others are the reasons of KINDClusters, such as EngineUnavailable."""
MAX_MESSAGE = 500
_ACCESS_SUFFIX = "-kind-access"

_REFUSED_FIELDS = {
    "nodePools": "a kind cluster has nodes of one size: use spec.nodes",
    "limits": "a kind cluster has an API server of its own, which Shoal does not limit",
    "keys": "Shoal does not rotate the keys of a kind cluster: kubeadm does, in its nodes",
    "provisioner": "Shoal does not buy nodes for a kind cluster; run shoal provisioner for it",
}


@dataclass(frozen=True, slots=True)
class KindOffer:
    """What a worker offers to kind clusters."""

    reason: str = AVAILABLE
    """Anything else says why there can be no kind clusters now."""
    message: str = ""
    cpu: str = ""
    memory: str = ""
    """Of the machine. Empty: not known, and so not limited."""
    versions: tuple[str, ...] = ()

    @property
    def is_available(self) -> bool:
        return self.reason == AVAILABLE

    def encode(self) -> str:
        """Returns the value of the annotation."""
        fields = {"reason": self.reason, "message": self.message[:MAX_MESSAGE], "cpu": self.cpu, "memory": self.memory}
        return orjson.dumps({**fields, "versions": self.versions}).decode()


def decode_offer(text: str) -> KindOffer | None:
    """None: it is no offer."""
    try:
        value = orjson.loads(text)
        texts = {key: value[key] for key in ("reason", "message", "cpu", "memory")}
        versions = tuple(value["versions"])
    except (KeyError, TypeError, ValueError):
        return None
    if not all(isinstance(each, str) for each in (*texts.values(), *versions)):
        return None
    return KindOffer(**texts, versions=versions)


def is_kind(managed: Mapping[str, Any]) -> bool:
    return bool((managed.get("spec") or {}).get("infrastructure") == KIND)


def node_count(managed: Mapping[str, Any]) -> int:
    """Returns the number of containers. The first one is the control plane, so there is at least one."""
    return max(1, int((managed.get("spec") or {}).get("nodes") or 0))


def kind_cluster_name(name: str, uid: str) -> str:
    """Returns the name of the kind cluster of a ManagedCluster. Workers of several hubs may share a machine, so it
    contains a digest of the uid.
    """
    return f"{name[:MAX_NAME].rstrip('-')}-{hashlib.sha256(uid.encode()).hexdigest()[:8]}"


def access_secret_name(cluster: str) -> str:
    """Returns the name of the Secret with the worker's keys for a kind cluster, in the worker's own root."""
    return f"{cluster}{_ACCESS_SUFFIX}"


def cluster_of_access_secret(secret: str) -> str:
    """Empty: it is no such Secret."""
    return secret.removesuffix(_ACCESS_SUFFIX) if secret.endswith(_ACCESS_SUFFIX) else ""


# --- versions and images ---


@dataclass(frozen=True, slots=True)
class NodeImage:
    minor: str
    """`spec.kubernetesVersion` of a KINDCluster."""
    image: str
    """Empty: the one that kind publishes for the minor."""


def minor_of_release(version: str) -> str:
    """1.36 for v1.36.4."""
    return ".".join(version.removeprefix("v").split(".")[:2])


def offered_versions(images: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the releases that a worker can create: those of its operator's images, and those that kind publishes."""
    published = {tag for minor, tag in NODE_IMAGE_TAGS.items() if int(minor.partition(".")[2]) >= OLDEST_MINOR}
    return tuple(sorted({*images, *published}, key=_release_key))


def default_version(images: Mapping[str, str]) -> str:
    """Returns the release of a cluster that requests none: the newest of the operator's images, if there are any."""
    return max(images, key=_release_key) if images else KUBERNETES_VERSION


def node_image(version: str, images: Mapping[str, str]) -> NodeImage | None:
    """Returns the image of a release; None if there is none."""
    minor = minor_of_release(version)
    if version in images:
        return NodeImage(minor, images[version])
    return NodeImage(minor, "") if NODE_IMAGE_TAGS.get(minor) == version else None


def image_version_error(version: str) -> str:
    """Returns why an image cannot be given for that release; empty if it can."""
    digits = version.removeprefix("v").split(".")
    if not version.startswith("v") or len(digits) != 3 or not all(each.isdecimal() for each in digits):
        return f"{version} is not a release such as {KUBERNETES_VERSION}"
    if minor_of_release(version) not in NODE_IMAGE_TAGS:
        first, last = min(NODE_IMAGE_TAGS, key=_release_key), max(NODE_IMAGE_TAGS, key=_release_key)
        return f"kind clusters have versions from v{first} to v{last}"
    return ""


def _release_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("v").split(".") if part.isdecimal())


# --- validation ---


def validate_infrastructure(obj: Object, old: Object | None, *, is_assigned: bool) -> list[Cause]:
    """What was accepted before does not block other changes. `is_assigned`: a Worker has it already."""
    new_causes = _kind_causes(obj) if is_kind(obj) else []
    accepted = {cause.field for cause in _kind_causes(old)} if old is not None and is_kind(old) else set()
    causes = [cause for cause in new_causes if cause.field not in accepted]
    if old is not None and is_assigned and _infrastructure(obj) != _infrastructure(old):
        detail = "it cannot be changed when a Worker is assigned: delete the ManagedCluster and create it again"
        causes.append(forbidden_field("spec.infrastructure", detail))
    if (obj.get("spec") or {}).get("replacePolicy") == REPLACE and not is_kind(obj):
        detail = "only kind clusters are replaced; embedded ones are changed in place"
        causes.append(forbidden_field("spec.replacePolicy", detail))
    return causes


def _infrastructure(obj: Object) -> str:
    return str((obj.get("spec") or {}).get("infrastructure") or EMBEDDED)


def _kind_causes(obj: Object) -> list[Cause]:
    spec: Object = obj.get("spec") or {}
    causes = [forbidden_field(f"spec.{field}", detail) for field, detail in _REFUSED_FIELDS.items() if spec.get(field)]
    if (spec.get("endpoint") or {}).get("type") == "Port":
        detail = "a kind cluster has no port of the hub; use its address with a path, or that of its machine"
        causes.append(forbidden_field("spec.endpoint.type", detail))
    if spec.get("onWorkerLost") == "Move":
        detail = "a kind cluster cannot be moved: its nodes are containers on the machine of its Worker"
        causes.append(forbidden_field("spec.onWorkerLost", detail))
    if int(spec.get("nodes") or 0) > MAX_NODES:
        causes.append(forbidden_field("spec.nodes", f"a kind cluster has at most {MAX_NODES} nodes"))
    version = str(spec.get("version") or "")
    if version and minor_of_release(version) not in NODE_IMAGE_TAGS:
        releases = [tag for tag in NODE_IMAGE_TAGS.values() if _release_key(tag)[1] >= OLDEST_MINOR]
        causes.append(not_supported("spec.version", version, releases))
    return causes
