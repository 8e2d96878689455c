"""The built-in resources as served: upstream's tables with the strategies of the kinds that have one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

from shoal.apiserver import columns_core, columns_groups, columns_workloads
from shoal.apiserver.builtins_core import CORE_RULES
from shoal.apiserver.builtins_groups import GROUP_RULES, SCALES
from shoal.apiserver.columns import COLUMNS
from shoal.apiserver.model import Model
from shoal.apiserver.registry import Resource
from shoal.apiserver.rules import Rules, Shared
from shoal.kinds import apiextensions, apiregistration, coordination, core, events, events_validation, rbac, versions
from shoal.kinds.apiextensions_validation import validate_crd
from shoal.kinds.builtin import Builtin, builtin, profile
from shoal.kinds.definitions import definition, definition_of
from shoal.kinds.secret_warnings import warn_secret
from shoal.objects.errors import Cause
from shoal.objects.names import (
    NameRule,
    is_config_map_key,
    is_dns1123_label,
    is_dns1123_subdomain,
    is_path_segment_name,
)
from shoal.objects.schema import Definitions

Object = dict[str, Any]

NAME_RULES: dict[str, NameRule] = {
    "dns-subdomain": is_dns1123_subdomain,
    "dns-label": is_dns1123_label,
    "path-segment": is_path_segment_name,
    "config-map-key": is_config_map_key,
}


def _rbac(kind: str) -> Rules:
    def default(obj: Object) -> None:
        rbac.set_defaults(kind, obj)

    def validate(obj: Object, old: Object | None) -> list[Cause]:
        return rbac.validate(kind, obj, old)

    return Rules(
        name=is_path_segment_name,
        create_on_update=True,
        default=default,
        prepare_create=rbac.settle,
        prepare_update=lambda new, old: rbac.settle(new),
        validate=validate,
    )


RULES: dict[str, Rules] = {
    **CORE_RULES,
    **GROUP_RULES,
    "configmaps": Rules(validate=core.validate_config_map),
    "secrets": Rules(default=core.default_secret, validate=core.validate_secret, warn=warn_secret),
    "namespaces": Rules(
        name=is_dns1123_label,
        default=core.default_namespace,
        prepare_create=core.create_namespace,
        prepare_update=core.keep_namespace_spec,
        prepare_delete=core.terminate_namespace,
        validate=core.validate_namespace,
    ),
    "events": Rules(
        alone=True,
        name=is_path_segment_name,
        plain_finalizers=True,
        create_on_update=True,
        field=events.selectable,
        default=events.default,
        validate=events_validation.validate,
    ),
    "events.events.k8s.io": Rules(
        alone=True,
        create_on_update=True,
        default=events.default,
        field=events.selectable,
        validate=events_validation.validate_strictly,
        shared=Shared("", events.to_core, events.from_core, events.core_path),
    ),
    "apiservices.apiregistration.k8s.io": Rules(
        unconditional=False,
        plain_finalizers=True,
        named=apiregistration.name_rule,
        default=apiregistration.default_api_service,
        prepare_create=apiregistration.create_api_service,
        validate=apiregistration.validate_api_service,
    ),
    "leases.coordination.k8s.io": Rules(
        unconditional=False,
        create_on_update=True,
        plain_finalizers=True,
        default=coordination.default_lease,
        prepare_create=coordination.create_lease,
        prepare_update=coordination.keep_lease,
        validate=coordination.validate_lease,
    ),
    "roles.rbac.authorization.k8s.io": _rbac("Role"),
    "clusterroles.rbac.authorization.k8s.io": _rbac("ClusterRole"),
    "rolebindings.rbac.authorization.k8s.io": _rbac("RoleBinding"),
    "clusterrolebindings.rbac.authorization.k8s.io": _rbac("ClusterRoleBinding"),
    "customresourcedefinitions.apiextensions.k8s.io": Rules(
        generation=True,
        unconditional=False,
        plain_finalizers=True,
        default=apiextensions.default_crd,
        prepare_delete=apiextensions.terminate,
        validate=validate_crd,
    ),
}


RETURN_DELETED = frozenset(
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
ONLY_STATUS = frozenset(
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

_FOUND = Definitions(definition)


@cache
def resource(group: str, version: str, plural: str) -> Resource | None:
    """Any resource of upstream, whatever the profile; None if there is no such kind."""
    try:
        return _cached(builtin(group, version, plural))
    except KeyError:
        return None


@cache
def resources(profile_name: str, minor: int = versions.NEWEST) -> list[Resource]:
    """The resources of a cluster of that profile at a minor version of Kubernetes."""
    return [_at(minor, _cached(builtin)) for builtin in profile(profile_name) if versions.serves(minor, _key(builtin))]


@cache
def _model(group: str, version: str, kind: str) -> Model:
    return Model(definition(definition_of(group, version, kind)), definition, _FOUND)


def _at(minor: int, newest: Resource) -> Resource:
    """The resource without what later minor versions added."""
    name = newest.group_resource
    later = {sub for sub in newest.subresources if not versions.serves(minor, f"{name}/{sub}")}
    deprecated = newest.deprecated if versions.warns(minor, name) else ""
    if not later and deprecated == newest.deprecated:
        return newest
    kept = {sub: taken for sub, taken in newest.subresources.items() if sub not in later}
    return replace(newest, subresources=kept, deprecated=deprecated)


def _key(builtin: Builtin) -> str:
    return f"{builtin.plural}.{builtin.group}" if builtin.group else builtin.plural


@cache
def _cached(builtin: Builtin) -> Resource:
    subresources = {sub.name: (sub.group, sub.version, sub.kind, sub.verbs) for sub in builtin.subresources}
    key = _key(builtin)
    own = ("status", "scale") if key in SCALES else ("status",)
    model = partial(_model, builtin.group, builtin.version, builtin.kind)
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
        scale=SCALES.get(key),
        subresources={name: sub for name, sub in subresources.items() if name not in own},
        columns=_COLUMNS.get(key, ()),
        selectable=builtin.selectable,
        schema=partial(_schema, builtin.group, builtin.version, builtin.kind),
        schema_hash=builtin.storage_version_hash,
        model=model,
        rules=_rules(key, builtin),
        deprecated=builtin.deprecated,
    )


def _rules(key: str, builtin: Builtin) -> Rules:
    found = RULES.get(f"{builtin.plural}.{builtin.version}.{builtin.group}") or RULES.get(key)
    found = found or Rules(name=NAME_RULES.get(builtin.name_rule, is_dns1123_subdomain))
    return replace(found, returns_deleted=key in RETURN_DELETED, status_metadata=key not in ONLY_STATUS)


def _schema(group: str, version: str, kind: str) -> Object:
    return definition(definition_of(group, version, kind))
