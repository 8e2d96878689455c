"""What is special about writing a kind, as data: one `Rules` per resource, given to the generic verbs.

Each function is pure; what needs the rest of the server (escalation, name acceptance, namespaces) is
admission, in `apiserver.admission`.
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
    """A resource that is stored as one of another group: the same objects, in two forms."""

    group: str
    to_stored: Callable[[Object], Object]
    from_stored: Callable[[Object], Object]
    stored_path: Callable[[str], str]
    """Where the stored form has a field of this one."""


@dataclass(frozen=True, slots=True)
class Rules:
    generation: bool = False
    """metadata.generation counts changes of anything but metadata and status."""
    unconditional: bool = True
    """PUT without a resourceVersion is allowed."""
    create_on_update: bool = False
    """PUT of an object that does not exist creates it."""
    returns_deleted: bool = False
    """DELETE answers with the object that was, not with a Status."""
    status_on_create: bool = False
    """A new object may come with a status, though status is a subresource."""
    status_metadata: bool = False
    """A write to /status may change labels, annotations, finalizers and owners too."""
    plain_finalizers: bool = False
    """Finalizers without a domain are not refused, as upstream has it outside the kinds of its core."""
    suffixed: bool = True
    """A generateName gets random letters; of a kind whose names mean something it is the name."""
    name: Callable[[str], list[str]] = is_dns1123_subdomain
    named: Callable[[Object], NameRule] | None = None
    """(object): the rule for its name, where that depends on what else it says."""
    prefix: bool = True
    """A generateName is looked at by itself, not only the name that comes of it."""
    default: Callable[[Object], None] = _nothing
    prepare_create: Callable[[Object], None] = _nothing
    prepare_update: Callable[[Object, Object], None] = _as_it_is
    """(new, old): carries over what a client cannot change."""
    prepare_status: Callable[[Object, Object], None] = _as_it_is
    complete: Callable[[Object], None] = _nothing
    """What a new object gets after it was found valid."""
    prepare_delete: Callable[[Object, str], None] = _no_mark
    """(object, now): what a deletion leaves to be done first, as finalizers and conditions."""
    grace: Callable[[Object, int | None], int] | None = None
    """(object, seconds asked for): how long a deletion waits for somebody to end what the object stands for."""
    validate: Callable[[Object, Object | None], list[Cause]] = _fine
    """(object, old one or None)."""
    warn: Callable[[Object, Object | None], list[str]] = _quiet
    """(object, old one or None): what is odd about a valid object, to be told beside the answer."""
    field: Callable[[Object, str], str] | None = None
    """(object, path): what a field selector compares, of a kind where that is not plainly the field of that path."""
    shared: Shared | None = None
    alone: bool = False
    """It has two forms, and what was owned in the one is nobody's after a write in the other."""
    resets: Mapping[str, Object] | None = None
    """By subresource, empty for the object itself: what a write to it does not write, where that is not all of status
    or all but status; nobody owns it by such a write. As FieldsV1."""
