"""The type-checking status of a ValidatingAdmissionPolicy: expressions that do not fit the kinds it matches.

Upstream does this in a controller. Here it is part of the write, so the status is there with the policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from shoal.apiserver.core import Call, Core
from shoal.apiserver.registry import Registry, Resource
from shoal.kinds.webhooks import EXEMPT

if TYPE_CHECKING:
    from shoal.objects.cel import Type

Object = dict[str, Any]

RESOURCE = (EXEMPT, "validatingadmissionpolicies")


def observe(core: Core, call: Call, new: Object) -> None:
    """Completes a policy whose spec is new. Only the types of its fields are validated at this point."""
    status, generation = new.get("status") or {}, new["metadata"].get("generation", 1)
    if call.target.subresource or status.get("observedGeneration") == generation or not new.get("spec"):
        return
    # CEL is imported only when a policy is written.
    from shoal.kinds.policies.typechecking import MOST_KINDS, Kind, kind_type, type_warnings  # noqa: PLC0415
    from shoal.objects.cel.types import DYN  # noqa: PLC0415

    def type_of(resource: Resource) -> Type:
        schema = resource.schema()
        return DYN if schema is None else kind_type(resource.kind, schema)

    registry, spec = core.clusters.registry(call.cluster), new["spec"]
    about = dict.fromkeys(_about(registry, spec))
    chosen = sorted(about, key=lambda each: (each.group, each.version, each.kind))[:MOST_KINDS]
    kinds = [Kind(f"{each.group}/{each.version}, Kind={each.kind}", type_of(each)) for each in chosen]
    params: Type | None = None
    if spec.get("paramKind") is not None:
        group, _, version = (spec["paramKind"].get("apiVersion") or "").rpartition("/")
        named = (each for each in registry.resources(group, version) if each.kind == spec["paramKind"].get("kind"))
        found = next(named, None)
        params = DYN if found is None else type_of(found)
    warnings = type_warnings(spec, kinds, params)
    checked: Object = {"expressionWarnings": warnings} if warnings else {}
    new["status"] = {**status, "observedGeneration": generation, "typeChecking": checked}


def _about(registry: Registry, spec: Object) -> Iterator[Resource]:
    """The resources that rules name without wildcards."""
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
        if any("*" in each for each in (*groups, *versions)):
            continue
        plurals = [each for each in rule.get("resources") or () if "*" not in each and "/" not in each]
        for group in sorted(groups):
            for version in sorted(versions):
                for plural in sorted(plurals):
                    found = registry.find(group, version, plural)
                    if found is not None:
                        yield found
