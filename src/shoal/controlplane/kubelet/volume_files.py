"""Names of files that scripts of simulated containers create and test, on emptyDir and hostPath volumes.

Kept in memory only: after a restart the volumes are empty. A script runs once for each start of its container. Its
outcome is cached because its own files exist afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key
from shoal.controlplane.kubelet.container_runtime import predict_outcome
from shoal.controlplane.kubelet.shell.interpreter import CommandOutcome
from shoal.controlplane.kubelet.shell.parser import UnknownOutcome

Object = dict[str, Any]
FileNames = set[str]
ContainerStart = tuple[str, str, int]
"""Pod uid, container name and restart count."""


class VolumeFiles:
    def __init__(self) -> None:
        self._host_path_files: dict[Key, FileNames] = {}
        self._outcomes: dict[Key, tuple[ContainerStart, CommandOutcome | None]] = {}
        self._empty_dir_files: dict[str, FileNames] = {}
        """By pod uid."""

    def container_outcome(self, key: Key, node: Key, pod: Object) -> CommandOutcome | None:
        statuses: list[Object] = (pod.get("status") or {}).get("containerStatuses") or [{}]
        start = (pod["metadata"]["uid"], pod["spec"]["containers"][0]["name"], statuses[0].get("restartCount") or 0)
        cached = self._outcomes.get(key)
        if cached is not None and cached[0] == start:
            return cached[1]
        if cached is not None and cached[0][0] != start[0]:
            self.forget_pod(key)
        lookups: dict[str, tuple[FileNames, str]] = {}
        outcome = predict_outcome(pod, self._exists_func(node, pod, lookups))
        if lookups:
            self._outcomes[key] = (start, outcome)
            for path in outcome.files if outcome is not None else ():
                files, name = lookups[path]
                files.add(name)
        return outcome

    def forget_pod(self, key: Key) -> None:
        cached = self._outcomes.pop(key, None)
        if cached is not None:
            self._empty_dir_files.pop(cached[0][0], None)

    def forget_node(self, key: Key) -> None:
        self._host_path_files.pop(key, None)

    def _exists_func(self, node: Key, pod: Object, lookups: dict[str, tuple[FileNames, str]]) -> Callable[[str], bool]:
        def exists(path: str) -> bool:
            volume, name = _volume_of(pod, path)
            host = (volume.get("hostPath") or {}).get("path")
            if host:
                lookups[path] = (self._host_path_files.setdefault(node, set()), f"{host.rstrip('/')}/{name}")
            elif "emptyDir" in volume:
                lookups[path] = (
                    self._empty_dir_files.setdefault(pod["metadata"]["uid"], set()),
                    f"{volume['name']}/{name}",
                )
            else:
                raise UnknownOutcome(path)
            disk, known_as = lookups[path]
            return known_as in disk

        return exists


def _volume_of(pod: Object, path: str) -> tuple[Object, str]:
    """Returns the volume mounted at the file's directory, and the file's name in it."""
    folder, _, name = path.rpartition("/")
    for mount in pod["spec"]["containers"][0].get("volumeMounts") or ():
        is_plain = not (mount.get("readOnly") or mount.get("subPath") or mount.get("subPathExpr"))
        if is_plain and name not in ("", ".", "..") and mount.get("mountPath", "").rstrip("/") == folder:
            return next(each for each in pod["spec"].get("volumes") or () if each["name"] == mount["name"]), name
    raise UnknownOutcome(path)
