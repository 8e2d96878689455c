"""Strategies: the per-kind hooks of the API server's generic verbs, as data. Pure.

Each API group defines the strategies of its kinds in its own package. Checks that need the rest of the server
(escalation, name acceptance, namespaces) are admission plugins in `apiserver.admission`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.objects.errors import Cause
from shoal.objects.names import NameRule, is_dns1123_subdomain

Object = dict[str, Any]


def _no_change(obj: Object) -> None:
    pass


def _no_update_change(new: Object, old: Object) -> None:
    pass


def _no_delete_preparation(obj: Object, now: str) -> None:
    pass


def _no_causes(obj: Object, old: Object | None) -> list[Cause]:
    return []


def _no_warnings(obj: Object, old: Object | None) -> list[str]:
    return []


@dataclass(frozen=True, slots=True)
class StorageAlias:
    """A resource whose objects are stored under another group: the same objects in two forms."""

    group: str
    to_stored: Callable[[Object], Object]
    from_stored: Callable[[Object], Object]
    stored_field_path: Callable[[str], str]
    """Maps a field path to the stored form."""


@dataclass(frozen=True, slots=True)
class Strategy:
    tracks_generation: bool = False
    """metadata.generation counts changes of anything but metadata and status."""
    allow_unconditional_update: bool = True
    """PUT without a resourceVersion is allowed."""
    allow_create_on_update: bool = False
    """PUT of an object that does not exist creates it."""
    return_deleted_object: bool = False
    """DELETE returns the deleted object instead of a Status."""
    status_on_create: bool = False
    """A new object may have a status, though status is a subresource."""
    status_writes_metadata: bool = False
    """A write to /status may also change labels, annotations, finalizers and owners."""
    allow_unqualified_finalizers: bool = False
    """Finalizers without a domain are accepted, as upstream does outside its core kinds."""
    generate_suffix: bool = True
    """generateName gets a random suffix. If false, generateName is the name itself, for kinds whose names have a
    meaning.
    """
    name_rule: Callable[[str], list[str]] = is_dns1123_subdomain
    name_rule_for: Callable[[Object], NameRule] | None = None
    """(object): the name rule, if it depends on the rest of the object."""
    validate_generate_name: bool = True
    """generateName is validated itself, not only the resulting name."""
    default: Callable[[Object], None] = _no_change
    prepare_for_create: Callable[[Object], None] = _no_change
    prepare_for_update: Callable[[Object, Object], None] = _no_update_change
    """(new, old): keeps the fields a client cannot change."""
    prepare_for_status_update: Callable[[Object, Object], None] = _no_update_change
    canonicalize: Callable[[Object], None] = _no_change
    """Applied to a new object after validation."""
    prepare_for_delete: Callable[[Object, str], None] = _no_delete_preparation
    """(object, now): sets finalizers and conditions for what must happen before the deletion completes."""
    check_graceful_delete: Callable[[Object, int | None], int] | None = None
    """(object, requested seconds): the grace period of a deletion."""
    validate: Callable[[Object, Object | None], list[Cause]] = _no_causes
    """(object, old object or None)."""
    warnings: Callable[[Object, Object | None], list[str]] = _no_warnings
    """(object, old object or None): warnings about a valid object, sent with the response."""
    selectable_field_value: Callable[[Object, str], str] | None = None
    """(object, path): the value a field selector compares, if it is not simply the field at that path."""
    storage_alias: StorageAlias | None = None
    drop_other_form_managers: bool = False
    """The resource has two forms, and a write in one form drops the field owners of the other."""
    reset_fields: Mapping[str, Object] | None = None
    """By subresource (empty: the object itself), as FieldsV1: fields that a write to it does not write and therefore
    does not own. Needed where that is neither all of status nor everything but status.
    """


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """The JSON paths of the scale subresource, each with its leading dot: `.spec.replicas`."""

    spec: str
    status: str
    selector: str = ""


CUSTOM_STRATEGY = Strategy(tracks_generation=True, allow_unconditional_update=False)
"""The strategy of kinds that a CRD defines."""
REPLICA_PATHS = ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector")
"""The scale paths of the built-in kinds that have replicas."""
