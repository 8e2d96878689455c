"""The steps of a write that webhooks and policies review. Both do nothing if none matches."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from shoal.apiserver.admission.chain import admit
from shoal.apiserver.admission.dispatch import AdmissionDispatcher, dispatcher_for, options_body
from shoal.apiserver.admission.projection import WHOLE_OBJECT, creation_projection
from shoal.apiserver.response.render import served_object
from shoal.apiserver.write.attempt import Write
from shoal.apiserver.write.heavy import run_validation
from shoal.apiserver.write.locks import release_locks
from shoal.apiserver.write.metadata import keep_server_metadata, set_namespace
from shoal.apiserver.write.strategy import bump_generation, prepare, set_defaults
from shoal.objects.errors import BadRequest

Object = dict[str, Any]

UPDATE_VERBS = ("update", "patch")
"""Verbs that webhooks get as an UPDATE. Other changes were already sent to them under their own kind."""


def mutating_admission(write: Write) -> Awaitable[None] | None:
    """Webhooks and policies that match. They see the object as built-in admission leaves it."""
    ctx = write.ctx
    if write.old is None:
        write.dispatcher = dispatcher_for(write.server, ctx, "CREATE", write.plan.options.dry_run)
    elif ctx.verb in UPDATE_VERBS:
        write.dispatcher = dispatcher_for(write.server, ctx, "UPDATE", write.plan.options.dry_run)
    if write.dispatcher is None:
        return None
    release_locks(write.server, write.locks)  # of an earlier attempt: webhooks may write in the same namespace
    admit(write.server, ctx, write.new, write.old)
    return _mutate(write, write.dispatcher)


async def _mutate(write: Write, dispatcher: AdmissionDispatcher) -> None:
    server, ctx, new = write.server, write.ctx, write.new
    if write.old is None or write.entry is None:
        before = None
        dispatcher.options = options_body(ctx, "CreateOptions")
        write.projection = creation_projection(write.generated)
    else:
        # A patch shares unchanged parts between old and new object, so the old one may have been modified: read it
        # again.
        before = write.before = served_object(ctx.resource, write.entry)
        dispatcher.options = options_body(ctx, "UpdateOptions")

    def reinvoke(changed: Object) -> None:
        """Repeats what comes before the webhooks."""
        if before is None:
            name = changed["metadata"].get("name")
            if ctx.name and name != ctx.name:
                raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({ctx.name})")
            set_namespace(ctx, changed["metadata"])
            prepare(ctx, changed, None)
        else:
            keep_server_metadata(ctx, changed, before)
            set_defaults(ctx, changed, before)
            prepare(ctx, changed, before)
            bump_generation(ctx, changed, before)
        admit(server, ctx, changed, before)

    admitted = await dispatcher.mutate(new, before, reinvoke, write.projection)
    assert admitted is not None
    if admitted is not new:
        write.old = before
        write.generated = write.generated and admitted["metadata"]["name"] == new["metadata"]["name"]
        write.new = admitted


def validating_admission(write: Write) -> Awaitable[None] | None:
    if write.dispatcher is None:
        return None
    return _validate_by_webhooks(write, write.dispatcher)


async def _validate_by_webhooks(write: Write, dispatcher: AdmissionDispatcher) -> None:
    if write.new != write.old and (validation := run_validation(write)) is not None:
        await validation
    # Before validation a new object has no uid, afterwards it is shown as a whole.
    projection = WHOLE_OBJECT if write.old is None else write.projection
    await dispatcher.validate(write.new, write.before, projection)
