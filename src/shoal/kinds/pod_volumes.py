"""Validation of the volumes of a pod spec: one source each, names, paths and modes. Upstream's words; pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import said
from shoal.kinds.claims import validate_claim_spec
from shoal.kinds.pod_containers import Volumes
from shoal.kinds.pod_environment import VOLUME_FIELDS, field_reference, resource_reference
from shoal.kinds.pod_security import descending_path
from shoal.kinds.resources import amount
from shoal.kinds.volume_sources import host_path, nfs
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, required
from shoal.objects.names import is_dns1123_label
from shoal.objects.quantity import ZERO

Object = dict[str, Any]

MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_ORDER = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
"""The order in which upstream checks sources: the first one that is set counts."""
_REQUIRED = {
    "secret": ("secretName",),
    "configMap": ("name",),
    "persistentVolumeClaim": ("claimName",),
    "nfs": ("server", "path"),
    "csi": ("driver",),
    "ephemeral": ("volumeClaimTemplate",),
    "iscsi": ("targetPortal", "iqn"),
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "image": ("reference",),
}


def validate_volumes(volumes: list[Object], path: str) -> tuple[Volumes, list[Cause]]:
    """Returns the valid volumes by name, for volume mounts, and the causes of the others."""
    found: Volumes = {}
    causes: list[Cause] = []
    for i, volume in enumerate(volumes):
        at, name = f"{path}[{i}]", volume.get("name") or ""
        wrong = _source(volume, at)
        wrong += said(f"{at}.name", name, is_dns1123_label(name)) if name else [required(f"{at}.name")]
        if name in found:
            wrong.append(duplicate(f"{at}.name", name))
        if wrong:
            causes += wrong
        else:
            found[name] = volume
    return found, causes


def _source(volume: Object, path: str) -> list[Cause]:
    kinds = sorted((field for field, value in volume.items() if field != "name" and value is not None), key=_place)
    if not kinds:
        return [required(path, "must specify a volume type")]
    kind = kinds[0]
    source, at = volume[kind], f"{path}.{kind}"
    causes = [required(f"{at}.{field}") for field in _REQUIRED.get(kind, ()) if not source.get(field)]
    causes += _mode(source, "defaultMode", at)
    if kind == "hostPath":
        causes += host_path(source, at)
    elif kind == "nfs":
        causes += nfs(source, at)
    elif kind == "emptyDir":
        if amount(source.get("sizeLimit")) < ZERO:
            causes.append(forbidden_field(f"{at}.sizeLimit", "SizeLimit field must be a valid resource quantity"))
    elif kind in ("secret", "configMap"):
        causes += _items(source, at)
    elif kind == "downwardAPI":
        causes += [cause for item in source.get("items") or () for cause in _downward(item, at)]
    elif kind == "projected":
        causes += _projected(source, at)
    elif kind == "ephemeral" and source.get("volumeClaimTemplate"):
        claim = source["volumeClaimTemplate"].get("spec") or {}
        causes += validate_claim_spec(claim, f"{at}.volumeClaimTemplate.spec")
    return causes + [forbidden_field(f"{path}.{k}", "may not specify more than 1 volume type") for k in kinds[1:]]


def _place(kind: str) -> int:
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _mode(holder: Object, field: str, path: str) -> list[Cause]:
    mode = holder.get(field)
    return [] if mode is None or 0 <= mode <= 0o777 else [invalid_value(f"{path}.{field}", mode, MODE)]


def _items(source: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for i, item in enumerate(source.get("items") or ()):
        at = f"{path}.items[{i}]"
        causes += [required(f"{at}.{field}") for field in ("key", "path") if not item.get(field)]
        causes += _local_path(item.get("path") or "", f"{at}.path") + _mode(item, "mode", at)
    return causes


def _local_path(value: str, path: str) -> list[Cause]:
    causes = descending_path(value, path)
    if value.startswith("..") and not value.startswith("../") and value != "..":
        causes.append(invalid_value(path, value, "must not start with '..'"))
    return causes


def _downward(item: Object, path: str) -> list[Cause]:
    causes = [] if item.get("path") else [required(f"{path}.path")]
    causes += _local_path(item.get("path") or "", f"{path}.path")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        causes += field_reference(field, VOLUME_FIELDS, f"{path}.fieldRef")
        if resource is not None:
            both = "fieldRef and resourceFieldRef can not be specified simultaneously"
            causes.append(invalid_value(path, "resource", both))
    elif resource is not None:
        causes += resource_reference(resource, f"{path}.resourceFieldRef", volume=True)
    else:
        causes.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return causes + _mode(item, "mode", path)


def _projected(source: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for i, projection in enumerate(source.get("sources") or ()):
        at = f"{path}.sources[{i}]"
        kinds = [kind for kind, value in projection.items() if value is not None]
        if len(kinds) > 1:
            causes.append(forbidden_field(at, "may not specify more than 1 volume type"))
        for kind in kinds:
            inner = projection[kind]
            if kind in ("secret", "configMap"):
                causes += [] if inner.get("name") else [required(f"{at}.{kind}.name")]
                causes += _items(inner, f"{at}.{kind}")
            elif kind == "downwardAPI":
                causes += [c for item in inner.get("items") or () for c in _downward(item, f"{at}.{kind}")]
            elif kind == "serviceAccountToken":
                causes += _token(inner, f"{at}.{kind}", path)
    return causes


def _token(token: Object, path: str, volume_path: str) -> list[Cause]:
    """Upstream reports the token's path at the path of the volume."""
    seconds = token.get("expirationSeconds", 3600)
    causes = []
    if seconds < 600:
        causes.append(
            invalid_value(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
        )
    elif seconds > 1 << 32:
        causes.append(
            invalid_value(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
        )
    if not token.get("path"):
        return [*causes, required(f"{path}.path")]
    return causes + _local_path(token["path"], f"{volume_path}.path")
