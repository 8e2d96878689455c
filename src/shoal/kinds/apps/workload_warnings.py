"""Warnings about valid workloads, Jobs, Ingresses and RuntimeClasses, sent with the response. Upstream's words; pure.

Template warnings are in `core.pod_warnings`. They apply to new objects and to changed generations.
"""

from __future__ import annotations

from shoal.kinds.core.pod_warnings import DEPRECATED_NODE_LABELS, template_warner
from shoal.kinds.core.volume_warnings import claim_warnings
from shoal.kinds.networking.ingress import CLASS_ANNOTATION
from shoal.kinds.validation.field import Object
from shoal.objects.names import is_dns1123_label

_NAME_NOTICE = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is "
    "recommended: "
)
_MAX_TRACKED_COMPLETIONS, _MAX_TRACKED_PARALLELISM = 100_000, 10_000
_UNTRACKED = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes "
    "might not be able to track completedIndexes when a big number of indexes fail"
)
_NEGATIVE_HISTORY_LIMIT = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
)
_TIME_ZONE_IN_SCHEDULE = (
    "cannot use TZ or CRON_TZ in spec.schedule, use timeZone instead, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)

_template_warnings = template_warner("spec", "template")
_cron_template_warnings = template_warner("spec", "jobTemplate", "spec", "template")


def workload_warnings(obj: Object, old: Object | None) -> list[str]:
    """Warns of a Deployment, ReplicaSet or ReplicationController."""
    return _name_warnings(obj, old) + _template_warnings(obj, old)


def daemon_set_warnings(obj: Object, old: Object | None) -> list[str]:
    if old is not None and obj["spec"].get("template") == old["spec"].get("template"):
        return []
    return _template_warnings(obj, old)


def stateful_set_warnings(obj: Object, old: Object | None) -> list[str]:
    warnings, spec = _template_warnings(obj, old), obj["spec"]
    for i, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        # Upstream uses two different paths.
        path = f"spec.volumeClaimTemplates[{i}]" + (".Spec" if old is not None else "")
        warnings += claim_warnings(claim.get("spec") or {}, path)
    return [*warnings, _NEGATIVE_HISTORY_LIMIT] if (spec.get("revisionHistoryLimit") or 0) < 0 else warnings


def job_warnings(obj: Object, old: Object | None) -> list[str]:
    return (
        _name_warnings(obj, old)
        + _index_tracking_warnings(obj, old, obj["spec"], "spec")
        + _template_warnings(obj, old)
    )


def cron_job_warnings(obj: Object, old: Object | None) -> list[str]:
    spec = obj["spec"]
    warnings = _name_warnings(obj, old) + _index_tracking_warnings(
        obj, old, spec["jobTemplate"]["spec"], "spec.jobTemplate.spec"
    )
    warnings += _cron_template_warnings(obj, old)
    return [*warnings, _TIME_ZONE_IN_SCHEDULE] if old is not None and "TZ" in (spec.get("schedule") or "") else warnings


def ingress_warnings(obj: Object, old: Object | None) -> list[str]:
    has_class_annotation = CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {})
    if old is not None or not has_class_annotation or obj["spec"].get("ingressClassName") is not None:
        return []
    return [f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]


def runtime_class_warnings(obj: Object, old: Object | None) -> list[str]:
    selector = (obj.get("scheduling") or {}).get("nodeSelector") or {}
    return [
        f"scheduling.nodeSelector: {DEPRECATED_NODE_LABELS[key]}" for key in selector if key in DEPRECATED_NODE_LABELS
    ]


def _name_warnings(obj: Object, old: Object | None) -> list[str]:
    if old is not None or not (messages := is_dns1123_label(obj["metadata"].get("name") or "")):
        return []
    return [f"{_NAME_NOTICE}[{' '.join(messages)}]"]


def _index_tracking_warnings(obj: Object, old: Object | None, spec: Object, path: str) -> list[str]:
    if old is not None and obj["metadata"].get("generation") == old["metadata"].get("generation"):
        return []
    if spec.get("completionMode") != "Indexed" or (spec.get("completions") or 0) <= _MAX_TRACKED_COMPLETIONS:
        return []
    return [f"{path}: {_UNTRACKED}"] if (spec.get("parallelism") or 0) > _MAX_TRACKED_PARALLELISM else []
