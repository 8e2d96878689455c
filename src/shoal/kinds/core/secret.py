"""ConfigMap, Secret and Namespace of core/v1: defaults and validation in upstream's words. Pure."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from shoal.objects import strictjson
from shoal.objects.errors import (
    BadRequest,
    Cause,
    forbidden_field,
    invalid_value,
    required_value,
    too_long,
    type_invalid,
)
from shoal.objects.names import is_config_map_key, is_dns1123_label, is_qualified_name

Object = dict[str, Any]

MAX_DATA_BYTES = 1024 * 1024
NAMESPACE_FINALIZER = "kubernetes"
STANDARD_FINALIZERS = (NAMESPACE_FINALIZER, "orphan", "foregroundDeletion")
NAME_LABEL = "kubernetes.io/metadata.name"
IMMUTABLE_DATA = "field is immutable when `immutable` is set"
IMMUTABLE_FIELD = "field is immutable"

_REQUIRED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def validate_config_map(obj: Object, old: Object | None) -> list[Cause]:
    causes, size = [], 0
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    for key, value in data.items():
        causes += [invalid_value(f"data[{key}]", key, message) for message in is_config_map_key(key)]
        if key in binary:
            causes.append(invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size += len(str(value).encode())
    for key, value in binary.items():
        causes += [invalid_value(f"binaryData[{key}]", key, message) for message in is_config_map_key(key)]
        size += len(str(value)) * 3 // 4
    if size > MAX_DATA_BYTES:
        causes.append(too_long("[]", MAX_DATA_BYTES))
    return causes + _validate_immutable_data(obj, old, ("data", "binaryData"))


def default_secret(obj: Object) -> None:
    """Moves `stringData`, which is write-only, into data."""
    obj.setdefault("type", "Opaque")
    plain = obj.pop("stringData", None)
    if isinstance(plain, dict) and plain:
        # A patched object shares `data` with the old object, which must not change.
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def validate_namespace(obj: Object, old: Object | None) -> list[Cause]:
    causes = []
    phase = (obj.get("status") or {}).get("phase")
    if old is not None and phase != "Active" and "deletionTimestamp" not in obj["metadata"]:
        causes.append(invalid_value("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty"))
    for name in (obj.get("spec") or {}).get("finalizers") or ():
        messages = is_qualified_name(name)
        causes += [invalid_value("spec.finalizers", name, message) for message in messages]
        if "/" not in name and name not in STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(invalid_value("spec.finalizers", name, detail))
    return causes


def validate_secret(obj: Object, old: Object | None) -> list[Cause]:
    causes, size = [], 0
    data = obj.get("data") or {}
    for key, value in data.items():
        causes += [invalid_value(f"data[{key}]", key, message) for message in is_config_map_key(key)]
        try:
            size += len(base64.b64decode(value or "", validate=True))
        except (binascii.Error, ValueError):
            causes.append(type_invalid(f"data[{key}]", value, "illegal base64 data"))
    if size > MAX_DATA_BYTES:
        causes.append(too_long("data", MAX_DATA_BYTES))
    kind = obj.get("type", "")
    causes += [required_value(f"data[{key}]") for key in _REQUIRED_KEYS.get(kind, ()) if key not in data]
    for key in (".dockercfg", ".dockerconfigjson"):
        if key in data and key in _REQUIRED_KEYS.get(kind, ()):
            try:
                strictjson.loads(base64.b64decode(data[key] or ""))
            except (BadRequest, ValueError) as error:
                message = error.message if isinstance(error, BadRequest) else "illegal base64 data"
                causes.append(invalid_value(f"data[{key}]", "<secret contents redacted>", message))
    if kind == "kubernetes.io/basic-auth" and not ("username" in data or "password" in data):
        causes += [required_value("data[username]"), required_value("data[password]")]
    if kind == "kubernetes.io/service-account-token":
        account = (obj["metadata"].get("annotations") or {}).get("kubernetes.io/service-account.name")
        if not account:
            causes.append(required_value("metadata.annotations[kubernetes.io/service-account.name]"))
    if old is not None and kind != old.get("type"):
        causes.append(invalid_value("type", kind, IMMUTABLE_FIELD))
    return causes + _validate_immutable_data(obj, old, ("data",))


def _validate_immutable_data(obj: Object, old: Object | None, fields: tuple[str, ...]) -> list[Cause]:
    if old is None or not old.get("immutable"):
        return []
    causes = []
    if not obj.get("immutable"):
        causes.append(forbidden_field("immutable", IMMUTABLE_DATA))
    causes += [forbidden_field(f, IMMUTABLE_DATA) for f in fields if (obj.get(f) or {}) != (old.get(f) or {})]
    return causes


def default_namespace(obj: Object) -> None:
    """Labels every namespace with its name, so that selectors can select it."""
    metadata = obj["metadata"]
    name = metadata.get("name")
    # An invalid generated name is reported once, not for the label again.
    if name and not (metadata.get("generateName") and is_dns1123_label(name)):
        labels = metadata.get("labels")
        if not isinstance(labels, dict):
            labels = metadata["labels"] = {}
        labels[NAME_LABEL] = name


def prepare_namespace_create(obj: Object) -> None:
    default_namespace(obj)
    finalizers = list((obj.get("spec") or {}).get("finalizers") or ())
    if NAMESPACE_FINALIZER not in finalizers:
        finalizers.append(NAMESPACE_FINALIZER)
    obj["spec"] = {"finalizers": finalizers}
    obj["status"] = {"phase": "Active"}


def prepare_namespace_update(new: Object, old: Object) -> None:
    """Keeps the spec: only /finalize changes the finalizers of a namespace."""
    if "spec" in old:
        new["spec"] = old["spec"]
    else:
        new.pop("spec", None)


def mark_namespace_terminating(obj: Object, now: str) -> None:
    obj.setdefault("status", {})["phase"] = "Terminating"
