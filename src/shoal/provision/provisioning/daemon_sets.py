"""DaemonSets with the requests that their pods have. Pure.

Admission may give pods other requests than the template says: defaults of LimitRanges, the overhead of a RuntimeClass,
a webhook. A running pod shows what the next one will request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Object = dict[str, Any]

_REQUEST_FIELDS = ("containers", "initContainers", "overhead", "resources")
"""Fields of a pod's spec that its requests depend on."""


def with_running_requests(daemon_set: Object, pods: Iterable[Object]) -> Object:
    """Returns the DaemonSet with the requests of the newest of its pods; unchanged if it has none."""
    newest = max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""), default=None)
    if newest is None:
        return daemon_set
    template = daemon_set["spec"]["template"]
    kept = {name: value for name, value in (template.get("spec") or {}).items() if name not in _REQUEST_FIELDS}
    running = {name: newest["spec"][name] for name in _REQUEST_FIELDS if name in newest["spec"]}
    spec = {**daemon_set["spec"], "template": {**template, "spec": {**kept, **running}}}
    return {**daemon_set, "spec": spec}
