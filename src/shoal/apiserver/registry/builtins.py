"""The built-in resources as served: upstream's tables with the strategies of the kinds that have one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

from shoal.apiserver.registry import columns_core, columns_groups, columns_workloads
from shoal.apiserver.registry.builtins_core import CORE_STRATEGIES
from shoal.apiserver.registry.builtins_groups import GROUP_STRATEGIES, SCALE_PATHS
from shoal.apiserver.registry.columns import COLUMNS
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.registry.schema import KindSchema
from shoal.apiserver.registry.strategy import StorageAlias, Strategy
from shoal.kinds import versions
from shoal.kinds.apiextensions import customresourcedefinition
from shoal.kinds.apiextensions.validation import validate_crd
from shoal.kinds.apiregistration import apiservice
from shoal.kinds.builtin_schemas import builtin_schema, schema_name
from shoal.kinds.catalogue import BuiltinResource, find_builtin, profile_builtins
from shoal.kinds.coordination import lease
from shoal.kinds.core import event, event_validation, secret
from shoal.kinds.core.secret_warnings import warn_secret
from shoal.kinds.rbac import rbac
from shoal.objects.errors import Cause
from shoal.objects.names import (
    NameRule,
    is_config_map_key,
    is_dns1123_label,
    is_dns1123_subdomain,
    is_path_segment_name,
)
from shoal.objects.schema import SchemaDefinitions

Object = dict[str, Any]

NAME_RULES: dict[str, NameRule] = {
    "dns-subdomain": is_dns1123_subdomain,
    "dns-label": is_dns1123_label,
    "path-segment": is_path_segment_name,
    "config-map-key": is_config_map_key,
}


def _rbac_strategy(kind: str) -> Strategy:
    def default(obj: Object) -> None:
        rbac.default_rbac_object(kind, obj)

    def validate(obj: Object, old: Object | None) -> list[Cause]:
        return rbac.validate_rbac_object(kind, obj, old)

    return Strategy(
        name_rule=is_path_segment_name,
        allow_create_on_update=True,
        default=default,
        prepare_for_create=rbac.canonicalize_rules,
        prepare_for_update=lambda new, old: rbac.canonicalize_rules(new),
        validate=validate,
    )


STRATEGIES: dict[str, Strategy] = {
    **CORE_STRATEGIES,
    **GROUP_STRATEGIES,
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
    "apiservices.apiregistration.k8s.io": Strategy(
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        name_rule_for=apiservice.name_rule,
        default=apiservice.default_api_service,
        prepare_for_create=apiservice.prepare_api_service_create,
        validate=apiservice.validate_api_service,
    ),
    "leases.coordination.k8s.io": Strategy(
        allow_unconditional_update=False,
        allow_create_on_update=True,
        allow_unqualified_finalizers=True,
        default=lease.default_lease,
        prepare_for_create=lease.prepare_lease_create,
        prepare_for_update=lease.prepare_lease_update,
        validate=lease.validate_lease,
    ),
    "roles.rbac.authorization.k8s.io": _rbac_strategy("Role"),
    "clusterroles.rbac.authorization.k8s.io": _rbac_strategy("ClusterRole"),
    "rolebindings.rbac.authorization.k8s.io": _rbac_strategy("RoleBinding"),
    "clusterrolebindings.rbac.authorization.k8s.io": _rbac_strategy("ClusterRoleBinding"),
    "customresourcedefinitions.apiextensions.k8s.io": Strategy(
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        default=customresourcedefinition.default_crd,
        prepare_for_delete=customresourcedefinition.begin_termination,
        validate=validate_crd,
    ),
}


RETURN_DELETED_OBJECT = frozenset(
    {
        *("namespaces", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas"),
        *("serviceaccounts", "services"),
        *("csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "storageclasses.storage.k8s.io"),
        *("volumeattachments.storage.k8s.io", "volumeattributesclasses.storage.k8s.io"),
        *("deviceclasses.resource.k8s.io", "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io"),
        "resourceclaimtemplates.resource.k8s.io",
    }
)
"""Kinds whose DELETE returns the object, as upstream."""

_COLUMNS = {**COLUMNS, **columns_core.COLUMNS, **columns_workloads.COLUMNS, **columns_groups.COLUMNS}
STATUS_WITHOUT_METADATA = frozenset(
    {
        "apiservices.apiregistration.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
        "flowschemas.flowcontrol.apiserver.k8s.io",
        "podcertificaterequests.certificates.k8s.io",
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
        "resourceclaims.resource.k8s.io",
        "servicecidrs.networking.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "volumeattachments.storage.k8s.io",
    }
)
"""Kinds whose labels, annotations and owners cannot be changed by a write to /status. Upstream allows it for all
others.
"""

_DEFINITIONS = SchemaDefinitions(builtin_schema)


@cache
def builtin_resource(group: str, version: str, plural: str) -> Resource | None:
    """Any resource of upstream, whatever the profile; None if there is no such kind."""
    try:
        return _build_resource(find_builtin(group, version, plural))
    except KeyError:
        return None


@cache
def profile_resources(profile_name: str, minor: int = versions.NEWEST_MINOR) -> list[Resource]:
    """The resources of a cluster of that profile at a minor version of Kubernetes."""
    return [
        _at_minor(minor, _build_resource(builtin))
        for builtin in profile_builtins(profile_name)
        if versions.is_served(minor, _group_resource(builtin))
    ]


@cache
def _kind_schema(group: str, version: str, kind: str) -> KindSchema:
    return KindSchema(builtin_schema(schema_name(group, version, kind)), builtin_schema, _DEFINITIONS)


def _at_minor(minor: int, newest: Resource) -> Resource:
    """The resource without what later minor versions added."""
    name = newest.group_resource
    later = {sub for sub in newest.subresources if not versions.is_served(minor, f"{name}/{sub}")}
    deprecated = newest.deprecation_warning if versions.is_deprecated(minor, name) else ""
    if not later and deprecated == newest.deprecation_warning:
        return newest
    kept = {sub: subresource for sub, subresource in newest.subresources.items() if sub not in later}
    return replace(newest, subresources=kept, deprecation_warning=deprecated)


def _group_resource(builtin: BuiltinResource) -> str:
    return f"{builtin.plural}.{builtin.group}" if builtin.group else builtin.plural


@cache
def _build_resource(builtin: BuiltinResource) -> Resource:
    subresources = {sub.name: (sub.group, sub.version, sub.kind, sub.verbs) for sub in builtin.subresources}
    key = _group_resource(builtin)
    own = ("status", "scale") if key in SCALE_PATHS else ("status",)
    kind_schema = partial(_kind_schema, builtin.group, builtin.version, builtin.kind)
    return Resource(
        group=builtin.group,
        version=builtin.version,
        plural=builtin.plural,
        kind=builtin.kind,
        singular=builtin.singular,
        namespaced=builtin.namespaced,
        verbs=builtin.verbs,
        short_names=builtin.short_names,
        categories=builtin.categories,
        list_kind=builtin.kind + "List",
        storage_version=builtin.version,
        status="status" in subresources,
        scale=SCALE_PATHS.get(key),
        subresources={name: sub for name, sub in subresources.items() if name not in own},
        columns=_COLUMNS.get(key, ()),
        selectable_fields=builtin.selectable_fields,
        schema=partial(_openapi_schema, builtin.group, builtin.version, builtin.kind),
        schema_hash=builtin.storage_version_hash,
        kind_schema=kind_schema,
        strategy=_strategy_of(key, builtin),
        deprecation_warning=builtin.deprecation_warning,
    )


def _strategy_of(key: str, builtin: BuiltinResource) -> Strategy:
    strategy = STRATEGIES.get(f"{builtin.plural}.{builtin.version}.{builtin.group}") or STRATEGIES.get(key)
    strategy = strategy or Strategy(name_rule=NAME_RULES.get(builtin.name_rule, is_dns1123_subdomain))
    return replace(
        strategy,
        return_deleted_object=key in RETURN_DELETED_OBJECT,
        status_writes_metadata=key not in STATUS_WITHOUT_METADATA,
    )


def _openapi_schema(group: str, version: str, kind: str) -> Object:
    return builtin_schema(schema_name(group, version, kind))
