"""One attempt of a write: what the steps of `pipeline` read and set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shoal.apiserver.admission.dispatch import AdmissionDispatcher
from shoal.apiserver.admission.projection import WHOLE_OBJECT, Projection
from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.keyed_locks import LockKey
from shoal.apiserver.request.options import WriteOptions
from shoal.apiserver.response.render import object_response
from shoal.apiserver.server import NameGenerator, RequestContext, ServerComponents
from shoal.objects.errors import StatusError
from shoal.objects.wire import Response

Object = dict[str, Any]
Build = Callable[[Any], Object]
"""Builds the new object from the current one, which is None for a create. Called again after a lost race."""


@dataclass(slots=True, eq=False)
class WritePlan:
    """What a verb wants to write."""

    options: WriteOptions
    build: Build
    creates: bool = False
    """A missing object is created."""
    updates: bool = True
    """An existing object is changed."""
    managed_fields_set: bool = False
    """`build` sets managedFields itself (apply)."""


Planner = Callable[[RequestContext, float], WritePlan]
"""Decodes the request, given the current time. Needs nothing else of the server, so that a child process can do it."""


@dataclass(slots=True, eq=False)
class Draft:
    """The new object before admission. The steps that make it need nothing of the server."""

    ctx: RequestContext
    plan: WritePlan
    names: NameGenerator
    now: float
    # --- set by the steps
    entry: CachedObject | None = None
    old: Object | None = None
    new: Object = field(init=False)
    prepared: bool = False
    """The strategy has run."""
    generated: bool = False
    """The server has generated the name."""


@dataclass(slots=True, eq=False)
class Verdict:
    """The result of validation in a child process."""

    data: bytes
    """The object that was validated."""
    error: StatusError | None
    warnings: list[str]


@dataclass(slots=True, eq=False, kw_only=True)
class Write(Draft):
    """One attempt of a write."""

    server: ServerComponents
    locks: list[LockKey]
    """Locks that are held, by this attempt or since an earlier one."""
    projection: Projection = WHOLE_OBJECT
    """The object as webhooks see it."""
    # --- set by the steps
    before: Object | None = None
    """The old object as webhooks see it."""
    dispatcher: AdmissionDispatcher | None = None
    """None if no webhook and no policy matches."""
    verdict: Verdict | None = None
    """Of a heavy write."""
    response: Response | None = None
    """Ends the write."""

    def respond(self, data: bytes) -> None:
        """Ends the write with the object, given as served bytes."""
        status = 201 if self.entry is None else 200
        self.response = object_response(self.ctx.resource, self.ctx.output, data, self.server.clock.now(), status)
