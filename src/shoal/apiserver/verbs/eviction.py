"""POST of pods/NAME/eviction: a deletion that respects the pod's PodDisruptionBudget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from shoal.apiserver.admission.webhooks import reviewed_body
from shoal.apiserver.core import Call, Core
from shoal.apiserver.encoding import decode
from shoal.apiserver.negotiate import PLAIN
from shoal.apiserver.options import DeleteOptions, WriteOptions, delete_options, write_options
from shoal.apiserver.render import served_object
from shoal.apiserver.verbs.delete import delete_entry
from shoal.apiserver.verbs.pods import AS_TOLD, aimed, special, success
from shoal.apiserver.verbs.update import change
from shoal.apiserver.writing import member, read_body
from shoal.clock import rfc3339
from shoal.kinds.evictions import MANY_BUDGETS, costs_nothing, in_process, may_become_ready, needs_no_budget, spend
from shoal.kinds.pods import set_condition
from shoal.objects.errors import BadRequest, Conflict, InternalError
from shoal.objects.selectors import from_label_selector
from shoal.objects.wire import Response

Object = dict[str, Any]


async def evict(core: Core, call: Call) -> Response:
    options = write_options(call.query, "CreateOptions")
    eviction = read_body(call.request, "Eviction")
    if eviction.get("kind") not in (None, "", "Eviction"):
        raise BadRequest(f"{eviction['kind']} cannot be handled as a Eviction")
    if member(eviction, "metadata").get("name") != call.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    eviction = await reviewed_body(core, call, eviction, options.dry_run)
    deletion = delete_options({}, member(eviction, "deleteOptions"))
    deletion.dry_run = options.dry_run = deletion.dry_run or options.dry_run
    while True:
        pod = served_object(call.resource, call.found())
        free = needs_no_budget(pod)
        unhealthy = "" if free else await _spend(core, call, pod, options)
        guarded = not deletion.resource_version and (bool(unhealthy) or may_become_ready(pod))
        try:
            await _delete(core, call, deletion, options, pod["metadata"]["resourceVersion"] if guarded else "")
        except Conflict:
            if not guarded:
                raise
            if unhealthy:
                raise in_process(unhealthy) from None
            continue  # the pod may have become ready meanwhile, and then a budget applies
        return success(201)


async def _delete(core: Core, call: Call, deletion: DeleteOptions, options: WriteOptions, as_seen: str) -> None:
    """`seen_revision`: the revision the pod must still have, if the decision holds only for that one."""
    expected = deletion.resource_version or as_seen
    if not options.dry_run:
        marked = await _mark_disrupted(core, call, options, deletion.uid, expected)
        expected = marked if expected else ""
    await delete_entry(core, call, call.found(), replace(deletion, resource_version=expected))


async def _spend(core: Core, call: Call, pod: Object, options: WriteOptions) -> str:
    """Decrements the budget for the pod. Returns the budget's name if the pod is unhealthy and costs nothing."""
    budgets = _budgets(core, call, pod)
    if len(budgets) > 1:
        raise InternalError(MANY_BUDGETS)
    if not budgets:
        return ""
    name: str = budgets[0]["metadata"]["name"]
    if costs_nothing(pod, budgets[0]):
        return name
    budget = aimed(core, call, "policy", "poddisruptionbudgets", name, "status")
    now = rfc3339(core.clock.now())
    await change(core, budget, options, lambda old: spend(_copy(old), call.name, now), owned=True)
    return ""


def _budgets(core: Core, call: Call, pod: Object) -> list[Object]:
    labels = pod["metadata"].get("labels") or {}
    table = core.cache.kind("policy", "poddisruptionbudgets").table(call.target.cluster)
    found = [entry.object() for entry in table.select(call.namespace)]
    return [each for each in found if from_label_selector((each.get("spec") or {}).get("selector")).matches(labels)]


async def _mark_disrupted(core: Core, call: Call, options: WriteOptions, uid: str, expected: str) -> str:
    """Sets the DisruptionTarget condition, which tells watchers why the pod is deleted. Returns the new revision;
    `expected` is the one before.
    """
    now = rfc3339(core.clock.now())

    def marked(old: Object) -> Object:
        metadata = old["metadata"]
        if expected and metadata["resourceVersion"] != expected:
            raise _failed(call, "ResourceVersion", expected, metadata["resourceVersion"], "modified")
        if uid and metadata["uid"] != uid:
            raise _failed(call, "UID", uid, metadata["uid"], "deleted and then recreated")
        new = _copy(old)
        said = "Eviction API: evicting"
        set_condition(new.setdefault("status", {}), "DisruptionTarget", "True", now, "EvictionByEvictionAPI", said)
        return new

    plain = replace(special(call, AS_TOLD, with_status=True), view=PLAIN)
    answer = await change(core, plain, options, marked, owned=True)
    assert isinstance(answer.body, bytes)
    return str(decode(answer.body)["metadata"]["resourceVersion"])


def _failed(call: Call, what: str, asked: str, found: str, happened: str) -> Conflict:
    why = f"the {what} in the precondition ({asked}) does not match the {what} in record ({found})"
    said = f'Operation cannot be fulfilled on Pod "{call.name}": {why}. The object might have been {happened}'
    return Conflict(said, name=call.name, kind="Pod")


def _copy(obj: Object) -> Object:
    return orjson.loads(orjson.dumps(obj))  # type: ignore[no-any-return]
