"""What a child process does for a heavy write (`write.heavy`): the pure steps, with the functions of the event loop."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson

from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.cache.storage_form import decode
from shoal.apiserver.processpool.main import Task
from shoal.apiserver.request.info import RequestInfo
from shoal.apiserver.request.options import WriteOptions
from shoal.apiserver.response.warnings import first_warnings
from shoal.apiserver.server import NameGenerator, RequestContext
from shoal.apiserver.verbs.create import plan_create
from shoal.apiserver.verbs.patch import plan_patch
from shoal.apiserver.verbs.update import plan_update
from shoal.apiserver.write.attempt import Draft, Planner, WritePlan
from shoal.apiserver.write.heavy import require_current
from shoal.apiserver.write.pipeline import DRAFT_STEPS
from shoal.apiserver.write.resource_form import ResourceDecoder
from shoal.apiserver.write.storage import check_size
from shoal.apiserver.write.strategy import validate
from shoal.objects.errors import StatusError
from shoal.objects.wire import Request

Object = dict[str, Any]

PLANNERS: dict[str, Planner] = {"create": plan_create, "update": plan_update, "patch": plan_patch}
_resources = ResourceDecoder()


def draft(header: Object, blobs: list[bytes]) -> tuple[Object, list[bytes]]:
    """Makes the new object from the body and the current object, and validates it. A refusal has its warnings too."""
    body, current, schema = blobs
    ctx = _context(header, schema, body)
    try:
        return _draft(ctx, header, body, current)
    except StatusError as error:
        return {"refusal": error.to_status(), "warnings": first_warnings(ctx.warnings)}, []


def _draft(ctx: RequestContext, header: Object, body: bytes, current: bytes) -> tuple[Object, list[bytes]]:
    plan = _given_plan(header["given"], body) if header["given"] else PLANNERS[ctx.verb](ctx, header["now"])
    names = NameGenerator(uid=lambda: str(header["uid"]), suffix=lambda: str(header["suffix"]), fraction=lambda: 0.0)
    drafted = Draft(ctx, plan, names, header["now"])
    if current:
        drafted.entry = CachedObject(ctx.namespace, ctx.name, header["revision"], current)
        drafted.old = decode(current)
    require_current(drafted, drafted.entry)
    for step in DRAFT_STEPS:
        step(drafted)
    warnings = first_warnings(ctx.warnings)
    data = orjson.dumps(drafted.new)
    verdict = None if drafted.new == drafted.old else _verdict(ctx, drafted.new, drafted.old)
    if verdict is None or "status" not in verdict:
        check_size(data, current)
    answer = {
        "options": asdict(plan.options),
        "generated": drafted.generated,
        "warnings": warnings,
        "verdict": verdict,
    }
    return answer, [data]


def _given_plan(given: Object, built: bytes) -> WritePlan:
    """Of an object that the event loop has built."""
    options = WriteOptions(**given.pop("options"))
    return WritePlan(options, lambda old: orjson.loads(built), **given)


def validate_again(header: Object, blobs: list[bytes]) -> tuple[Object, list[bytes]]:
    new, old, schema = blobs
    ctx = _context(header, schema, b"")
    return {"verdict": _verdict(ctx, orjson.loads(new), decode(old) if old else None)}, []


def _verdict(ctx: RequestContext, new: Object, old: Object | None) -> Object:
    ctx.warnings = []
    try:
        validate(ctx, new, old)
    except StatusError as error:
        return {"status": error.to_status()}
    return {"warnings": first_warnings(ctx.warnings)}


def _context(header: Object, schema: bytes, body: bytes) -> RequestContext:
    info = RequestInfo(*header["info"])
    ctx = RequestContext(Request(header["method"], info.path, headers=header.get("headers", {}), body=body))
    ctx.info, ctx.verb, ctx.query = info, header["verb"], header.get("query", {})
    ctx.resource = _resources.decode(header["resource"], schema)
    ctx.warnings = header["warnings"]
    return ctx


TASKS: dict[str, Task] = {"draft": draft, "validate": validate_again}
