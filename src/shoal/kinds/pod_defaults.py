"""Defaults of a PodSpec, written as upstream stores them. In place; pure."""

from __future__ import annotations

from typing import Any

from shoal.kinds.checks import section
from shoal.kinds.resources import canonical, default_list

Object = dict[str, Any]

FILE_MODE = 0o644
TOKEN_SECONDS = 3600
PULL_ALWAYS = "Always"

_ABSENT_WHEN_EMPTY = ("hostNetwork", "hostPID", "hostIPC", "nodeSelector", "overhead")
_CONTAINER_ABSENT_WHEN_EMPTY = ("stdin", "stdinOnce", "tty")
_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")
_VOLUME_NAME = {"name"}


def default_pod_spec(spec: Object) -> None:
    """Sets the defaults of pods and pod templates. `default_pod_only_fields` sets those of pods only."""
    _default(spec, "restartPolicy", "Always")
    _default(spec, "dnsPolicy", "ClusterFirst")
    _default(spec, "schedulerName", "default-scheduler")
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    _same_account(spec)
    _drop_empty(spec, _ABSENT_WHEN_EMPTY)
    for volume in spec.get("volumes") or ():
        _volume(volume)
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            _container(container)
    if isinstance(spec.get("resources"), dict):
        _requirements(spec["resources"])
    default_list(spec, "overhead")


def default_pod_only(spec: Object) -> None:
    """Sets requests from limits and host ports of pods. Templates keep them as written."""
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            _requests_from_limits(container.get("resources"))
            if spec.get("hostNetwork"):
                for port in container.get("ports") or ():
                    if not port.get("hostPort"):
                        port["hostPort"] = port.get("containerPort", 0)
    _requests_from_limits(spec.get("resources"))
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True


def default_pod_template(holder: Object, field: str = "template") -> None:
    """Defaults the template of `holder` if it has one."""
    template = holder.get(field)
    if isinstance(template, dict):
        section(template, "metadata")
        default_pod_spec(section(template, "spec"))


def _default(holder: Object, field: str, value: object) -> None:
    if not holder.get(field):
        holder[field] = value


def _drop_empty(holder: Object, fields: tuple[str, ...]) -> None:
    """Removes fields Go does not write: empty lists and strings, and the given fields when empty or false."""
    for field in [key for key, value in holder.items() if not value and (value in ([], "") or key in fields)]:
        del holder[field]


def _same_account(spec: Object) -> None:
    """Keeps `serviceAccount`, the old name, equal to `serviceAccountName`. Both are always served."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    else:
        spec.pop("serviceAccountName", None)
        spec.pop("serviceAccount", None)


def _container(container: Object) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")
    _default(container, "terminationMessagePath", "/dev/termination-log")
    _default(container, "terminationMessagePolicy", "File")
    _drop_empty(container, _CONTAINER_ABSENT_WHEN_EMPTY)
    for port in container.get("ports") or ():
        _default(port, "protocol", "TCP")
        if not port.get("hostPort", True):
            del port["hostPort"]
    for variable in container.get("env") or ():
        if not variable.get("value", True):
            del variable["value"]
        _value_from(variable.get("valueFrom"))
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        _probe(container.get(field))
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http_get(hook.get("httpGet"))
    _requirements(section(container, "resources"))


def pull_policy(image: str) -> str:
    """Returns Always for `:latest` and for an image without tag and digest."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return PULL_ALWAYS if tag == "latest" or (not tag and not digest) else "IfNotPresent"


def _value_from(source: Object | None) -> None:
    if source:
        if source.get("fieldRef"):
            _default(source["fieldRef"], "apiVersion", "v1")
        if source.get("resourceFieldRef"):
            _divisor(source["resourceFieldRef"])


def _divisor(reference: Object) -> None:
    reference["divisor"] = canonical(reference.get("divisor") or "0")


def _probe(probe: Object | None) -> None:
    if probe is None:
        return
    _default(probe, "timeoutSeconds", 1)
    _default(probe, "periodSeconds", 10)
    _default(probe, "successThreshold", 1)
    _default(probe, "failureThreshold", 3)
    _http_get(probe.get("httpGet"))
    if probe.get("grpc") is not None and probe["grpc"].get("service") is None:
        probe["grpc"]["service"] = ""


def _http_get(action: Object | None) -> None:
    if action is not None:
        _default(action, "path", "/")
        _default(action, "scheme", "HTTP")


def _requirements(resources: Object) -> None:
    default_list(resources, "limits")
    default_list(resources, "requests")


def _requests_from_limits(resources: Object | None) -> None:
    limits = (resources or {}).get("limits")
    if resources is not None and limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _volume(volume: Object) -> None:
    if volume.keys() <= _VOLUME_NAME:
        volume["emptyDir"] = {}
        return
    for source in _WITH_MODE:
        if volume.get(source) is not None and volume[source].get("defaultMode") is None:
            volume[source]["defaultMode"] = FILE_MODE
    if volume.get("hostPath") is not None and volume["hostPath"].get("type") is None:
        volume["hostPath"]["type"] = ""
    if volume.get("image") is not None:
        _default(volume["image"], "pullPolicy", pull_policy(volume["image"].get("reference") or ""))
    if volume.get("emptyDir") and volume["emptyDir"].get("sizeLimit") is not None:
        volume["emptyDir"]["sizeLimit"] = canonical(volume["emptyDir"]["sizeLimit"])
    _downward(volume.get("downwardAPI"))
    for source in (volume.get("projected") or {}).get("sources") or ():
        _downward(source.get("downwardAPI"))
        token = source.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = TOKEN_SECONDS
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim is not None:
        section(claim, "metadata")
        default_claim_spec(section(claim, "spec"))


def _downward(source: Object | None) -> None:
    for item in (source or {}).get("items") or ():
        _value_from(item)


def default_claim_spec(spec: Object) -> None:
    """Sets the defaults of a PersistentVolumeClaim's spec, also in claim templates."""
    _default(spec, "volumeMode", "Filesystem")
    _requirements(section(spec, "resources"))
    for source in (spec.get("dataSource"), spec.get("dataSourceRef")):
        if source is not None:
            # Go always writes this field.
            source.setdefault("apiGroup", None)
