"""Pods of a Job: finalizer, index, failure, and new pods from the template. Pure."""

from __future__ import annotations

from typing import Any

from shoal.controlplane.jobs.policies import match_pod_failure_policy
from shoal.kinds.batch.job import (
    COMPLETION_INDEX_ANNOTATION,
    IGNORED_INDEX_FAILURES_ANNOTATION,
    INDEX_FAILURES_ANNOTATION,
    TRACKING_FINALIZER,
    has_backoff_limit_per_index,
    is_indexed,
    only_replaces_failed_pods,
)

Object = dict[str, Any]

REMOVE_FINALIZER_PATCH: Object = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}}
"""Strategic merge patch that removes the finalizer. It does not conflict with other writers of finalizers."""
_INDEX_VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX_ANNOTATION}']"}},
}
_MAX_PREFIX_LENGTH = 58
"""Maximum length of the prefix of a generated name."""


def has_tracking_finalizer(pod: Object) -> bool:
    return TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or ())


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
    return not only_replaces_failed_pods(job) or not pod["spec"].get("nodeName")


def completion_index(pod: Object) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(COMPLETION_INDEX_ANNOTATION, "")
    return int(text) if text.isdecimal() else None


def has_valid_index(pod: Object, job: Object) -> bool:
    """Returns whether the pod counts: a pod of an indexed Job needs an index below the completions."""
    if not is_indexed(job):
        return True
    index = completion_index(pod)
    return index is not None and index < job["spec"]["completions"]


def index_failures(pod: Object) -> int:
    """Returns earlier failures of its index that count against the limit."""
    return _count_annotation(pod, INDEX_FAILURES_ANNOTATION)


def all_index_failures(pod: Object) -> int:
    return _count_annotation(pod, INDEX_FAILURES_ANNOTATION) + _count_annotation(pod, IGNORED_INDEX_FAILURES_ANNOTATION)


def _count_annotation(pod: Object, annotation: str) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "")
    return int(text) if text.isdecimal() and int(text) < 2**31 else 0


def has_failed_index(pod: Object, job: Object) -> bool:
    """Returns whether its failure exhausts the limit of its index."""
    if not is_failed(pod, job):
        return False
    action = match_pod_failure_policy(job, pod)
    limit_reached = index_failures(pod) >= job["spec"]["backoffLimitPerIndex"]
    return action.action == "FailIndex" or (action.is_counted and limit_reached)


def new_pod(job: Object, reference: Object, index: int | None, replaced: Object | None) -> Object:
    """`replaced` is the pod that failed last at this index."""
    name, template = job["metadata"]["name"], job["spec"]["template"]
    template_metadata, spec = template.get("metadata") or {}, template["spec"]
    metadata: Object = {
        "generateName": f"{name}-",
        "ownerReferences": [reference],
        "labels": dict(template_metadata.get("labels") or {}),
        "annotations": dict(template_metadata.get("annotations") or {}),
        "finalizers": [one for one in template_metadata.get("finalizers") or () if one != TRACKING_FINALIZER]
        + [TRACKING_FINALIZER],
    }
    if index is not None:
        suffix = f"-{index}-"
        metadata["generateName"] = f"{name[: _MAX_PREFIX_LENGTH - len(suffix)]}{suffix}"
        metadata["labels"][COMPLETION_INDEX_ANNOTATION] = metadata["annotations"][COMPLETION_INDEX_ANNOTATION] = str(
            index
        )
        if has_backoff_limit_per_index(job):
            metadata["annotations"] |= _failure_annotations(job, replaced)
        spec = _with_index_variable(spec) | {"hostname": f"{name}-{index}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _failure_annotations(job: Object, replaced: Object | None) -> Object:
    if replaced is None:
        return {INDEX_FAILURES_ANNOTATION: "0"}
    counts = match_pod_failure_policy(job, replaced).is_counted
    ignored = _count_annotation(replaced, IGNORED_INDEX_FAILURES_ANNOTATION) + (not counts)
    annotations = {INDEX_FAILURES_ANNOTATION: str(index_failures(replaced) + counts)}
    return annotations | ({IGNORED_INDEX_FAILURES_ANNOTATION: str(ignored)} if ignored else {})


def _with_index_variable(spec: Object) -> Object:
    """Adds the index variable to containers that do not define it."""
    result = dict(spec)
    for field in ("initContainers", "containers"):
        if spec.get(field):
            result[field] = [_add_index_variable(container) for container in spec[field]]
    return result


def _add_index_variable(container: Object) -> Object:
    variables = container.get("env") or []
    if any(one.get("name") == _INDEX_VARIABLE["name"] for one in variables):
        return container
    return {**container, "env": [*variables, _INDEX_VARIABLE]}
