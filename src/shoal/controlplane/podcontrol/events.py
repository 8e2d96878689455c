"""Events about pods that a controller created or deleted, in upstream's words."""

from __future__ import annotations

from typing import Any

from shoal.controlplane.podcontrol.control import PodEventSink
from shoal.runtime.event_recorder import EventRecorder, EventSource

Object = dict[str, Any]

_PAST_TENSE = {"create": "Created", "delete": "Deleted"}
_GERUND = {"create": "creating", "delete": "deleting"}


def new_pod_event_sink(recorder: EventRecorder, source: EventSource) -> PodEventSink:
    def record_event(cluster: str, owner: Object, verb: str, pod: str, error: Exception | None) -> None:
        if error is None:
            recorder.record(
                source, cluster, owner, "Normal", f"Successful{verb.title()}", f"{_PAST_TENSE[verb]} pod: {pod}"
            )
        else:
            message = f"Error {_GERUND[verb]}: {error}"
            recorder.record(source, cluster, owner, "Warning", f"Failed{verb.title()}", message)

    return record_event
