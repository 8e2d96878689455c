"""CustomResourceDefinition (apiextensions.k8s.io/v1): names, defaults, accessors, accepted names and conditions.

Pure functions over the wire dict. Validation is in `validation`, the published schemas are in `publish`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from shoal.objects.schema.formats import is_recognized

Object = dict[str, Any]
Condition = dict[str, str]

GROUP = "apiextensions.k8s.io"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "CustomResourceDefinition"
PLURAL = "customresourcedefinitions"

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
API_APPROVED_ANNOTATION = "api-approved.kubernetes.io"

ESTABLISHED = "Established"
NAMES_ACCEPTED = "NamesAccepted"
TERMINATING = "Terminating"
NON_STRUCTURAL_SCHEMA = "NonStructuralSchema"
API_APPROVAL = "KubernetesAPIApprovalPolicyConformant"

CLUSTER_SCOPED, NAMESPACED = "Cluster", "Namespaced"


# --- defaults ---


def default_crd(crd: Object) -> None:
    """Sets upstream's defaults in place."""
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = kind + "List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    service = ((spec["conversion"].get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    for version in spec.get("versions") or ():
        # Go always writes these fields.
        version.setdefault("served", False)
        version.setdefault("storage", False)
    status = crd.get("status") or {}
    if not status.get("storedVersions"):
        record_stored_version(crd)


def record_stored_version(crd: Object) -> None:
    """Adds the storage version to `status.storedVersions`. Only a storage migration removes one."""
    storage = storage_version(crd)
    if not storage:
        return
    status = crd["status"] = crd.get("status") or {}
    stored = status["storedVersions"] = list(status.get("storedVersions") or ())
    if storage not in stored:
        stored.append(storage)


# --- accessors ---


def versions(crd: Object) -> list[Object]:
    return crd.get("spec", {}).get("versions") or []


def version_of(crd: Object, name: str) -> Object:
    """Returns the `spec.versions[]` entry of that name, or an empty dict."""
    return next((version for version in versions(crd) if version.get("name") == name), {})


def storage_version(crd: Object) -> str:
    return next((str(version.get("name") or "") for version in versions(crd) if version.get("storage")), "")


def served_versions(crd: Object) -> list[str]:
    """Returns the served versions in order of preference."""
    return sorted((v["name"] for v in versions(crd) if v.get("served")), key=version_priority)


def schema_of(crd: Object, version: str) -> Object | None:
    schema: Object | None = (version_of(crd, version).get("schema") or {}).get("openAPIV3Schema")
    return schema


def printer_columns(crd: Object, version: str) -> list[Object]:
    """Returns `additionalPrinterColumns`. Without any it returns upstream's Age column."""
    columns: list[Object] = version_of(crd, version).get("additionalPrinterColumns") or []
    return columns or [
        {
            "name": "Age",
            "type": "date",
            "jsonPath": ".metadata.creationTimestamp",
            "description": "CreationTimestamp is a timestamp representing the server time when this object was created."
            " It is not guaranteed to be set in happens-before order across separate operations. Clients may not set"
            " this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only."
            " Null for lists. More info:"
            " https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
        }
    ]


def has_status(crd: Object, version: str) -> bool:
    return (version_of(crd, version).get("subresources") or {}).get("status") is not None


def scale_subresource(crd: Object, version: str) -> Mapping[str, str] | None:
    """Returns `specReplicasPath`, `statusReplicasPath` and optionally `labelSelectorPath`, each with its leading
    dot.
    """
    scale: Mapping[str, str] | None = (version_of(crd, version).get("subresources") or {}).get("scale")
    return scale


def selectable_fields(crd: Object, version: str) -> list[str]:
    """Returns the field selector names, without the leading dot."""
    fields = version_of(crd, version).get("selectableFields") or ()
    return [field["jsonPath"].removeprefix(".") for field in fields]


def deprecation_warning(crd: Object, version: str) -> str:
    """Returns the Warning header of every response in that version, or an empty string."""
    entry = version_of(crd, version)
    if not entry.get("deprecated"):
        return ""
    if entry.get("deprecationWarning") is not None:
        return str(entry["deprecationWarning"])
    spec = crd["spec"]
    warning = f"{spec['group']}/{version} {spec['names']['kind']} is deprecated"
    for better in served_versions(crd):
        if version_priority(better) >= version_priority(version):
            break
        if not version_of(crd, better).get("deprecated"):
            return f"{warning}; use {spec['group']}/{better} {spec['names']['kind']}"
    return warning


