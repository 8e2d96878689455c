"""Strategies of the core kinds: pods, services, nodes, volumes, quotas."""

from __future__ import annotations

from shoal.apiserver.rules import Rules
from shoal.kinds import (
    accounts,
    claims,
    endpoints,
    nodes,
    pod_warnings,
    pods,
    quotas,
    replicationcontrollers,
    service_validation,
    service_warnings,
    services,
    volumes,
    workload_warnings,
)
from shoal.objects.names import is_dns1123_label

CORE_RULES: dict[str, Rules] = {
    "pods": Rules(
        generation=True,
        default=pods.default_pod,
        prepare_create=pods.create_pod,
        prepare_update=pods.update_pod,
        prepare_status=pods.keep_qos,
        grace=pods.grace_seconds,
        validate=pods.validate_pod,
        warn=pod_warnings.pod_warnings,
        field=pods.selectable,
    ),
    "podtemplates": Rules(
        generation=True,
        default=pods.default_template,
        validate=pods.validate_template,
        warn=pod_warnings.of_template("template"),
    ),
    "replicationcontrollers": Rules(
        generation=True,
        prefix=False,
        default=replicationcontrollers.default_controller,
        prepare_create=replicationcontrollers.create_controller,
        validate=replicationcontrollers.validate_controller,
        warn=workload_warnings.workload_warnings,
        field=replicationcontrollers.selectable,
    ),
    "services": Rules(
        name=is_dns1123_label,
        create_on_update=True,
        default=services.default_service,
        prepare_create=services.create_service,
        prepare_update=services.update_service,
        validate=service_validation.validate_service,
        warn=service_warnings.service_warnings,
    ),
    "endpoints": Rules(
        create_on_update=True, default=endpoints.default_endpoints, validate=endpoints.validate_endpoints
    ),
    "nodes": Rules(
        status_on_create=True,
        default=nodes.default_node,
        prepare_create=nodes.drop_config,
        prepare_update=nodes.drop_config,
        validate=nodes.validate_node,
        field=nodes.selectable,
    ),
    "serviceaccounts": Rules(
        prepare_create=accounts.only_names, prepare_update=accounts.only_names, warn=accounts.warn_account
    ),
    "persistentvolumes": Rules(
        default=volumes.default_volume,
        prepare_create=volumes.create_volume,
        validate=volumes.validate_volume,
        warn=volumes.warn_volume,
    ),
    "persistentvolumeclaims": Rules(
        default=claims.default_claim,
        prepare_create=claims.create_claim,
        prepare_update=claims.update_claim,
        validate=claims.validate_claim,
        warn=claims.warn_claim,
    ),
    "resourcequotas": Rules(
        default=quotas.default_quota, prepare_create=quotas.create_quota, validate=quotas.validate_quota
    ),
    "limitranges": Rules(
        create_on_update=True,
        default=quotas.default_limits,
        prepare_create=quotas.create_limits,
        prepare_update=quotas.keep_limits,
        validate=quotas.validate_limits,
    ),
}
