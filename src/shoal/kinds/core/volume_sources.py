"""PersistentVolume sources: defaults, and validation in upstream's order and words. Pure.

A volume has one source. The fields of a second one are not validated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from shoal.kinds.core.security_context import validate_path_no_backsteps
from shoal.kinds.validation.field import Object, invalid_causes, set_defaults, validate_enum
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required_value, too_long
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain

MAX_DRIVER_NAME_LENGTH, MAX_TENANT_LENGTH, MAX_PORTAL_LENGTH = 63, 64, 64
HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_SOURCE_ORDER = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs",
    "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume",
    "azureDisk", "scaleIO", "local", "storageos", "csi",
)  # fmt: skip
_REQUIRED_FIELDS = {
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "glusterfs": ("endpoints", "path"),
    "nfs": ("server", "path"),
    "rbd": ("monitors", "image"),
    "cephfs": ("monitors",),
    "cinder": ("volumeID",),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "storageos": ("volumeName",),
}
_DEFAULTS: dict[str, dict[str, object]] = {
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "iscsi": {"iscsiInterface": "default"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
_ALWAYS_WRITTEN = (("iscsi", "lun"), ("azureFile", "secretNamespace"), ("scaleIO", "secretRef"))
"""Fields Go writes even when unset."""
_PATH_NAMES = {"gcePersistentDisk": "persistentDisk"}
"""Path names of upstream that differ from the field."""
_HOST_PORT_PAIRS = "must be a host:port pair or multiple pairs separated by commas"
_find_authorities = re.compile(r"iqn\.\d{4}-\d{2}\.[A-Za-z0-9.-]+(:)?", re.ASCII).finditer
_split_at_special = re.compile(r"[,;*&$|\s]", re.ASCII).split


def _is_iscsi_name(value: str) -> bool:
    """True if the value ends with an iSCSI qualified name, as upstream searches it."""
    last_special = len(value) - len(_split_at_special(value)[-1])
    return any(found[1] and last_special <= found.end() < len(value) for found in _find_authorities(value))


_INITIATOR_CHECKS: dict[str, Callable[[str], object]] = {
    "iqn": _is_iscsi_name,
    "eui": re.compile(r"eui.[A-Za-z0-9]{16}").fullmatch,
    "naa": re.compile(r"naa.[A-Za-z0-9]{32}").fullmatch,
}


def default_sources(spec: Object) -> None:
    if spec.get("hostPath") is not None:
        set_defaults(spec["hostPath"], type="")
    for kind in _DEFAULTS.keys() & spec.keys():
        if spec[kind] is not None:
            set_defaults(spec[kind], **_DEFAULTS[kind])
    for kind, field in _ALWAYS_WRITTEN:
        if spec.get(kind) is not None:
            spec[kind].setdefault(field, 0 if field == "lun" else None)


def source_names(spec: Object) -> list[str]:
    """Returns the names of the sources that are set, in upstream's order. More than one is an error."""
    return [kind for kind in _SOURCE_ORDER if spec.get(kind) is not None]


