"""Dynamic resource allocation (resource.k8s.io): sets taint times, checks admin access, and authorizes status writes.

Several writers share a claim's status: the scheduler, which needs permission to bind claims, and drivers, which need
permission for their devices. Both permissions are expressed as subresources that are not served.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.authz import Attributes, forbidden
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.clock import rfc3339
from shoal.kinds.resource.claim_status import device_id, drop_deallocated_device_status
from shoal.kinds.resource.resourceslice import set_taint_times
from shoal.objects.errors import Cause, forbidden_field, invalid_object

Object = dict[str, Any]

GROUP = "resource.k8s.io"
CLAIMS, TEMPLATES, SLICES = "resourceclaims", "resourceclaimtemplates", "resourceslices"
ADMIN_LABEL = "resource.kubernetes.io/admin-access"
ARBITRARY_NODE_PREFIX, ASSOCIATED_NODE_PREFIX = "arbitrary-node:", "associated-node:"
NODE_NAME_EXTRA = "authentication.kubernetes.io/node-name"


def admit(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    plural = ctx.resource.plural
    causes: list[Cause] = []
    if plural == SLICES:
        set_taint_times(new, rfc3339(server.clock.now()))
    elif old is None and plural in (CLAIMS, TEMPLATES):
        spec = new["spec"] if plural == CLAIMS else new["spec"]["spec"]
        requests = enumerate(spec["devices"]["requests"] or ())
        admin_requests = (i for i, request in requests if (request.get("exactly") or {}).get("adminAccess"))
        causes = _check_admin_access(server, ctx, "spec.devices.requests[{}].adminAccess", next(admin_requests, None))
    elif old is not None and plural == CLAIMS and ctx.info.subresource == "status":
        drop_deallocated_device_status(new, old)
        causes = _check_status(server, ctx, new.get("status") or {}, old.get("status") or {})
    if causes:
        name = new["metadata"].get("name") or ""
        raise invalid_object(ctx.resource.kind, GROUP, name, causes + ctx.resource.strategy.validate(new, old))


def _check_admin_access(server: ServerComponents, ctx: RequestContext, path: str, index: int | None) -> list[Cause]:
    if index is None:
        return []
    entry = server.cache.resource_cache("", "namespaces").get(ctx.info.cluster, "", ctx.namespace)
    if entry is not None and entry.labels.get(ADMIN_LABEL) == "true":
        return []
    message = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
    return [forbidden_field(path.format(index), message)]


def _check_status(server: ServerComponents, ctx: RequestContext, status: Object, before: Object) -> list[Cause]:
    causes: list[Cause] = []
    if _admin_access_index(before) is None:
        causes += _check_admin_access(
            server, ctx, "status.allocation.devices.results[{}].adminAccess", _admin_access_index(status)
        )
    if ctx.user.is_privileged_in(ctx.info.cluster):
        return causes
    if any(status.get(field) != before.get(field) for field in ("allocation", "reservedFor")):
        denial = _denial_reason(server, ctx, (ctx.verb,), "binding", "", "")
        if denial:
            message = "changing status.allocation or status.reservedFor requires "
            message += f'resource="resourceclaims/binding", verb="{ctx.verb}" permission: {denial}'
            causes.append(forbidden_field("status.allocation", message))
    if status.get("allocation") is not None:
        causes += _check_drivers(server, ctx, status, before)
    return causes


def _admin_access_index(status: Object) -> int | None:
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return next((i for i, result in enumerate(results) if result.get("adminAccess")), None)


def _check_drivers(server: ServerComponents, ctx: RequestContext, status: Object, before: Object) -> list[Cause]:
    new, old = ({device_id(one): one for one in each.get("devices") or ()} for each in (status, before))
    changed_drivers = {key[0] for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    node_verbs = (ASSOCIATED_NODE_PREFIX,) if _is_on_allocated_node(ctx, status["allocation"]) else ()
    verbs = tuple(prefix + ctx.verb for prefix in (*node_verbs, ARBITRARY_NODE_PREFIX))
    causes = []
    for driver in sorted(changed_drivers):
        denial = _denial_reason(server, ctx, verbs, "driver", ctx.namespace, driver)
        if denial:
            message = f'changing status.devices requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" '
            causes.append(forbidden_field("status.devices", f"{message}permission: {denial}"))
    return causes


def _is_on_allocated_node(ctx: RequestContext, allocation: Object) -> bool:
    """Reports whether the user is a service account on the single node of the allocated devices."""
    names = ctx.user.extra.get(NODE_NAME_EXTRA) or ()
    if len(names) != 1 or not ctx.user.name.startswith("system:serviceaccount:"):
        return False
    match_field = {"key": "metadata.name", "operator": "In", "values": list(names)}
    return bool((allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") == [{"matchFields": [match_field]}])


def _denial_reason(
    server: ServerComponents, ctx: RequestContext, verbs: tuple[str, ...], subresource: str, namespace: str, name: str
) -> str:
    """Returns why the first verb is denied; empty if any of the verbs is allowed."""
    reason = ""
    for verb in verbs:
        attributes = Attributes(
            ctx.info.cluster, verb, GROUP, ctx.resource.version, CLAIMS, subresource, namespace, name
        )
        decision = server.authorizer.authorize(ctx.user, attributes)
        if decision.allowed:
            return ""
        reason = reason or forbidden(ctx.user, attributes, decision.reason).message
    return reason
