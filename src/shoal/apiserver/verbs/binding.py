"""POST of pods/NAME/binding and of bindings: assigns a pod to a node."""

from __future__ import annotations

from typing import Any

import orjson

from shoal.apiserver.admission.webhooks import reviewed_body
from shoal.apiserver.core import Call, Core
from shoal.apiserver.options import write_options
from shoal.apiserver.verbs.pods import AS_TOLD, aimed, special, success
from shoal.apiserver.verbs.update import change
from shoal.apiserver.writing import conflict, key_of, member, read_body, stored_value
from shoal.clock import rfc3339
from shoal.kinds.pods import set_condition
from shoal.objects.errors import BadRequest, Cause, Conflict, invalid_object, not_supported, required
from shoal.objects.wire import Response
from shoal.store.interface import CompareFailed

Object = dict[str, Any]


async def bind(core: Core, call: Call) -> Response:
    options = write_options(call.query, "CreateOptions")
    binding = read_body(call.request, "Binding")
    if binding.get("kind") not in (None, "", "Binding"):
        raise BadRequest(f"{binding['kind']} cannot be handled as a Binding")
    binding = await reviewed_body(core, call, binding, options.dry_run)
    metadata, target = member(binding, "metadata"), member(binding, "target")
    name = metadata.get("name")
    if call.name and call.name != name:
        raise BadRequest("name in URL does not match name in Binding object")
    _check(name, target)
    now = rfc3339(core.clock.now())
    more = any(metadata.get(field) for field in ("labels", "annotations", "resourceVersion"))
    if call.name and not more and not options.dry_run:
        return await _bind_only(core, call, target["name"], metadata.get("uid"), now)
    pod = special(aimed(core, call, "", "pods", str(name or ""), "binding"), AS_TOLD, with_status=True)

    def bound(old: Object) -> Object:
        _check_free(pod, old, metadata.get("uid"))
        new: Object = orjson.loads(orjson.dumps(old))
        _put_on(new, target["name"], now)
        for field in ("labels", "annotations"):
            if metadata.get(field):
                new["metadata"][field] = {**(new["metadata"].get(field) or {}), **member(metadata, field)}
        if metadata.get("resourceVersion"):
            new["metadata"]["resourceVersion"] = metadata["resourceVersion"]
        return new

    await change(core, pod, options, bound, owned=True)
    return success(201)


async def _bind_only(core: Core, call: Call, node: str, uid: object, now: str) -> Response:
    """The fast path for schedulers: only a node name gets from the client into the pod, so nothing else needs a
    check.
    """
    while True:
        entry = call.found()
        pod = entry.object()
        _check_free(call, pod, uid)
        _put_on(pod, node, now)
        try:
            await core.store.put(key_of(call, entry.name), stored_value(call, pod), entry.revision)
        except CompareFailed:
            await core.store.settled()
            continue
        return success(201)


def _put_on(pod: Object, node: str, now: str) -> None:
    pod["spec"]["nodeName"] = node
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    set_condition(status, "PodScheduled", "True", now)


def _check(name: object, target: Object) -> None:
    causes: list[Cause] = []
    if target.get("kind") not in (None, "", "Node"):
        causes.append(not_supported("target.kind", target["kind"], ["Node", "<empty>"]))
    if not isinstance(target.get("name"), str) or not target["name"]:
        causes.append(required("target.name"))
    if causes:
        raise invalid_object("Binding", "", str(name or ""), causes)


def _check_free(call: Call, pod: Object, uid: object) -> None:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if uid and uid != pod["metadata"]["uid"]:
        found = pod["metadata"]["uid"]
        raise conflict(call, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found}")
    why = ""
    if "deletionTimestamp" in pod["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
        raise Conflict(message, name=name, kind="pods/binding")
