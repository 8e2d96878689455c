"""Validation of the security contexts of a pod and of its containers. Upstream's order and words; pure."""

from __future__ import annotations

import re
from typing import Any

from shoal.kinds.validation.field import validate_enum
from shoal.objects.errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required_value,
    too_long,
)

Object = dict[str, Any]

PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
MAX_SYSCTL_LENGTH = 253
_SYSCTL = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_match_sysctl = re.compile(r"[a-z0-9]+(?:[-_]+[a-z0-9]+)*(?:[./][a-z0-9]+(?:[-_]+[a-z0-9]+)*)*").fullmatch
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_MAX_PROFILE_LENGTH = 4095


def validate_local_descending_path(value: str, path: str) -> list[Cause]:
    causes = [invalid_value(path, value, "must be a relative path")] if value.startswith("/") else []
    return causes + validate_path_no_backsteps(value, path)


def validate_path_no_backsteps(value: str, path: str) -> list[Cause]:
    return [invalid_value(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def validate_ids(context: Object, fields: tuple[str, ...], path: str) -> list[Cause]:
    return [
        cause
        for field in fields
        if context.get(field) is not None
        for cause in _validate_id(context[field], f"{path}.{field}")
    ]


def _validate_id(value: int, path: str) -> list[Cause]:
    fine = 0 <= value < 2**31
    return [] if fine else [invalid_value(path, value, "must be between 0 and 2147483647, inclusive")]


def validate_pod_security_context(context: Object, spec: Object, path: str) -> list[Cause]:
    causes = validate_ids(context, ("fsGroup", "runAsUser", "runAsGroup"), path)
    for i, group in enumerate(context.get("supplementalGroups") or ()):
        causes += _validate_id(group, f"{path}.supplementalGroups[{i}]")
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        causes.append(invalid_value(f"{path}.shareProcessNamespace", True, detail))
    if context.get("sysctls"):
        causes += _validate_sysctls(context["sysctls"], spec, f"{path}.sysctls")
    causes += validate_enum(
        context.get("fsGroupChangePolicy"), f"{path}.fsGroupChangePolicy", "Always", "OnRootMismatch"
    )
    causes += _validate_profiles(context, path)
    causes += validate_enum(
        context.get("supplementalGroupsPolicy"), f"{path}.supplementalGroupsPolicy", "Merge", "Strict"
    )
    return causes + validate_enum(context.get("seLinuxChangePolicy"), f"{path}.seLinuxChangePolicy", "Recursive")


def validate_security_context(context: Object, path: str, *, uses_host_users: bool) -> list[Cause]:
    causes = validate_ids(context, ("runAsUser", "runAsGroup"), path)
    mount = context.get("procMount")
    causes += validate_enum(mount, f"{path}.procMount", "Default", "Unmasked")
    if uses_host_users and mount == "Unmasked":
        causes.append(invalid_value(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    causes += _validate_seccomp_profile(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            causes.append(invalid_value(path, context, detail))
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            causes.append(invalid_value(path, context, detail))
    return causes + _validate_app_armor_profile(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def _validate_sysctls(sysctls: list[Object], spec: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for i, sysctl in enumerate(sysctls):
        field_path, name = f"{path}[{i}].name", sysctl.get("name") or ""
        if not name:
            causes.append(required_value(field_path))
        elif len(name) > MAX_SYSCTL_LENGTH or not _match_sysctl(name):
            detail = f"must have at most {MAX_SYSCTL_LENGTH} characters and match regex {_SYSCTL}"
            causes.append(invalid_value(field_path, name, detail))
        elif name in seen:
            causes.append(duplicate(field_path, name))
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            causes.append(invalid_value(field_path, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and (dotted.startswith(_IPC_SYSCTLS) or dotted == "kernel.sem"):
            causes.append(invalid_value(field_path, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)
    return causes


def _validate_profiles(context: Object, path: str) -> list[Cause]:
    causes = _validate_seccomp_profile(context.get("seccompProfile"), f"{path}.seccompProfile")
    return causes + _validate_app_armor_profile(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def _validate_seccomp_profile(profile: Object | None, path: str) -> list[Cause]:
    if profile is None:
        return []
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    causes = validate_enum(kind, f"{path}.type", *PROFILES)
    if not kind:
        causes = [required_value(f"{path}.type", "type is required when seccompProfile is set")]
    field_path = f"{path}.localhostProfile"
    if kind == "Localhost":
        missing = [required_value(field_path, "must be set when seccomp type is Localhost")]
        return causes + (missing if local is None else validate_local_descending_path(local, field_path))
    if local is not None:
        causes.append(invalid_value(field_path, profile, "can only be set when seccomp type is Localhost"))
    return causes


def _validate_app_armor_profile(profile: Object | None, path: str) -> list[Cause]:
    if profile is None:
        return []
    kind, local, field_path = profile.get("type") or "", profile.get("localhostProfile"), f"{path}.localhostProfile"
    if not kind:
        return [required_value(f"{path}.type", "type is required when appArmorProfile is set")]
    if kind not in PROFILES:
        return [not_supported(f"{path}.type", kind, PROFILES)]
    if kind != "Localhost":
        return (
            []
            if local is None
            else [invalid_value(field_path, local, "can only be set when AppArmor type is Localhost")]
        )
    if local is None or not local:
        return [required_value(field_path, "must be set when AppArmor type is Localhost")]
    causes = [invalid_value(field_path, local, "must not be padded with whitespace")] if local != local.strip() else []
    return causes + ([too_long(field_path, _MAX_PROFILE_LENGTH)] if len(local) > _MAX_PROFILE_LENGTH else [])


def validate_host_users(spec: Object, path: str) -> list[Cause]:
    """Rejects other host namespaces when `hostUsers` is false."""
    if spec.get("hostUsers") is not False:
        return []
    detail = "when `hostUsers` is false"
    fields = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    causes = [forbidden_field(f"{path}.{path_name}", detail) for field, path_name in fields if spec.get(field)]
    return causes + [
        forbidden_field(f"{path}.{field}[{i}].volumeDevices", detail)
        for field in ("initContainers", "containers", "ephemeralContainers")
        for i, container in enumerate(spec.get(field) or ())
        if container.get("volumeDevices")
    ]
