"""Validation of names, labels and object metadata, with upstream's messages.

Every `is_…` rule takes a value and returns a list of errors (empty: valid), as upstream's functions of the same names
do. `validate_object_meta` and `validate_object_meta_update` return causes of a 422. Defaulting, generated names and
resource versions are handled by the API server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from shoal.objects.errors import Cause, forbidden_field, invalid_value, required_value, too_long, type_invalid

NameRule = Callable[[str], list[str]]

ANNOTATIONS_LIMIT = 256 * 1024

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_SEARCH_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH = _SEARCH_LABEL + r"(\." + _SEARCH_LABEL + ")*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"

# The same languages as upstream's patterns above, without a choice to take back.
_ALNUM, _MIXED = "[a-z0-9]+(?:-+[a-z0-9]+)*", "[a-z0-9]+(?:[-_]+[a-z0-9]+)*"
_match_label = re.compile(_ALNUM).fullmatch
_match_subdomain = re.compile(rf"{_ALNUM}(?:\.{_ALNUM})*").fullmatch
_match_search = re.compile(rf"_?{_MIXED}(?:\._?{_MIXED})*").fullmatch
_match_1035 = re.compile("[a-z][a-z0-9]*(?:-+[a-z0-9]+)*").fullmatch
_match_key = re.compile("[A-Za-z0-9]+(?:[-_.]+[A-Za-z0-9]+)*").fullmatch
_match_value = re.compile("(?:[A-Za-z0-9]+(?:[-_.]+[A-Za-z0-9]+)*)?").fullmatch
_match_config_key = re.compile(_CONFIG_KEY).fullmatch


def _regex_error(what: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{what} (e.g. {shown}regex used for validation is '{pattern}')"


_LABEL_ERROR = _regex_error(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL, "my-name", "123-abc",
)  # fmt: skip
_SUBDOMAIN_ERROR = _regex_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN, "example.com",
)  # fmt: skip
_SEARCH_ERROR = _regex_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SEARCH, "example.com",
)  # fmt: skip
_1035_ERROR = _regex_error(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    _LABEL_1035, "my-name", "abc-123",
)  # fmt: skip
_KEY_ERROR = _regex_error(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _KEY, "MyName", "my.name", "123-abc",
)  # fmt: skip
_VALUE_ERROR = _regex_error(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    _VALUE, "MyValue", "my_value", "12345",
)  # fmt: skip
_CONFIG_KEY_ERROR = _regex_error(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_KEY, "key.name", "KEY_NAME", "key-name",
)  # fmt: skip


def is_dns1123_label(value: str) -> list[str]:
    errors = _length_errors(value, 63, "characters")
    if not _match_label(value):
        errors.append("must not contain dots" if _match_subdomain(value) else _LABEL_ERROR)
    return errors


def is_dns1123_subdomain(value: str) -> list[str]:
    errors = _length_errors(value, 253, "characters")
    if not _match_subdomain(value):
        errors.append(_SUBDOMAIN_ERROR)
    return errors


def is_search_domain(value: str) -> list[str]:
    """A search domain of a resolver: a subdomain that may contain underscores."""
    errors = _length_errors(value, 253, "characters")
    return errors if _match_search(value) else [*errors, _SEARCH_ERROR]


def is_dns1035_label(value: str) -> list[str]:
    errors = _length_errors(value, 63, "characters")
    if not _match_1035(value):
        errors.append(_1035_ERROR)
    return errors


def is_qualified_name(value: str) -> list[str]:
    """Label and annotation keys, finalizers: `name` or `prefix.example.com/name`."""
    prefix, slash, name = value.partition("/")
    if not slash:
        name = value
    elif "/" in name:
        return [
            f"a valid label key {_KEY_ERROR} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    errors: list[str] = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        errors += [f"prefix part {message}" for message in _length_errors(prefix, 253, "bytes")]
        if not _match_subdomain(prefix):
            errors.append(f"prefix part {_SUBDOMAIN_ERROR}")
    if not name:
        errors.append("name part must be non-empty")
    else:
        errors += [f"name part {message}" for message in _length_errors(name, 63, "bytes")]
    if not _match_key(name):
        errors.append(f"name part {_KEY_ERROR}")
    return errors


def is_valid_label_value(value: str) -> list[str]:
    errors = _length_errors(value, 63, "bytes")
    if not _match_value(value):
        errors.append(_VALUE_ERROR)
    return errors


def is_path_segment_name(value: str) -> list[str]:
    """RBAC names and others that only have to be valid in a URL path."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return is_path_segment_prefix(value)


