"""PersistentVolume sources: defaults, and validation in upstream's order and words. Pure.

A volume has one source. The fields of a second one are not validated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from shoal.kinds.checks import Object, fill, one_of, said
from shoal.kinds.pod_security import no_backsteps
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required, too_long
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain

DRIVER_NAME_LENGTH, TENANT_LENGTH, PORTAL_LENGTH = 63, 64, 64
HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_ORDER = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs",
    "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume",
    "azureDisk", "scaleIO", "local", "storageos", "csi",
)  # fmt: skip
_REQUIRED = {
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
_ALWAYS = (("iscsi", "lun"), ("azureFile", "secretNamespace"), ("scaleIO", "secretRef"))
"""Fields Go writes even when unset."""
_PLACES = {"gcePersistentDisk": "persistentDisk"}
"""Path names of upstream that differ from the field."""
_PAIRS = "must be a host:port pair or multiple pairs separated by commas"
_match_initiator = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9.-]+)(:[^,;*&$|\s]+)\Z").search,
    "eui": re.compile(r"eui.[A-Za-z0-9]{16}").fullmatch,
    "naa": re.compile(r"naa.[A-Za-z0-9]{32}").fullmatch,
}


def default_sources(spec: Object) -> None:
    if spec.get("hostPath") is not None:
        fill(spec["hostPath"], type="")
    for kind in _DEFAULTS.keys() & spec.keys():
        if spec[kind] is not None:
            fill(spec[kind], **_DEFAULTS[kind])
    for kind, field in _ALWAYS:
        if spec.get(kind) is not None:
            spec[kind].setdefault(field, 0 if field == "lun" else None)


def sources(spec: Object) -> list[str]:
    """Returns the names of the sources that are set, in upstream's order. More than one is an error."""
    return [kind for kind in _ORDER if spec.get(kind) is not None]


def validate_sources(spec: Object, path: str, name: str) -> list[Cause]:
    """Validates the sources of the volume called `name`."""
    causes: list[Cause] = []
    found = sources(spec)
    for i, kind in enumerate(found):
        if i and kind != "flexVolume":
            causes.append(forbidden_field(f"{path}.{_again(kind)}", "may not specify more than 1 volume type"))
            continue
        at, source = f"{path}.{_PLACES.get(kind, kind)}", spec[kind]
        causes += [required(f"{at}.{field}") for field in _REQUIRED.get(kind, ()) if not source.get(field)]
        if kind == "iscsi":
            causes += _iscsi(source, at, name)
        elif kind in _CHECKS:
            causes += _CHECKS[kind](source, at)
        if kind == "local" and spec.get("nodeAffinity") is None:
            causes.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    return causes if found else [required(path, "must specify a volume type")]


def _again(kind: str) -> str:
    return "cephFS" if kind == "cephfs" else kind


def driver_name(name: str, path: str) -> list[Cause]:
    """Validates the name of a CSI driver."""
    if not name:
        return [required(path)]
    causes = [too_long(path, DRIVER_NAME_LENGTH)] if len(name) > DRIVER_NAME_LENGTH else []
    return causes + said(path, name, is_dns1123_subdomain(name.lower()))


def host_path(source: Object, path: str) -> list[Cause]:
    if not source.get("path"):
        return [required(f"{path}.path")]
    return no_backsteps(source["path"], f"{path}.path") + one_of(source.get("type"), f"{path}.type", *HOST_PATH_TYPES)


def _partition(source: Object, path: str) -> list[Cause]:
    number = source.get("partition") or 0
    return [] if 0 <= number <= 255 else [_between(f"{path}.partition", number, 1)]


def _between(path: str, number: int, least: int = 0) -> Cause:
    return invalid_value(path, number, f"must be between {least} and 255, inclusive")


def _glusterfs(source: Object, path: str) -> list[Cause]:
    namespace, at = source.get("endpointsNamespace"), f"{path}.endpointsNamespace"
    if namespace == "":
        return [invalid_value(at, "", "if the endpointnamespace is set, it must be a valid namespace name")]
    return [] if namespace is None else said(at, namespace, is_dns1123_label(namespace))


def _flocker(source: Object, path: str) -> list[Cause]:
    name, uuid = source.get("datasetName") or "", source.get("datasetUUID")
    causes = [] if name or uuid else [required(path, "one of datasetName and datasetUUID is required")]
    if name and uuid:
        why = "datasetName and datasetUUID can not be specified simultaneously"
        causes.append(invalid_value(path, "resource", why))
    if "/" in name:
        causes.append(invalid_value(f"{path}.datasetName", name, "must not contain '/'"))
    return causes


def nfs(source: Object, path: str) -> list[Cause]:
    where = source.get("path") or ""
    return [] if where.startswith("/") else [invalid_value(f"{path}.path", where, "must be an absolute path")]


def _quobyte(source: Object, path: str) -> list[Cause]:
    registry, causes = source.get("registry") or "", []
    if not registry:
        causes.append(required(f"{path}.registry", _PAIRS))
    elif len(source.get("tenant") or "") > TENANT_LENGTH:
        why = f"must be a UUID and may not exceed a length of {TENANT_LENGTH} characters"
        causes.append(required(f"{path}.tenant", why))
    else:
        wrong = [pair for pair in registry.split(",") if not _is_host_and_port(pair)]
        causes += [invalid_value(f"{path}.registry", registry, _PAIRS) for _ in wrong]
    return causes if source.get("volume") else [*causes, required(f"{path}.volume")]


