"""Strategies: the per-kind hooks of the generic verbs, as data.

Each hook is pure. Checks that need the rest of the server (escalation, name acceptance, namespaces) are admission
plugins in `apiserver.admission`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.objects.errors import Cause
from shoal.objects.names import NameRule, is_dns1123_subdomain

Object = dict[str, Any]


def _nothing(obj: Object) -> None:
    pass


def _as_it_is(new: Object, old: Object) -> None:
    pass


def _no_mark(obj: Object, now: str) -> None:
    pass


def _fine(obj: Object, old: Object | None) -> list[Cause]:
    return []


def _quiet(obj: Object, old: Object | None) -> list[str]:
    return []


@dataclass(frozen=True, slots=True)
class Shared:
    """A resource whose objects are stored under another group: the same objects in two forms."""

    group: str
    to_stored: Callable[[Object], Object]
    from_stored: Callable[[Object], Object]
    stored_path: Callable[[str], str]
    """Maps a field path to the stored form."""


@dataclass(frozen=True, slots=True)
class Rules:
    generation: bool = False
    """metadata.generation counts changes of anything but metadata and status."""
    unconditional: bool = True
    """PUT without a resourceVersion is allowed."""
    create_on_update: bool = False
    """PUT of an object that does not exist creates it."""
    returns_deleted: bool = False
    """DELETE returns the deleted object instead of a Status."""
    status_on_create: bool = False
    """A new object may have a status, though status is a subresource."""
    status_metadata: bool = False
    """A write to /status may also change labels, annotations, finalizers and owners."""
    plain_finalizers: bool = False
    """Finalizers without a domain are accepted, as upstream does outside its core kinds."""
    suffixed: bool = True
    """generateName gets a random suffix. If false, generateName is the name itself, for kinds whose names have a
    meaning.
    """
    name: Callable[[str], list[str]] = is_dns1123_subdomain
    named: Callable[[Object], NameRule] | None = None
    """(object): the name rule, if it depends on the rest of the object."""
    prefix: bool = True
    """generateName is validated itself, not only the resulting name."""
    default: Callable[[Object], None] = _nothing
    prepare_create: Callable[[Object], None] = _nothing
    prepare_update: Callable[[Object, Object], None] = _as_it_is
    """(new, old): keeps the fields a client cannot change."""
    prepare_status: Callable[[Object, Object], None] = _as_it_is
    complete: Callable[[Object], None] = _nothing
    """Applied to a new object after validation."""
    prepare_delete: Callable[[Object, str], None] = _no_mark
    """(object, now): sets finalizers and conditions for what must happen before the deletion completes."""
    grace: Callable[[Object, int | None], int] | None = None
    """(object, requested seconds): the grace period of a deletion."""
    validate: Callable[[Object, Object | None], list[Cause]] = _fine
    """(object, old object or None)."""
    warn: Callable[[Object, Object | None], list[str]] = _quiet
    """(object, old object or None): warnings about a valid object, sent with the response."""
    field: Callable[[Object, str], str] | None = None
    """(object, path): the value a field selector compares, if it is not simply the field at that path."""
    shared: Shared | None = None
    alone: bool = False
    """The resource has two forms, and a write in one form drops the field owners of the other."""
    resets: Mapping[str, Object] | None = None
    """By subresource (empty: the object itself), as FieldsV1: fields that a write to it does not write and therefore
    does not own. Needed where that is neither all of status nor everything but status.
    """
