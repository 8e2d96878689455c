"""Validation of the containers of a pod spec: names, ports, environment, mounts, probes. Upstream's words; pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from shoal.kinds.core.pod.environment import validate_env, validate_env_from
from shoal.kinds.core.pod.restarts import validate_init_resize_policy, validate_resize_policy, validate_restart_policy
from shoal.kinds.core.security_context import validate_local_descending_path, validate_security_context
from shoal.kinds.validation.field import NOT_NEGATIVE, invalid_causes, is_port_name, validate_enum, validate_port_number
from shoal.kinds.validation.resource_list import validate_resource_requirements
from shoal.objects.errors import (
    Cause,
    duplicate,
    forbidden_field,
    format_value,
    invalid_value,
    not_supported,
    required_value,
)
from shoal.objects.names import is_dns1123_label

Object = dict[str, Any]
VolumesByName = dict[str, Object]

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
PROTOCOLS = ("SCTP", "TCP", "UDP")
NO_INIT_HOOKS = "may not be set for init containers without restartPolicy=Always"
NOT_FOR_EPHEMERAL = "cannot be set for an Ephemeral Container"

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_EPHEMERAL_FIELDS = frozenset({
    "name", "image", "command", "args", "workingDir", "envFrom", "env", "volumeMounts", "volumeDevices",
    "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "securityContext", "stdin",
    "stdinOnce", "tty", "targetContainerName",
})  # fmt: skip


def not_found(path: str, value: object) -> Cause:
    return Cause("FieldValueNotFound", f"{path}: Not found: {format_value(value)}", path)


def validate_containers(spec: Object, volumes: VolumesByName, path: str) -> list[Cause]:
    """Validates all three container lists of a spec. `path` is the spec's."""
    containers = spec.get("containers") or []
    grace = spec.get("terminationGracePeriodSeconds")
    causes: list[Cause] = [] if containers else [required_value(f"{path}.containers")]
    names: set[str] = set()
    for i, container in enumerate(containers):
        item_path = f"{path}.containers[{i}]"
        causes += _validate_container(container, spec, volumes, item_path)
        causes += _validate_unique_name(container, names, item_path)
        causes += _validate_hooks_and_probes(container, grace, item_path)
        if container.get("restartPolicy") is not None or container.get("restartPolicyRules"):
            causes += validate_restart_policy(container, item_path)
    causes += _validate_host_ports(containers, f"{path}.containers")
    for i, container in enumerate(spec.get("initContainers") or ()):
        item_path = f"{path}.initContainers[{i}]"
        causes += _validate_container(container, spec, volumes, item_path)
        causes += validate_restart_policy(container, item_path, init=True)
        causes += _validate_unique_name(container, names, item_path)
        causes += _validate_host_ports([container], f"{path}.initContainers")
        if container.get("restartPolicy") == "Always":
            causes += _validate_hooks_and_probes(container, grace, item_path)
        else:
            hooks = [f for f in ("lifecycle", *_PROBES) if container.get(f) is not None]
            causes += [forbidden_field(f"{item_path}.{f}", NO_INIT_HOOKS) for f in hooks] + validate_init_resize_policy(
                container, item_path
            )
    others = frozenset(names)
    for i, container in enumerate(spec.get("ephemeralContainers") or ()):
        causes += _validate_ephemeral(container, spec, volumes, names, others, f"{path}.ephemeralContainers[{i}]")
    return causes


def validate_image_whitespace(spec: Object, path: str) -> list[Cause]:
    """Applies to pods only: templates have been allowed padded images for too long."""
    return [
        cause
        for field in ("containers", "initContainers")
        for i, container in enumerate(spec.get(field) or ())
        for cause in _validate_image(container, f"{path}.{field}[{i}]")
    ]


def _validate_image(container: Object, path: str) -> list[Cause]:
    image = container.get("image") or ""
    padded = "must not have leading or trailing whitespace"
    return [] if image == image.strip() else [invalid_value(f"{path}.image", image, padded)]


