"""Heavy writes: which they are, and their trip to a child process.

A child decodes the body, makes the new object and validates it, with the same functions as the event loop
(`verbs.tasks`). What the loop still does is native: it parses and encodes the object, and compares it. Validation
is repeated in a child if admission has changed the object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import asdict
from typing import Any, NoReturn

import orjson

from shoal.apiserver.admission.dispatch import dispatcher_for
from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.cache.storage_form import decode
from shoal.apiserver.processpool.pool import HeavyLimits
from shoal.apiserver.request.options import WriteOptions
from shoal.apiserver.response.negotiation import YAML, request_media_type
from shoal.apiserver.response.render import encode_object
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.webhooks.conversion import convert_entries
from shoal.apiserver.write.attempt import Draft, Verdict, Write, WritePlan
from shoal.apiserver.write.resource_form import encode_resource
from shoal.apiserver.write.storage import MAX_OBJECT_BYTES
from shoal.apiserver.write.strategy import validate
from shoal.objects.errors import StatusError, TooCostlyForLoopError, from_status
from shoal.objects.protobuf_decoder import MAGIC

Object = dict[str, Any]

SENT_HEADERS = ("content-type", "user-agent")
"""Headers that a plan depends on."""
_NOT_VALIDATED = Verdict(b"", None, [])
_APPLY_TYPES = "application/apply-patch"


def is_heavy(server: ServerComponents, ctx: RequestContext, *, updates: bool) -> bool:
    limits, request = server.heavy_limits, ctx.request
    size = len(request.body)
    if size > limits.dense_bytes and (size > limits.body_bytes or _is_dense(limits, ctx, size)):
        return True
    if ctx.resource.custom and ctx.resource.kind_schema().is_large:
        return True
    entry = ctx.cached_object() if updates else None
    return entry is not None and len(entry.data) > limits.object_bytes


def _is_dense(limits: HeavyLimits, ctx: RequestContext, size: int) -> bool:
    """Reports whether the body costs much for its size. Validation takes up to 50 µs for each element."""
    body = ctx.request.body
    if size > limits.yaml_bytes and (_is_yaml(ctx) or body.startswith(MAGIC)):
        return True
    return body.count(b",") > limits.dense_elements


def _is_yaml(ctx: RequestContext) -> bool:
    content_type = ctx.request.headers.get("content-type", "")
    if content_type.startswith(_APPLY_TYPES):
        return ctx.request.body[:1] != b"{"
    return ctx.verb != "patch" and request_media_type(content_type) == YAML


def build_in_child(old: object) -> NoReturn:
    """The `build` of a plan that a child process makes."""
    raise AssertionError("a child process builds the object")


def heavy_plan(ctx: RequestContext) -> WritePlan:
    """What is known of a plan before a child process has decoded the request."""
    return WritePlan(WriteOptions(), build_in_child, updates=ctx.verb != "create")


async def give_way(write: Write) -> None:
    """Lets other requests have their turn."""
    await asyncio.sleep(0)


def require_current(draft: Draft, entry: CachedObject | None) -> None:
    if entry is None and draft.plan.updates and not draft.plan.creates:
        raise draft.ctx.not_found()


async def draft_in_child(write: Write) -> None:
    ctx, server, plan = write.ctx, write.server, write.plan
    resource, cluster = ctx.resource, ctx.info.cluster
    entry = ctx.cached_object() if plan.updates else None
    if entry is not None and resource.conversion is not None:
        await convert_entries(server.webhooks.client, cluster, resource, [entry])
    current = encode_object(resource, entry) if entry is not None else b""
    body, given = ctx.request.body, None
    if plan.build is not build_in_child:
        require_current(write, entry)
        body = orjson.dumps(plan.build(decode(current) if current else None))
        given = {field: getattr(plan, field) for field in ("creates", "updates", "managed_fields_set")}
        given["options"] = asdict(plan.options)
    form, schema = encode_resource(resource)
    header = {
        **_context_form(ctx),
        "resource": form,
        "given": given,
        "query": ctx.query,
        "headers": {name: ctx.request.headers[name] for name in SENT_HEADERS if name in ctx.request.headers},
        "revision": entry.revision if entry is not None else 0,
        "now": write.now,
        "uid": write.names.uid(),
        "suffix": write.names.suffix(),
    }
    answer, blobs = await server.processes.call(cluster, "draft", header, [body, current, schema])
    ctx.warnings[:] = answer["warnings"]
    if "refusal" in answer:
        raise from_status(answer["refusal"], 500)
    drafted, verdict = blobs[0], _verdict(blobs[0], answer["verdict"])
    plan.options = WriteOptions(**answer["options"])
    if verdict.error is not None and _is_hopeless(write, entry, verdict.error, len(drafted)):
        raise verdict.error
    write.generated = answer["generated"]
    if entry is not None:
        write.entry, write.old = entry, decode(current)
        await give_way(write)
    write.new = orjson.loads(drafted)
    write.verdict = verdict


def _is_hopeless(write: Write, entry: CachedObject | None, error: StatusError, size: int) -> bool:
    """Reports whether admission cannot make the object valid and small enough. A webhook or a policy may change all of
    it.
    """
    if len(error.causes) <= write.server.heavy_limits.mendable_errors and size <= MAX_OBJECT_BYTES:
        return False
    operation = "CREATE" if entry is None else "UPDATE"
    return dispatcher_for(write.server, write.ctx, operation, write.plan.options.dry_run) is None


def run_validation(write: Write) -> Awaitable[None] | None:
    """Validates the new object, in a child process if the write is heavy or its rules are."""
    if write.verdict is not None:
        return _validate_in_child(write, write.verdict)
    known_warnings = len(write.ctx.warnings)
    try:
        validate(write.ctx, write.new, write.old, in_loop=True)
    except TooCostlyForLoopError:
        del write.ctx.warnings[known_warnings:]
        return _validate_in_child(write, _NOT_VALIDATED)
    return None


async def _validate_in_child(write: Write, verdict: Verdict) -> None:
    ctx, data = write.ctx, orjson.dumps(write.new)
    if data != verdict.data:
        await give_way(write)
        form, schema = encode_resource(ctx.resource)
        old = encode_object(ctx.resource, write.entry) if write.entry is not None else b""
        header = {**_context_form(ctx), "resource": form}
        answer, _ = await write.server.processes.call(ctx.info.cluster, "validate", header, [data, old, schema])
        verdict = write.verdict = _verdict(data, answer["verdict"])
    if verdict.error is not None:
        raise verdict.error
    ctx.warnings.extend(verdict.warnings)


def _verdict(data: bytes, answer: Object | None) -> Verdict:
    if answer is None:  # the object is as it was and needs no validation
        return _NOT_VALIDATED
    return Verdict(data, from_status(answer["status"], 500) if "status" in answer else None, answer.get("warnings", []))


def _context_form(ctx: RequestContext) -> Object:
    return {"verb": ctx.verb, "info": list(ctx.info), "method": ctx.request.method, "warnings": ctx.warnings}
