"""The built-in resources as served: upstream's catalogue with the strategies and printer columns of each API group."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.registry.schema import KindSchema
from shoal.kinds import versions
from shoal.kinds.admissionregistration import strategy as admissionregistration
from shoal.kinds.apiextensions import validation as apiextensions
from shoal.kinds.apiregistration import apiservice
from shoal.kinds.apps import columns as apps_columns
from shoal.kinds.apps import strategy as apps
from shoal.kinds.autoscaling import strategy as autoscaling
from shoal.kinds.batch import columns as batch_columns
from shoal.kinds.batch import strategy as batch
from shoal.kinds.builtin_schemas import builtin_schema, schema_name
from shoal.kinds.catalogue import BuiltinResource, find_builtin, profile_builtins
from shoal.kinds.certificates import csr
from shoal.kinds.column import Column
from shoal.kinds.coordination import lease
from shoal.kinds.core import columns as core_columns
from shoal.kinds.core import strategy as core
from shoal.kinds.discovery import endpointslice
from shoal.kinds.flowcontrol import flowcontrol
from shoal.kinds.networking import strategy as networking
from shoal.kinds.node import runtimeclass
from shoal.kinds.policy import poddisruptionbudget
from shoal.kinds.rbac import strategy as rbac
from shoal.kinds.resource import strategy as resource
from shoal.kinds.scheduling import priorityclass
from shoal.kinds.storage import strategy as storage
from shoal.kinds.strategy import ScalePaths, Strategy
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


_GROUPS: tuple[tuple[dict[str, Strategy], dict[str, tuple[Column, ...]]], ...] = (
    (core.STRATEGIES, core_columns.COLUMNS),
    (admissionregistration.STRATEGIES, admissionregistration.COLUMNS),
    (apiextensions.STRATEGIES, apiextensions.COLUMNS),
    (apiservice.STRATEGIES, apiservice.COLUMNS),
    (apps.STRATEGIES, apps_columns.COLUMNS),
    (autoscaling.STRATEGIES, autoscaling.COLUMNS),
    (batch.STRATEGIES, batch_columns.COLUMNS),
    (csr.STRATEGIES, csr.COLUMNS),
    (lease.STRATEGIES, lease.COLUMNS),
    (endpointslice.STRATEGIES, endpointslice.COLUMNS),
    (flowcontrol.STRATEGIES, flowcontrol.COLUMNS),
    (networking.STRATEGIES, networking.COLUMNS),
    (runtimeclass.STRATEGIES, runtimeclass.COLUMNS),
    (poddisruptionbudget.STRATEGIES, poddisruptionbudget.COLUMNS),
    (rbac.STRATEGIES, rbac.COLUMNS),
    (resource.STRATEGIES, resource.COLUMNS),
    (priorityclass.STRATEGIES, priorityclass.COLUMNS),
    (storage.STRATEGIES, storage.COLUMNS),
)
"""The strategies and printer columns of each API group."""

STRATEGIES: dict[str, Strategy] = {key: strategy for strategies, _ in _GROUPS for key, strategy in strategies.items()}
"""By `plural.group`, or by `plural.version.group` where a version has its own."""
COLUMNS: dict[str, tuple[Column, ...]] = {key: shown for _, columns in _GROUPS for key, shown in columns.items()}
SCALE_PATHS: dict[str, ScalePaths] = {**core.SCALE_PATHS, **apps.SCALE_PATHS}

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
        columns=COLUMNS.get(key, ()),
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
