"""Validation of the containers of a pod spec: names, ports, environment, mounts, probes. Upstream's words; pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from shoal.kinds.checks import NOT_NEGATIVE, is_port_name, one_of, port_number, said
from shoal.kinds.pod_environment import validate_env, validate_env_from
from shoal.kinds.pod_restarts import no_restart_by_resize, resize_policy, restart_policy
from shoal.kinds.pod_security import container_security, descending_path
from shoal.kinds.resources import validate_requirements
from shoal.objects.errors import Cause, duplicate, forbidden_field, invalid_value, not_supported, required, show
from shoal.objects.names import is_dns1123_label

Object = dict[str, Any]
Volumes = dict[str, Object]

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
PROTOCOLS = ("SCTP", "TCP", "UDP")
NO_HOOKS = "may not be set for init containers without restartPolicy=Always"
NOT_EPHEMERAL = "cannot be set for an Ephemeral Container"

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_EPHEMERAL = frozenset({
    "name", "image", "command", "args", "workingDir", "envFrom", "env", "volumeMounts", "volumeDevices",
    "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "securityContext", "stdin",
    "stdinOnce", "tty", "targetContainerName",
})  # fmt: skip


def not_found(path: str, value: object) -> Cause:
    return Cause("FieldValueNotFound", f"{path}: Not found: {show(value)}", path)


def validate_containers(spec: Object, volumes: Volumes, path: str) -> list[Cause]:
    """Validates all three container lists of a spec. `path` is the spec's."""
    regular = spec.get("containers") or []
    grace = spec.get("terminationGracePeriodSeconds")
    causes: list[Cause] = [] if regular else [required(f"{path}.containers")]
    names: set[str] = set()
    for i, container in enumerate(regular):
        at = f"{path}.containers[{i}]"
        causes += _common(container, spec, volumes, at)
        causes += _unique(container, names, at)
        causes += _hooks_and_probes(container, grace, at)
        if container.get("restartPolicy") is not None or container.get("restartPolicyRules"):
            causes += restart_policy(container, at)
    causes += _host_ports(regular, f"{path}.containers")
    for i, container in enumerate(spec.get("initContainers") or ()):
        at = f"{path}.initContainers[{i}]"
        causes += _common(container, spec, volumes, at)
        causes += restart_policy(container, at, init=True)
        causes += _unique(container, names, at)
        causes += _host_ports([container], f"{path}.initContainers")
        if container.get("restartPolicy") == "Always":
            causes += _hooks_and_probes(container, grace, at)
        else:
            hooks = [f for f in ("lifecycle", *_PROBES) if container.get(f) is not None]
            causes += [forbidden_field(f"{at}.{f}", NO_HOOKS) for f in hooks] + no_restart_by_resize(container, at)
    others = frozenset(names)
    for i, container in enumerate(spec.get("ephemeralContainers") or ()):
        causes += _ephemeral(container, spec, volumes, names, others, f"{path}.ephemeralContainers[{i}]")
    return causes


def trimmed_images(spec: Object, path: str) -> list[Cause]:
    """Applies to pods only: templates have been allowed padded images for too long."""
    return [
        cause
        for field in ("containers", "initContainers")
        for i, container in enumerate(spec.get(field) or ())
        for cause in _trimmed(container, f"{path}.{field}[{i}]")
    ]


def _trimmed(container: Object, path: str) -> list[Cause]:
    image = container.get("image") or ""
    padded = "must not have leading or trailing whitespace"
    return [] if image == image.strip() else [invalid_value(f"{path}.image", image, padded)]


