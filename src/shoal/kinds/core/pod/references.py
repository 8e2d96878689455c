"""Objects a pod refers to by name in its namespace: ConfigMaps, Secrets, ServiceAccounts, PersistentVolumeClaims.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Object = dict[str, Any]

CONFIG_MAP_PLURAL, SECRET_PLURAL, SERVICE_ACCOUNT_PLURAL, CLAIM_PLURAL = (
    "configmaps",
    "secrets",
    "serviceaccounts",
    "persistentvolumeclaims",
)
REFERENCED_PLURALS = (CONFIG_MAP_PLURAL, SECRET_PLURAL, SERVICE_ACCOUNT_PLURAL, CLAIM_PLURAL)
"""Plurals of the core group that can be referenced."""
_SECRET_VOLUMES = ("azureFile", "cephfs", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")


class PodReference(NamedTuple):
    plural: str
    name: str


NAMESPACE_DEFAULTS = frozenset(
    {PodReference(CONFIG_MAP_PLURAL, "kube-root-ca.crt"), PodReference(SERVICE_ACCOUNT_PLURAL, "default")}
)
"""Objects that exist in every namespace."""


def pod_references(obj: Object) -> frozenset[PodReference]:
    """Returns the references of a Pod, or of an object with a pod template where Kubernetes' own kinds have it."""
    return all_pod_references(obj) - NAMESPACE_DEFAULTS


def all_pod_references(obj: Object) -> frozenset[PodReference]:
    """Also returns objects that exist in every namespace."""
    pod = _pod_spec(obj)
    return frozenset(need for need in _iter_references(pod) if need.name) if pod else frozenset()


def service_account_references(account: Object) -> frozenset[PodReference]:
    """Returns the references a ServiceAccount adds to pods that use it."""
    return frozenset(PodReference(SECRET_PLURAL, name) for name in _names(account.get("imagePullSecrets")))


def _pod_spec(obj: Object) -> Object | None:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return None
    if isinstance(spec.get("jobTemplate"), dict):
        spec = spec["jobTemplate"].get("spec") or {}
    template = spec.get("template")
    pod_spec = template.get("spec") if isinstance(template, dict) else spec
    return pod_spec if isinstance(pod_spec, dict) and isinstance(pod_spec.get("containers"), list) else None


def _iter_references(pod: Object) -> Iterator[PodReference]:
    yield PodReference(SERVICE_ACCOUNT_PLURAL, pod.get("serviceAccountName") or pod.get("serviceAccount") or "")
    for name in _names(pod.get("imagePullSecrets")):
        yield PodReference(SECRET_PLURAL, name)
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in pod.get(field) or ():
            yield from _container_references(container)
    for volume in pod.get("volumes") or ():
        yield from _volume_references(volume)


def _container_references(container: Object) -> Iterator[PodReference]:
    for source in container.get("envFrom") or ():
        yield PodReference(CONFIG_MAP_PLURAL, (source.get("configMapRef") or {}).get("name", ""))
        yield PodReference(SECRET_PLURAL, (source.get("secretRef") or {}).get("name", ""))
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield PodReference(CONFIG_MAP_PLURAL, (source.get("configMapKeyRef") or {}).get("name", ""))
        yield PodReference(SECRET_PLURAL, (source.get("secretKeyRef") or {}).get("name", ""))


def _volume_references(volume: Object) -> Iterator[PodReference]:
    yield PodReference(CONFIG_MAP_PLURAL, (volume.get("configMap") or {}).get("name", ""))
    yield PodReference(SECRET_PLURAL, (volume.get("secret") or {}).get("secretName", ""))
    yield PodReference(CLAIM_PLURAL, (volume.get("persistentVolumeClaim") or {}).get("claimName", ""))
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield PodReference(CONFIG_MAP_PLURAL, (source.get("configMap") or {}).get("name", ""))
        yield PodReference(SECRET_PLURAL, (source.get("secret") or {}).get("name", ""))
    yield PodReference(SECRET_PLURAL, ((volume.get("csi") or {}).get("nodePublishSecretRef") or {}).get("name", ""))
    for kind in _SECRET_VOLUMES:
        source = volume.get(kind) or {}
        yield PodReference(SECRET_PLURAL, source.get("secretName") or (source.get("secretRef") or {}).get("name", ""))


def _names(references: Any) -> list[str]:
    return [str(reference.get("name") or "") for reference in references or ()]
