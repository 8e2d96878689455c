"""Sample Jobs and pods as returned by a server."""

from __future__ import annotations

from itertools import count
from typing import Any

from shoal.clock import rfc3339
from shoal.kinds.batch.job import COMPLETION_INDEX_ANNOTATION, TRACKING_FINALIZER
from shoal.kinds.batch.job_defaults import MAX_INT32

Object = dict[str, Any]

NOW = 1_700_000_000.0
STAMP = rfc3339(NOW)
_numbers = count(1)


def job(**spec: Any) -> Object:
    """`status` and `metadata` are the Job's own, the rest goes into its spec."""
    status, metadata = spec.pop("status", {}), spec.pop("metadata", {})
    template = {
        "metadata": {"labels": {"job": "j"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "work:1"}]},
    }
    full = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": MAX_INT32 if "backoffLimitPerIndex" in spec else 6,
        "completionMode": "NonIndexed",
        "podReplacementPolicy": "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed",
        "template": template,
        **spec,
    }
    named = {"name": "j", "namespace": "default", "uid": "job", **metadata}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": named, "spec": full, "status": status}


def indexed(completions: int, **spec: Any) -> Object:
    return job(completions=completions, completionMode="Indexed", **{"parallelism": completions, **spec})


def pod(phase: str = "Running", index: int | None = None, **given: Any) -> Object:
    """`ended` seconds before now; `code` its exit code; `held` by the finalizer; `deleted`; on a `node`."""
    number = next(_numbers)
    ended, code = given.get("ended", 0), given.get("code", 0 if phase == "Succeeded" else 1)
    annotations = {
        **given.get("annotations", {}),
        **({} if index is None else {COMPLETION_INDEX_ANNOTATION: str(index)}),
    }
    metadata: Object = {
        "name": given.get("name", f"j-{number}"),
        "namespace": "default",
        "uid": given.get("uid", f"u{number:04}"),
        "resourceVersion": "1",
        "creationTimestamp": rfc3339(NOW - 3600),
        "annotations": annotations,
        "finalizers": [TRACKING_FINALIZER] if given.get("held", True) else [],
    }
    if given.get("deleted"):
        metadata |= {"deletionTimestamp": STAMP, "deletionGracePeriodSeconds": 0}
    status: Object = {"phase": phase, "conditions": given.get("conditions", [])}
    if phase in ("Succeeded", "Failed"):
        terminated = {"exitCode": code, "finishedAt": rfc3339(NOW - ended)}
        status["containerStatuses"] = [{"name": "c", "restartCount": 0, "state": {"terminated": terminated}}]
    elif given.get("restarts"):
        status["containerStatuses"] = [{"name": "c", "restartCount": given["restarts"], "state": {}}]
    spec = {"containers": [{"name": "c"}], "nodeName": given.get("node", "n")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def many(number: int, phase: str = "Running", **given: Any) -> list[Object]:
    return [pod(phase, **given) for _ in range(number)]


def uids(pods: list[Object]) -> list[str]:
    return [one["metadata"]["uid"] for one in pods]