def is_path_segment_prefix(value: str) -> list[str]:
    return [f"may not contain '{illegal}'" for illegal in ("/", "%") if illegal in value]


def is_config_map_key(value: str) -> list[str]:
    errors = _length_errors(value, 253, "characters")
    if not _match_config_key(value):
        errors.append(_CONFIG_KEY_ERROR)
    if value in (".", ".."):
        errors.append(f"must not be '{value}'")
    elif value.startswith(".."):
        errors.append("must not start with '..'")
    return errors


def _length_errors(value: str, limit: int, unit: str) -> list[str]:
    return [f"must be no more than {limit} {unit}"] if _utf8_size(value) > limit else []


def _utf8_size(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))


# --- object metadata ---


def validate_object_meta(
    metadata: Mapping[str, Any], *, namespaced: bool, name_rule: NameRule, check_generate_name: bool = True
) -> list[Cause]:
    """Returns all errors of the metadata of an object about to be stored. `check_generate_name` includes its
    generateName.
    """
    causes: list[Cause] = []
    if check_generate_name and (generate_name := metadata.get("generateName")):
        causes += _name_causes(
            "metadata.generateName", generate_name, lambda value: _generate_name_errors(value, name_rule)
        )
    if name := metadata.get("name"):
        causes += _name_causes("metadata.name", name, name_rule)
    else:
        causes.append(required_value("metadata.name", "name or generateName is required"))
    namespace = metadata.get("namespace")
    if not namespaced:
        if namespace:
            causes.append(forbidden_field("metadata.namespace", "not allowed on this type"))
    elif namespace:
        causes += _name_causes("metadata.namespace", namespace, is_dns1123_label)
    else:
        causes.append(required_value("metadata.namespace"))
    generation = metadata.get("generation")
    if isinstance(generation, int) and generation < 0:
        causes.append(invalid_value("metadata.generation", generation, "must be greater than or equal to 0"))
    causes += _validate_mutable_meta(metadata)
    if finalizers := metadata.get("finalizers"):
        causes += _validate_finalizers(finalizers)
    return causes


def validate_object_meta_update(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[Cause]:
    """Returns the errors of an update: changes of immutable metadata."""
    causes: list[Cause] = list(_validate_finalizers(new["finalizers"])) if new.get("finalizers") else []
    if old.get("deletionTimestamp") is not None:
        before = old.get("finalizers") or ()
        added = sorted({name for name in new.get("finalizers") or () if isinstance(name, str) and name not in before})
        if added:
            quoted_names = ", ".join(f'"{name}"' for name in added)
            causes.append(
                forbidden_field(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{quoted_names}}}",
                )
            )
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        causes.append(invalid_value("metadata.generation", new.get("generation") or 0, "must not be decremented"))
    for field, absent in _IMMUTABLE:
        value = new.get(field) or absent
        if value != (old.get(field) or absent):
            causes.append(invalid_value(f"metadata.{field}", value, "field is immutable"))
    grace = new.get("deletionGracePeriodSeconds")
    if grace != old.get("deletionGracePeriodSeconds"):
        causes.append(invalid_value("metadata.deletionGracePeriodSeconds", grace, "field is immutable"))
    causes += _validate_mutable_meta(new)
    return causes


_IMMUTABLE: tuple[tuple[str, str | None], ...] = (
    ("name", ""), ("namespace", ""), ("uid", ""), ("creationTimestamp", None), ("deletionTimestamp", None),
)  # fmt: skip


def validate_labels(labels: object, path: str) -> list[Cause]:
    """Validates `metadata.labels`, `matchLabels` and every other label set."""
    if not labels:
        return []
    if not isinstance(labels, Mapping):
        return [type_invalid(path, labels, "must be an object")]
    causes: list[Cause] = []
    for key, value in labels.items():
        if not _is_valid_key(key):
            causes += _name_causes(path, key, is_qualified_name)
        causes += _name_causes(path, value, is_valid_label_value)
    return causes


