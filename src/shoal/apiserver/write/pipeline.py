"""The write pipeline: create, update, patch and apply run STEPS in order. A verb gives only `build(old) -> new`.

The steps are the guaranteed-update loop: they run again, from the current object, after a lost race. A create is a
write without an old object.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from shoal.apiserver.admission.chain import admit, allocate
from shoal.apiserver.admission.projection import WHOLE_OBJECT, Projection
from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.keyed_locks import LockKey
from shoal.apiserver.request.options import WriteOptions
from shoal.apiserver.response.render import encode_object, served_object
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.webhooks.conversion import convert_entries
from shoal.apiserver.write.attempt import Build, Draft, Planner, Write, WritePlan
from shoal.apiserver.write.authorization import authorize_creation
from shoal.apiserver.write.heavy import draft_in_child, give_way, heavy_plan, is_heavy, require_current, run_validation
from shoal.apiserver.write.locks import lock_keys, release_locks
from shoal.apiserver.write.metadata import fill_metadata, keep_server_metadata, set_managed_fields
from shoal.apiserver.write.review import mutating_admission, validating_admission
from shoal.apiserver.write.storage import conflict
from shoal.apiserver.write.strategy import STATUS_SUBRESOURCES, bump_generation, prepare, set_defaults
from shoal.apiserver.write.swap import compare_and_swap
from shoal.objects.errors import AlreadyExists
from shoal.objects.wire import Response

Object = dict[str, Any]


async def write_object(
    server: ServerComponents,
    ctx: RequestContext,
    options: WriteOptions,
    build: Build,
    *,
    creates: bool = False,
    updates: bool = True,
    managed_fields_set: bool = False,
    projection: Projection = WHOLE_OBJECT,
) -> Response:
    plan = WritePlan(options, build, creates, updates, managed_fields_set)
    steps = HEAVY_STEPS if is_heavy(server, ctx, updates=updates) else STEPS
    return await _run(server, ctx, plan, steps, projection)


async def write_planned(server: ServerComponents, ctx: RequestContext, planner: Planner) -> Response:
    """Runs the write of a verb that has a planner, in a child process as far as possible if it is heavy."""
    if is_heavy(server, ctx, updates=ctx.verb != "create"):
        return await _run(server, ctx, heavy_plan(ctx), HEAVY_STEPS, WHOLE_OBJECT)
    return await _run(server, ctx, planner(ctx, server.clock.now()), STEPS, WHOLE_OBJECT)


async def _run(
    server: ServerComponents, ctx: RequestContext, plan: WritePlan, steps: tuple[Step, ...], projection: Projection
) -> Response:
    """Runs one write. An update keeps its locks after a lost race, so that it wins the next one."""
    locks: list[LockKey] = []
    names, now = server.name_generator, server.clock.now()
    try:
        while True:
            write = Write(ctx, plan, names, now, server=server, locks=locks, projection=projection)
            try:
                for step in steps:
                    pending = step(write)
                    if pending is not None:
                        await pending
                    if write.response is not None:
                        return write.response
            except AlreadyExists:
                # Another client has created it first: that object is updated.
                if write.old is not None or not plan.updates:
                    raise
    finally:
        if locks:
            release_locks(server, locks)


def read_current(write: Write) -> Awaitable[None] | None:
    ctx = write.ctx
    if not write.plan.updates:
        return None
    entry = ctx.cached_object()
    require_current(write, entry)
    if entry is None:
        return None
    write.entry = entry
    if ctx.resource.conversion is not None:
        return _convert_current(write, entry)
    write.old = served_object(ctx.resource, entry)
    return None


async def _convert_current(write: Write, entry: CachedObject) -> None:
    resource = write.ctx.resource
    await convert_entries(write.server.webhooks.client, write.ctx.info.cluster, resource, [entry])
    write.old = served_object(resource, entry)


def build_object(draft: Draft) -> None:
    draft.new = draft.plan.build(draft.old)


def check_preconditions(draft: Draft) -> None:
    old, entry = draft.old, draft.entry
    if old is None or entry is None:
        return
    metadata = draft.new["metadata"]
    given = metadata.get("resourceVersion")
    if given and given != "0" and given != str(entry.revision):
        raise conflict(draft.ctx)
    if draft.ctx.verb == "update":
        check_uid(draft.ctx, metadata.get("uid"), old)


def check_uid(ctx: RequestContext, given: str | None, old: Object) -> None:
    uid = old["metadata"]["uid"]
    if given and given != uid:
        raise conflict(ctx, f"Precondition failed: UID in precondition: {given}, UID in object meta: {uid}")


def set_server_metadata(draft: Draft) -> None:
    metadata = draft.new["metadata"]
    if draft.old is None:
        draft.generated = not metadata.get("name") and bool(metadata.get("generateName"))
        fill_metadata(draft.ctx, draft.new, draft.names, draft.now)
    else:
        keep_server_metadata(draft.ctx, draft.new, draft.old)


def default(draft: Draft) -> None:
    set_defaults(draft.ctx, draft.new, draft.old)


def prepare_subresource(draft: Draft) -> None:
    subresource = draft.ctx.info.subresource
    if subresource and draft.old is not None and subresource not in STATUS_SUBRESOURCES:
        prepare(draft.ctx, draft.new, draft.old)
        draft.prepared = True


def update_managed_fields(draft: Draft) -> None:
    """Runs before the strategy changes the object: a field belongs to the client that wrote it, even if its value is
    not kept, and fields the server adds have no owner. Other subresources than status own what their strategy keeps.
    """
    if not draft.plan.managed_fields_set:
        set_managed_fields(draft.ctx, draft.plan.options, draft.old, draft.new, draft.now)


def prepare_strategy(draft: Draft) -> None:
    if not draft.prepared:
        prepare(draft.ctx, draft.new, draft.old)
    if draft.old is not None:
        bump_generation(draft.ctx, draft.new, draft.old)


def take_locks(write: Write) -> Awaitable[None] | None:
    """After the webhooks, which may write in the same namespace before they respond."""
    keys = lock_keys(write.server, write.ctx, write.old)
    return _take(write, keys) if keys else None


async def _take(write: Write, keys: tuple[LockKey, ...]) -> None:
    for key in keys:
        if key not in write.locks:
            await write.server.locks.acquire(key)
            write.locks.append(key)


def builtin_admission(write: Write) -> None:
    """Under the locks, and for the second time if webhooks were called: state may have changed meanwhile."""
    admit(write.server, write.ctx, write.new, write.old)


def skip_unchanged(write: Write) -> None:
    if write.entry is not None and write.new == write.old:
        write.respond(encode_object(write.ctx.resource, write.entry))


def validate_object(write: Write) -> Awaitable[None] | None:
    if write.old is not None or write.dispatcher is None:  # a reviewed new object was validated before
        return run_validation(write)
    return None


def allocate_and_canonicalize(write: Write) -> None:
    """For new objects. An update allocates in admission."""
    if write.old is None:
        allocate(write.server, write.ctx, write.new)
        write.ctx.resource.strategy.canonicalize(write.new)


DRAFT_STEPS: tuple[Callable[[Draft], None], ...] = (
    build_object,
    check_preconditions,
    set_server_metadata,
    default,
    prepare_subresource,
    update_managed_fields,
    prepare_strategy,
)
Step = Callable[[Write], Awaitable[None] | None]
ADMISSION_STEPS: tuple[Step, ...] = (
    mutating_admission,
    authorize_creation,
    validating_admission,
    take_locks,
    builtin_admission,
    skip_unchanged,
    validate_object,
    allocate_and_canonicalize,
    compare_and_swap,
)
"""A step that has to wait returns an awaitable. A step that sets `response` is the last one."""
STEPS: tuple[Step, ...] = (read_current, *DRAFT_STEPS, *ADMISSION_STEPS)
HEAVY_STEPS: tuple[Step, ...] = (draft_in_child, *itertools.chain.from_iterable((give_way, s) for s in ADMISSION_STEPS))
"""A child process makes and validates the draft. Between the other steps, other requests have their turn."""
