"""POST of pods/NAME/eviction: a deletion that asks the pod's PodDisruptionBudget first."""

from __future__ import annotations

from typing import Any

import orjson

from shoal.apiserver.core import Call, Core
from shoal.apiserver.options import WriteOptions, delete_options, write_options
from shoal.apiserver.render import served_object
from shoal.apiserver.verbs.delete import delete_entry
from shoal.apiserver.verbs.pods import AS_TOLD, aimed, special, success
from shoal.apiserver.verbs.update import change
from shoal.apiserver.writing import member, read_body
from shoal.clock import rfc3339
from shoal.kinds.evictions import MANY_BUDGETS, costs_nothing, needs_no_budget, spend
from shoal.kinds.pods import set_condition
from shoal.objects.errors import BadRequest, InternalError
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
    deletion = delete_options({}, member(eviction, "deleteOptions"))
    deletion.dry_run = options.dry_run = deletion.dry_run or options.dry_run
    pod = served_object(call.resource, call.found())
    if not needs_no_budget(pod):
        await _spend(core, call, pod, options)
    if not options.dry_run:
        await _mark_disrupted(core, call, options)
    await delete_entry(core, call, call.found(), deletion)
    return success(201)


async def _spend(core: Core, call: Call, pod: Object, options: WriteOptions) -> None:
    budgets = _budgets(core, call, pod)
    if len(budgets) > 1:
        raise InternalError(MANY_BUDGETS)
    if not budgets or costs_nothing(pod, budgets[0]):
        return
    name = budgets[0]["metadata"]["name"]
    budget = aimed(core, call, "policy", "poddisruptionbudgets", name, "status")
    now = rfc3339(core.clock.now())
    await change(core, budget, options, lambda old: spend(_copy(old), call.name, now), owned=True)


def _budgets(core: Core, call: Call, pod: Object) -> list[Object]:
    labels = pod["metadata"].get("labels") or {}
    table = core.cache.kind("policy", "poddisruptionbudgets").table(call.target.cluster)
    found = [entry.object() for entry in table.select(call.namespace)]
    return [each for each in found if from_label_selector((each.get("spec") or {}).get("selector")).matches(labels)]


async def _mark_disrupted(core: Core, call: Call, options: WriteOptions) -> None:
    """Whoever watches the pod learns why it goes."""
    now = rfc3339(core.clock.now())

    def marked(old: Object) -> Object:
        new = _copy(old)
        said = "Eviction API: evicting"
        set_condition(new.setdefault("status", {}), "DisruptionTarget", "True", now, "EvictionByEvictionAPI", said)
        return new

    await change(core, special(call, AS_TOLD, with_status=True), options, marked, owned=True)


def _copy(obj: Object) -> Object:
    return orjson.loads(orjson.dumps(obj))  # type: ignore[no-any-return]