def format_warnings(crd: Object, old: Object | None = None) -> list[str]:
    """Returns upstream's warnings about unrecognized formats. An update reports only new ones."""
    old_formats = set(_unrecognized_formats(old)) if old else set()
    return [f'unrecognized format "{name}"' for name in _unrecognized_formats(crd) if name not in old_formats]


def _unrecognized_formats(crd: Object) -> list[str]:
    formats: list[str] = []
    pending = [schema_of(crd, str(version.get("name"))) for version in reversed(versions(crd))]
    while pending:
        schema = pending.pop()
        if not isinstance(schema, dict):
            continue
        name, kind = schema.get("format"), schema.get("type") or ""
        if name and not is_recognized(name, kind):
            formats.append(name)
        inner = [schema.get(key) for key in ("items", "not", "additionalProperties")]
        inner += [sub for key in ("allOf", "anyOf", "oneOf") for sub in schema.get(key) or ()]
        pending += [*reversed((schema.get("properties") or {}).values()), *inner]
    return formats


# --- version priority ---

_match_kube_version = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?", re.ASCII).fullmatch
_STAGES = {None: 0, "beta": 1, "alpha": 2}


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Returns a sort key: v2, v1, v2beta1, v1beta2, v1alpha1, then all other names in alphabetical order."""
    match = _match_kube_version(version)
    if match is None:
        return 3, 0, 0, version
    return _STAGES[match[2]], -int(match[1]), -int(match[3] or 0), ""


# --- names and conditions ---


def condition_of(crd: Object, kind: str) -> Condition | None:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def is_condition_true(crd: Object, kind: str) -> bool:
    condition = condition_of(crd, kind)
    return condition is not None and condition.get("status") == "True"


def set_condition(crd: Object, condition: Condition, now: str) -> None:
    """Sets a condition. Its transition time becomes `now` (RFC 3339) only when its status changes."""
    status = crd["status"] = crd.get("status") or {}
    conditions = status["conditions"] = status.get("conditions") or []
    new = {"type": condition["type"], "status": condition["status"], "lastTransitionTime": now} | condition
    for index, present in enumerate(conditions):
        if present.get("type") == new["type"]:
            if present.get("status") == new["status"] and present.get("lastTransitionTime"):
                new["lastTransitionTime"] = present["lastTransitionTime"]
            conditions[index] = new
            return
    conditions.append(new)


def accepted_names(
    crd: Object, others: Iterable[Object], builtins: Iterable[Mapping[str, Any]] = ()
) -> tuple[Object, list[Condition]]:
    """Returns the names a CRD may use, and its conditions NamesAccepted and Established (without times).

    `others` are the cluster's CRDs. `builtins` are the names (`plural`, `singular`, `shortNames`, `kind`, `listKind`)
    that the same group serves already. Accepted names stay accepted when another CRD requests them later.
    """
    resources, kinds = _names_in_use(crd, others, builtins)
    requested_names = crd["spec"]["names"]
    own_names = dict((crd.get("status") or {}).get("acceptedNames") or {})
    accepted = dict(own_names)
    conflict: tuple[str, str] | None = None
    for field, names_in_use in (("plural", resources), ("singular", resources), ("shortNames", resources),
                         ("kind", kinds), ("listKind", kinds)):  # fmt: skip
        conflicts = _conflicts(requested_names.get(field), own_names.get(field), names_in_use)
        if conflicts:
            conflict = (field[0].upper() + field[1:] + "Conflict", _aggregate_messages(conflicts))
        else:
            _copy_field(requested_names, accepted, field)
    _copy_field(requested_names, accepted, "categories")
    return accepted, [_names_condition(conflict), _established_condition(crd, conflict is None)]


def _names_in_use(
    crd: Object, others: Iterable[Object], builtins: Iterable[Mapping[str, Any]]
) -> tuple[set[str], set[str]]:
    owners = [
        (other.get("status") or {}).get("acceptedNames") or {}
        for other in others
        if other["spec"]["group"] == crd["spec"]["group"] and other["metadata"]["name"] != crd["metadata"]["name"]
    ]
    resources: set[str] = set()
    kinds: set[str] = set()
    for names in (*owners, *builtins):
        resources.update(name for name in (names.get("plural"), names.get("singular")) if name)
        resources.update(names.get("shortNames") or ())
        kinds.update(name for name in (names.get("kind"), names.get("listKind")) if name)
    return resources, kinds


def _conflicts(requested: str | list[str] | None, accepted: str | list[str] | None, in_use: set[str]) -> list[str]:
    names = [requested] if isinstance(requested, str) else requested or []
    accepted_set = {accepted} if isinstance(accepted, str) else set(accepted or ())
    return [f'"{name}" is already in use' for name in names if name not in accepted_set and name in in_use]


def _aggregate_messages(messages: list[str]) -> str:
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else "[" + ", ".join(distinct) + "]"


def _copy_field(source: Mapping[str, Any], target: Object, field: str) -> None:
    if source.get(field):
        target[field] = source[field]
    else:
        target.pop(field, None)


def _names_condition(conflict: tuple[str, str] | None) -> Condition:
    if conflict is None:
        return _new_condition(NAMES_ACCEPTED, True, "NoConflicts", "no conflicts found")
    return _new_condition(NAMES_ACCEPTED, False, *conflict)


def _established_condition(crd: Object, accepted: bool) -> Condition:
    """Returns the condition Established. It stays True after a later name conflict, so the CRD's objects stay
    served.
    """
    if accepted or is_condition_true(crd, ESTABLISHED):
        return _new_condition(ESTABLISHED, True, "InitialNamesAccepted", "the initial names have been accepted")
    return _new_condition(ESTABLISHED, False, "NotAccepted", "not all names are accepted")


def _new_condition(kind: str, status: bool, reason: str, message: str) -> Condition:
    return {"type": kind, "status": "True" if status else "False", "reason": reason, "message": message}


# --- protected groups ---


def is_protected_group(group: str) -> bool:
    """Reports whether the group belongs to the Kubernetes community."""
    return group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io"))


def approval_condition(crd: Object) -> Condition | None:
    """Returns the condition KubernetesAPIApprovalPolicyConformant of a CRD in a protected group."""
    if not is_protected_group(crd["spec"].get("group", "")):
        return None
    approval_value = (crd["metadata"].get("annotations") or {}).get(API_APPROVED_ANNOTATION) or ""
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    must = f'protected groups must have approval annotation "{API_APPROVED_ANNOTATION}"'
    if not approval_value:
        return _new_condition(API_APPROVAL, False, "MissingAnnotation", f"{must}, {see}")
    if approval_value.startswith("unapproved"):
        return _new_condition(API_APPROVAL, False, "UnapprovedAnnotation", f'not approved: "{approval_value}"')
    if _is_url(approval_value):
        return _new_condition(API_APPROVAL, True, "ApprovedAnnotation", f"approved in {approval_value}")
    choice = 'with either a URL or a reason starting with "unapproved"'
    return _new_condition(API_APPROVAL, False, "InvalidAnnotation", f"{must} {choice}, {see}")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)


# --- lifecycle ---


def establish(crd: Object, others: Iterable[Object], builtins: Iterable[Mapping[str, Any]], now: str) -> None:
    """Accepts names and sets the conditions of a CRD, in place."""
    accepted, conditions = accepted_names(crd, others, builtins)
    crd["status"] = {**(crd.get("status") or {}), "acceptedNames": accepted}
    approval_status = approval_condition(crd)
    for condition in (*conditions, *((approval_status,) if approval_status else ())):
        set_condition(crd, condition, now)


def begin_termination(crd: Object, now: str) -> None:
    """Adds the cleanup finalizer and the condition Terminating: a deletion first removes the instances."""
    finalizers = crd["metadata"].setdefault("finalizers", [])
    if "deletionTimestamp" in crd["metadata"] or CLEANUP_FINALIZER in finalizers:
        return
    finalizers.append(CLEANUP_FINALIZER)
    message = "CustomResource deletion is in progress"
    set_condition(crd, _new_condition(TERMINATING, True, "InstanceDeletionInProgress", message), now)
