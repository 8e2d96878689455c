"""Events about pods and claims of StatefulSets, in upstream's words."""

from __future__ import annotations

from typing import Any

from shoal.runtime.recorder import Recorder, Source

Object = dict[str, Any]

SOURCE = Source("statefulset-controller", "apps/v1", "StatefulSet")


class Telling:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def pod(self, cluster: str, owner: Object, verb: str, pod: str, error: Exception | None) -> None:
        said = f"{verb.title()} Pod {pod} in StatefulSet {owner['metadata']['name']}"
        if error is None:
            self._record(cluster, owner, verb, f"{said} successful")
        else:
            self._record(cluster, owner, verb, f"{said} failed error: {error}", failed=True)

    def claim(self, cluster: str, owner: Object, claim: str, pod: str, error: Exception | None) -> None:
        name = owner["metadata"]["name"]
        if error is None:
            self._record(cluster, owner, "create", f"Create Claim {claim} Pod {pod} in StatefulSet {name} success")
        else:
            said = f"Create Claim {claim} for Pod {pod} in StatefulSet {name} failed error: {error}"
            self._record(cluster, owner, "create", said, failed=True)

    def _record(self, cluster: str, owner: Object, verb: str, said: str, *, failed: bool = False) -> None:
        type_, reason = ("Warning", "Failed") if failed else ("Normal", "Successful")
        self._recorder.record(SOURCE, cluster, owner, type_, f"{reason}{verb.title()}", said)
