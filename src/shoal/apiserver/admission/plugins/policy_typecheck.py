"""The type-checking status of a ValidatingAdmissionPolicy: expressions that do not fit the kinds it matches.

Upstream does this in a controller. Here it is part of the write, so the status is there with the policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from shoal.apiserver.registry.registry import Registry, Resource
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.kinds.admissionregistration.webhook_client import EXEMPT_GROUP

if TYPE_CHECKING:
    from shoal.objects.cel import CELType

Object = dict[str, Any]

RESOURCE = (EXEMPT_GROUP, "validatingadmissionpolicies")


def check_types(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    """Completes a policy whose spec is new. Only the types of its fields are validated at this point."""
    status, generation = new.get("status") or {}, new["metadata"].get("generation", 1)
    if ctx.info.subresource or status.get("observedGeneration") == generation or not new.get("spec"):
        return
    # CEL is imported only when a policy is written.
    from shoal.kinds.admissionregistration.policies.typecheck import MAX_TYPES, TypedKind, object_type_of, type_warnings  # noqa: PLC0415
    from shoal.objects.cel.types import DYN  # noqa: PLC0415

    def type_of(resource: Resource) -> CELType:
        schema = resource.schema()
        return DYN if schema is None else object_type_of(resource.kind, schema)

    registry, spec = server.clusters.registry(ctx.cluster), new["spec"]
    named_resources = dict.fromkeys(_resources_of_rules(registry, spec))
    chosen = sorted(named_resources, key=lambda each: (each.group, each.version, each.kind))[:MAX_TYPES]
    kinds = [TypedKind(f"{each.group}/{each.version}, Kind={each.kind}", type_of(each)) for each in chosen]
    params: CELType | None = None
    if spec.get("paramKind") is not None:
        group, _, version = (spec["paramKind"].get("apiVersion") or "").rpartition("/")
        matching = (each for each in registry.resources(group, version) if each.kind == spec["paramKind"].get("kind"))
        param_resource = next(matching, None)
        params = DYN if param_resource is None else type_of(param_resource)
    warnings = type_warnings(spec, kinds, params)
    checked: Object = {"expressionWarnings": warnings} if warnings else {}
    new["status"] = {**status, "observedGeneration": generation, "typeChecking": checked}


def _resources_of_rules(registry: Registry, spec: Object) -> Iterator[Resource]:
    """The resources that rules name without wildcards."""
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
        if any("*" in each for each in (*groups, *versions)):
            continue
        plurals = [each for each in rule.get("resources") or () if "*" not in each and "/" not in each]
        for group in sorted(groups):
            for version in sorted(versions):
                for plural in sorted(plurals):
                    resource = registry.find(group, version, plural)
                    if resource is not None:
                        yield resource
