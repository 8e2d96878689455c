"""CustomResourceDefinition of apiextensions.k8s.io/v1: validation in upstream's words, strategy and printer columns.

Where all versions of a CRD have the same value, upstream reports errors at the old top-level fields (`spec.validation`,
`spec.subresources`, …) instead of per version. This module does the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from shoal.kinds.admissionregistration.webhooks import validate_client_config, validate_review_versions
from shoal.kinds.apiextensions.customresourcedefinition import (
    API_APPROVED_ANNOTATION,
    ESTABLISHED,
    Object,
    approval_condition,
    begin_termination,
    default_crd,
    format_warnings,
    is_condition_true,
    versions,
)
from shoal.kinds.apiextensions.versions import (
    dns1035_label_error,
    shared_fields,
    validate_shared_fields,
    validate_version,
)
from shoal.kinds.column import CREATED, Column
from shoal.kinds.strategy import Strategy
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required_value
from shoal.objects.names import is_dns1123_subdomain

_MIXED_CASE = "may have mixed case, but should otherwise match: "


def validate_crd(crd: Object, old: Object | None = None) -> list[Cause]:
    """Validates a CRD after `default_crd`. `old` is the stored one on update."""
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return [required_value("spec")]
    type_causes = list(_validate_types(spec))
    if type_causes:
        return type_causes
    causes = [] if old is not None else list(_validate_name(crd, spec))
    causes += _validate_spec(spec, versions(old) if old is not None else [])
    if old is not None:
        causes += _validate_immutable(crd, old)
    status = crd.get("status") or {}
    causes += _validate_names(status.get("acceptedNames") or {}, "status.acceptedNames")
    if old is None or spec != old.get("spec"):
        # A write of the status alone is not checked here, as upstream.
        causes += _validate_stored_versions(status.get("storedVersions") or [], versions(crd))
    causes += _validate_approval(crd, old)
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        causes.append(invalid_value("spec.preserveUnknownFields", True, detail))
    return causes


def has_valid_names(crd: Object, old: Object | None) -> bool:
    """Reports whether the CRD is valid apart from schemas and columns, which take the longest to check."""
    return not validate_crd(_without_contents(crd), old and _without_contents(old))


def _without_contents(crd: Object) -> Object:
    spec = crd.get("spec")
    if not isinstance(spec, dict) or list(_validate_types(spec)):
        return crd
    schema = {"openAPIV3Schema": {"type": "object"}}
    plain = {"schema": schema, "selectableFields": None, "additionalPrinterColumns": None}
    return {**crd, "spec": {**spec, "versions": [{**version, **plain} for version in versions(crd)]}}


def _validate_types(spec: Object) -> Iterator[Cause]:
    """Checks the types of the fields that all later checks rely on."""
    names = spec.get("names", {})
    if not isinstance(names, dict):
        yield invalid_value("spec.names", names, "must be an object")
    crd_versions = spec.get("versions") or []
    if not isinstance(crd_versions, list):
        yield invalid_value("spec.versions", crd_versions, "must be a list")
        return
    for index, version in enumerate(crd_versions):
        if not isinstance(version, dict):
            yield invalid_value(f"spec.versions[{index}]", version, "must be an object")
            continue
        for key, kind in (("schema", dict), ("subresources", dict), ("additionalPrinterColumns", list),
                          ("selectableFields", list)):  # fmt: skip
            if version.get(key) is not None and not isinstance(version[key], kind):
                detail = "must be an object" if kind is dict else "must be a list"
                yield invalid_value(f"spec.versions[{index}].{key}", version[key], detail)


def _validate_name(crd: Object, spec: Object) -> Iterator[Cause]:
    name = crd.get("metadata", {}).get("name") or ""
    for problem in is_dns1123_subdomain(name):
        yield invalid_value("metadata.name", name, problem)
    if name != f"{spec.get('names', {}).get('plural') or ''}.{spec.get('group') or ''}":
        yield invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _validate_spec(spec: Object, old_versions: list[Object]) -> Iterator[Cause]:
    yield from _validate_group(spec.get("group") or "")
    yield from _validate_one_of("spec.scope", spec.get("scope") or "", ("Cluster", "Namespaced"))
    crd_versions: list[Object] = spec.get("versions") or []
    for index, version in enumerate(crd_versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield required_value(f"spec.versions[{index}].schema.openAPIV3Schema")
    if spec.get("preserveUnknownFields") and any(_has_defaults(version.get("schema")) for version in crd_versions):
        detail = "must be false in order to use defaults in the schema"
        yield invalid_value("spec.preserveUnknownFields", True, detail)
    shared = shared_fields(crd_versions)
    old_schemas = {old.get("name"): old.get("schema") for old in old_versions}
    for index, version in enumerate(crd_versions):
        yield from validate_version(version, f"spec.versions[{index}]", shared, old_schemas)
    version_names = [version.get("name") for version in crd_versions]
    if len(set(version_names)) != len(version_names):
        yield invalid_value("spec.versions", version_names, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in crd_versions) != 1:
        yield invalid_value("spec.versions", version_names, "must have exactly one version marked as storage version")
    if version_names and (problem := dns1035_label_error(version_names[0] or "")):
        yield invalid_value("spec.version", version_names[0] or "", problem)
    names = spec.get("names") or {}
    for key in ("plural", "singular", "kind", "listKind"):
        if not names.get(key):
            yield required_value(f"spec.names.{key}")
    yield from _validate_names(names, "spec.names")
    yield from validate_shared_fields(crd_versions, shared, old_schemas)
    yield from _validate_conversion(spec.get("conversion") or {})


def _has_defaults(schema: object) -> bool:
    if isinstance(schema, list):
        return any(map(_has_defaults, schema))
    return isinstance(schema, dict) and ("default" in schema or any(map(_has_defaults, schema.values())))


def _validate_group(group: str) -> Iterator[Cause]:
    problems = is_dns1123_subdomain(group)
    if not group:
        yield required_value("spec.group")
    elif problems:
        yield invalid_value("spec.group", group, ",".join(problems))
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")


def _validate_one_of(path: str, value: str, accepted: tuple[str, ...]) -> Iterator[Cause]:
    if not value:
        yield required_value(path)
    elif value not in accepted:
        yield not_supported(path, value, accepted)


def _validate_names(names: Object, path: str) -> Iterator[Cause]:
    for key in ("plural", "singular"):
        value = names.get(key) or ""
        if value and (problem := dns1035_label_error(value)):
            yield invalid_value(f"{path}.{key}", value, problem)
    for key in ("kind", "listKind"):
        value = names.get(key) or ""
        if value and (problem := dns1035_label_error(value.lower())):
            yield invalid_value(f"{path}.{key}", value, _MIXED_CASE + problem)
    for index, value in enumerate(names.get("shortNames") or ()):
        if problem := dns1035_label_error(value):
            yield invalid_value(f"{path}.shortNames[{index}]", value, problem)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield invalid_value(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
    for index, value in enumerate(names.get("categories") or ()):
        if problem := dns1035_label_error(value):
            yield invalid_value(f"{path}.categories[{index}]", value, problem)


def _validate_conversion(conversion: Object) -> Iterator[Cause]:
    strategy, path = conversion.get("strategy") or "", "spec.conversion"
    webhook = conversion.get("webhook") or {}
    yield from _validate_one_of(f"{path}.strategy", strategy, ("None", "Webhook"))
    if strategy == "Webhook":
        if webhook.get("clientConfig") is None:
            yield required_value(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
        else:
            yield from validate_client_config(webhook["clientConfig"], f"{path}.webhookClientConfig")
        accepted = webhook.get("conversionReviewVersions") or []
        yield from validate_review_versions(accepted, f"{path}.conversionReviewVersions", "")
        return
    detail = "should not be set when strategy is not set to Webhook"
    if webhook.get("clientConfig") is not None:
        yield forbidden_field(f"{path}.webhookClientConfig", detail)
    if webhook.get("conversionReviewVersions"):
        yield forbidden_field(f"{path}.conversionReviewVersions", detail)


def _validate_immutable(crd: Object, old: Object) -> Iterator[Cause]:
    new_spec, old_spec = crd["spec"], old["spec"]
    new_names, old_names = new_spec.get("names") or {}, old_spec.get("names") or {}
    fields = [("group", new_spec.get("group"), old_spec.get("group"))]
    fields.append(("names.plural", new_names.get("plural"), old_names.get("plural")))
    if is_condition_true(old, ESTABLISHED):
        fields.insert(0, ("names.kind", new_names.get("kind"), old_names.get("kind")))
        fields.insert(0, ("scope", new_spec.get("scope"), old_spec.get("scope")))
    for path, new_value, old_value in fields:
        if new_value != old_value:
            yield invalid_value(f"spec.{path}", new_value or "", "field is immutable")


def _validate_stored_versions(stored: list[str], crd_versions: list[Object]) -> Iterator[Cause]:
    path = "status.storedVersions"
    if not stored:
        yield invalid_value(path, None, "must have at least one stored version")
        return
    stored_names = set(stored)
    for version in crd_versions:
        if version.get("storage") and version.get("name") not in stored_names:
            yield invalid_value(path, stored, f"must have the storage version {version.get('name')}")
    version_names = {version.get("name") for version in crd_versions}
    for index, name in enumerate(stored):
        if name not in version_names:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
                f" until a storage migration ensures no data remains persisted in {name} and removes {name} from"
                " status.storedVersions"
            )
            yield invalid_value(f"{path}[{index}]", name, detail)


def _validate_approval(crd: Object, old: Object | None) -> Iterator[Cause]:
    condition = approval_condition(crd)
    if condition is None:
        return
    old_condition = approval_condition(old) if old is not None else None
    if old_condition is not None and old_condition["reason"] == condition["reason"]:
        return
    path = f"metadata.annotations[{API_APPROVED_ANNOTATION}]"
    if condition["reason"] == "MissingAnnotation":
        yield required_value(path, condition["message"])
    elif condition["reason"] == "InvalidAnnotation":
        yield invalid_value(path, crd["metadata"]["annotations"][API_APPROVED_ANNOTATION], condition["message"])


STRATEGIES: dict[str, Strategy] = {
    "customresourcedefinitions.apiextensions.k8s.io": Strategy(
        tracks_generation=True,
        allow_unconditional_update=False,
        allow_unqualified_finalizers=True,
        default=default_crd,
        prepare_for_delete=begin_termination,
        validate=validate_crd,
        warnings=format_warnings,
    ),
}

COLUMNS: dict[str, tuple[Column, ...]] = {
    "customresourcedefinitions.apiextensions.k8s.io": (CREATED,),
}
