"""Events about pods and claims of StatefulSets, in upstream's words."""

from __future__ import annotations

from typing import Any

from shoal.runtime.event_recorder import EventRecorder, EventSource

Object = dict[str, Any]

EVENT_SOURCE = EventSource("statefulset-controller", "apps/v1", "StatefulSet")


class StatefulSetEvents:
    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def record_pod(self, cluster: str, owner: Object, verb: str, pod: str, error: Exception | None) -> None:
        message = f"{verb.title()} Pod {pod} in StatefulSet {owner['metadata']['name']}"
        if error is None:
            self._record(cluster, owner, verb, f"{message} successful")
        else:
            self._record(cluster, owner, verb, f"{message} failed error: {error}", failed=True)

    def record_claim(self, cluster: str, owner: Object, claim: str, pod: str, error: Exception | None) -> None:
        name = owner["metadata"]["name"]
        if error is None:
            self._record(cluster, owner, "create", f"Create Claim {claim} Pod {pod} in StatefulSet {name} success")
        else:
            message = f"Create Claim {claim} for Pod {pod} in StatefulSet {name} failed error: {error}"
            self._record(cluster, owner, "create", message, failed=True)

    def _record(self, cluster: str, owner: Object, verb: str, message: str, *, failed: bool = False) -> None:
        type_, reason = ("Warning", "Failed") if failed else ("Normal", "Successful")
        self._recorder.record(EVENT_SOURCE, cluster, owner, type_, f"{reason}{verb.title()}", message)