def _is_host_and_port(pair: str) -> bool:
    host, colon, _ = pair.rpartition(":")
    if host.startswith("["):
        return host.endswith("]")
    return bool(colon) and ":" not in host


def _iscsi(source: Object, path: str, name: str) -> list[Cause]:
    portal, initiator, secret = source.get("targetPortal") or "", source.get("initiatorName"), source.get("secretRef")
    causes = [] if portal else [required(f"{path}.targetPortal")]
    if initiator is not None and len(f"{name}:{portal}") > PORTAL_LENGTH:
        why = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "
            "specified."
        )
        causes.append(invalid_value(f"{path}.targetportal", portal, why))
    iqn, lun = source.get("iqn") or "", source.get("lun") or 0
    causes += _initiator(iqn, f"{path}.iqn") if iqn else [required(f"{path}.iqn")]
    if not 0 <= lun <= 255:
        causes.append(_between(f"{path}.lun", lun))
    if secret is None and (source.get("chapAuthDiscovery") or source.get("chapAuthSession")):
        causes.append(required(f"{path}.secretRef"))
    if secret is not None and not secret.get("name"):
        causes.append(required(f"{path}.secretRef.name"))
    return causes if initiator is None else causes + _initiator(initiator, f"{path}.initiatorname")


def _initiator(value: str, path: str) -> list[Cause]:
    match = _match_initiator.get(value[:3])
    return [] if match is not None and match(value) else [invalid_value(path, value, "must be valid format")]


def _fc(source: Object, path: str) -> list[Cause]:
    targets, ids, lun = source.get("targetWWNs") or [], source.get("wwids") or [], source.get("lun")
    at, causes = f"{path}.targetWWNs", []
    if not targets and not ids:
        causes.append(required(at, "must specify either targetWWNs or wwids, but not both"))
    if targets and ids:
        causes.append(invalid_value(at, targets, "targetWWNs and wwids can not be specified simultaneously"))
    if targets and lun is None:
        causes.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif targets and lun is not None and not 0 <= lun <= 255:
        causes.append(_between(f"{path}.lun", lun))
    return causes


def _flex(source: Object, path: str) -> list[Cause]:
    why = "kubernetes.io and k8s.io namespaces are reserved"
    reserved = (".kubernetes.io", ".k8s.io")
    return [
        invalid_value(f"{path}.options[{key}]", key, why)
        for key in source.get("options") or ()
        if f".{key.partition('/')[0].lower()}".endswith(reserved)
    ]


def _azure_file(source: Object, path: str) -> list[Cause]:
    return [required(f"{path}.secretNamespace")] if source.get("secretNamespace") == "" else []


def _azure_disk(source: Object, path: str) -> list[Cause]:
    kind, uri = source.get("kind"), source.get("diskURI") or ""
    causes = one_of(source.get("cachingMode"), f"{path}.cachingMode", "None", "ReadOnly", "ReadWrite")
    causes += one_of(kind, f"{path}.kind", "Dedicated", "Managed", "Shared")
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        form = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
        causes.append(not_supported(f"{path}.diskURI", uri, [form]))
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        form = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        causes.append(not_supported(f"{path}.diskURI", uri, [form]))
    return causes


def _local(source: Object, path: str) -> list[Cause]:
    where = source.get("path") or ""
    return no_backsteps(where, f"{path}.path") if where else [required(f"{path}.path")]


def _named_secret(source: Object, path: str) -> list[Cause]:
    secret = source.get("secretRef")
    if secret is None:
        return []
    return [required(f"{path}.secretRef.{field}") for field in ("name", "namespace") if not secret.get(field)]


def _storageos(source: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("volumeName", "volumeNamespace"):
        if source.get(field):
            causes += said(f"{path}.{field}", source[field], is_dns1123_label(source[field]))
    return causes + _named_secret(source, path)


def _csi(source: Object, path: str) -> list[Cause]:
    causes = driver_name(source.get("driver") or "", f"{path}.driver")
    if not source.get("volumeHandle"):
        causes.append(required(f"{path}.volumeHandle"))
    for who in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"):
        secret: Any = source.get(f"{who}SecretRef")
        for field, rule in (
            (("name", is_dns1123_subdomain), ("namespace", is_dns1123_label)) if secret is not None else ()
        ):
            at, value = f"{path}.{who}SecretRef.{field}", secret.get(field) or ""
            causes += said(at, value, rule(value)) if value else [required(at)]
    return causes


_CHECKS: dict[str, Callable[[Object, str], list[Cause]]] = {
    "hostPath": host_path,
    "gcePersistentDisk": _partition,
    "awsElasticBlockStore": _partition,
    "glusterfs": _glusterfs,
    "flocker": _flocker,
    "nfs": nfs,
    "quobyte": _quobyte,
    "cinder": _named_secret,
    "fc": _fc,
    "flexVolume": _flex,
    "azureFile": _azure_file,
    "azureDisk": _azure_disk,
    "local": _local,
    "storageos": _storageos,
    "csi": _csi,
}