def _validate_container(container: Object, spec: Object, volumes: VolumesByName, path: str) -> list[Cause]:
    name = container.get("name")
    causes = invalid_causes(f"{path}.name", name, is_dns1123_label(name)) if name else [required_value(f"{path}.name")]
    if not container.get("image"):
        causes.append(required_value(f"{path}.image"))
    policy = container.get("terminationMessagePolicy")
    if policy not in ("File", "FallbackToLogsOnError"):
        causes.append(
            not_supported(f"{path}.terminationMessagePolicy", policy or "", ["File", "FallbackToLogsOnError"])
        )
    if container.get("ports"):
        causes += _validate_ports(container["ports"], f"{path}.ports")
    if container.get("env"):
        causes += validate_env(container["env"], f"{path}.env")
    if container.get("envFrom"):
        causes += validate_env_from(container["envFrom"], f"{path}.envFrom")
    mounts, devices = container.get("volumeMounts") or (), container.get("volumeDevices") or ()
    if mounts:
        causes += _validate_mounts(container, devices, volumes, f"{path}.volumeMounts")
    causes += _validate_devices(devices, mounts, volumes, f"{path}.volumeDevices")
    if container.get("imagePullPolicy") not in PULL_POLICIES:
        causes.append(not_supported(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), PULL_POLICIES))
    if container.get("resources"):
        causes += validate_resource_requirements(container["resources"], f"{path}.resources")
    if container.get("resizePolicy"):
        causes += validate_resize_policy(container["resizePolicy"], spec.get("restartPolicy"), f"{path}.resizePolicy")
    if container.get("securityContext"):
        users = spec.get("hostUsers") is not False
        causes += validate_security_context(
            container["securityContext"], f"{path}.securityContext", uses_host_users=users
        )
    return causes


def _validate_unique_name(container: Object, names: set[str], path: str) -> list[Cause]:
    name = container.get("name") or ""
    if name in names:
        return [duplicate(f"{path}.name", name)]
    if name:
        names.add(name)
    return []


def _validate_ephemeral(
    container: Object, spec: Object, volumes: VolumesByName, names: set[str], others: Collection[str], path: str
) -> list[Cause]:
    causes = (
        _validate_container(container, spec, volumes, path)
        + _validate_image(container, path)
        + _validate_unique_name(container, names, path)
    )
    target = container.get("targetContainerName")
    if target and target not in others:
        causes.append(not_found(f"{path}.targetContainerName", target))
    causes += [
        forbidden_field(f"{path}.{f}", NOT_FOR_EPHEMERAL)
        for f, v in container.items()
        if v and f not in _EPHEMERAL_FIELDS
    ]
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                causes.append(forbidden_field(f"{path}.volumeMounts[{i}].{field}", NOT_FOR_EPHEMERAL))
    return causes


