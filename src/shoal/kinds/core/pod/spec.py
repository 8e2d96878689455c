"""PodSpec and PodTemplateSpec: defaults and validation. Upstream's words; pure.

`default_pod_spec(spec)` changes the spec in place. `validate_pod_spec(spec, "spec.template.spec")` returns the causes.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.core.pod.containers import validate_containers
from shoal.kinds.core.pod.volumes import validate_volumes
from shoal.kinds.core.pod_defaults import default_pod_only_fields, default_pod_spec, default_pod_template
from shoal.kinds.core.scheduling import validate_affinity, validate_tolerations, validate_topology_spread_constraints
from shoal.kinds.core.security_context import validate_host_users, validate_pod_security_context
from shoal.kinds.validation.field import invalid_causes, parse_ip, validate_enum
from shoal.kinds.validation.resource_list import validate_resource_name, validate_resource_requirements
from shoal.objects.errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required_value,
    too_long,
)
from shoal.objects.names import (
    is_dns1123_label,
    is_dns1123_subdomain,
    is_qualified_name,
    is_search_domain,
    validate_labels,
)

Object = dict[str, Any]

__all__ = [
    "default_pod_only_fields", "default_pod_spec", "default_pod_template", "validate_pod_spec", "validate_pod_template",
]  # fmt: skip

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_POD_RESOURCES = ("cpu", "memory")
MAX_SEARCH_LENGTH, MAX_HOSTNAME_LENGTH = 2048, 64
_IP_MESSAGE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def validate_pod_template(template: Object, path: str) -> list[Cause]:
    """Validates a PodTemplateSpec. Upstream omits `metadata` from the paths of its labels and annotations."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    causes = validate_labels(metadata.get("labels"), f"{path}.labels")
    for key in metadata.get("annotations") or ():
        causes += invalid_causes(f"{path}.annotations", key, is_qualified_name(key.lower()))
    causes += validate_pod_spec(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        causes.append(forbidden_field(f"{path}.spec.ephemeralContainers", detail))
    return causes


def validate_pod_spec(spec: Object, path: str, *, is_pod: bool = False) -> list[Cause]:
    """`is_pod`: the spec is a Pod's, not a template's."""
    volumes, causes = validate_volumes(spec.get("volumes") or [], f"{path}.volumes")
    causes += validate_containers(spec, volumes, path)
    if spec.get("resources"):
        causes += validate_resource_requirements(spec["resources"], f"{path}.resources", _validate_pod_resource_name)
    if spec.get("hostNetwork"):
        causes += _validate_host_network(spec["containers"], f"{path}.containers", is_pod=is_pod)
    causes += validate_enum(spec.get("restartPolicy"), f"{path}.restartPolicy", *RESTART_POLICIES)
    causes += validate_enum(spec.get("dnsPolicy"), f"{path}.dnsPolicy", *DNS_POLICIES)
    if spec.get("nodeSelector"):
        causes += validate_labels(spec["nodeSelector"], f"{path}.nodeSelector")
    if spec.get("securityContext") or spec.get("shareProcessNamespace"):
        causes += validate_pod_security_context(spec.get("securityContext") or {}, spec, f"{path}.securityContext")
    if spec.get("affinity"):
        causes += validate_affinity(spec["affinity"], f"{path}.affinity")
    causes += _validate_dns_config(spec.get("dnsConfig"), spec.get("dnsPolicy"), f"{path}.dnsConfig")
    causes += _validate_gates(spec, path)
    if spec.get("topologySpreadConstraints"):
        causes += validate_topology_spread_constraints(
            spec["topologySpreadConstraints"], f"{path}.topologySpreadConstraints"
        )
    causes += validate_host_users(spec, path) + _validate_hostname_override(spec, f"{path}.hostnameOverride")
    causes += _validate_object_names(spec, path, "serviceAccountName", "nodeName")
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds < 2**31:
        detail = "must be between 1 and 2147483647, inclusive"
        causes.append(invalid_value(f"{path}.activeDeadlineSeconds", seconds, detail))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            causes += invalid_causes(f"{path}.{field}", spec[field], is_dns1123_label(spec[field]))
    if spec.get("tolerations"):
        causes += validate_tolerations(spec["tolerations"], f"{path}.tolerations")
    causes += _validate_host_aliases(spec.get("hostAliases") or [], f"{path}.hostAliases")
    causes += _validate_object_names(spec, path, "priorityClassName", "runtimeClassName")
    causes += validate_enum(spec.get("preemptionPolicy"), f"{path}.preemptionPolicy", "PreemptLowerPriority", "Never")
    if spec.get("overhead"):
        causes += validate_resource_requirements({"limits": spec["overhead"]}, f"{path}.overhead")
    if spec.get("os") is not None:
        name = spec["os"].get("name")
        causes += validate_enum(name, f"{path}.os", "linux", "windows") if name else [required_value(f"{path}.os.name")]
    return causes


def _validate_object_names(spec: Object, path: str, *fields: str) -> list[Cause]:
    return [
        cause
        for field in fields
        if spec.get(field)
        for cause in invalid_causes(f"{path}.{field}", spec[field], is_dns1123_subdomain(spec[field]))
    ]


def _validate_hostname_override(spec: Object, path: str) -> list[Cause]:
    name = spec.get("hostnameOverride")
    if name is None:
        return []
    causes = [
        forbidden_field(path, f"may not be specified when {field} is true")
        for field in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(field)
    ]
    if len(name) > MAX_HOSTNAME_LENGTH:
        causes.append(too_long(path, MAX_HOSTNAME_LENGTH))
    return causes + invalid_causes(path, name, is_dns1123_subdomain(name))


def _validate_pod_resource_name(name: str, path: str) -> list[Cause]:
    causes = validate_resource_name(name, path)
    if not causes and name not in _POD_RESOURCES and not name.startswith("hugepages-"):
        causes.append(not_supported(path, name, _POD_RESOURCES))
    return causes


def _validate_host_network(containers: list[Object], path: str, *, is_pod: bool) -> list[Cause]:
    return [
        invalid_value(f"{path}[{i}].ports[{j}].hostPort", host, "must match `containerPort` when `hostNetwork` is true")
        for i, container in enumerate(containers)
        for j, port in enumerate(container.get("ports") or ())
        if (is_pod or port.get("hostPort")) and (host := port.get("hostPort", 0)) != port.get("containerPort", 0)
    ]


def _validate_dns_config(config: Object | None, policy: object, path: str) -> list[Cause]:
    if policy == "None" and config is None:
        return [required_value(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
    servers = (config or {}).get("nameservers") or []
    if policy == "None" and not servers:
        return [
            required_value(f"{path}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
        ]
    causes = []
    if len(servers) > 3:
        causes.append(invalid_value(f"{path}.nameservers", servers, "must not have more than 3 nameservers"))
    for i, server in enumerate(servers):
        causes += validate_ip_address(server, f"{path}.nameservers[{i}]")
    searches = (config or {}).get("searches") or []
    if len(searches) > 32:
        causes.append(invalid_value(f"{path}.searches", searches, "must not have more than 32 search paths"))
    if len(" ".join(searches)) > MAX_SEARCH_LENGTH:
        detail = f"must not have more than {MAX_SEARCH_LENGTH} characters (including spaces) in the search list"
        causes.append(invalid_value(f"{path}.searches", searches, detail))
    for i, search in enumerate(searches):
        bare = search.removesuffix(".")
        if bare or not search:
            causes += invalid_causes(f"{path}.searches[{i}]", bare, is_search_domain(bare))
    for i, option in enumerate((config or {}).get("options") or ()):
        if not option.get("name"):
            causes.append(required_value(f"{path}.options[{i}]", "must not be empty"))
    return causes


def validate_ip_address(value: str, path: str) -> list[Cause]:
    return [] if parse_ip(value) is not None else [invalid_value(path, value, _IP_MESSAGE)]


def _validate_gates(spec: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for i, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType") or ""
        causes += invalid_causes(f"{path}.readinessGates[{i}].conditionType", kind, is_qualified_name(kind))
    seen: set[str] = set()
    for i, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name") or ""
        causes += invalid_causes(f"{path}.schedulingGates[{i}]", name, is_qualified_name(name))
        if name in seen:
            causes.append(duplicate(f"{path}.schedulingGates[{i}]", name))
        seen.add(name)
    return causes


def _validate_host_aliases(aliases: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for i, alias in enumerate(aliases):
        causes += validate_ip_address(alias.get("ip") or "", f"{path}[{i}].ip")
        for j, name in enumerate(alias.get("hostnames") or ()):
            causes += invalid_causes(f"{path}[{i}].hostnames[{j}]", name, is_dns1123_subdomain(name))
    return causes
