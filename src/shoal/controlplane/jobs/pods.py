"""Pods of a Job: finalizer, index, failure, and new pods from the template. Pure."""

from __future__ import annotations

from typing import Any

from shoal.controlplane.jobs.policies import judged
from shoal.kinds.jobs import (
    COMPLETION_INDEX,
    IGNORED_INDEX_FAILURES,
    INDEX_FAILURES,
    TRACKING,
    has_limit_per_index,
    is_indexed,
    replaces_only_failed,
)

Object = dict[str, Any]

UNHOLD: Object = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING]}}
"""Strategic merge patch that removes the finalizer. It does not conflict with other writers of finalizers."""
_INDEX_VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}},
}
_LONGEST_PREFIX = 58
"""Maximum length of the prefix of a generated name."""


def is_held(pod: Object) -> bool:
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def phase_of(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def is_failed(pod: Object, job: Object) -> bool:
    """A deleted pod counts as failed at once or, with podReplacementPolicy Failed, after it has terminated. A pod that
    was never bound to a node has nothing to terminate.
    """
    phase, metadata = phase_of(pod), pod["metadata"]
    if phase == "Failed":
        return True
    if "deletionTimestamp" not in metadata or phase == "Succeeded":
        return False
    return not replaces_only_failed(job) or not pod["spec"].get("nodeName")


def index_of(pod: Object) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(COMPLETION_INDEX, "")
    return int(text) if text.isdecimal() else None


def is_valid(pod: Object, job: Object) -> bool:
    """Returns whether the pod counts: a pod of an indexed Job needs an index below the completions."""
    if not is_indexed(job):
        return True
    index = index_of(pod)
    return index is not None and index < job["spec"]["completions"]


def index_failures(pod: Object) -> int:
    """Returns earlier failures of its index that count against the limit."""
    return _number(pod, INDEX_FAILURES)


def all_index_failures(pod: Object) -> int:
    return _number(pod, INDEX_FAILURES) + _number(pod, IGNORED_INDEX_FAILURES)


def _number(pod: Object, annotation: str) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "")
    return int(text) if text.isdecimal() and int(text) < 2**31 else 0


def has_failed_index(pod: Object, job: Object) -> bool:
    """Returns whether its failure exhausts the limit of its index."""
    if not is_failed(pod, job):
        return False
    verdict = judged(job, pod)
    over = index_failures(pod) >= job["spec"]["backoffLimitPerIndex"]
    return verdict.action == "FailIndex" or (verdict.counts and over)


def made_pod(job: Object, reference: Object, index: int | None, replaced: Object | None) -> Object:
    """`replaced` is the pod that failed last at this index."""
    name, template = job["metadata"]["name"], job["spec"]["template"]
    given, spec = template.get("metadata") or {}, template["spec"]
    metadata: Object = {
        "generateName": f"{name}-",
        "ownerReferences": [reference],
        "labels": dict(given.get("labels") or {}),
        "annotations": dict(given.get("annotations") or {}),
        "finalizers": [one for one in given.get("finalizers") or () if one != TRACKING] + [TRACKING],
    }
    if index is not None:
        ending = f"-{index}-"
        metadata["generateName"] = f"{name[: _LONGEST_PREFIX - len(ending)]}{ending}"
        metadata["labels"][COMPLETION_INDEX] = metadata["annotations"][COMPLETION_INDEX] = str(index)
        if has_limit_per_index(job):
            metadata["annotations"] |= _failures_so_far(job, replaced)
        spec = _with_index(spec) | {"hostname": f"{name}-{index}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _failures_so_far(job: Object, replaced: Object | None) -> Object:
    if replaced is None:
        return {INDEX_FAILURES: "0"}
    counts = judged(job, replaced).counts
    ignored = _number(replaced, IGNORED_INDEX_FAILURES) + (not counts)
    found = {INDEX_FAILURES: str(index_failures(replaced) + counts)}
    return found | ({IGNORED_INDEX_FAILURES: str(ignored)} if ignored else {})


def _with_index(spec: Object) -> Object:
    """Adds the index variable to containers that do not define it."""
    made = dict(spec)
    for field in ("initContainers", "containers"):
        if spec.get(field):
            made[field] = [_knowing(container) for container in spec[field]]
    return made


def _knowing(container: Object) -> Object:
    variables = container.get("env") or []
    if any(one.get("name") == _INDEX_VARIABLE["name"] for one in variables):
        return container
    return {**container, "env": [*variables, _INDEX_VARIABLE]}
