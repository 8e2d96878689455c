"""Reads the ConfigMaps and Secrets that a pod needs to start, and records Events about what is missing.

They are read when a pod starts and while it waits. They are not watched: most pods need none, and a watch would keep
those of all clusters in memory.
"""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.controlplane.kubelet.cluster_source import ClusterSource
from shoal.controlplane.kubelet.pod_sources import (
    INIT_INCOMPLETE,
    NO_ERRORS,
    UNMOUNTED,
    PodSource,
    SourceErrors,
    data_keys,
    source_errors,
    sources_of,
)
from shoal.objects.errors import Forbidden, NotFound
from shoal.runtime.event_recorder import WARNING, EventRecorder, EventSource

Object = dict[str, Any]

RESOURCES = {
    "ConfigMap": GroupVersionResource("", "v1", "configmaps"),
    "Secret": GroupVersionResource("", "v1", "secrets"),
}
REPEAT_SECONDS = 300.0
"""After which an Event about the same is recorded again: Events expire."""


class SourceChecks:
    def __init__(self, clusters: ClusterSource, clock: Clock, recorder: EventRecorder) -> None:
        self._clusters, self._clock, self._recorder = clusters, clock, recorder
        self._recorded: dict[Key, tuple[SourceErrors, str, float]] = {}
        """What was recorded last of a pod, in which state, and when."""

    async def errors_of(self, key: Key, pod: Object) -> SourceErrors:
        """Containers that run, or have run, keep what they have."""
        if (pod.get("status") or {}).get("phase") not in (None, "Pending") or "deletionTimestamp" in pod["metadata"]:
            return NO_ERRORS
        sources = sorted(source for source in sources_of(pod) if source.name)
        if not sources:
            return NO_ERRORS
        client = self._clusters.client_for(key[0])
        try:
            keys = await asyncio.gather(*(_read_keys(client, source, key[1]) for source in sources))
        except Forbidden:
            return NO_ERRORS  # What may not be read is not missing.
        return source_errors(pod, dict(zip(sources, keys, strict=True)))

    def record(self, key: Key, pod: Object, errors: SourceErrors, state: str, source: EventSource) -> None:
        """Records what a pod in that state waits for, unless it did recently."""
        now = self._clock.monotonic()
        recorded = self._recorded.get(key)
        if recorded is not None and recorded[:2] == (errors, state) and now < recorded[2] + REPEAT_SECONDS:
            return
        self._recorded[key] = errors, state, now
        if state == UNMOUNTED:
            for name, error in errors.volumes.items():
                message = f'MountVolume.SetUp failed for volume "{name}" : {error}'
                self._recorder.record(source, key[0], pod, WARNING, "FailedMount", message)
            return
        field = "initContainers" if state == INIT_INCOMPLETE else "containers"
        names = [each["name"] for each in pod["spec"][field]]
        if state == INIT_INCOMPLETE and errors.init_index is not None:
            names = [names[errors.init_index]]
        for name in names:
            if name in errors.containers:
                message, path = f"Error: {errors.containers[name]}", f"spec.{field}{{{name}}}"
                self._recorder.record(source, key[0], pod, WARNING, "Failed", message, field_path=path)

    def forget(self, key: Key) -> None:
        self._recorded.pop(key, None)


async def _read_keys(client: Client, source: PodSource, namespace: str) -> frozenset[str] | None:
    try:
        return data_keys(await client.get(RESOURCES[source.kind], source.name, namespace))
    except NotFound:
        return None
