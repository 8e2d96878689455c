"""ConfigMaps and Secrets that a pod takes its environment and volumes from, and what is missing of them, in upstream's
words. Pure.

Containers whose environment cannot be made wait with CreateContainerConfigError, the others run. Without its volumes,
no container of a pod starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Object = dict[str, Any]

CONFIG_ERROR = "CreateContainerConfigError"
READY, UNMOUNTED, INIT_INCOMPLETE, INCOMPLETE = "ready", "unmounted", "init-incomplete", "incomplete"
"""States: complete; a volume, the next init container or a container lacks something."""
FIRST_CHECK_SECONDS, MAX_CHECK_SECONDS = 1.0, 30.0
"""Between checks of what is missing: at first, and at most."""


class PodSource(NamedTuple):
    kind: str
    """`ConfigMap` or `Secret`."""
    name: str


SourceKeys = Mapping[PodSource, frozenset[str] | None]
"""The keys of the data of each source; None: it does not exist."""


@dataclass(frozen=True, slots=True)
class _SourceUse:
    source: PodSource
    keys: tuple[str, ...] = ()
    """Keys that must exist."""
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class SourceErrors:
    """What is missing for a pod."""

    volumes: Mapping[str, str] = field(default_factory=dict)
    """Messages by volume."""
    containers: Mapping[str, str] = field(default_factory=dict)
    """Messages by container."""
    init_index: int | None = None
    """Index of the first init container that lacks something."""

    def state(self, current_init: int | None) -> str:
        """`current_init` is the index of the init container that runs now."""
        if self.volumes:
            return UNMOUNTED
        if self.init_index is not None and (current_init is None or self.init_index <= current_init):
            return INIT_INCOMPLETE
        return INCOMPLETE if self.containers and current_init is None and self.init_index is None else READY


NO_ERRORS = SourceErrors()


def sources_of(pod: Object) -> set[PodSource]:
    spec = pod["spec"]
    uses = [use for container in _all_containers(spec) for use in _environment_uses(container)]
    uses += [use for volume in spec.get("volumes") or () for use in _volume_uses(volume)]
    return {use.source for use in uses}


def source_errors(pod: Object, keys: SourceKeys) -> SourceErrors:
    """`keys` has all `sources_of` the pod."""
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    volumes = {}
    for volume in spec.get("volumes") or ():
        message = next((text for use in _volume_uses(volume) if (text := _volume_error(use, keys))), "")
        if message:
            volumes[volume["name"]] = message
    containers = {}
    for container in _all_containers(spec):
        uses = _environment_uses(container)
        message = next((text for use in uses if (text := _environment_error(use, keys, namespace))), "")
        if message:
            containers[container["name"]] = message
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    finished = {each["name"] for each in statuses if "terminated" in (each.get("state") or {}) and each["ready"]}
    init_index = next(
        (
            index
            for index, each in enumerate(spec.get("initContainers") or ())
            if each["name"] in containers and each["name"] not in finished
        ),
        None,
    )
    return SourceErrors(volumes, containers, init_index) if volumes or containers else NO_ERRORS


def check_delay(elapsed: float) -> float:
    """Returns the seconds until the next check of a pod that has waited for `elapsed` seconds."""
    return min(max(elapsed / 2, FIRST_CHECK_SECONDS), MAX_CHECK_SECONDS)


def data_keys(source: Object) -> frozenset[str]:
    return frozenset((*(source.get("data") or ()), *(source.get("binaryData") or ())))


def _all_containers(spec: Object) -> list[Object]:
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def _environment_uses(container: Object) -> Iterator[_SourceUse]:
    for each in container.get("envFrom") or ():
        for kind, field_name in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
            if each.get(field_name):
                yield _use(kind, each[field_name])
    for each in container.get("env") or ():
        origin = each.get("valueFrom") or {}
        for kind, field_name in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
            if origin.get(field_name):
                yield _use(kind, origin[field_name], (origin[field_name].get("key", ""),))


def _volume_uses(volume: Object) -> Iterator[_SourceUse]:
    for origin in (volume, *((volume.get("projected") or {}).get("sources") or ())):
        for kind, field_name in (("ConfigMap", "configMap"), ("Secret", "secret")):
            if origin.get(field_name) is not None:
                items = origin[field_name].get("items") or ()
                yield _use(kind, origin[field_name], tuple(each.get("key", "") for each in items))


def _use(kind: str, reference: Object, keys: tuple[str, ...] = ()) -> _SourceUse:
    name = reference.get("name") or reference.get("secretName") or ""
    return _SourceUse(PodSource(kind, name), keys, bool(reference.get("optional")))


def _missing_key(use: _SourceUse, keys: SourceKeys) -> tuple[str, str]:
    """Returns why the source itself is missing, or else the first key that is; both empty: nothing is."""
    existing = keys.get(use.source)
    if use.is_optional or not use.source.name:
        return "", ""
    if existing is None:
        return f'{use.source.kind.lower()} "{use.source.name}" not found', ""
    return "", next((key for key in use.keys if key not in existing), "")


def _environment_error(use: _SourceUse, keys: SourceKeys, namespace: str) -> str:
    not_found, key = _missing_key(use, keys)
    return not_found or (f"couldn't find key {key} in {use.source.kind} {namespace}/{use.source.name}" if key else "")


def _volume_error(use: _SourceUse, keys: SourceKeys) -> str:
    not_found, key = _missing_key(use, keys)
    noun = "config" if use.source.kind == "ConfigMap" else "secret"
    return not_found or (f"references non-existent {noun} key: {key}" if key else "")
