"""Strategies of the core kinds: pods, services, nodes, volumes, quotas."""

from __future__ import annotations

from shoal.apiserver.registry.strategy import Strategy
from shoal.kinds.apps import workload_warnings
from shoal.kinds.core import (
    endpoints,
    nodes,
    persistentvolume,
    persistentvolumeclaim,
    pod_warnings,
    replicationcontroller,
    resourcequota,
    serviceaccount,
)
from shoal.kinds.core.pod import pods
from shoal.kinds.core.service import service_validation, service_warnings, services
from shoal.objects.names import is_dns1123_label

CORE_STRATEGIES: dict[str, Strategy] = {
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
        warnings=workload_warnings.workload_warnings,
        selectable_field_value=replicationcontroller.selectable_field,
    ),
    "services": Strategy(
        name_rule=is_dns1123_label,
        allow_create_on_update=True,
        default=services.default_service,
        prepare_for_create=services.prepare_service_create,
        prepare_for_update=services.prepare_service_update,
        validate=service_validation.validate_service,
        warnings=service_warnings.service_warnings,
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
}
