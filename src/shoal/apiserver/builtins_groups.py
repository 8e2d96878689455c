"""Strategies of the built-in kinds outside the core group, by `plural.group` (or `plural.version.group`)."""

from __future__ import annotations

from functools import partial

from shoal.apiserver.registry import ScalePaths
from shoal.apiserver.rules import Rules, Shared
from shoal.apiserver.timezones import is_zone
from shoal.kinds import (
    admissionregistration,
    admissionregistration_policies,
    apps,
    apps_validation,
    autoscaling,
    autoscaling_validation,
    batch,
    batch_validation,
    certificates,
    discovery,
    flowcontrol,
    networking,
    networking_ingress,
    node,
    policy,
    resource,
    resource_slices,
    scheduling,
    storage,
    workload_warnings,
)
from shoal.objects.names import is_dns1123_label, is_path_segment_name

_hooks, _policies = admissionregistration, admissionregistration_policies

_APPS: dict[str, Rules] = {
    "deployments.apps": Rules(
        status_metadata=True,
        generation=True,
        default=apps.default_deployment,
        prepare_update=apps.keep_deployment,
        prepare_status=apps.keep_labels,
        resets=apps.STATUS_RESETS,
        validate=apps_validation.validate_deployment,
        warn=workload_warnings.workload_warnings,
    ),
    "replicasets.apps": Rules(
        status_metadata=True,
        generation=True,
        default=apps.default_replica_set,
        validate=apps_validation.validate_replica_set,
        warn=workload_warnings.workload_warnings,
    ),
    "statefulsets.apps": Rules(
        status_metadata=True,
        generation=True,
        name=is_dns1123_label,
        default=apps.default_stateful_set,
        validate=apps_validation.validate_stateful_set,
        warn=workload_warnings.stateful_set_warnings,
    ),
    "daemonsets.apps": Rules(
        status_metadata=True,
        generation=True,
        default=apps.default_daemon_set,
        prepare_create=apps.create_daemon_set,
        prepare_update=apps.keep_daemon_set,
        prepare_status=apps.keep_template_generation,
        validate=apps_validation.validate_daemon_set,
        warn=workload_warnings.daemon_set_warnings,
    ),
    "controllerrevisions.apps": Rules(
        default=apps.default_controller_revision, validate=apps_validation.validate_controller_revision
    ),
    "jobs.batch": Rules(
        status_metadata=True,
        generation=True,
        default=batch.default_job,
        prepare_create=batch.create_job,
        complete=batch.complete_job,
        validate=batch_validation.validate_job,
        warn=workload_warnings.job_warnings,
        field=batch.job_field,
    ),
    "cronjobs.batch": Rules(
        status_metadata=True,
        generation=True,
        default=batch.default_cron_job,
        validate=partial(batch_validation.validate_cron_job, is_zone=is_zone),
        warn=workload_warnings.cron_job_warnings,
    ),
    "horizontalpodautoscalers.autoscaling": Rules(
        status_metadata=True, default=autoscaling.default_v2, validate=autoscaling_validation.validate_v2
    ),
    "horizontalpodautoscalers.v1.autoscaling": Rules(
        status_metadata=True,
        default=autoscaling.default_v1,
        prepare_update=autoscaling.keep_v1_status,
        validate=autoscaling_validation.validate_v1,
        shared=Shared("autoscaling", autoscaling.to_v2, autoscaling.to_v1, str),
    ),
    "poddisruptionbudgets.policy": Rules(
        status_metadata=True,
        generation=True,
        unconditional=False,
        plain_finalizers=True,
        name=is_path_segment_name,
        default=policy.default_budget,
        validate=policy.validate_budget,
    ),
}
_NETWORKING: dict[str, Rules] = {
    "ingresses.networking.k8s.io": Rules(
        status_metadata=True,
        generation=True,
        default=networking_ingress.default_ingress,
        validate=networking_ingress.validate_ingress,
        warn=workload_warnings.ingress_warnings,
    ),
    "ingressclasses.networking.k8s.io": Rules(
        generation=True, default=networking.default_ingress_class, validate=networking.validate_ingress_class
    ),
    "networkpolicies.networking.k8s.io": Rules(
        generation=True, default=networking.default_network_policy, validate=networking.validate_network_policy
    ),
    "ipaddresses.networking.k8s.io": Rules(
        name=networking.is_ip_name, suffixed=False, validate=networking.validate_ip_address
    ),
    "servicecidrs.networking.k8s.io": Rules(
        default=networking.default_service_cidr, validate=networking.validate_service_cidr
    ),
    "endpointslices.discovery.k8s.io": Rules(
        generation=True,
        default=discovery.default_endpoint_slice,
        prepare_update=discovery.count_labels,
        validate=discovery.validate_endpoint_slice,
    ),
}
_STORAGE: dict[str, Rules] = {
    "storageclasses.storage.k8s.io": Rules(
        default=storage.default_storage_class,
        validate=storage.validate_storage_class,
        warn=storage.warn_storage_class,
    ),
    "volumeattributesclasses.storage.k8s.io": Rules(validate=storage.validate_attributes_class),
    "volumeattachments.storage.k8s.io": Rules(
        unconditional=False, default=storage.default_attachment, validate=storage.validate_attachment
    ),
    "csidrivers.storage.k8s.io": Rules(
        unconditional=False,
        default=storage.default_driver,
        prepare_create=storage.create_driver,
        prepare_update=storage.update_driver,
        validate=storage.validate_driver,
        warn=storage.warn_driver,
    ),
    "csinodes.storage.k8s.io": Rules(
        unconditional=False,
        default=storage.default_node,
        prepare_create=storage.keep_node,
        prepare_update=storage.keep_node,
        validate=storage.validate_node,
    ),
    "csistoragecapacities.storage.k8s.io": Rules(
        unconditional=False,
        default=storage.default_capacity,
        validate=storage.validate_capacity,
        warn=storage.warn_capacity,
    ),
}
_ADMISSION: dict[str, Rules] = {
    "validatingwebhookconfigurations.admissionregistration.k8s.io": Rules(
        generation=True,
        unconditional=False,
        plain_finalizers=True,
        default=_hooks.default_validating,
        validate=_hooks.validate_webhooks,
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": Rules(
        generation=True,
        unconditional=False,
        plain_finalizers=True,
        default=_hooks.default_mutating,
        validate=_hooks.validate_webhooks,
    ),
    "validatingadmissionpolicies.admissionregistration.k8s.io": Rules(
        generation=True,
        unconditional=False,
        plain_finalizers=True,
        default=_policies.default_validating_policy,
        validate=_policies.validate_validating_policy,
    ),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": Rules(
        generation=True,
        unconditional=False,
        plain_finalizers=True,
        default=_policies.default_policy,
        validate=_policies.validate_mutating_policy,
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": Rules(
        generation=True,
        unconditional=False,
        plain_finalizers=True,
        default=_policies.default_binding,
        validate=_policies.validate_validating_binding,
    ),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": Rules(
        generation=True,
        unconditional=False,
        plain_finalizers=True,
        default=_policies.default_binding,
        validate=_policies.validate_mutating_binding,
    ),
}
_CLUSTER: dict[str, Rules] = {
    "priorityclasses.scheduling.k8s.io": Rules(
        default=scheduling.default_priority_class,
        prepare_create=scheduling.create_priority_class,
        validate=scheduling.validate_priority_class,
    ),
    "runtimeclasses.node.k8s.io": Rules(
        unconditional=False,
        create_on_update=True,
        plain_finalizers=True,
        default=node.default_runtime_class,
        validate=node.validate_runtime_class,
        warn=workload_warnings.runtime_class_warnings,
    ),
    "certificatesigningrequests.certificates.k8s.io": Rules(
        status_metadata=True,
        name=is_path_segment_name,
        default=certificates.default_request,
        prepare_update=certificates.keep_request,
        resets=certificates.RESETS,
        validate=certificates.validate_request,
    ),
    "flowschemas.flowcontrol.apiserver.k8s.io": Rules(
        generation=True, default=flowcontrol.default_flow_schema, validate=flowcontrol.validate_flow_schema
    ),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": Rules(
        generation=True, default=flowcontrol.default_priority_level, validate=flowcontrol.validate_priority_level
    ),
    "deviceclasses.resource.k8s.io": Rules(
        generation=True, prefix=False, default=resource.default_class, validate=resource.validate_class
    ),
    "resourceclaims.resource.k8s.io": Rules(
        default=resource.default_claim,
        prepare_create=resource.settle_claim,
        prepare_update=resource.settle_claim,
        validate=resource.validate_claim,
    ),
    "resourceclaimtemplates.resource.k8s.io": Rules(
        default=resource.default_claim_template,
        prepare_create=resource.settle_claim_template,
        prepare_update=resource.settle_claim_template,
        validate=resource.validate_claim_template,
    ),
    "resourceslices.resource.k8s.io": Rules(
        generation=True,
        default=resource_slices.default_slice,
        validate=resource_slices.validate_slice,
        warn=resource_slices.warn_slice,
    ),
}

GROUP_RULES: dict[str, Rules] = {**_APPS, **_NETWORKING, **_STORAGE, **_ADMISSION, **_CLUSTER}

_REPLICAS = ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector")
SCALES: dict[str, ScalePaths] = {
    "deployments.apps": _REPLICAS,
    "replicasets.apps": _REPLICAS,
    "statefulsets.apps": _REPLICAS,
    "replicationcontrollers": _REPLICAS,
}
