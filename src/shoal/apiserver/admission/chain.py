"""Admission: the plugins in the order they run.

Each plugin sees the object as it would be stored and may still change it. Admission never writes.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.admission import parameters
from shoal.apiserver.admission.plugins import (
    cluster_lifecycle,
    crd_lifecycle,
    csr,
    devices,
    limitranger,
    mirrored_pods,
    namespace_lifecycle,
    noderestriction,
    pod_classes,
    policy_typecheck,
    priorityclass,
    rbac_escalation,
    resourcequota,
    service_allocation,
    serviceaccount,
    syncerrestriction,
    volumes,
    workerrestriction,
)
from shoal.apiserver.registry.policy_source import POLICY_RESOURCES
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.kinds.admissionregistration.webhook_client import EXEMPT_GROUP

Object = dict[str, Any]


def admit(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    """`old` is None for a creation."""
    cluster_lifecycle.admit_creation(ctx, new, old)
    workerrestriction.admit(server, ctx, new, old)
    syncerrestriction.admit(server, ctx, new, old)
    noderestriction.admit(ctx, new, old)
    namespace_lifecycle.admit(server, ctx, new, old)
    crd_lifecycle.admit_instance(ctx, new, old)
    if mirrored_pods.admit(server, ctx, new, old):
        return
    group, plural = ctx.resource.group, ctx.resource.plural
    if group == rbac_escalation.GROUP:
        rbac_escalation.admit(server, ctx, new, old)
    elif group == crd_lifecycle.GROUP:
        crd_lifecycle.admit(server, ctx, new, old)
    elif (group, plural) == cluster_lifecycle.RESOURCE:
        cluster_lifecycle.admit(server, ctx, new, old)
    elif (group, plural) == csr.RESOURCE:
        csr.admit(server, ctx, new, old)
    elif (group, plural) == priorityclass.PRIORITY_CLASSES:
        priorityclass.admit_priority_class(server, ctx, new, old)
    elif group == EXEMPT_GROUP and plural in POLICY_RESOURCES:
        parameters.authorize_param_access(server, ctx, new, old)
        if (group, plural) == policy_typecheck.RESOURCE:
            policy_typecheck.check_types(server, ctx, new)
    elif group == devices.GROUP:
        devices.admit(server, ctx, new, old)
    elif (group, plural) == priorityclass.HORIZONTAL_POD_AUTOSCALERS:
        priorityclass.refuse_autoscaler(ctx, old)
    elif group == "" and plural in ("pods", "persistentvolumeclaims"):
        if plural == "pods":
            serviceaccount.admit(new, old)
            pod_classes.admit(server, ctx, new, old)
        else:
            volumes.admit(server, ctx, new, old)
        limitranger.admit(server, ctx, new, old)
    elif (group, plural) == ("", "persistentvolumes"):
        volumes.admit(server, ctx, new, old)
    elif (group, plural) == service_allocation.RESOURCE and old is not None and new.get("spec") != old.get("spec"):
        service_allocation.allocate(server, ctx, new, old)
    resourcequota.admit(server, ctx, new, old)


def allocate(server: ServerComponents, ctx: RequestContext, new: Object) -> None:
    """Last steps for a new, valid object: allocations by the server that no client owns."""
    if ctx.resource.group:
        return
    if ctx.resource.plural == "pods":
        pod_classes.check_overhead(server, ctx, new)
    elif ctx.resource.plural == "services":
        service_allocation.allocate(server, ctx, new)


def admit_delete(server: ServerComponents, ctx: RequestContext, old: Object) -> None:
    group, plural = ctx.resource.group, ctx.resource.plural
    workerrestriction.admit_delete(server, ctx, old)
    noderestriction.admit_delete(ctx, old)
    mirrored_pods.admit_delete(ctx, old)
    if (group, plural) == ("", "namespaces"):
        namespace_lifecycle.admit_delete(ctx)
    elif (group, plural) == cluster_lifecycle.RESOURCE:
        cluster_lifecycle.admit_delete(ctx)