def _common(container: Object, spec: Object, volumes: Volumes, path: str) -> list[Cause]:
    name = container.get("name")
    causes = said(f"{path}.name", name, is_dns1123_label(name)) if name else [required(f"{path}.name")]
    if not container.get("image"):
        causes.append(required(f"{path}.image"))
    policy = container.get("terminationMessagePolicy")
    if policy not in ("File", "FallbackToLogsOnError"):
        causes.append(
            not_supported(f"{path}.terminationMessagePolicy", policy or "", ["File", "FallbackToLogsOnError"])
        )
    if container.get("ports"):
        causes += _ports(container["ports"], f"{path}.ports")
    if container.get("env"):
        causes += validate_env(container["env"], f"{path}.env")
    if container.get("envFrom"):
        causes += validate_env_from(container["envFrom"], f"{path}.envFrom")
    mounts, devices = container.get("volumeMounts") or (), container.get("volumeDevices") or ()
    if mounts:
        causes += _mounts(container, devices, volumes, f"{path}.volumeMounts")
    causes += _devices(devices, mounts, volumes, f"{path}.volumeDevices")
    if container.get("imagePullPolicy") not in PULL_POLICIES:
        causes.append(not_supported(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), PULL_POLICIES))
    if container.get("resources"):
        causes += validate_requirements(container["resources"], f"{path}.resources")
    if container.get("resizePolicy"):
        causes += resize_policy(container["resizePolicy"], spec.get("restartPolicy"), f"{path}.resizePolicy")
    if container.get("securityContext"):
        users = spec.get("hostUsers") is not False
        causes += container_security(container["securityContext"], f"{path}.securityContext", host_users=users)
    return causes


def _unique(container: Object, names: set[str], path: str) -> list[Cause]:
    name = container.get("name") or ""
    if name in names:
        return [duplicate(f"{path}.name", name)]
    if name:
        names.add(name)
    return []


def _ephemeral(
    container: Object, spec: Object, volumes: Volumes, names: set[str], others: Collection[str], path: str
) -> list[Cause]:
    causes = _common(container, spec, volumes, path) + _trimmed(container, path) + _unique(container, names, path)
    target = container.get("targetContainerName")
    if target and target not in others:
        causes.append(not_found(f"{path}.targetContainerName", target))
    causes += [forbidden_field(f"{path}.{f}", NOT_EPHEMERAL) for f, v in container.items() if v and f not in _EPHEMERAL]
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                causes.append(forbidden_field(f"{path}.volumeMounts[{i}].{field}", NOT_EPHEMERAL))
    return causes


