"""Warnings about valid pods, pod templates and workloads, sent with the response. Upstream's words; pure.

Quantities are defaulted already: a fraction ends in `m`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from shoal.kinds.core.volume_warnings import volume_warnings
from shoal.kinds.validation.ip import ip_warnings
from shoal.objects.names import is_dns1123_label, is_valid_label_value

Object = dict[str, Any]

DEPRECATED_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
"""Deprecated node labels and their replacement."""
_DEPRECATED_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
_CONTAINER_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_DEPRECATED = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_APPARMOR_DEPRECATED = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_SCHEDULING_FIELDS = frozenset({"nodeSelector", "affinity", "topologySpreadConstraints"})
_NULL_SELECTOR = "a null labelSelector results in matching no pod"
_HOSTNAME_NOTICE = (
    "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is "
    "recommended: "
)
_WORKLOAD_NAME_NOTICE = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is "
    "recommended: "
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def pod_warnings(obj: Object, old: Object | None) -> list[str]:
    """Warns of new pods only: none of these fields can change later."""
    if old is not None:
        return []
    messages = is_dns1123_label(obj["metadata"].get("name") or "")
    warnings = [f"{_HOSTNAME_NOTICE}[{' '.join(messages)}]"] if messages else []
    return warnings + template_warnings(obj, "")


def template_warner(*path: str) -> Callable[[Object, Object | None], list[str]]:
    """Returns the warnings function of a kind with a pod template at the path. It warns on create and on changes of the
    spec.
    """

    def warn(obj: Object, old: Object | None) -> list[str]:
        if old is not None and obj["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        template: Any = obj
        for field in path:
            template = template.get(field) or {}
        return template_warnings(template, ".".join(path) + ".") if template else []

    return warn


_workload_template_warnings = template_warner("spec", "template")


def workload_warnings(obj: Object, old: Object | None) -> list[str]:
    """Warns of a Deployment, ReplicaSet or ReplicationController."""
    return name_warnings(obj, old) + _workload_template_warnings(obj, old)


def name_warnings(obj: Object, old: Object | None) -> list[str]:
    """Warns of a new workload whose name is not a DNS label."""
    if old is not None or not (messages := is_dns1123_label(obj["metadata"].get("name") or "")):
        return []
    return [f"{_WORKLOAD_NAME_NOTICE}[{' '.join(messages)}]"]


def template_warnings(template: Object, prefix: str) -> list[str]:
    """Warns of a pod (empty prefix) or of a PodTemplateSpec (its path and a dot as prefix)."""
    spec, path = template.get("spec") or {}, f"{prefix}spec"
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    # Fast path for the many pods without these fields: each check runs only if its field is set.
    warnings = _scheduling_warnings(spec, path) if not _SCHEDULING_FIELDS.isdisjoint(spec) else []
    if annotations:
        warnings += [
            f"{prefix}metadata.annotations[{k}]: {notice}"
            for k, notice in _DEPRECATED_ANNOTATIONS.items()
            if k in annotations
        ]
    if "volumes" in spec:
        warnings += volume_warnings(spec["volumes"] or [], f"{path}.volumes")
    if "hostAliases" in spec or "imagePullSecrets" in spec:
        warnings += _duplicate_warnings(spec, path)
    for name, value in (spec.get("overhead") or {}).items():
        if _is_fractional_bytes(name, value):
            warnings.append(_fractional_bytes_warning(f"{path}.overhead[{name}]", value))
    warnings += _container_warnings(spec, path, annotations, f"{prefix}metadata.annotations")
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        warnings.append(
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        )
    if "affinity" in spec:
        warnings += _null_selector_warnings(spec["affinity"] or {}, f"{path}.affinity")
    for i, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        warnings += ip_warnings(f"{path}.dnsConfig.nameservers[{i}]", server)
    for i, alias in enumerate(spec.get("hostAliases") or ()):
        warnings += ip_warnings(f"{path}.hostAliases[{i}].ip", alias.get("ip") or "")
    return warnings


def _container_warnings(spec: Object, path: str, annotations: Object, annotations_path: str) -> list[str]:
    containers = list(_containers(spec, path))
    warnings = _profile_annotation_warnings(spec, containers, annotations, annotations_path) if annotations else []
    ports: list[tuple[Object, str]] = []
    for container, container_path in containers:
        resources, variables = container.get("resources"), container.get("env")
        if resources:
            warnings += _fractional_bytes_warnings(resources, f"{container_path}.resources")
        if variables and len(variables) > 1:
            warnings += _hidden_variable_warnings(variables, f"{container_path}.env")
        for i, port in enumerate(container.get("ports") or ()):
            ports.append((port, f"{container_path}.ports[{i}]"))
    if len(ports) > 1 or (ports and "hostIP" in ports[0][0]):
        warnings += _port_warnings(ports)
    return warnings


def _containers(spec: Object, path: str) -> Iterator[tuple[Object, str]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(field) or ()):
            yield container, f"{path}.{field}[{i}]"


def _scheduling_warnings(spec: Object, path: str) -> list[str]:
    """Warns of deprecated node labels and of constraints that select no pod."""
    warnings = [
        f"{path}.nodeSelector[{k}]: {DEPRECATED_NODE_LABELS[k]}"
        for k in spec.get("nodeSelector") or ()
        if k in DEPRECATED_NODE_LABELS
    ]
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    field_path = f"{path}.affinity.nodeAffinity"
    for i, term in enumerate((node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        warnings += node_selector_term_warnings(term, f"{field_path}.{_REQUIRED}.nodeSelectorTerms[{i}]")
    for i, each in enumerate(node.get(_PREFERRED) or ()):
        warnings += node_selector_term_warnings(
            each.get("preference") or {}, f"{field_path}.{_PREFERRED}[{i}].preference", check_values=True
        )
    for i, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        field_path, key = f"{path}.topologySpreadConstraints[{i}]", constraint.get("topologyKey")
        if key in DEPRECATED_NODE_LABELS:
            warnings.append(f"{field_path}.topologyKey: {key} is {DEPRECATED_NODE_LABELS[key]}")
        if constraint.get("labelSelector") is None:
            warnings.append(f"{field_path}.labelSelector: {_NULL_SELECTOR}")
    return warnings


def node_selector_term_warnings(term: Object, path: str, *, check_values: bool = False) -> list[str]:
    warnings = []
    for i, expression in enumerate(term.get("matchExpressions") or ()):
        item_path, key = f"{path}.matchExpressions[{i}]", expression.get("key")
        if key in DEPRECATED_NODE_LABELS:
            warnings.append(f"{item_path}.key: {key} is {DEPRECATED_NODE_LABELS[key]}")
        for j, value in enumerate(expression.get("values") or () if check_values else ()):
            warnings += [
                f"{item_path}.values[{j}]: {value} is invalid, {message}" for message in is_valid_label_value(value)
            ]
    return warnings


def _duplicate_warnings(spec: Object, path: str) -> list[str]:
    warnings = []
    for field, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen = set()
        for i, item in enumerate(spec.get(field) or ()):
            value = item.get(key) or ""
            if value in seen:
                warnings.append(f'{path}.{field}[{i}].{key}: duplicate {key} "{value}"')
            seen.add(value)
    for i, item in enumerate(spec.get("imagePullSecrets") or ()):
        if not item.get("name"):
            warnings.append(f'{path}.imagePullSecrets[{i}].name: invalid empty name ""')
    return warnings


def _is_fractional_bytes(name: str, value: object) -> bool:
    return name in ("memory", "ephemeral-storage") and isinstance(value, str) and value.endswith("m")


def _fractional_bytes_warning(path: str, value: object) -> str:
    return f'{path}: fractional byte value "{value}" is invalid, must be an integer'


def _fractional_bytes_warnings(resources: Object, path: str) -> list[str]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return [
        _fractional_bytes_warning(f"{path}.{field}[{name}]", amounts[name])
        for name in ("memory", "ephemeral-storage")
        for field, amounts in (("limits", limits), ("requests", requests))
        if name in amounts and _is_fractional_bytes(name, amounts[name])
    ]


def _profile_annotation_warnings(
    spec: Object, containers: list[tuple[Object, str]], annotations: Object, path: str
) -> list[str]:
    """Warns of annotations that fields have replaced."""
    warnings = []
    context = spec.get("securityContext") or {}
    if _SECCOMP in annotations and context.get("seccompProfile") is None:
        warnings.append(f"{path}[{_SECCOMP}]: {_SECCOMP_DEPRECATED}")
    for container, _ in containers:
        own, name = container.get("securityContext") or {}, container.get("name")
        if f"{_CONTAINER_SECCOMP}{name}" in annotations and own.get("seccompProfile") is None:
            warnings.append(f"{path}[{_CONTAINER_SECCOMP}{name}]: {_SECCOMP_DEPRECATED}")
        annotation_profile, pod_profile = annotations.get(f"{_APPARMOR}{name}"), context.get("appArmorProfile")
        if (
            annotation_profile is None
            or own.get("appArmorProfile") is not None
            or (pod_profile and pod_profile == _profile_from_annotation(annotation_profile))
        ):
            continue
        warnings.append(f"{path}[{_APPARMOR}{name}]: {_APPARMOR_DEPRECATED}")
    return warnings


def _profile_from_annotation(annotation: str) -> Object | None:
    """Returns the AppArmor profile field that equals the annotation."""
    if annotation.startswith("localhost/"):
        return {"type": "Localhost", "localhostProfile": annotation.removeprefix("localhost/")}
    kind = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault", "": "RuntimeDefault"}.get(annotation)
    return {"type": kind} if kind else None


def _hidden_variable_warnings(variables: list[Object], path: str) -> list[str]:
    warnings = []
    seen = set()
    for i, variable in enumerate(variables):
        name, value = variable.get("name") or "", variable.get("value") or ""
        before = f"$({name})"
        if name in seen and (variable.get("valueFrom") is not None or value == before or before not in value):
            warnings.append(
                f'{path}[{i}]: hides previous definition of "{name}", which may be dropped when using apply'
            )
        seen.add(name)
    return warnings


def _port_warnings(ports: list[tuple[Object, str]]) -> list[str]:
    warnings = []
    seen: dict[tuple[object, object], list[tuple[Object, str]]] = {}
    for port, path in ports:
        address, number = port.get("hostIP") or "", port.get("hostPort") or 0
        if address and not number:
            warnings.append(f"{path}: hostIP set without hostPort: {_printed_port(port)}")
        others = seen.setdefault((port.get("containerPort"), port.get("protocol")), [])
        for other, other_path in others:
            its_address, its_number = other.get("hostIP") or "", other.get("hostPort") or 0
            if (address, number) == (its_address, its_number):
                warnings.append(f"{path}: duplicate port definition with {other_path}")
            elif not number or not its_number:
                warnings.append(f"{path}: overlapping port definition with {other_path}")
            elif number == its_number and bool(address) != bool(its_address):
                warnings.append(f"{path}: dangerously ambiguous port definition with {other_path}")
        others.append((port, path))
    names: dict[str, str] = {}
    for port, path in ports:
        name = port.get("name")
        if name and names.setdefault(name, path) != path:
            first = names[name]
            warnings.append(
                f'{path}: duplicate port name "{name}" with {first}, services and probes that select ports by name '
                f"will use {first}"
            )
    return warnings


def _printed_port(port: Object) -> str:
    """Returns the port as Go prints it."""
    name, number, protocol = port.get("name") or "", port.get("containerPort") or 0, port.get("protocol")
    return f"{{Name:{name} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{port['hostIP']}}}"


def _null_selector_warnings(affinity: Object, path: str) -> list[str]:
    warnings = []
    for field in ("podAffinity", "podAntiAffinity"):
        pod = affinity.get(field) or {}
        for i, term in enumerate(pod.get(_REQUIRED) or ()):
            if term.get("labelSelector") is None:
                warnings.append(f"{path}.{field}.{_REQUIRED}[{i}].labelSelector: {_NULL_SELECTOR}")
        for i, each in enumerate(pod.get(_PREFERRED) or ()):
            if (each.get("podAffinityTerm") or {}).get("labelSelector") is None:
                warnings.append(f"{path}.{field}.{_PREFERRED}[{i}].podAffinityTerm.labelSelector: {_NULL_SELECTOR}")
    return warnings
