"""POST of pods/NAME/eviction: a deletion that respects the pod's PodDisruptionBudget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from shoal.apiserver.admission.dispatch import admit_body
from shoal.apiserver.cache.storage_form import decode
from shoal.apiserver.request.options import DeleteOptions, WriteOptions, parse_delete_options, parse_write_options
from shoal.apiserver.response.negotiation import DEFAULT_OUTPUT
from shoal.apiserver.response.render import served_object
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.verbs.delete import delete_object
from shoal.apiserver.verbs.subresources.pods import (
    context_for_object,
    success_status,
    with_strategy,
)
from shoal.apiserver.write.body import decode_small_body, object_field
from shoal.apiserver.write.pipeline import write_object
from shoal.clock import rfc3339
from shoal.kinds.core.pod.eviction import (
    MULTIPLE_BUDGETS,
    budget_unsynced_error,
    can_ignore_pdb,
    consume_disruption,
    is_unhealthy_pod_evictable,
    may_become_ready,
)
from shoal.kinds.core.pod.pods import set_condition
from shoal.kinds.core.pod.subresources import UNCHECKED_STRATEGY
from shoal.objects.errors import BadRequest, Conflict, InternalError
from shoal.objects.selectors import from_label_selector
from shoal.objects.wire import Response

Object = dict[str, Any]


async def evict(server: ServerComponents, ctx: RequestContext) -> Response:
    options = parse_write_options(ctx.query, "CreateOptions")
    eviction = decode_small_body(ctx.request, "Eviction")
    if eviction.get("kind") not in (None, "", "Eviction"):
        raise BadRequest(f"{eviction['kind']} cannot be handled as a Eviction")
    if object_field(eviction, "metadata").get("name") != ctx.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    eviction = await admit_body(server, ctx, eviction, options.dry_run)
    deletion = parse_delete_options({}, object_field(eviction, "deleteOptions"))
    deletion.dry_run = options.dry_run = deletion.dry_run or options.dry_run
    while True:
        pod = served_object(ctx.resource, ctx.require_object())
        exempt = can_ignore_pdb(pod)
        unhealthy = "" if exempt else await _consume_budget(server, ctx, pod, options)
        guarded = not deletion.resource_version and (bool(unhealthy) or may_become_ready(pod))
        try:
            await _delete_pod(server, ctx, deletion, options, pod["metadata"]["resourceVersion"] if guarded else "")
        except Conflict:
            if not guarded:
                raise
            if unhealthy:
                raise budget_unsynced_error(unhealthy) from None
            continue  # the pod may have become ready meanwhile, and then a budget applies
        return success_status(201)


async def _delete_pod(
    server: ServerComponents, ctx: RequestContext, deletion: DeleteOptions, options: WriteOptions, seen_revision: str
) -> None:
    """`seen_revision`: the revision the pod must still have, if the decision holds only for that one."""
    expected = deletion.resource_version or seen_revision
    if not options.dry_run:
        marked = await _mark_disrupted(server, ctx, options, deletion.uid, expected)
        expected = marked if expected else ""
    await delete_object(server, ctx, ctx.require_object(), replace(deletion, resource_version=expected))


async def _consume_budget(server: ServerComponents, ctx: RequestContext, pod: Object, options: WriteOptions) -> str:
    """Decrements the budget for the pod. Returns the budget's name if the pod is unhealthy and costs nothing."""
    budgets = _matching_budgets(server, ctx, pod)
    if len(budgets) > 1:
        raise InternalError(MULTIPLE_BUDGETS)
    if not budgets:
        return ""
    name: str = budgets[0]["metadata"]["name"]
    if is_unhealthy_pod_evictable(pod, budgets[0]):
        return name
    budget = context_for_object(server, ctx, "policy", "poddisruptionbudgets", name, "status")
    now = rfc3339(server.clock.now())
    await write_object(
        server, budget, options, lambda old: consume_disruption(_copy(old), ctx.name, now), managed_fields_set=True
    )
    return ""


def _matching_budgets(server: ServerComponents, ctx: RequestContext, pod: Object) -> list[Object]:
    labels = pod["metadata"].get("labels") or {}
    table = server.cache.resource_cache("policy", "poddisruptionbudgets").table(ctx.info.cluster)
    budgets = [entry.object() for entry in table.select(ctx.namespace)]
    return [each for each in budgets if from_label_selector((each.get("spec") or {}).get("selector")).matches(labels)]


async def _mark_disrupted(
    server: ServerComponents, ctx: RequestContext, options: WriteOptions, uid: str, expected: str
) -> str:
    """Sets the DisruptionTarget condition, which tells watchers why the pod is deleted. Returns the new revision;
    `expected` is the one before.
    """
    now = rfc3339(server.clock.now())

    def add_disruption_target(old: Object) -> Object:
        metadata = old["metadata"]
        if expected and metadata["resourceVersion"] != expected:
            raise _precondition_error(ctx, "ResourceVersion", expected, metadata["resourceVersion"], "modified")
        if uid and metadata["uid"] != uid:
            raise _precondition_error(ctx, "UID", uid, metadata["uid"], "deleted and then recreated")
        new = _copy(old)
        message = "Eviction API: evicting"
        set_condition(new.setdefault("status", {}), "DisruptionTarget", "True", now, "EvictionByEvictionAPI", message)
        return new

    plain = with_strategy(ctx, UNCHECKED_STRATEGY, with_status=True).derive(output=DEFAULT_OUTPUT)
    answer = await write_object(server, plain, options, add_disruption_target, managed_fields_set=True)
    assert isinstance(answer.body, bytes)
    return str(decode(answer.body)["metadata"]["resourceVersion"])


def _precondition_error(ctx: RequestContext, what: str, expected: str, actual: str, event: str) -> Conflict:
    why = f"the {what} in the precondition ({expected}) does not match the {what} in record ({actual})"
    message = f'Operation cannot be fulfilled on Pod "{ctx.name}": {why}. The object might have been {event}'
    return Conflict(message, name=ctx.name, kind="Pod")


def _copy(obj: Object) -> Object:
    return orjson.loads(orjson.dumps(obj))  # type: ignore[no-any-return]
