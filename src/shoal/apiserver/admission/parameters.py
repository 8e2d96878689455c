"""The parameters of a policy binding: objects of the policy's paramKind, by name or by labels.

A user who writes a policy or binding with parameters must be allowed to read them, because messages could reveal their
content.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.authn import User
from shoal.apiserver.authz import Attributes
from shoal.apiserver.cache import Kind
from shoal.apiserver.core import Call, Core
from shoal.apiserver.registry import Registry, Resource
from shoal.apiserver.render import served_object
from shoal.apiserver.webhooks.conversion import prepare
from shoal.objects.errors import forbidden_field, invalid_object
from shoal.objects.selectors import from_label_selector

Object = dict[str, Any]

POLICIES = {f"{sort}admissionpolicybindings": f"{sort}admissionpolicies" for sort in ("mutating", "validating")}


class Misconfigured(Exception):
    """The policy or this binding cannot be evaluated."""


def param_resource(registry: Registry, kind: tuple[str, str, str]) -> Resource:
    group, version, name = kind
    for resource in registry.resources(group, version):
        if resource.kind == name:
            return resource
    said = f"'{group}/{version}, Kind={name}'"
    raise Misconfigured(f"failed to find resource referenced by paramKind: {said}")


async def parameters(core: Core, cluster: str, resource: Resource, reference: Object, namespace: str) -> list[Object]:
    """Empty if there are none and the binding allows that. `namespace` is that of the request."""
    where = ""
    if resource.namespaced:
        where = reference.get("namespace") or namespace
        if not where:
            raise Misconfigured(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    elif reference.get("namespace"):
        raise Misconfigured("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    shared = resource.rules.shared
    kind: Kind = core.cache.kind(shared.group if shared is not None else resource.group, resource.plural)
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


def authorize(core: Core, call: Call, new: Object, old: Object | None) -> None:
    """Authorizes a write of a policy or binding."""
    field = "paramRef" if call.resource.plural.endswith("bindings") else "paramKind"
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    same = ("paramRef", "policyName") if field == "paramRef" else ("paramKind",)
    if spec.get(field) is None or call.user.privileged_in(call.target.cluster) or call.target.subresource:
        return
    if old is not None and all(spec.get(key) == before.get(key) for key in same):
        return
    if call.resource.rules.validate(new, old):
        return  # validation errors are reported first
    said = _refusal_of_binding(core, call, spec) if field == "paramRef" else _refusal_of_policy(core, call, spec)
    if said:
        name = new["metadata"].get("name") or ""
        raise invalid_object(call.resource.kind, call.resource.group, name, [forbidden_field(f"spec.{field}", said)])


def _refusal_of_policy(core: Core, call: Call, spec: Object) -> str:
    kind = spec["paramKind"]
    wanted = _wanted(core, call, kind)._replace(verb="get", namespace="*", name="*")
    if core.authorizer.authorize(call.user, wanted).allowed:
        return ""
    what = f"(kind={kind['kind']}, apiVersion={kind['apiVersion']})"
    return f'user {_shown(call.user)} must have "get" permission on all objects of the referenced paramKind {what}'


def _refusal_of_binding(core: Core, call: Call, spec: Object) -> str:
    reference, policy = spec["paramRef"], spec["policyName"]
    name, user = reference.get("name") or "", _shown(call.user)
    verb = "get" if name else "list"
    entry = core.cache.kind(call.resource.group, POLICIES[call.resource.plural]).get(call.target.cluster, "", policy)
    kind = entry.object()["spec"].get("paramKind") if entry is not None else None
    wanted = _wanted(core, call, kind)._replace(verb=verb, namespace=reference.get("namespace") or "", name=name)
    if core.authorizer.authorize(call.user, wanted).allowed:
        return ""
    lacks = f'to determine minimum required permissions and user {user} does not have "{verb}" permission for all'
    if entry is None:
        return f"unable to get policy {policy} {lacks} groups, versions and resources"
    if kind is not None and wanted.resource == "*":
        shown = f"&ParamKind{{APIVersion:{kind['apiVersion']},Kind:{kind['kind']},}}"
        return f"unable to resolve paramKind {shown} {lacks} groups, versions and resources"
    return f'user {user} does not have "{verb}" permission on the object referenced by paramRef'


def _wanted(core: Core, call: Call, kind: Object | None) -> Attributes:
    """The least permission that is known to suffice. For an unknown kind that is any resource."""
    wanted = Attributes(call.target.cluster, "", group="*", version="*", resource="*")
    if kind is None:
        return wanted
    group, _, version = kind["apiVersion"].rpartition("/")
    found = [
        resource
        for resource in core.clusters.registry(call.cluster).resources(group, version)
        if resource.kind == kind["kind"]
    ]
    return wanted._replace(group=group, version=version, resource=found[0].plural if found else "*")


def _shown(user: User) -> str:
    """The user as Go prints it."""
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
