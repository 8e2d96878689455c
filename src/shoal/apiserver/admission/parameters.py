"""The parameters of a policy binding: objects of the policy's paramKind, by name or by labels.

A user who writes a policy or binding with parameters must be allowed to read them, because messages could reveal their
content.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authz import Attributes
from shoal.apiserver.cache.cacher import ResourceCache
from shoal.apiserver.registry.registry import Registry, Resource
from shoal.apiserver.response.render import served_object
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.webhooks.conversion import convert_entries
from shoal.objects.errors import forbidden_field, invalid_object
from shoal.objects.selectors import from_label_selector

Object = dict[str, Any]

POLICY_RESOURCE_OF_BINDING = {
    f"{sort}admissionpolicybindings": f"{sort}admissionpolicies" for sort in ("mutating", "validating")
}


class ConfigurationError(Exception):
    """The policy or this binding cannot be evaluated."""


def param_resource(registry: Registry, kind: tuple[str, str, str]) -> Resource:
    group, version, name = kind
    for resource in registry.resources(group, version):
        if resource.kind == name:
            return resource
    kind_text = f"'{group}/{version}, Kind={name}'"
    raise ConfigurationError(f"failed to find resource referenced by paramKind: {kind_text}")


async def find_parameters(
    server: ServerComponents, cluster: str, resource: Resource, reference: Object, namespace: str
) -> list[Object]:
    """Empty if there are none and the binding allows that. `namespace` is that of the request."""
    param_namespace = ""
    if resource.namespaced:
        param_namespace = reference.get("namespace") or namespace
        if not param_namespace:
            raise ConfigurationError(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    elif reference.get("namespace"):
        raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    alias = resource.strategy.storage_alias
    kind: ResourceCache = server.cache.resource_cache(
        alias.group if alias is not None else resource.group, resource.plural
    )
    if reference.get("name"):
        entry = kind.get(cluster, param_namespace, reference["name"])
        entries = [entry] if entry is not None else []
    else:
        selector = from_label_selector(reference.get("selector") or {})
        entries = [entry for entry in kind.table(cluster).select(param_namespace) if selector.matches(entry.labels)]
    if not entries and reference.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    if entries and resource.conversion is not None:
        await convert_entries(server.webhooks.client, cluster, resource, entries)
    return [served_object(resource, entry) for entry in entries]


def authorize_param_access(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    """Authorizes a write of a policy or binding."""
    field = "paramRef" if ctx.resource.plural.endswith("bindings") else "paramKind"
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    same = ("paramRef", "policyName") if field == "paramRef" else ("paramKind",)
    if spec.get(field) is None or ctx.user.is_privileged_in(ctx.info.cluster) or ctx.info.subresource:
        return
    if old is not None and all(spec.get(key) == before.get(key) for key in same):
        return
    if ctx.resource.strategy.validate(new, old):
        return  # validation errors are reported first
    denial = _binding_denial(server, ctx, spec) if field == "paramRef" else _policy_denial(server, ctx, spec)
    if denial:
        name = new["metadata"].get("name") or ""
        raise invalid_object(ctx.resource.kind, ctx.resource.group, name, [forbidden_field(f"spec.{field}", denial)])


def _policy_denial(server: ServerComponents, ctx: RequestContext, spec: Object) -> str:
    kind = spec["paramKind"]
    attributes = _required_attributes(server, ctx, kind)._replace(verb="get", namespace="*", name="*")
    if server.authorizer.authorize(ctx.user, attributes).allowed:
        return ""
    what = f"(kind={kind['kind']}, apiVersion={kind['apiVersion']})"
    return f'user {_go_user(ctx.user)} must have "get" permission on all objects of the referenced paramKind {what}'


def _binding_denial(server: ServerComponents, ctx: RequestContext, spec: Object) -> str:
    reference, policy = spec["paramRef"], spec["policyName"]
    name, user = reference.get("name") or "", _go_user(ctx.user)
    verb = "get" if name else "list"
    entry = server.cache.resource_cache(ctx.resource.group, POLICY_RESOURCE_OF_BINDING[ctx.resource.plural]).get(
        ctx.info.cluster, "", policy
    )
    kind = entry.object()["spec"].get("paramKind") if entry is not None else None
    attributes = _required_attributes(server, ctx, kind)._replace(
        verb=verb, namespace=reference.get("namespace") or "", name=name
    )
    if server.authorizer.authorize(ctx.user, attributes).allowed:
        return ""
    lacks = f'to determine minimum required permissions and user {user} does not have "{verb}" permission for all'
    if entry is None:
        return f"unable to get policy {policy} {lacks} groups, versions and resources"
    if kind is not None and attributes.resource == "*":
        kind_text = f"&ParamKind{{APIVersion:{kind['apiVersion']},Kind:{kind['kind']},}}"
        return f"unable to resolve paramKind {kind_text} {lacks} groups, versions and resources"
    return f'user {user} does not have "{verb}" permission on the object referenced by paramRef'


def _required_attributes(server: ServerComponents, ctx: RequestContext, kind: Object | None) -> Attributes:
    """The least permission that is known to suffice. For an unknown kind that is any resource."""
    attributes = Attributes(ctx.info.cluster, "", group="*", version="*", resource="*")
    if kind is None:
        return attributes
    group, _, version = kind["apiVersion"].rpartition("/")
    matches = [
        resource
        for resource in server.clusters.registry(ctx.cluster).resources(group, version)
        if resource.kind == kind["kind"]
    ]
    return attributes._replace(group=group, version=version, resource=matches[0].plural if matches else "*")


def _go_user(user: User) -> str:
    """The user as Go prints it."""
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
