"""Names of files that scripts of simulated containers create and test, on emptyDir and hostPath volumes.

Kept in memory only: after a restart the volumes are empty. A script runs once for each start of its container. Its
outcome is cached because its own files exist afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key
from shoal.controlplane.nodes.commands import pod_ending
from shoal.controlplane.nodes.shell.run import Ending
from shoal.controlplane.nodes.shell.syntax import Unknown

Object = dict[str, Any]
Disk = set[str]
Run = tuple[str, str, int]
"""Pod uid, container name and restart count."""


class Disks:
    def __init__(self) -> None:
        self._nodes: dict[Key, Disk] = {}
        self._pods: dict[Key, tuple[Run, Ending | None]] = {}
        self._own: dict[str, Disk] = {}
        """By pod uid."""

    def ending(self, key: Key, node: Key, pod: Object) -> Ending | None:
        statuses: list[Object] = (pod.get("status") or {}).get("containerStatuses") or [{}]
        this = (pod["metadata"]["uid"], pod["spec"]["containers"][0]["name"], statuses[0].get("restartCount") or 0)
        known = self._pods.get(key)
        if known is not None and known[0] == this:
            return known[1]
        if known is not None and known[0][0] != this[0]:
            self.pod_is_gone(key)
        asked: dict[str, tuple[Disk, str]] = {}
        found = pod_ending(pod, self._looking(node, pod, asked))
        if asked:
            self._pods[key] = (this, found)
            for path in found.files if found is not None else ():
                disk, name = asked[path]
                disk.add(name)
        return found

    def pod_is_gone(self, key: Key) -> None:
        known = self._pods.pop(key, None)
        if known is not None:
            self._own.pop(known[0][0], None)

    def node_is_gone(self, key: Key) -> None:
        self._nodes.pop(key, None)

    def _looking(self, node: Key, pod: Object, asked: dict[str, tuple[Disk, str]]) -> Callable[[str], bool]:
        def exists(path: str) -> bool:
            volume, name = _place(pod, path)
            host = (volume.get("hostPath") or {}).get("path")
            if host:
                asked[path] = (self._nodes.setdefault(node, set()), f"{host.rstrip('/')}/{name}")
            elif "emptyDir" in volume:
                asked[path] = (self._own.setdefault(pod["metadata"]["uid"], set()), f"{volume['name']}/{name}")
            else:
                raise Unknown(path)
            disk, known_as = asked[path]
            return known_as in disk

        return exists


def _place(pod: Object, path: str) -> tuple[Object, str]:
    """Returns the volume mounted at the file's directory, and the file's name in it."""
    folder, _, name = path.rpartition("/")
    for mount in pod["spec"]["containers"][0].get("volumeMounts") or ():
        plain = not (mount.get("readOnly") or mount.get("subPath") or mount.get("subPathExpr"))
        if plain and name not in ("", ".", "..") and mount.get("mountPath", "").rstrip("/") == folder:
            return next(each for each in pod["spec"].get("volumes") or () if each["name"] == mount["name"]), name
    raise Unknown(path)
