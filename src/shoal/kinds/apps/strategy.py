"""Strategies of the kinds of apps/v1, and the warnings about StatefulSets and DaemonSets."""

from __future__ import annotations

from shoal.kinds.apps import workload_defaults, workload_validation
from shoal.kinds.core.pod_warnings import template_warner, workload_warnings
from shoal.kinds.core.volume_warnings import claim_warnings
from shoal.kinds.strategy import REPLICA_PATHS, ScalePaths, Strategy
from shoal.kinds.validation.field import Object
from shoal.objects.names import is_dns1123_label

_NEGATIVE_HISTORY_LIMIT = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
)
_template_warnings = template_warner("spec", "template")


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


STRATEGIES: dict[str, Strategy] = {
    "deployments.apps": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        default=workload_defaults.default_deployment,
        prepare_for_update=workload_defaults.prepare_deployment_update,
        prepare_for_status_update=workload_defaults.prepare_deployment_status_update,
        reset_fields=workload_defaults.STATUS_RESET_FIELDS,
        validate=workload_validation.validate_deployment,
        warnings=workload_warnings,
    ),
    "replicasets.apps": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        default=workload_defaults.default_replica_set,
        validate=workload_validation.validate_replica_set,
        warnings=workload_warnings,
    ),
    "statefulsets.apps": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        name_rule=is_dns1123_label,
        default=workload_defaults.default_stateful_set,
        validate=workload_validation.validate_stateful_set,
        warnings=stateful_set_warnings,
    ),
    "daemonsets.apps": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        default=workload_defaults.default_daemon_set,
        prepare_for_create=workload_defaults.prepare_daemon_set_create,
        prepare_for_update=workload_defaults.prepare_daemon_set_update,
        prepare_for_status_update=workload_defaults.prepare_daemon_set_status_update,
        validate=workload_validation.validate_daemon_set,
        warnings=daemon_set_warnings,
    ),
    "controllerrevisions.apps": Strategy(
        default=workload_defaults.default_controller_revision, validate=workload_validation.validate_controller_revision
    ),
}

SCALE_PATHS: dict[str, ScalePaths] = {
    "deployments.apps": REPLICA_PATHS,
    "replicasets.apps": REPLICA_PATHS,
    "statefulsets.apps": REPLICA_PATHS,
}
