"""Validation of container environment variables, and of the downward API references they share with volumes. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from shoal.objects.errors import Cause, invalid_value, not_supported, required_value
from shoal.objects.names import is_config_map_key, is_dns1123_subdomain, is_qualified_name

Object = dict[str, Any]

ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_ALL_FIELDS = frozenset({*ENV_FIELDS, *VOLUME_FIELDS})
_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_SOURCE_REQUIRED = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
)
_NAME_MESSAGE = "a valid environment variable name must consist only of printable ASCII characters other than '='"


def validate_env(variables: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for i, variable in enumerate(variables):
        item_path, name = f"{path}[{i}]", variable.get("name")
        causes += _validate_name(name, f"{item_path}.name") if name else [required_value(f"{item_path}.name")]
        if variable.get("valueFrom") is not None:
            causes += _validate_value_from(variable, f"{item_path}.valueFrom")
    return causes


def validate_env_from(sources: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for i, source in enumerate(sources):
        item_path = f"{path}[{i}]"
        if source.get("prefix"):
            causes += _validate_name(source["prefix"], f"{item_path}.prefix")
        fields = [field for field in ("configMapRef", "secretRef") if source.get(field) is not None]
        for field in fields:
            name = source[field].get("name")
            if not name:
                causes.append(required_value(f"{item_path}.{field}.name"))
            else:
                causes += [invalid_value(f"{item_path}.{field}.name", name, m) for m in is_dns1123_subdomain(name)]
        if not fields:
            causes.append(invalid_value(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(fields) > 1:
            causes.append(invalid_value(path, "", "may not have more than one field specified at a time"))
    return causes


def _validate_name(name: str, path: str) -> list[Cause]:
    fine = name.isascii() and name.isprintable() and "=" not in name
    return [] if fine else [invalid_value(path, name, _NAME_MESSAGE)]


def _validate_value_from(variable: Object, path: str) -> list[Cause]:
    source = variable["valueFrom"]
    fields = [field for field in _SOURCES if source.get(field) is not None]
    causes: list[Cause] = []
    for field in fields:
        reference, field_path = source[field], f"{path}.{field}"
        if field == "fieldRef":
            causes += validate_field_ref(reference, ENV_FIELDS, field_path)
        elif field == "resourceFieldRef":
            causes += validate_resource_field_ref(reference, field_path, volume=False)
        elif field in ("configMapKeyRef", "secretKeyRef"):
            causes += _validate_key_ref(reference, field_path)
    if not fields:
        causes.append(invalid_value(path, "", _SOURCE_REQUIRED))
    elif variable.get("value"):
        causes.append(invalid_value(path, "", "may not be specified when `value` is not empty"))
    elif len(fields) > 1:
        causes.append(invalid_value(path, "", "may not have more than one field specified at a time"))
    return causes


def _validate_key_ref(reference: Object, path: str) -> list[Cause]:
    name, key = reference.get("name") or "", reference.get("key")
    causes = [invalid_value(f"{path}.name", name, message) for message in is_dns1123_subdomain(name)]
    if not key:
        return [*causes, required_value(f"{path}.key")]
    return causes + [invalid_value(f"{path}.key", key, message) for message in is_config_map_key(key)]


def validate_field_ref(reference: Object, allowed: Collection[str], path: str) -> list[Cause]:
    field = reference.get("fieldPath")
    if not field:
        return [required_value(f"{path}.fieldPath")]
    map_path, bracket, key = field.partition("['")
    if bracket and key.endswith("']"):
        key = key[:-2]
        if map_path == "metadata.annotations":
            return [invalid_value(path, key.lower(), message) for message in is_qualified_name(key.lower())]
        if map_path == "metadata.labels":
            return [invalid_value(path, key, message) for message in is_qualified_name(key)]
        return [invalid_value(path, map_path, "does not support subscript")]
    if field not in _ALL_FIELDS:
        said = f"error converting fieldPath: field label not supported: {field}"
        return [invalid_value(f"{path}.fieldPath", field, said)]
    return [] if field in allowed else [not_supported(f"{path}.fieldPath", field, sorted(allowed))]


def validate_resource_field_ref(reference: Object, path: str, *, volume: bool) -> list[Cause]:
    resource = reference.get("resource")
    if volume and not reference.get("containerName"):
        return [required_value(f"{path}.containerName")]
    if not resource:
        return [required_value(f"{path}.resource")]
    if resource in _RESOURCES or resource.startswith(("limits.hugepages-", "requests.hugepages-")):
        return []
    return [not_supported(f"{path}.resource", resource, _RESOURCES)]