def _validate_ports(ports: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    for i, port in enumerate(ports):
        item_path, name = f"{path}[{i}]", port.get("name")
        if name:
            name_causes = invalid_causes(f"{item_path}.name", name, is_port_name(name))
            causes += name_causes or ([duplicate(f"{item_path}.name", name)] if name in names else [])
            names.add(name)
        if not port.get("containerPort"):
            causes.append(required_value(f"{item_path}.containerPort"))
        else:
            causes += validate_port_number(port["containerPort"], f"{item_path}.containerPort")
        if port.get("hostPort"):
            causes += validate_port_number(port["hostPort"], f"{item_path}.hostPort")
        if port.get("protocol") not in PROTOCOLS:
            causes.append(not_supported(f"{item_path}.protocol", port.get("protocol") or "", PROTOCOLS))
    return causes


def _validate_host_ports(containers: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if key in seen:
                    causes.append(duplicate(f"{path}[{i}].ports[{j}].hostPort", key))
                seen.add(key)
    return causes


def _validate_mounts(container: Object, devices: Collection[Object], volumes: VolumesByName, path: str) -> list[Cause]:
    causes: list[Cause] = []
    device_names, device_paths = (
        {device.get("name") for device in devices},
        {device.get("devicePath") for device in devices},
    )
    privileged = (container.get("securityContext") or {}).get("privileged")
    points: set[str] = set()
    for i, mount in enumerate(container["volumeMounts"]):
        item_path, name, point = f"{path}[{i}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            causes.append(required_value(f"{item_path}.name"))
        if name not in volumes:
            causes.append(not_found(f"{item_path}.name", name))
        if not point:
            causes.append(required_value(f"{item_path}.mountPath"))
        if point in points:
            causes.append(invalid_value(f"{item_path}.mountPath", point, "must be unique"))
        points.add(point)
        if name in device_names:
            causes.append(invalid_value(f"{item_path}.name", name, "must not already exist in volumeDevices"))
        if point and point in device_paths:
            detail = "must not already exist as a path in volumeDevices"
            causes.append(invalid_value(f"{item_path}.mountPath", point, detail))
        if mount.get("subPath"):
            causes += validate_local_descending_path(mount["subPath"], f"{path}.subPath")
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                both = "subPathExpr and subPath are mutually exclusive"
                causes.append(invalid_value(f"{item_path}.subPathExpr", mount["subPathExpr"], both))
            causes += validate_local_descending_path(mount["subPathExpr"], f"{path}.subPathExpr")
        causes += _validate_propagation(mount, path, privileged=bool(privileged))
    return causes


def _validate_propagation(mount: Object, path: str, *, privileged: bool) -> list[Cause]:
    """Upstream's path names the list, not the mount."""
    propagation, recursive_read_only = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    causes = validate_enum(propagation, f"{path}.mountPropagation", "Bidirectional", "HostToContainer", "None")
    if propagation == "Bidirectional" and not privileged:
        detail = "Bidirectional mount propagation is available only to privileged containers"
        causes.append(forbidden_field(f"{path}.mountPropagation", detail))
    field_path = f"{path}.recursiveReadOnly"
    if recursive_read_only in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            causes.append(forbidden_field(field_path, "may only be specified when readOnly is true"))
        if propagation not in (None, "None"):
            causes.append(
                forbidden_field(field_path, "may only be specified when mountPropagation is None or not specified")
            )
    return causes + validate_enum(recursive_read_only, field_path, "Disabled", "Enabled", "IfPossible")


def _validate_devices(
    devices: Collection[Object], mounts: Collection[Object], volumes: VolumesByName, path: str
) -> list[Cause]:
    causes: list[Cause] = []
    mount_names = {mount.get("name") for mount in mounts}
    for i, device in enumerate(devices):
        item_path, name = f"{path}[{i}]", device.get("name") or ""
        if not name:
            causes.append(required_value(f"{item_path}.name"))
        if name not in volumes:
            causes.append(not_found(f"{item_path}.name", name))
        elif not volumes[name].keys() & {"persistentVolumeClaim", "ephemeral"}:
            only = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            causes.append(invalid_value(f"{item_path}.name", name, only))
        if not device.get("devicePath"):
            causes.append(required_value(f"{item_path}.devicePath"))
        if name in mount_names:
            causes.append(invalid_value(f"{item_path}.name", name, "must not already exist in volumeMounts"))
    return causes


def _validate_hooks_and_probes(container: Object, grace: int | None, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("postStart", "preStop"):
        hook = (container.get("lifecycle") or {}).get(field)
        if hook is not None:
            causes += _validate_handler(hook, grace, f"{path}.lifecycle.{field}")
    for field in _PROBES:
        probe = container.get(field)
        if probe is not None:
            causes += _validate_probe(probe, grace, f"{path}.{field}", readiness=field == "readinessProbe")
    return causes


def _validate_probe(probe: Object, grace: int | None, path: str, *, readiness: bool) -> list[Cause]:
    causes = _validate_handler(probe, grace, path)
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        if probe.get(field, 0) < 0:
            causes.append(invalid_value(f"{path}.{field}", probe[field], NOT_NEGATIVE))
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        causes.append(invalid_value(f"{path}.terminationGracePeriodSeconds", seconds, "must be greater than 0"))
    if readiness and seconds is not None:
        detail = "must not be set for readinessProbes"
        causes.append(invalid_value(f"{path}.terminationGracePeriodSeconds", seconds, detail))
    if not readiness and probe.get("successThreshold") != 1:
        causes.append(invalid_value(f"{path}.successThreshold", probe.get("successThreshold"), "must be 1"))
    return causes


def _validate_handler(handler: Object, grace: int | None, path: str) -> list[Cause]:
    kinds = [kind for kind in _HANDLERS if handler.get(kind) is not None]
    if not kinds:
        return [required_value(path, "must specify a handler type")]
    kind = kinds[0]
    causes = _validate_action(kind, handler[kind], grace, f"{path}.{kind}")
    return causes + [forbidden_field(f"{path}.{k}", "may not specify more than 1 handler type") for k in kinds[1:]]


def _validate_action(kind: str, action: Object, grace: int | None, path: str) -> list[Cause]:
    if kind == "exec":
        return [] if action.get("command") else [required_value(f"{path}.command")]
    if kind == "sleep":
        seconds = action.get("seconds", 0)
        if grace is None or 0 <= seconds <= grace:
            return []
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        return [invalid_value(path, seconds, detail)]
    port = action.get("port", 0)
    causes = invalid_causes(f"{path}.port", port, is_port_name(port)) if isinstance(port, str) else []
    if not isinstance(port, str):
        causes = validate_port_number(port, f"{path}.port")
    if kind == "httpGet" and action.get("scheme") not in ("HTTP", "HTTPS"):
        causes.append(not_supported(f"{path}.scheme", action.get("scheme"), ["HTTP", "HTTPS"]))
    return causes