def _ports(ports: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    for i, port in enumerate(ports):
        at, name = f"{path}[{i}]", port.get("name")
        if name:
            wrong = said(f"{at}.name", name, is_port_name(name))
            causes += wrong or ([duplicate(f"{at}.name", name)] if name in names else [])
            names.add(name)
        if not port.get("containerPort"):
            causes.append(required(f"{at}.containerPort"))
        else:
            causes += port_number(port["containerPort"], f"{at}.containerPort")
        if port.get("hostPort"):
            causes += port_number(port["hostPort"], f"{at}.hostPort")
        if port.get("protocol") not in PROTOCOLS:
            causes.append(not_supported(f"{at}.protocol", port.get("protocol") or "", PROTOCOLS))
    return causes


def _host_ports(containers: list[Object], path: str) -> list[Cause]:
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


def _mounts(container: Object, devices: Collection[Object], volumes: Volumes, path: str) -> list[Cause]:
    causes: list[Cause] = []
    taken, places = {device.get("name") for device in devices}, {device.get("devicePath") for device in devices}
    privileged = (container.get("securityContext") or {}).get("privileged")
    points: set[str] = set()
    for i, mount in enumerate(container["volumeMounts"]):
        at, name, point = f"{path}[{i}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            causes.append(required(f"{at}.name"))
        if name not in volumes:
            causes.append(not_found(f"{at}.name", name))
        if not point:
            causes.append(required(f"{at}.mountPath"))
        if point in points:
            causes.append(invalid_value(f"{at}.mountPath", point, "must be unique"))
        points.add(point)
        if name in taken:
            causes.append(invalid_value(f"{at}.name", name, "must not already exist in volumeDevices"))
        if point and point in places:
            why = "must not already exist as a path in volumeDevices"
            causes.append(invalid_value(f"{at}.mountPath", point, why))
        if mount.get("subPath"):
            causes += descending_path(mount["subPath"], f"{path}.subPath")
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                both = "subPathExpr and subPath are mutually exclusive"
                causes.append(invalid_value(f"{at}.subPathExpr", mount["subPathExpr"], both))
            causes += descending_path(mount["subPathExpr"], f"{path}.subPathExpr")
        causes += _propagation(mount, path, privileged=bool(privileged))
    return causes


def _propagation(mount: Object, path: str, *, privileged: bool) -> list[Cause]:
    """Upstream's path names the list, not the mount."""
    how, deep = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    causes = one_of(how, f"{path}.mountPropagation", "Bidirectional", "HostToContainer", "None")
    if how == "Bidirectional" and not privileged:
        why = "Bidirectional mount propagation is available only to privileged containers"
        causes.append(forbidden_field(f"{path}.mountPropagation", why))
    at = f"{path}.recursiveReadOnly"
    if deep in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            causes.append(forbidden_field(at, "may only be specified when readOnly is true"))
        if how not in (None, "None"):
            causes.append(forbidden_field(at, "may only be specified when mountPropagation is None or not specified"))
    return causes + one_of(deep, at, "Disabled", "Enabled", "IfPossible")


def _devices(devices: Collection[Object], mounts: Collection[Object], volumes: Volumes, path: str) -> list[Cause]:
    causes: list[Cause] = []
    taken = {mount.get("name") for mount in mounts}
    for i, device in enumerate(devices):
        at, name = f"{path}[{i}]", device.get("name") or ""
        if not name:
            causes.append(required(f"{at}.name"))
        if name not in volumes:
            causes.append(not_found(f"{at}.name", name))
        elif not volumes[name].keys() & {"persistentVolumeClaim", "ephemeral"}:
            only = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            causes.append(invalid_value(f"{at}.name", name, only))
        if not device.get("devicePath"):
            causes.append(required(f"{at}.devicePath"))
        if name in taken:
            causes.append(invalid_value(f"{at}.name", name, "must not already exist in volumeMounts"))
    return causes


def _hooks_and_probes(container: Object, grace: int | None, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("postStart", "preStop"):
        hook = (container.get("lifecycle") or {}).get(field)
        if hook is not None:
            causes += _handler(hook, grace, f"{path}.lifecycle.{field}")
    for field in _PROBES:
        probe = container.get(field)
        if probe is not None:
            causes += _probe(probe, grace, f"{path}.{field}", readiness=field == "readinessProbe")
    return causes


def _probe(probe: Object, grace: int | None, path: str, *, readiness: bool) -> list[Cause]:
    causes = _handler(probe, grace, path)
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        if probe.get(field, 0) < 0:
            causes.append(invalid_value(f"{path}.{field}", probe[field], NOT_NEGATIVE))
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        causes.append(invalid_value(f"{path}.terminationGracePeriodSeconds", seconds, "must be greater than 0"))
    if readiness and seconds is not None:
        why = "must not be set for readinessProbes"
        causes.append(invalid_value(f"{path}.terminationGracePeriodSeconds", seconds, why))
    if not readiness and probe.get("successThreshold") != 1:
        causes.append(invalid_value(f"{path}.successThreshold", probe.get("successThreshold"), "must be 1"))
    return causes


def _handler(handler: Object, grace: int | None, path: str) -> list[Cause]:
    chosen = [kind for kind in _HANDLERS if handler.get(kind) is not None]
    if not chosen:
        return [required(path, "must specify a handler type")]
    kind = chosen[0]
    causes = _action(kind, handler[kind], grace, f"{path}.{kind}")
    return causes + [forbidden_field(f"{path}.{k}", "may not specify more than 1 handler type") for k in chosen[1:]]


def _action(kind: str, action: Object, grace: int | None, path: str) -> list[Cause]:
    if kind == "exec":
        return [] if action.get("command") else [required(f"{path}.command")]
    if kind == "sleep":
        seconds = action.get("seconds", 0)
        if grace is None or 0 <= seconds <= grace:
            return []
        why = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        return [invalid_value(path, seconds, why)]
    port = action.get("port", 0)
    causes = said(f"{path}.port", port, is_port_name(port)) if isinstance(port, str) else []
    if not isinstance(port, str):
        causes = port_number(port, f"{path}.port")
    if kind == "httpGet" and action.get("scheme") not in ("HTTP", "HTTPS"):
        causes.append(not_supported(f"{path}.scheme", action.get("scheme"), ["HTTP", "HTTPS"]))
    return causes
