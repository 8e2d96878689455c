"""POST of pods/NAME/binding and of bindings: assigns a pod to a node."""

from __future__ import annotations

from typing import Any

import orjson

from shoal.apiserver.admission.dispatch import admit_body
from shoal.apiserver.request.options import parse_write_options
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.verbs.subresources.pods import (
    context_for_object,
    success_status,
    with_strategy,
)
from shoal.apiserver.write.body import decode_small_body, object_field
from shoal.apiserver.write.pipeline import write_object
from shoal.apiserver.write.storage import conflict, encode_for_storage, put_within_limits
from shoal.clock import rfc3339
from shoal.kinds.core.pod.pods import set_condition
from shoal.kinds.core.pod.subresources import UNCHECKED_STRATEGY
from shoal.objects.errors import BadRequest, Cause, Conflict, invalid_object, not_supported, required_value
from shoal.objects.wire import Response
from shoal.store.interface import CompareFailed

Object = dict[str, Any]


async def bind(server: ServerComponents, ctx: RequestContext) -> Response:
    options = parse_write_options(ctx.query, "CreateOptions")
    binding = decode_small_body(ctx.request, "Binding")
    if binding.get("kind") not in (None, "", "Binding"):
        raise BadRequest(f"{binding['kind']} cannot be handled as a Binding")
    binding = await admit_body(server, ctx, binding, options.dry_run)
    metadata, target = object_field(binding, "metadata"), object_field(binding, "target")
    name = metadata.get("name")
    if ctx.name and ctx.name != name:
        raise BadRequest("name in URL does not match name in Binding object")
    _check_target(name, target)
    now = rfc3339(server.clock.now())
    more = any(metadata.get(field) for field in ("labels", "annotations", "resourceVersion"))
    if ctx.name and not more and not options.dry_run:
        return await _bind_node_name(server, ctx, target["name"], metadata.get("uid"), now)
    pod = with_strategy(
        context_for_object(server, ctx, "", "pods", str(name or ""), "binding"), UNCHECKED_STRATEGY, with_status=True
    )

    def assign_node(old: Object) -> Object:
        _check_bindable(pod, old, metadata.get("uid"))
        new: Object = orjson.loads(orjson.dumps(old))
        _set_node(new, target["name"], now)
        for field in ("labels", "annotations"):
            if metadata.get(field):
                new["metadata"][field] = {**(new["metadata"].get(field) or {}), **object_field(metadata, field)}
        if metadata.get("resourceVersion"):
            new["metadata"]["resourceVersion"] = metadata["resourceVersion"]
        return new

    await write_object(server, pod, options, assign_node, managed_fields_set=True)
    return success_status(201)


async def _bind_node_name(server: ServerComponents, ctx: RequestContext, node: str, uid: object, now: str) -> Response:
    """The fast path for schedulers: only a node name gets from the client into the pod, so nothing else needs a
    check.
    """
    while True:
        entry = ctx.require_object()
        pod = entry.object()
        _check_bindable(ctx, pod, uid)
        _set_node(pod, node, now)
        value = await encode_for_storage(server, ctx, pod)
        try:
            await put_within_limits(server, ctx, entry.name, value, entry, entry.revision, essential=True)
        except CompareFailed:
            await server.store.flush()
            continue
        return success_status(201)


def _set_node(pod: Object, node: str, now: str) -> None:
    pod["spec"]["nodeName"] = node
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    set_condition(status, "PodScheduled", "True", now)


def _check_target(name: object, target: Object) -> None:
    causes: list[Cause] = []
    if target.get("kind") not in (None, "", "Node"):
        causes.append(not_supported("target.kind", target["kind"], ["Node", "<empty>"]))
    if not isinstance(target.get("name"), str) or not target["name"]:
        causes.append(required_value("target.name"))
    if causes:
        raise invalid_object("Binding", "", str(name or ""), causes)


def _check_bindable(ctx: RequestContext, pod: Object, uid: object) -> None:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if uid and uid != pod["metadata"]["uid"]:
        actual_uid = pod["metadata"]["uid"]
        raise conflict(ctx, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual_uid}")
    reason = ""
    if "deletionTimestamp" in pod["metadata"]:
        reason = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        reason = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        reason = f"pod {name} has non-empty .spec.schedulingGates"
    if reason:
        message = f'Operation cannot be fulfilled on pods/binding "{name}": {reason}'
        raise Conflict(message, name=name, kind="pods/binding")
