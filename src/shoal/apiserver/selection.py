"""SelectionPredicate: the label and field selector of one request as one test."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from functools import lru_cache
from typing import Any

from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.cache.trigger import NAME_FIELD, Trigger, field_reader, field_value
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.response.render import STEP_BYTES, Row, encode_object
from shoal.apiserver.webhooks.conversion import converted_entry
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import FieldSelector, LabelSelector, parse_field_selector, parse_label_selector

log = logging.getLogger("shoal.apiserver")


class SelectionPredicate:
    def __init__(
        self,
        labels: LabelSelector | None,
        fields: FieldSelector | None,
        stored_field_path: Callable[[str], str] = str,
        selectable_field_value: Callable[[dict[str, Any], str], str] | None = None,
        trigger: Trigger | None = None,
    ) -> None:
        self._labels = labels
        self._fields = fields
        self._stored_field_path = stored_field_path
        self._field_value = selectable_field_value or field_value
        self.trigger = trigger
        """The required value by which matching objects and watchers can be found."""
        self._required_bytes = _required_bytes(fields) if fields is not None and selectable_field_value is None else ()

    def matches(self, entry: CachedObject) -> bool:
        if self._labels is not None and not self._labels.matches(entry.labels):
            return False
        return self._fields is None or self._match_fields(entry)

    def _match_fields(self, entry: CachedObject) -> bool:
        assert self._fields is not None
        for needle in self._required_bytes:
            if needle not in entry.data:
                return False
        obj: dict[str, Any] | None = None
        trigger = self.trigger
        for path, operator, expected in self._fields.terms:
            if path == "metadata.name":
                value = entry.name
            elif path == "metadata.namespace":
                value = entry.namespace
            elif trigger is not None and path == trigger.path:
                value = trigger.value_of(entry)
            else:
                obj = obj if obj is not None else entry.object()
                value = self._field_value(obj, self._stored_field_path(path))
            if (value == expected) == (operator == "!="):
                return False
        return True

    @property
    def exact_name(self) -> str:
        """The name required by `metadata.name=x`, for RBAC's resourceNames; else empty."""
        if self._fields is not None:
            for path, operator, expected in self._fields.terms:
                if path == "metadata.name" and operator != "!=":
                    return expected
        return ""


_UNSUPPORTED_FIELD_MESSAGES = {
    "jobs.batch": 'field label "{}" not supported for Job',
    "resourceslices.resource.k8s.io": "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {}",
}
"""Kinds with their own wording."""


def selection_predicate(resource: Resource, labels: str, fields: str) -> SelectionPredicate | None:
    """Returns None if everything matches."""
    if not labels and not fields:
        return None
    label_selector = parse_label_selector(labels) if labels else None
    field_selector = parse_field_selector(fields) if fields else None
    for path, _, _ in field_selector.terms if field_selector else ():
        if path not in ("metadata.name", "metadata.namespace") and path not in resource.selectable_fields:
            if resource.selectable_fields or resource.custom:
                raise BadRequest(
                    _UNSUPPORTED_FIELD_MESSAGES.get(resource.group_resource, "field label not supported: {}").format(
                        path
                    )
                )
            raise BadRequest(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')
    alias = resource.strategy.storage_alias
    stored_path = alias.stored_field_path if alias else str
    trigger = _trigger(resource, field_selector, stored_path) if field_selector is not None else None
    return SelectionPredicate(
        label_selector, field_selector, stored_path, resource.strategy.selectable_field_value, trigger
    )


def _trigger(resource: Resource, fields: FieldSelector, stored_path: Callable[[str], str]) -> Trigger | None:
    required = {path: expected for path, operator, expected in fields.terms if operator != "!="}
    if NAME_FIELD in required:
        return name_trigger(required[NAME_FIELD])
    for path, expected in required.items():
        if path in resource.selectable_fields:
            stored, field = stored_path(path), resource.strategy.selectable_field_value
            return Trigger(
                path, (stored, field, resource.schema_hash), expected, _value_reader(resource, stored, field)
            )
    return None


def name_trigger(name: str) -> Trigger:
    return Trigger(NAME_FIELD, NAME_FIELD, name, lambda entry: entry.name)


_reader = lru_cache(maxsize=256)(field_reader)


def _value_reader(
    resource: Resource, path: str, field: Callable[[dict[str, Any], str], str] | None
) -> Callable[[CachedObject], str]:
    if field is not None:

        def read_field(entry: CachedObject) -> str:
            try:
                return field(entry.object(), path)
            except (AttributeError, IndexError, KeyError, TypeError):
                return ""  # the object has an unexpected shape

        return read_field
    read_bytes = _reader(path)
    if not resource.custom:
        return lambda entry: read_bytes(entry.data)

    def read_custom(entry: CachedObject) -> str:
        try:
            # Read by the current schema: a later read of the same entry must not differ.
            return read_bytes(encode_object(resource, entry))
        except Exception:
            log.exception("cannot decode %s %s with its schema", resource.plural, entry.key)
            return read_bytes(entry.data)

    return read_custom


def _required_bytes(fields: FieldSelector) -> tuple[bytes, ...]:
    """Bytes a matching object must contain. They rule out most objects without decoding."""
    plain = [value for _, operator, value in fields.terms if operator != "!=" and value.isascii()]
    return tuple(value.encode() for value in plain if value.isprintable() and not set(value) & set('"\\'))


def matching_rows(
    resource: Resource, rows: Iterable[Row], predicate: SelectionPredicate, limit: int = 0
) -> Generator[None, None, list[Row]]:
    """Tests a few objects in each step, in the requested version. If there is a limit, stops after one row more."""
    found: list[Row] = []
    size = 0
    for row in rows:
        entry = row[1]
        if predicate.matches(entry if resource.conversion is None else converted_entry(resource, entry)):
            found.append(row)
            if 0 < limit < len(found):
                break
        size += len(entry.data)
        if size > STEP_BYTES:
            size = 0
            yield
    return found
