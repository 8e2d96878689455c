"""Events about pods that a controller created or deleted, in upstream's words."""

from __future__ import annotations

from typing import Any

from shoal.controlplane.podcontrol.control import Teller
from shoal.runtime.recorder import Recorder, Source

Object = dict[str, Any]

_DONE = {"create": "Created", "delete": "Deleted"}
_TRIED = {"create": "creating", "delete": "deleting"}


def pod_events(recorder: Recorder, source: Source) -> Teller:
    def tell(cluster: str, owner: Object, verb: str, pod: str, error: Exception | None) -> None:
        if error is None:
            recorder.record(source, cluster, owner, "Normal", f"Successful{verb.title()}", f"{_DONE[verb]} pod: {pod}")
        else:
            said = f"Error {_TRIED[verb]}: {error}"
            recorder.record(source, cluster, owner, "Warning", f"Failed{verb.title()}", said)

    return tell
