"""Strategies of the kinds of v1, and of the Events of events.k8s.io/v1, which are the same objects."""

from __future__ import annotations

from shoal.kinds.core import (
    endpoints,
    event,
    event_validation,
    nodes,
    persistentvolume,
    persistentvolumeclaim,
    pod_warnings,
    replicationcontroller,
    resourcequota,
    secret,
    serviceaccount,
)
from shoal.kinds.core.pod import pods
from shoal.kinds.core.secret_warnings import warn_secret
from shoal.kinds.core.service import service_validation, services
from shoal.kinds.strategy import REPLICA_PATHS, ScalePaths, StorageAlias, Strategy
from shoal.objects.names import is_dns1123_label, is_path_segment_name

STRATEGIES: dict[str, Strategy] = {
    "pods": Strategy(
        tracks_generation=True,
        default=pods.default_pod,
        prepare_for_create=pods.prepare_pod_create,
        prepare_for_update=pods.prepare_pod_update,
        prepare_for_status_update=pods.prepare_pod_status_update,
        check_graceful_delete=pods.grace_seconds,
        validate=pods.validate_pod,
        warnings=pod_warnings.pod_warnings,
        selectable_field_value=pods.selectable_field,
    ),
    "podtemplates": Strategy(
        tracks_generation=True,
        default=pods.default_pod_template_object,
        validate=pods.validate_pod_template_object,
        warnings=pod_warnings.template_warner("template"),
    ),
    "replicationcontrollers": Strategy(
        tracks_generation=True,
        validate_generate_name=False,
        default=replicationcontroller.default_replication_controller,
        prepare_for_create=replicationcontroller.prepare_replication_controller_create,
        validate=replicationcontroller.validate_replication_controller,
        warnings=pod_warnings.workload_warnings,
        selectable_field_value=replicationcontroller.selectable_field,
    ),
    "services": Strategy(
        name_rule=is_dns1123_label,
        allow_create_on_update=True,
        default=services.default_service,
        prepare_for_create=services.prepare_service_create,
        prepare_for_update=services.prepare_service_update,
        validate=service_validation.validate_service,
        warnings=services.service_warnings,
    ),
    "endpoints": Strategy(
        allow_create_on_update=True, default=endpoints.default_endpoints, validate=endpoints.validate_endpoints
    ),
    "nodes": Strategy(
        status_on_create=True,
        default=nodes.default_node,
        prepare_for_create=nodes.drop_config_source,
        prepare_for_update=nodes.drop_config_source,
        validate=nodes.validate_node,
        selectable_field_value=nodes.selectable_field,
    ),
    "serviceaccounts": Strategy(
        prepare_for_create=serviceaccount.prune_secret_references,
        prepare_for_update=serviceaccount.prune_secret_references,
        warnings=serviceaccount.warn_service_account,
    ),
    "configmaps": Strategy(validate=secret.validate_config_map),
    "secrets": Strategy(default=secret.default_secret, validate=secret.validate_secret, warnings=warn_secret),
    "namespaces": Strategy(
        name_rule=is_dns1123_label,
        default=secret.default_namespace,
        prepare_for_create=secret.prepare_namespace_create,
        prepare_for_update=secret.prepare_namespace_update,
        prepare_for_delete=secret.mark_namespace_terminating,
        validate=secret.validate_namespace,
    ),
    "persistentvolumes": Strategy(
        default=persistentvolume.default_volume,
        prepare_for_create=persistentvolume.prepare_volume_create,
        validate=persistentvolume.validate_volume,
        warnings=persistentvolume.warn_volume,
    ),
    "persistentvolumeclaims": Strategy(
        default=persistentvolumeclaim.default_claim,
        prepare_for_create=persistentvolumeclaim.prepare_claim_create,
        prepare_for_update=persistentvolumeclaim.prepare_claim_update,
        validate=persistentvolumeclaim.validate_claim,
        warnings=persistentvolumeclaim.warn_claim,
    ),
    "resourcequotas": Strategy(
        default=resourcequota.default_quota,
        prepare_for_create=resourcequota.prepare_quota_create,
        validate=resourcequota.validate_quota,
    ),
    "limitranges": Strategy(
        allow_create_on_update=True,
        default=resourcequota.default_limit_range,
        prepare_for_create=resourcequota.prepare_limit_range_create,
        prepare_for_update=resourcequota.prepare_limit_range_update,
        validate=resourcequota.validate_limit_range,
    ),
    "events": Strategy(
        drop_other_form_managers=True,
        name_rule=is_path_segment_name,
        allow_unqualified_finalizers=True,
        allow_create_on_update=True,
        selectable_field_value=event.selectable_field,
        default=event.default_event,
        validate=event_validation.validate_core_event,
    ),
    "events.events.k8s.io": Strategy(
        drop_other_form_managers=True,
        allow_create_on_update=True,
        default=event.default_event,
        selectable_field_value=event.selectable_field,
        validate=event_validation.validate_event,
        storage_alias=StorageAlias("", event.to_core, event.from_core, event.to_core_path),
    ),
}

SCALE_PATHS: dict[str, ScalePaths] = {"replicationcontrollers": REPLICA_PATHS}
