"""Defaults of a PodSpec, written as upstream stores them. In place; pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.validation.field import ensure_map
from shoal.kinds.validation.resource_list import canonical_quantity, normalize_resource_list

Object = dict[str, Any]

DEFAULT_FILE_MODE = 0o644
DEFAULT_TOKEN_SECONDS = 3600
PULL_ALWAYS = "Always"

_ABSENT_WHEN_EMPTY = ("hostNetwork", "hostPID", "hostIPC", "nodeSelector", "overhead")
_CONTAINER_ABSENT_WHEN_EMPTY = ("stdin", "stdinOnce", "tty")
_SOURCES_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")
_NAME_ONLY = {"name"}


def default_pod_spec(spec: Object) -> None:
    """Sets the defaults of pods and pod templates. `default_pod_only_fields` sets those of pods only."""
    _set_default(spec, "restartPolicy", "Always")
    _set_default(spec, "dnsPolicy", "ClusterFirst")
    _set_default(spec, "schedulerName", "default-scheduler")
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    _sync_service_account(spec)
    _drop_empty(spec, _ABSENT_WHEN_EMPTY)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            _default_container(container)
    if isinstance(spec.get("resources"), dict):
        _normalize_requirements(spec["resources"])
    normalize_resource_list(spec, "overhead")


def default_pod_only_fields(spec: Object) -> None:
    """Sets requests from limits and host ports of pods. Templates keep them as written."""
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            _default_requests_from_limits(container.get("resources"))
            if spec.get("hostNetwork"):
                for port in container.get("ports") or ():
                    if not port.get("hostPort"):
                        port["hostPort"] = port.get("containerPort", 0)
    _default_requests_from_limits(spec.get("resources"))
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True


def default_pod_template(holder: Object, field: str = "template") -> None:
    """Defaults the template of `holder` if it has one."""
    template = holder.get(field)
    if isinstance(template, dict):
        ensure_map(template, "metadata")
        default_pod_spec(ensure_map(template, "spec"))


def _set_default(holder: Object, field: str, value: object) -> None:
    if not holder.get(field):
        holder[field] = value


def _drop_empty(holder: Object, fields: tuple[str, ...]) -> None:
    """Removes fields Go does not write: empty lists and strings, and the given fields when empty or false."""
    for field in [key for key, value in holder.items() if not value and (value in ([], "") or key in fields)]:
        del holder[field]


def _sync_service_account(spec: Object) -> None:
    """Keeps `serviceAccount`, the old name, equal to `serviceAccountName`. Both are always served."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    else:
        spec.pop("serviceAccountName", None)
        spec.pop("serviceAccount", None)


def _default_container(container: Object) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = default_pull_policy(container.get("image") or "")
    _set_default(container, "terminationMessagePath", "/dev/termination-log")
    _set_default(container, "terminationMessagePolicy", "File")
    _drop_empty(container, _CONTAINER_ABSENT_WHEN_EMPTY)
    for port in container.get("ports") or ():
        _set_default(port, "protocol", "TCP")
        if not port.get("hostPort", True):
            del port["hostPort"]
    for variable in container.get("env") or ():
        if not variable.get("value", True):
            del variable["value"]
        _default_value_from(variable.get("valueFrom"))
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        _default_probe(container.get(field))
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _default_http_get(hook.get("httpGet"))
    _normalize_requirements(ensure_map(container, "resources"))


def default_pull_policy(image: str) -> str:
    """Returns Always for `:latest` and for an image without tag and digest."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return PULL_ALWAYS if tag == "latest" or (not tag and not digest) else "IfNotPresent"


def _default_value_from(source: Object | None) -> None:
    if source:
        if source.get("fieldRef"):
            _set_default(source["fieldRef"], "apiVersion", "v1")
        if source.get("resourceFieldRef"):
            _default_divisor(source["resourceFieldRef"])


def _default_divisor(reference: Object) -> None:
    reference["divisor"] = canonical_quantity(reference.get("divisor") or "0")


def _default_probe(probe: Object | None) -> None:
    if probe is None:
        return
    _set_default(probe, "timeoutSeconds", 1)
    _set_default(probe, "periodSeconds", 10)
    _set_default(probe, "successThreshold", 1)
    _set_default(probe, "failureThreshold", 3)
    _default_http_get(probe.get("httpGet"))
    if probe.get("grpc") is not None and probe["grpc"].get("service") is None:
        probe["grpc"]["service"] = ""


def _default_http_get(action: Object | None) -> None:
    if action is not None:
        _set_default(action, "path", "/")
        _set_default(action, "scheme", "HTTP")


def _normalize_requirements(resources: Object) -> None:
    normalize_resource_list(resources, "limits")
    normalize_resource_list(resources, "requests")


def _default_requests_from_limits(resources: Object | None) -> None:
    limits = (resources or {}).get("limits")
    if resources is not None and limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _default_volume(volume: Object) -> None:
    if volume.keys() <= _NAME_ONLY:
        volume["emptyDir"] = {}
        return
    for source in _SOURCES_WITH_MODE:
        if volume.get(source) is not None and volume[source].get("defaultMode") is None:
            volume[source]["defaultMode"] = DEFAULT_FILE_MODE
    if volume.get("hostPath") is not None and volume["hostPath"].get("type") is None:
        volume["hostPath"]["type"] = ""
    if volume.get("image") is not None:
        _set_default(volume["image"], "pullPolicy", default_pull_policy(volume["image"].get("reference") or ""))
    if volume.get("emptyDir") and volume["emptyDir"].get("sizeLimit") is not None:
        volume["emptyDir"]["sizeLimit"] = canonical_quantity(volume["emptyDir"]["sizeLimit"])
    _default_downward_api(volume.get("downwardAPI"))
    for source in (volume.get("projected") or {}).get("sources") or ():
        _default_downward_api(source.get("downwardAPI"))
        token = source.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = DEFAULT_TOKEN_SECONDS
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim is not None:
        ensure_map(claim, "metadata")
        default_claim_spec(ensure_map(claim, "spec"))


def _default_downward_api(source: Object | None) -> None:
    for item in (source or {}).get("items") or ():
        _default_value_from(item)


def default_claim_spec(spec: Object) -> None:
    """Sets the defaults of a PersistentVolumeClaim's spec, also in claim templates."""
    _set_default(spec, "volumeMode", "Filesystem")
    _normalize_requirements(ensure_map(spec, "resources"))
    for source in (spec.get("dataSource"), spec.get("dataSourceRef")):
        if source is not None:
            # Go always writes this field.
            source.setdefault("apiGroup", None)
