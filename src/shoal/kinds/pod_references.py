"""Objects a pod refers to by name in its namespace: ConfigMaps, Secrets, ServiceAccounts, PersistentVolumeClaims.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Object = dict[str, Any]

CONFIG_MAPS, SECRETS, ACCOUNTS, CLAIMS = "configmaps", "secrets", "serviceaccounts", "persistentvolumeclaims"
NEEDED = (CONFIG_MAPS, SECRETS, ACCOUNTS, CLAIMS)
"""Plurals of the core group that can be referenced."""
_SECRET_VOLUMES = ("azureFile", "cephfs", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")


class Need(NamedTuple):
    plural: str
    name: str


GIVEN = frozenset({Need(CONFIG_MAPS, "kube-root-ca.crt"), Need(ACCOUNTS, "default")})
"""Objects that exist in every namespace."""


def needs_of(obj: Object) -> frozenset[Need]:
    """Returns the references of a Pod, or of an object with a pod template where Kubernetes' own kinds have it."""
    return every_need_of(obj) - GIVEN


def every_need_of(obj: Object) -> frozenset[Need]:
    """Also returns objects that exist in every namespace."""
    pod = _pod_spec(obj)
    return frozenset(need for need in _needs(pod) if need.name) if pod else frozenset()


def account_needs(account: Object) -> frozenset[Need]:
    """Returns the references a ServiceAccount adds to pods that use it."""
    return frozenset(Need(SECRETS, name) for name in _names(account.get("imagePullSecrets")))


def _pod_spec(obj: Object) -> Object | None:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return None
    if isinstance(spec.get("jobTemplate"), dict):
        spec = spec["jobTemplate"].get("spec") or {}
    template = spec.get("template")
    found = template.get("spec") if isinstance(template, dict) else spec
    return found if isinstance(found, dict) and isinstance(found.get("containers"), list) else None


def _needs(pod: Object) -> Iterator[Need]:
    yield Need(ACCOUNTS, pod.get("serviceAccountName") or pod.get("serviceAccount") or "")
    for name in _names(pod.get("imagePullSecrets")):
        yield Need(SECRETS, name)
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in pod.get(field) or ():
            yield from _of_container(container)
    for volume in pod.get("volumes") or ():
        yield from _of_volume(volume)


def _of_container(container: Object) -> Iterator[Need]:
    for source in container.get("envFrom") or ():
        yield Need(CONFIG_MAPS, (source.get("configMapRef") or {}).get("name", ""))
        yield Need(SECRETS, (source.get("secretRef") or {}).get("name", ""))
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield Need(CONFIG_MAPS, (source.get("configMapKeyRef") or {}).get("name", ""))
        yield Need(SECRETS, (source.get("secretKeyRef") or {}).get("name", ""))


def _of_volume(volume: Object) -> Iterator[Need]:
    yield Need(CONFIG_MAPS, (volume.get("configMap") or {}).get("name", ""))
    yield Need(SECRETS, (volume.get("secret") or {}).get("secretName", ""))
    yield Need(CLAIMS, (volume.get("persistentVolumeClaim") or {}).get("claimName", ""))
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield Need(CONFIG_MAPS, (source.get("configMap") or {}).get("name", ""))
        yield Need(SECRETS, (source.get("secret") or {}).get("name", ""))
    yield Need(SECRETS, ((volume.get("csi") or {}).get("nodePublishSecretRef") or {}).get("name", ""))
    for kind in _SECRET_VOLUMES:
        source = volume.get(kind) or {}
        yield Need(SECRETS, source.get("secretName") or (source.get("secretRef") or {}).get("name", ""))


def _names(references: Any) -> list[str]:
    return [str(reference.get("name") or "") for reference in references or ()]
