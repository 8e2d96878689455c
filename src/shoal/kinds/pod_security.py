"""Validation of the security contexts of a pod and of its containers. Upstream's order and words; pure."""

from __future__ import annotations

import re
from typing import Any

from shoal.kinds.checks import one_of
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, not_supported, required, too_long

Object = dict[str, Any]

PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
SYSCTL_LENGTH = 253
_SYSCTL = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_match_sysctl = re.compile(_SYSCTL).match
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_PATH_LENGTH = 4095


def descending_path(value: str, path: str) -> list[Cause]:
    causes = [invalid_value(path, value, "must be a relative path")] if value.startswith("/") else []
    return causes + no_backsteps(value, path)


def no_backsteps(value: str, path: str) -> list[Cause]:
    return [invalid_value(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def user_ids(context: Object, fields: tuple[str, ...], path: str) -> list[Cause]:
    return [
        cause for field in fields if context.get(field) is not None for cause in _id(context[field], f"{path}.{field}")
    ]


def _id(value: int, path: str) -> list[Cause]:
    fine = 0 <= value < 2**31
    return [] if fine else [invalid_value(path, value, "must be between 0 and 2147483647, inclusive")]


def pod_security(context: Object, spec: Object, path: str) -> list[Cause]:
    causes = user_ids(context, ("fsGroup", "runAsUser", "runAsGroup"), path)
    for i, group in enumerate(context.get("supplementalGroups") or ()):
        causes += _id(group, f"{path}.supplementalGroups[{i}]")
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        causes.append(invalid_value(f"{path}.shareProcessNamespace", True, why))
    if context.get("sysctls"):
        causes += _sysctls(context["sysctls"], spec, f"{path}.sysctls")
    causes += one_of(context.get("fsGroupChangePolicy"), f"{path}.fsGroupChangePolicy", "Always", "OnRootMismatch")
    causes += _profiles(context, path)
    causes += one_of(context.get("supplementalGroupsPolicy"), f"{path}.supplementalGroupsPolicy", "Merge", "Strict")
    return causes + one_of(context.get("seLinuxChangePolicy"), f"{path}.seLinuxChangePolicy", "Recursive")


def container_security(context: Object, path: str, *, host_users: bool) -> list[Cause]:
    causes = user_ids(context, ("runAsUser", "runAsGroup"), path)
    mount = context.get("procMount")
    causes += one_of(mount, f"{path}.procMount", "Default", "Unmasked")
    if host_users and mount == "Unmasked":
        causes.append(invalid_value(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    causes += _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            causes.append(invalid_value(path, context, why))
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            causes.append(invalid_value(path, context, why))
    return causes + _apparmor(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def _sysctls(sysctls: list[Object], spec: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for i, sysctl in enumerate(sysctls):
        at, name = f"{path}[{i}].name", sysctl.get("name") or ""
        if not name:
            causes.append(required(at))
        elif len(name) > SYSCTL_LENGTH or not _match_sysctl(name):
            why = f"must have at most {SYSCTL_LENGTH} characters and match regex {_SYSCTL}"
            causes.append(invalid_value(at, name, why))
        elif name in seen:
            causes.append(duplicate(at, name))
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            causes.append(invalid_value(at, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and (dotted.startswith(_IPC_SYSCTLS) or dotted == "kernel.sem"):
            causes.append(invalid_value(at, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)
    return causes


def _profiles(context: Object, path: str) -> list[Cause]:
    causes = _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    return causes + _apparmor(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def _seccomp(profile: Object | None, path: str) -> list[Cause]:
    if profile is None:
        return []
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    causes = one_of(kind, f"{path}.type", *PROFILES)
    if not kind:
        causes = [required(f"{path}.type", "type is required when seccompProfile is set")]
    at = f"{path}.localhostProfile"
    if kind == "Localhost":
        missing = [required(at, "must be set when seccomp type is Localhost")]
        return causes + (missing if local is None else descending_path(local, at))
    if local is not None:
        causes.append(invalid_value(at, profile, "can only be set when seccomp type is Localhost"))
    return causes


def _apparmor(profile: Object | None, path: str) -> list[Cause]:
    if profile is None:
        return []
    kind, local, at = profile.get("type") or "", profile.get("localhostProfile"), f"{path}.localhostProfile"
    if not kind:
        return [required(f"{path}.type", "type is required when appArmorProfile is set")]
    if kind not in PROFILES:
        return [not_supported(f"{path}.type", kind, PROFILES)]
    if kind != "Localhost":
        return [] if local is None else [invalid_value(at, local, "can only be set when AppArmor type is Localhost")]
    if local is None or not local:
        return [required(at, "must be set when AppArmor type is Localhost")]
    causes = [invalid_value(at, local, "must not be padded with whitespace")] if local != local.strip() else []
    return causes + ([too_long(at, _PATH_LENGTH)] if len(local) > _PATH_LENGTH else [])


def host_users(spec: Object, path: str) -> list[Cause]:
    """Rejects other host namespaces when `hostUsers` is false."""
    if spec.get("hostUsers") is not False:
        return []
    why = "when `hostUsers` is false"
    named = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    causes = [forbidden_field(f"{path}.{said}", why) for field, said in named if spec.get(field)]
    return causes + [
        forbidden_field(f"{path}.{field}[{i}].volumeDevices", why)
        for field in ("initContainers", "containers", "ephemeralContainers")
        for i, container in enumerate(spec.get(field) or ())
        if container.get("volumeDevices")
    ]
