"""Validation of the volumes of a pod spec: one source each, names, paths and modes. Upstream's words; pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.core.persistentvolumeclaim import validate_claim_spec
from shoal.kinds.core.pod.containers import VolumesByName
from shoal.kinds.core.pod.environment import VOLUME_FIELDS, validate_field_ref, validate_resource_field_ref
from shoal.kinds.core.security_context import validate_local_descending_path
from shoal.kinds.core.volume_sources import validate_host_path, validate_nfs
from shoal.kinds.validation.field import invalid_causes
from shoal.kinds.validation.resource_list import quantity_of
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, required_value
from shoal.objects.names import is_dns1123_label
from shoal.objects.quantity import ZERO

Object = dict[str, Any]

MODE_RANGE = "must be a number between 0 and 0777 (octal), both inclusive"
_SOURCE_ORDER = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
"""The order in which upstream checks sources: the first one that is set counts."""
_REQUIRED_FIELDS = {
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


def validate_volumes(volumes: list[Object], path: str) -> tuple[VolumesByName, list[Cause]]:
    """Returns the valid volumes by name, for volume mounts, and the causes of the others."""
    volumes_by_name: VolumesByName = {}
    causes: list[Cause] = []
    for i, volume in enumerate(volumes):
        item_path, name = f"{path}[{i}]", volume.get("name") or ""
        volume_causes = _validate_source(volume, item_path)
        volume_causes += (
            invalid_causes(f"{item_path}.name", name, is_dns1123_label(name))
            if name
            else [required_value(f"{item_path}.name")]
        )
        if name in volumes_by_name:
            volume_causes.append(duplicate(f"{item_path}.name", name))
        if volume_causes:
            causes += volume_causes
        else:
            volumes_by_name[name] = volume
    return volumes_by_name, causes


def _validate_source(volume: Object, path: str) -> list[Cause]:
    kinds = sorted(
        (field for field, value in volume.items() if field != "name" and value is not None), key=_source_rank
    )
    if not kinds:
        return [required_value(path, "must specify a volume type")]
    kind = kinds[0]
    source, field_path = volume[kind], f"{path}.{kind}"
    causes = [
        required_value(f"{field_path}.{field}") for field in _REQUIRED_FIELDS.get(kind, ()) if not source.get(field)
    ]
    causes += _validate_mode(source, "defaultMode", field_path)
    if kind == "hostPath":
        causes += validate_host_path(source, field_path)
    elif kind == "nfs":
        causes += validate_nfs(source, field_path)
    elif kind == "emptyDir":
        if quantity_of(source.get("sizeLimit")) < ZERO:
            causes.append(
                forbidden_field(f"{field_path}.sizeLimit", "SizeLimit field must be a valid resource quantity")
            )
    elif kind in ("secret", "configMap"):
        causes += _validate_key_items(source, field_path)
    elif kind == "downwardAPI":
        causes += [
            cause for item in source.get("items") or () for cause in _validate_downward_api_item(item, field_path)
        ]
    elif kind == "projected":
        causes += _validate_projected(source, field_path)
    elif kind == "ephemeral" and source.get("volumeClaimTemplate"):
        claim = source["volumeClaimTemplate"].get("spec") or {}
        causes += validate_claim_spec(claim, f"{field_path}.volumeClaimTemplate.spec")
    return causes + [forbidden_field(f"{path}.{k}", "may not specify more than 1 volume type") for k in kinds[1:]]


def _source_rank(kind: str) -> int:
    return _SOURCE_ORDER.index(kind) if kind in _SOURCE_ORDER else len(_SOURCE_ORDER)


def _validate_mode(holder: Object, field: str, path: str) -> list[Cause]:
    mode = holder.get(field)
    return [] if mode is None or 0 <= mode <= 0o777 else [invalid_value(f"{path}.{field}", mode, MODE_RANGE)]


def _validate_key_items(source: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for i, item in enumerate(source.get("items") or ()):
        item_path = f"{path}.items[{i}]"
        causes += [required_value(f"{item_path}.{field}") for field in ("key", "path") if not item.get(field)]
        causes += _validate_local_path(item.get("path") or "", f"{item_path}.path") + _validate_mode(
            item, "mode", item_path
        )
    return causes


def _validate_local_path(value: str, path: str) -> list[Cause]:
    causes = validate_local_descending_path(value, path)
    if value.startswith("..") and not value.startswith("../") and value != "..":
        causes.append(invalid_value(path, value, "must not start with '..'"))
    return causes


def _validate_downward_api_item(item: Object, path: str) -> list[Cause]:
    causes = [] if item.get("path") else [required_value(f"{path}.path")]
    causes += _validate_local_path(item.get("path") or "", f"{path}.path")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        causes += validate_field_ref(field, VOLUME_FIELDS, f"{path}.fieldRef")
        if resource is not None:
            both = "fieldRef and resourceFieldRef can not be specified simultaneously"
            causes.append(invalid_value(path, "resource", both))
    elif resource is not None:
        causes += validate_resource_field_ref(resource, f"{path}.resourceFieldRef", volume=True)
    else:
        causes.append(required_value(path, "one of fieldRef and resourceFieldRef is required"))
    return causes + _validate_mode(item, "mode", path)


def _validate_projected(source: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for i, projection in enumerate(source.get("sources") or ()):
        item_path = f"{path}.sources[{i}]"
        kinds = [kind for kind, value in projection.items() if value is not None]
        if len(kinds) > 1:
            causes.append(forbidden_field(item_path, "may not specify more than 1 volume type"))
        for kind in kinds:
            inner = projection[kind]
            if kind in ("secret", "configMap"):
                causes += [] if inner.get("name") else [required_value(f"{item_path}.{kind}.name")]
                causes += _validate_key_items(inner, f"{item_path}.{kind}")
            elif kind == "downwardAPI":
                causes += [
                    c
                    for item in inner.get("items") or ()
                    for c in _validate_downward_api_item(item, f"{item_path}.{kind}")
                ]
            elif kind == "serviceAccountToken":
                causes += _validate_token_projection(inner, f"{item_path}.{kind}", path)
    return causes


def _validate_token_projection(token: Object, path: str, volume_path: str) -> list[Cause]:
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
        return [*causes, required_value(f"{path}.path")]
    return causes + _validate_local_path(token["path"], f"{volume_path}.path")
