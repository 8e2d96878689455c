"""Strategies of the built-in kinds outside the core group, by `plural.group` (or `plural.version.group`)."""

from __future__ import annotations

from functools import partial

from shoal.apiserver.registry.registry import ScalePaths
from shoal.apiserver.registry.strategy import StorageAlias, Strategy
from shoal.kinds.admissionregistration import policy_specs, webhooks
from shoal.kinds.apps import workload_defaults, workload_validation, workload_warnings
from shoal.kinds.autoscaling import hpa, hpa_validation
from shoal.kinds.batch import job_defaults, job_validation
from shoal.kinds.batch.timezones import is_time_zone
from shoal.kinds.certificates import csr
from shoal.kinds.discovery import endpointslice
from shoal.kinds.flowcontrol import flowcontrol
from shoal.kinds.networking import ingress, networking
from shoal.kinds.node import runtimeclass
from shoal.kinds.policy import poddisruptionbudget
from shoal.kinds.resource import resourceclaim, resourceslice
from shoal.kinds.scheduling import priorityclass
from shoal.kinds.storage import storage
from shoal.objects.names import is_dns1123_label, is_path_segment_name

_hooks, _policies = webhooks, policy_specs

_APPS: dict[str, Strategy] = {
    "deployments.apps": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        default=workload_defaults.default_deployment,
        prepare_for_update=workload_defaults.prepare_deployment_update,
        prepare_for_status_update=workload_defaults.prepare_deployment_status_update,
        reset_fields=workload_defaults.STATUS_RESET_FIELDS,
        validate=workload_validation.validate_deployment,
        warnings=workload_warnings.workload_warnings,
    ),
    "replicasets.apps": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        default=workload_defaults.default_replica_set,
        validate=workload_validation.validate_replica_set,
        warnings=workload_warnings.workload_warnings,
    ),
    "statefulsets.apps": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        name_rule=is_dns1123_label,
        default=workload_defaults.default_stateful_set,
        validate=workload_validation.validate_stateful_set,
        warnings=workload_warnings.stateful_set_warnings,
    ),
    "daemonsets.apps": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        default=workload_defaults.default_daemon_set,
        prepare_for_create=workload_defaults.prepare_daemon_set_create,
        prepare_for_update=workload_defaults.prepare_daemon_set_update,
        prepare_for_status_update=workload_defaults.prepare_daemon_set_status_update,
        validate=workload_validation.validate_daemon_set,
        warnings=workload_warnings.daemon_set_warnings,
    ),
    "controllerrevisions.apps": Strategy(
        default=workload_defaults.default_controller_revision, validate=workload_validation.validate_controller_revision
    ),
    "jobs.batch": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        default=job_defaults.default_job,
        prepare_for_create=job_defaults.prepare_job_create,
        canonicalize=job_defaults.canonicalize_job,
        validate=job_validation.validate_job,
        warnings=workload_warnings.job_warnings,
        selectable_field_value=job_defaults.selectable_field,
    ),
    "cronjobs.batch": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        default=job_defaults.default_cron_job,
        validate=partial(job_validation.validate_cron_job, is_zone=is_time_zone),
        warnings=workload_warnings.cron_job_warnings,
    ),
    "horizontalpodautoscalers.autoscaling": Strategy(
        status_writes_metadata=True, default=hpa.default_hpa_v2, validate=hpa_validation.validate_hpa_v2
    ),
    "horizontalpodautoscalers.v1.autoscaling": Strategy(
        status_writes_metadata=True,
        default=hpa.default_hpa_v1,
        prepare_for_update=hpa.prepare_v1_update,
        validate=hpa_validation.validate_hpa_v1,
        storage_alias=StorageAlias("autoscaling", hpa.to_v2, hpa.to_v1, str),
    ),
    "poddisruptionbudgets.policy": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        name_rule=is_path_segment_name,
        default=poddisruptionbudget.default_pod_disruption_budget,
        validate=poddisruptionbudget.validate_pod_disruption_budget,
    ),
}
_NETWORKING: dict[str, Strategy] = {
    "ingresses.networking.k8s.io": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        default=ingress.default_ingress,
        validate=ingress.validate_ingress,
        warnings=workload_warnings.ingress_warnings,
    ),
    "ingressclasses.networking.k8s.io": Strategy(
        tracks_generation=True, default=networking.default_ingress_class, validate=networking.validate_ingress_class
    ),
    "networkpolicies.networking.k8s.io": Strategy(
        tracks_generation=True, default=networking.default_network_policy, validate=networking.validate_network_policy
    ),
    "ipaddresses.networking.k8s.io": Strategy(
        name_rule=networking.is_ip_address_name, generate_suffix=False, validate=networking.validate_ip_address
    ),
    "servicecidrs.networking.k8s.io": Strategy(
        default=networking.default_service_cidr, validate=networking.validate_service_cidr
    ),
    "endpointslices.discovery.k8s.io": Strategy(
        tracks_generation=True,
        default=endpointslice.default_endpoint_slice,
        prepare_for_update=endpointslice.bump_generation_on_label_change,
        validate=endpointslice.validate_endpoint_slice,
    ),
}
_STORAGE: dict[str, Strategy] = {
    "storageclasses.storage.k8s.io": Strategy(
        default=storage.default_storage_class,
        validate=storage.validate_storage_class,
        warnings=storage.warn_storage_class,
    ),
    "volumeattributesclasses.storage.k8s.io": Strategy(validate=storage.validate_volume_attributes_class),
    "volumeattachments.storage.k8s.io": Strategy(
        allow_unconditional_update=False,
        default=storage.default_volume_attachment,
        validate=storage.validate_volume_attachment,
    ),
    "csidrivers.storage.k8s.io": Strategy(
        allow_unconditional_update=False,
        default=storage.default_csi_driver,
        prepare_for_create=storage.prepare_csi_driver_create,
        prepare_for_update=storage.prepare_csi_driver_update,
        validate=storage.validate_csi_driver,
        warnings=storage.warn_csi_driver,
    ),
    "csinodes.storage.k8s.io": Strategy(
        allow_unconditional_update=False,
        default=storage.default_csi_node,
        prepare_for_create=storage.canonicalize_csi_node,
        prepare_for_update=storage.canonicalize_csi_node,
        validate=storage.validate_csi_node,
    ),
    "csistoragecapacities.storage.k8s.io": Strategy(
        allow_unconditional_update=False,
        default=storage.default_csi_storage_capacity,
        validate=storage.validate_csi_storage_capacity,
        warnings=storage.warn_csi_storage_capacity,
    ),
}
_ADMISSION: dict[str, Strategy] = {
    "validatingwebhookconfigurations.admissionregistration.k8s.io": Strategy(
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        default=_hooks.default_validating_webhooks,
        validate=_hooks.validate_webhooks,
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": Strategy(
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        default=_hooks.default_mutating_webhooks,
        validate=_hooks.validate_webhooks,
    ),
    "validatingadmissionpolicies.admissionregistration.k8s.io": Strategy(
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        default=_policies.default_validating_policy,
        validate=_policies.validate_validating_policy,
    ),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": Strategy(
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        default=_policies.default_policy,
        validate=_policies.validate_mutating_policy,
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": Strategy(
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        default=_policies.default_binding,
        validate=_policies.validate_validating_binding,
    ),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": Strategy(
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        default=_policies.default_binding,
        validate=_policies.validate_mutating_binding,
    ),
}
_CLUSTER: dict[str, Strategy] = {
    "priorityclasses.scheduling.k8s.io": Strategy(
        default=priorityclass.default_priority_class,
        prepare_for_create=priorityclass.prepare_priority_class_create,
        validate=priorityclass.validate_priority_class,
    ),
    "runtimeclasses.node.k8s.io": Strategy(
        allow_unconditional_update=False,
        allow_create_on_update=True,
        allow_unqualified_finalizers=True,
        default=runtimeclass.default_runtime_class,
        validate=runtimeclass.validate_runtime_class,
        warnings=workload_warnings.runtime_class_warnings,
    ),
    "certificatesigningrequests.certificates.k8s.io": Strategy(
        status_writes_metadata=True,
        name_rule=is_path_segment_name,
        default=csr.default_csr,
        prepare_for_update=csr.prepare_csr_update,
        reset_fields=csr.RESET_FIELDS,
        validate=csr.validate_csr,
    ),
    "flowschemas.flowcontrol.apiserver.k8s.io": Strategy(
        tracks_generation=True, default=flowcontrol.default_flow_schema, validate=flowcontrol.validate_flow_schema
    ),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": Strategy(
        tracks_generation=True, default=flowcontrol.default_priority_level, validate=flowcontrol.validate_priority_level
    ),
    "deviceclasses.resource.k8s.io": Strategy(
        tracks_generation=True,
        validate_generate_name=False,
        default=resourceclaim.default_device_class,
        validate=resourceclaim.validate_device_class,
    ),
    "resourceclaims.resource.k8s.io": Strategy(
        default=resourceclaim.default_claim,
        prepare_for_create=resourceclaim.canonicalize_claim,
        prepare_for_update=resourceclaim.canonicalize_claim,
        validate=resourceclaim.validate_claim,
    ),
    "resourceclaimtemplates.resource.k8s.io": Strategy(
        default=resourceclaim.default_claim_template,
        prepare_for_create=resourceclaim.canonicalize_claim_template,
        prepare_for_update=resourceclaim.canonicalize_claim_template,
        validate=resourceclaim.validate_claim_template,
    ),
    "resourceslices.resource.k8s.io": Strategy(
        tracks_generation=True,
        default=resourceslice.default_resource_slice,
        validate=resourceslice.validate_resource_slice,
        warnings=resourceslice.warn_resource_slice,
    ),
}

GROUP_STRATEGIES: dict[str, Strategy] = {**_APPS, **_NETWORKING, **_STORAGE, **_ADMISSION, **_CLUSTER}

_REPLICA_PATHS = ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector")
SCALE_PATHS: dict[str, ScalePaths] = {
    "deployments.apps": _REPLICA_PATHS,
    "replicasets.apps": _REPLICA_PATHS,
    "statefulsets.apps": _REPLICA_PATHS,
    "replicationcontrollers": _REPLICA_PATHS,
}