def validate_sources(spec: Object, path: str, name: str) -> list[Cause]:
    """Validates the sources of the volume called `name`."""
    causes: list[Cause] = []
    names = source_names(spec)
    for i, kind in enumerate(names):
        if i and kind != "flexVolume":
            causes.append(
                forbidden_field(f"{path}.{_repeated_source_name(kind)}", "may not specify more than 1 volume type")
            )
            continue
        field_path, source = f"{path}.{_PATH_NAMES.get(kind, kind)}", spec[kind]
        causes += [
            required_value(f"{field_path}.{field}") for field in _REQUIRED_FIELDS.get(kind, ()) if not source.get(field)
        ]
        if kind == "iscsi":
            causes += _validate_iscsi(source, field_path, name)
        elif kind in _SOURCE_CHECKS:
            causes += _SOURCE_CHECKS[kind](source, field_path)
        if kind == "local" and spec.get("nodeAffinity") is None:
            causes.append(required_value(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    return causes if names else [required_value(path, "must specify a volume type")]


def _repeated_source_name(kind: str) -> str:
    return "cephFS" if kind == "cephfs" else kind


def validate_csi_driver_name(name: str, path: str) -> list[Cause]:
    """Validates the name of a CSI driver."""
    if not name:
        return [required_value(path)]
    causes = [too_long(path, MAX_DRIVER_NAME_LENGTH)] if len(name) > MAX_DRIVER_NAME_LENGTH else []
    return causes + invalid_causes(path, name, is_dns1123_subdomain(name.lower()))


def validate_host_path(source: Object, path: str) -> list[Cause]:
    if not source.get("path"):
        return [required_value(f"{path}.path")]
    return validate_path_no_backsteps(source["path"], f"{path}.path") + validate_enum(
        source.get("type"), f"{path}.type", *HOST_PATH_TYPES
    )


def _validate_partition(source: Object, path: str) -> list[Cause]:
    number = source.get("partition") or 0
    return [] if 0 <= number <= 255 else [_out_of_byte_range(f"{path}.partition", number, 1)]


def _out_of_byte_range(path: str, number: int, minimum: int = 0) -> Cause:
    return invalid_value(path, number, f"must be between {minimum} and 255, inclusive")


def _validate_glusterfs(source: Object, path: str) -> list[Cause]:
    namespace, field_path = source.get("endpointsNamespace"), f"{path}.endpointsNamespace"
    if namespace == "":
        return [invalid_value(field_path, "", "if the endpointnamespace is set, it must be a valid namespace name")]
    return [] if namespace is None else invalid_causes(field_path, namespace, is_dns1123_label(namespace))


def _validate_flocker(source: Object, path: str) -> list[Cause]:
    name, uuid = source.get("datasetName") or "", source.get("datasetUUID")
    causes = [] if name or uuid else [required_value(path, "one of datasetName and datasetUUID is required")]
    if name and uuid:
        detail = "datasetName and datasetUUID can not be specified simultaneously"
        causes.append(invalid_value(path, "resource", detail))
    if "/" in name:
        causes.append(invalid_value(f"{path}.datasetName", name, "must not contain '/'"))
    return causes


def validate_nfs(source: Object, path: str) -> list[Cause]:
    nfs_path = source.get("path") or ""
    return [] if nfs_path.startswith("/") else [invalid_value(f"{path}.path", nfs_path, "must be an absolute path")]


def _validate_quobyte(source: Object, path: str) -> list[Cause]:
    registry, causes = source.get("registry") or "", []
    if not registry:
        causes.append(required_value(f"{path}.registry", _HOST_PORT_PAIRS))
    elif len(source.get("tenant") or "") > MAX_TENANT_LENGTH:
        detail = f"must be a UUID and may not exceed a length of {MAX_TENANT_LENGTH} characters"
        causes.append(required_value(f"{path}.tenant", detail))
    else:
        # Upstream repeats the error for each invalid pair.
        if not all(map(_is_host_and_port, registry.split(","))):
            causes.append(invalid_value(f"{path}.registry", registry, _HOST_PORT_PAIRS))
    return causes if source.get("volume") else [*causes, required_value(f"{path}.volume")]


def _is_host_and_port(pair: str) -> bool:
    host, colon, _ = pair.rpartition(":")
    if host.startswith("["):
        return host.endswith("]")
    return bool(colon) and ":" not in host


def _validate_iscsi(source: Object, path: str, name: str) -> list[Cause]:
    portal, initiator, secret = source.get("targetPortal") or "", source.get("initiatorName"), source.get("secretRef")
    causes = [] if portal else [required_value(f"{path}.targetPortal")]
    if initiator is not None and len(f"{name}:{portal}") > MAX_PORTAL_LENGTH:
        detail = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "
            "specified."
        )
        causes.append(invalid_value(f"{path}.targetportal", portal, detail))
    iqn, lun = source.get("iqn") or "", source.get("lun") or 0
    causes += _validate_initiator(iqn, f"{path}.iqn") if iqn else [required_value(f"{path}.iqn")]
    if not 0 <= lun <= 255:
        causes.append(_out_of_byte_range(f"{path}.lun", lun))
    if secret is None and (source.get("chapAuthDiscovery") or source.get("chapAuthSession")):
        causes.append(required_value(f"{path}.secretRef"))
    if secret is not None and not secret.get("name"):
        causes.append(required_value(f"{path}.secretRef.name"))
    return causes if initiator is None else causes + _validate_initiator(initiator, f"{path}.initiatorname")


def _validate_initiator(value: str, path: str) -> list[Cause]:
    check = _INITIATOR_CHECKS.get(value[:3])
    return [] if check is not None and check(value) else [invalid_value(path, value, "must be valid format")]


def _validate_fc(source: Object, path: str) -> list[Cause]:
    targets, ids, lun = source.get("targetWWNs") or [], source.get("wwids") or [], source.get("lun")
    field_path, causes = f"{path}.targetWWNs", []
    if not targets and not ids:
        causes.append(required_value(field_path, "must specify either targetWWNs or wwids, but not both"))
    if targets and ids:
        causes.append(invalid_value(field_path, targets, "targetWWNs and wwids can not be specified simultaneously"))
    if targets and lun is None:
        causes.append(required_value(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif targets and lun is not None and not 0 <= lun <= 255:
        causes.append(_out_of_byte_range(f"{path}.lun", lun))
    return causes


def _validate_flex_volume(source: Object, path: str) -> list[Cause]:
    detail = "kubernetes.io and k8s.io namespaces are reserved"
    reserved = (".kubernetes.io", ".k8s.io")
    return [
        invalid_value(f"{path}.options[{key}]", key, detail)
        for key in source.get("options") or ()
        if f".{key.partition('/')[0].lower()}".endswith(reserved)
    ]


def _validate_azure_file(source: Object, path: str) -> list[Cause]:
    return [required_value(f"{path}.secretNamespace")] if source.get("secretNamespace") == "" else []


def _validate_azure_disk(source: Object, path: str) -> list[Cause]:
    kind, uri = source.get("kind"), source.get("diskURI") or ""
    causes = validate_enum(source.get("cachingMode"), f"{path}.cachingMode", "None", "ReadOnly", "ReadWrite")
    causes += validate_enum(kind, f"{path}.kind", "Dedicated", "Managed", "Shared")
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        form = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
        causes.append(not_supported(f"{path}.diskURI", uri, [form]))
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        form = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        causes.append(not_supported(f"{path}.diskURI", uri, [form]))
    return causes


def _validate_local(source: Object, path: str) -> list[Cause]:
    local_path = source.get("path") or ""
    return validate_path_no_backsteps(local_path, f"{path}.path") if local_path else [required_value(f"{path}.path")]


def _validate_named_secret(source: Object, path: str) -> list[Cause]:
    secret = source.get("secretRef")
    if secret is None:
        return []
    return [required_value(f"{path}.secretRef.{field}") for field in ("name", "namespace") if not secret.get(field)]


def _validate_storageos(source: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("volumeName", "volumeNamespace"):
        if source.get(field):
            causes += invalid_causes(f"{path}.{field}", source[field], is_dns1123_label(source[field]))
    return causes + _validate_named_secret(source, path)


def _validate_csi(source: Object, path: str) -> list[Cause]:
    causes = validate_csi_driver_name(source.get("driver") or "", f"{path}.driver")
    if not source.get("volumeHandle"):
        causes.append(required_value(f"{path}.volumeHandle"))
    for operation in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"):
        secret: Any = source.get(f"{operation}SecretRef")
        for field, rule in (
            (("name", is_dns1123_subdomain), ("namespace", is_dns1123_label)) if secret is not None else ()
        ):
            field_path, value = f"{path}.{operation}SecretRef.{field}", secret.get(field) or ""
            causes += invalid_causes(field_path, value, rule(value)) if value else [required_value(field_path)]
    return causes


_SOURCE_CHECKS: dict[str, Callable[[Object, str], list[Cause]]] = {
    "hostPath": validate_host_path,
    "gcePersistentDisk": _validate_partition,
    "awsElasticBlockStore": _validate_partition,
    "glusterfs": _validate_glusterfs,
    "flocker": _validate_flocker,
    "nfs": validate_nfs,
    "quobyte": _validate_quobyte,
    "cinder": _validate_named_secret,
    "fc": _validate_fc,
    "flexVolume": _validate_flex_volume,
    "azureFile": _validate_azure_file,
    "azureDisk": _validate_azure_disk,
    "local": _validate_local,
    "storageos": _validate_storageos,
    "csi": _validate_csi,
}