def _validate_mutable_meta(metadata: Mapping[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    if labels := metadata.get("labels"):
        causes += validate_labels(labels, "metadata.labels")
    if annotations := metadata.get("annotations"):
        causes += validate_annotations(annotations)
    if references := metadata.get("ownerReferences"):
        causes += _validate_owner_references(references)
    return causes


def validate_annotations(annotations: object, path: str = "metadata.annotations") -> list[Cause]:
    if not isinstance(annotations, Mapping):
        return [type_invalid(path, annotations, "must be an object")]
    causes: list[Cause] = []
    size = 0
    for key, value in annotations.items():
        if not _is_valid_key(key):
            causes += [invalid_value(path, key, message) for message in is_qualified_name(key.lower())]
        if isinstance(value, str):
            size += _utf8_size(key) + _utf8_size(value)
        else:
            causes.append(type_invalid(path, value, "must be a string"))
    if size > ANNOTATIONS_LIMIT:
        causes.append(too_long(path, ANNOTATIONS_LIMIT))
    return causes


def _is_valid_key(key: str) -> bool:
    return len(key) <= _KEY_LIMIT and _is_qualified_name_cached(key)


_KEY_LIMIT = 253 + 1 + 63


@lru_cache(maxsize=4096)
def _is_qualified_name_cached(key: str) -> bool:
    """A fleet's objects share few keys, so most keys are validated once."""
    return not is_qualified_name(key)


def _validate_owner_references(references: object) -> Iterator[Cause]:
    path = "metadata.ownerReferences"
    if not isinstance(references, list) or not all(isinstance(reference, Mapping) for reference in references):
        yield type_invalid(path, references, "must be a list of objects")
        return
    controllers: list[str] = []
    for reference in references:
        yield from _validate_owner_reference(reference, path)
        if reference.get("controller") is True:
            controllers.append(f"{reference.get('kind', '')}/{reference.get('name', '')}")
    if len(controllers) > 1:
        # Upstream repeats this with all references for each controller after the first.
        message = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        )
        yield invalid_value(path, references, message)


def _validate_owner_reference(reference: Mapping[str, Any], path: str) -> Iterator[Cause]:
    api_version = str(reference.get("apiVersion") or "")
    version = "" if api_version.count("/") > 1 else api_version.rpartition("/")[2]
    if not version:
        yield invalid_value(f"{path}.apiVersion", api_version, "version must not be empty")
    for field in ("kind", "name", "uid"):
        if not reference.get(field):
            yield invalid_value(f"{path}.{field}", "", "must not be empty")
    if api_version == "v1" and reference.get("kind") == "Event":
        yield invalid_value(path, dict(reference), "/v1, Kind=Event is disallowed from being an owner")


def validate_builtin_finalizers(finalizers: object) -> list[Cause]:
    """Built-in kinds accept only the standard finalizers without a domain."""
    message = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid_value(f"metadata.finalizers[{index}]", name, message)
        for index, name in enumerate(finalizers if isinstance(finalizers, list) else ())
        if isinstance(name, str) and "/" not in name and name not in _STANDARD_FINALIZERS
    ]


_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def _validate_finalizers(finalizers: object) -> Iterator[Cause]:
    path = "metadata.finalizers"
    if not isinstance(finalizers, list):
        yield type_invalid(path, finalizers, "must be a list")
        return
    for finalizer in finalizers:
        yield from _name_causes(path, finalizer, is_qualified_name)
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        yield invalid_value(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")


def _name_causes(path: str, value: object, rule: NameRule) -> list[Cause]:
    if not isinstance(value, str):
        return [type_invalid(path, value, "must be a string")]
    return [invalid_value(path, value, message) for message in rule(value)]


def _generate_name_errors(prefix: str, rule: NameRule) -> list[str]:
    if rule is is_path_segment_name:
        return is_path_segment_prefix(prefix)
    # A suffix follows the prefix, so it may end with a dash.
    return rule(prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix)
