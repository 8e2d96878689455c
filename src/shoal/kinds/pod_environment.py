"""Validation of container environment variables, and of the downward API references they share with volumes. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from shoal.objects.errors import Cause, invalid_value, not_supported, required
from shoal.objects.names import is_config_map_key, is_dns1123_subdomain, is_qualified_name

Object = dict[str, Any]

ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_KNOWN_FIELDS = frozenset({*ENV_FIELDS, *VOLUME_FIELDS})
_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_OF = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_NAME_SAID = "a valid environment variable name must consist only of printable ASCII characters other than '='"


def validate_env(variables: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for i, variable in enumerate(variables):
        at, name = f"{path}[{i}]", variable.get("name")
        causes += _name(name, f"{at}.name") if name else [required(f"{at}.name")]
        if variable.get("valueFrom") is not None:
            causes += _value_from(variable, f"{at}.valueFrom")
    return causes


def validate_env_from(sources: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for i, source in enumerate(sources):
        at = f"{path}[{i}]"
        if source.get("prefix"):
            causes += _name(source["prefix"], f"{at}.prefix")
        chosen = [field for field in ("configMapRef", "secretRef") if source.get(field) is not None]
        for field in chosen:
            name = source[field].get("name")
            if not name:
                causes.append(required(f"{at}.{field}.name"))
            else:
                causes += [invalid_value(f"{at}.{field}.name", name, m) for m in is_dns1123_subdomain(name)]
        if not chosen:
            causes.append(invalid_value(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(chosen) > 1:
            causes.append(invalid_value(path, "", "may not have more than one field specified at a time"))
    return causes


def _name(name: str, path: str) -> list[Cause]:
    fine = name.isascii() and name.isprintable() and "=" not in name
    return [] if fine else [invalid_value(path, name, _NAME_SAID)]


def _value_from(variable: Object, path: str) -> list[Cause]:
    source = variable["valueFrom"]
    chosen = [field for field in _SOURCES if source.get(field) is not None]
    causes: list[Cause] = []
    for field in chosen:
        reference, at = source[field], f"{path}.{field}"
        if field == "fieldRef":
            causes += field_reference(reference, ENV_FIELDS, at)
        elif field == "resourceFieldRef":
            causes += resource_reference(reference, at, volume=False)
        elif field in ("configMapKeyRef", "secretKeyRef"):
            causes += _key(reference, at)
    if not chosen:
        causes.append(invalid_value(path, "", _ONE_OF))
    elif variable.get("value"):
        causes.append(invalid_value(path, "", "may not be specified when `value` is not empty"))
    elif len(chosen) > 1:
        causes.append(invalid_value(path, "", "may not have more than one field specified at a time"))
    return causes


def _key(reference: Object, path: str) -> list[Cause]:
    name, key = reference.get("name") or "", reference.get("key")
    causes = [invalid_value(f"{path}.name", name, message) for message in is_dns1123_subdomain(name)]
    if not key:
        return [*causes, required(f"{path}.key")]
    return causes + [invalid_value(f"{path}.key", key, message) for message in is_config_map_key(key)]


def field_reference(reference: Object, allowed: Collection[str], path: str) -> list[Cause]:
    field = reference.get("fieldPath")
    if not field:
        return [required(f"{path}.fieldPath")]
    outer, bracket, key = field.partition("['")
    if bracket and key.endswith("']"):
        key = key[:-2]
        if outer == "metadata.annotations":
            return [invalid_value(path, key.lower(), message) for message in is_qualified_name(key.lower())]
        if outer == "metadata.labels":
            return [invalid_value(path, key, message) for message in is_qualified_name(key)]
        return [invalid_value(path, outer, "does not support subscript")]
    if field not in _KNOWN_FIELDS:
        said = f"error converting fieldPath: field label not supported: {field}"
        return [invalid_value(f"{path}.fieldPath", field, said)]
    return [] if field in allowed else [not_supported(f"{path}.fieldPath", field, sorted(allowed))]


def resource_reference(reference: Object, path: str, *, volume: bool) -> list[Cause]:
    resource = reference.get("resource")
    if volume and not reference.get("containerName"):
        return [required(f"{path}.containerName")]
    if not resource:
        return [required(f"{path}.resource")]
    if resource in _RESOURCES or resource.startswith(("limits.hugepages-", "requests.hugepages-")):
        return []
    return [not_supported(f"{path}.resource", resource, _RESOURCES)]
