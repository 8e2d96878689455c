"""SelectionPredicate: the label and field selector of one request as one test."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from shoal.apiserver.cache import Entry
from shoal.apiserver.fields import NAME, Pin, field_value, reader
from shoal.apiserver.registry import Resource
from shoal.apiserver.render import served
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import FieldSelector, LabelSelector, parse_fields, parse_labels

log = logging.getLogger("shoal.apiserver")


class Selection:
    def __init__(
        self,
        labels: LabelSelector | None,
        fields: FieldSelector | None,
        stored_path: Callable[[str], str] = str,
        field: Callable[[dict[str, Any], str], str] | None = None,
        pin: Pin | None = None,
    ) -> None:
        self._labels = labels
        self._fields = fields
        self._stored_path = stored_path
        self._field = field or field_value
        self.pin = pin
        """The required value by which matching objects and watchers can be found."""
        self._needles = _needles(fields) if fields is not None and field is None else ()

    def matches(self, entry: Entry) -> bool:
        if self._labels is not None and not self._labels.matches(entry.labels):
            return False
        return self._fields is None or self._match_fields(entry)

    def _match_fields(self, entry: Entry) -> bool:
        assert self._fields is not None
        for needle in self._needles:
            if needle not in entry.data:
                return False
        obj: dict[str, Any] | None = None
        pin = self.pin
        for path, operator, wanted in self._fields.terms:
            if path == "metadata.name":
                value = entry.name
            elif path == "metadata.namespace":
                value = entry.namespace
            elif pin is not None and path == pin.path:
                value = pin.read(entry)
            else:
                obj = obj if obj is not None else entry.object()
                value = self._field(obj, self._stored_path(path))
            if (value == wanted) == (operator == "!="):
                return False
        return True

    @property
    def name(self) -> str:
        """The name required by `metadata.name=x`, for RBAC's resourceNames; else empty."""
        if self._fields is not None:
            for path, operator, wanted in self._fields.terms:
                if path == "metadata.name" and operator != "!=":
                    return wanted
        return ""


_REFUSED = {
    "jobs.batch": 'field label "{}" not supported for Job',
    "resourceslices.resource.k8s.io": "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {}",
}
"""Kinds with their own wording."""


def selection(resource: Resource, labels: str, fields: str) -> Selection | None:
    """Returns None if everything matches."""
    if not labels and not fields:
        return None
    label_selector = parse_labels(labels) if labels else None
    field_selector = parse_fields(fields) if fields else None
    for path, _, _ in field_selector.terms if field_selector else ():
        if path not in ("metadata.name", "metadata.namespace") and path not in resource.selectable:
            if resource.selectable or resource.custom:
                raise BadRequest(_REFUSED.get(resource.group_resource, "field label not supported: {}").format(path))
            raise BadRequest(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')
    shared = resource.rules.shared
    stored_path = shared.stored_path if shared else str
    pin = _pin(resource, field_selector, stored_path) if field_selector is not None else None
    return Selection(label_selector, field_selector, stored_path, resource.rules.field, pin)


def _pin(resource: Resource, fields: FieldSelector, stored_path: Callable[[str], str]) -> Pin | None:
    asked = {path: wanted for path, operator, wanted in fields.terms if operator != "!="}
    if NAME in asked:
        return name_pin(asked[NAME])
    for path, wanted in asked.items():
        if path in resource.selectable:
            stored, field = stored_path(path), resource.rules.field
            return Pin(path, (stored, field, resource.schema_hash), wanted, _reading(resource, stored, field))
    return None


def name_pin(name: str) -> Pin:
    return Pin(NAME, NAME, name, lambda entry: entry.name)


_reader = lru_cache(maxsize=256)(reader)


def _reading(
    resource: Resource, path: str, field: Callable[[dict[str, Any], str], str] | None
) -> Callable[[Entry], str]:
    if field is not None:

        def read_field(entry: Entry) -> str:
            try:
                return field(entry.object(), path)
            except (AttributeError, IndexError, KeyError, TypeError):
                return ""  # the object has an unexpected shape

        return read_field
    read = _reader(path)
    if not resource.custom:
        return lambda entry: read(entry.data)

    def read_custom(entry: Entry) -> str:
        try:
            # Read by the current schema: a later read of the same entry must not differ.
            return read(served(resource, entry))
        except Exception:
            log.exception("%s %s cannot be read by its schema", resource.plural, entry.key)
            return read(entry.data)

    return read_custom


def _needles(fields: FieldSelector) -> tuple[bytes, ...]:
    """Bytes a matching object must contain. They rule out most objects without decoding."""
    plain = [wanted for _, operator, wanted in fields.terms if operator != "!=" and wanted.isascii()]
    return tuple(wanted.encode() for wanted in plain if wanted.isprintable() and not set(wanted) & set('"\\'))
