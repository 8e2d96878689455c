"""The parameters of a binding: objects of the policy's paramKind, by name or by labels."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.cache import Kind
from shoal.apiserver.core import Core
from shoal.apiserver.registry import Registry, Resource
from shoal.apiserver.render import served_object
from shoal.apiserver.webhooks.conversion import prepare
from shoal.objects.selectors import from_label_selector

Object = dict[str, Any]


class Misconfigured(Exception):
    """The policy, or this binding, cannot be evaluated as it is."""


def param_resource(registry: Registry, kind: tuple[str, str, str]) -> Resource:
    group, version, name = kind
    for resource in registry.resources(group, version):
        if resource.kind == name:
            return resource
    said = f"'{group}/{version}, Kind={name}'"
    raise Misconfigured(f"failed to find resource referenced by paramKind: {said}")


async def parameters(core: Core, cluster: str, resource: Resource, reference: Object, namespace: str) -> list[Object]:
    """Empty where there are none and the binding does not mind. `namespace` is that of the request."""
    where = ""
    if resource.namespaced:
        where = reference.get("namespace") or namespace
        if not where:
            raise Misconfigured(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    elif reference.get("namespace"):
        raise Misconfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    kind: Kind = core.cache.kind(
        resource.group if resource.rules.shared is None else resource.rules.shared.group, resource.plural
    )
    if reference.get("name"):
        entry = kind.get(cluster, where, reference["name"])
        entries = [entry] if entry is not None else []
    else:
        selector = from_label_selector(reference.get("selector") or {})
        entries = [entry for entry in kind.table(cluster).select(where) if selector.matches(entry.labels)]
    if not entries and reference.get("parameterNotFoundAction") == "Deny":
        raise Misconfigured("no params found for policy binding with `Deny` parameterNotFoundAction")
    if entries and resource.conversion is not None:
        await prepare(core.webhooks.calls, cluster, resource, entries)
    return [served_object(resource, entry) for entry in entries]
