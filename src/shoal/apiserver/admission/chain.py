"""Built-in admission: the plugins as rows, in the order they run.

Each plugin sees the object as it would be stored and may still change it. Admission never writes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

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
    rollout_history,
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
Matches = Callable[[str, str], bool]
"""(group, plural) -> whether the plugin is for that resource."""
Admit = Callable[[ServerComponents, RequestContext, Object, Object | None], bool | None]
"""(server, ctx, new, old). `old` is None for a creation; for a deletion both are the object to be deleted. Returning
True skips the plugins after this one.
"""

CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"
WRITES = (CREATE, UPDATE)


class Plugin(NamedTuple):
    name: str
    matches: Matches
    admit: Admit
    operations: tuple[str, ...] = WRITES


def _every_resource(group: str, plural: str) -> bool:
    return True


def _group(wanted: str) -> Matches:
    return lambda group, plural: group == wanted


def _resource(*wanted: tuple[str, str]) -> Matches:
    return lambda group, plural: (group, plural) in wanted


def _policies(group: str, plural: str) -> bool:
    return group == EXEMPT_GROUP and plural in POLICY_RESOURCES


PODS, NAMESPACES = ("", "pods"), ("", "namespaces")
CLAIMS, PERSISTENT_VOLUMES = ("", "persistentvolumeclaims"), ("", "persistentvolumes")

PLUGINS: tuple[Plugin, ...] = (
    Plugin("ClusterTermination", _every_resource, cluster_lifecycle.admit_creation, (CREATE,)),
    Plugin("WorkerRestriction", _every_resource, workerrestriction.admit),
    Plugin("SyncerRestriction", _every_resource, syncerrestriction.admit),
    Plugin("NodeRestriction", _every_resource, noderestriction.admit),
    Plugin("NamespaceLifecycle", _every_resource, namespace_lifecycle.admit, (CREATE,)),
    Plugin("CustomResourceTermination", _every_resource, crd_lifecycle.admit_instance, (CREATE,)),
    Plugin("MirroredPods", _resource(PODS), mirrored_pods.admit),
    Plugin("RolloutHistory", _resource(rollout_history.RESOURCE), rollout_history.admit),
    Plugin("RBACEscalation", _group(rbac_escalation.GROUP), rbac_escalation.admit),
    Plugin("CustomResourceDefinition", _group(crd_lifecycle.GROUP), crd_lifecycle.admit),
    Plugin("LogicalCluster", _resource(cluster_lifecycle.RESOURCE), cluster_lifecycle.admit),
    Plugin("CertificateSigningRequest", _resource(csr.RESOURCE), csr.admit),
    Plugin("PriorityClass", _resource(priorityclass.PRIORITY_CLASSES), priorityclass.admit_priority_class),
    Plugin("PolicyParameters", _policies, parameters.authorize_param_access),
    Plugin("PolicyTypeCheck", _resource(policy_typecheck.RESOURCE), policy_typecheck.check_types),
    Plugin("DeviceClaims", _group(devices.GROUP), devices.admit),
    Plugin(
        "NoAutoscaler", _resource(priorityclass.HORIZONTAL_POD_AUTOSCALERS), priorityclass.refuse_autoscaler, (CREATE,)
    ),
    Plugin("ServiceAccount", _resource(PODS), serviceaccount.admit, (CREATE,)),
    Plugin("PodClasses", _resource(PODS), pod_classes.admit),
    Plugin("Volumes", _resource(CLAIMS, PERSISTENT_VOLUMES), volumes.admit),
    Plugin("LimitRanger", _resource(PODS, CLAIMS), limitranger.admit),
    Plugin("ServiceReallocation", _resource(service_allocation.RESOURCE), service_allocation.reallocate, (UPDATE,)),
    Plugin("ResourceQuota", _every_resource, resourcequota.admit),
    Plugin("WorkerRestriction", _resource(("", "secrets")), workerrestriction.admit_delete, (DELETE,)),
    Plugin("NodeRestriction", _resource(PODS), noderestriction.admit_delete, (DELETE,)),
    Plugin("MirroredPods", _resource(PODS), mirrored_pods.admit_delete, (DELETE,)),
    Plugin("NamespaceLifecycle", _resource(NAMESPACES), namespace_lifecycle.admit_delete, (DELETE,)),
    Plugin("LogicalCluster", _resource(cluster_lifecycle.RESOURCE), cluster_lifecycle.admit_delete, (DELETE,)),
)
ALLOCATORS: tuple[Plugin, ...] = (
    Plugin("PodOverhead", _resource(PODS), pod_classes.check_overhead, (CREATE,)),
    Plugin("ServiceAllocation", _resource(service_allocation.RESOURCE), service_allocation.allocate, (CREATE,)),
)
"""Last steps for a new, valid object: allocations by the server that no client owns."""


def admit(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    """`old` is None for a creation."""
    for step in _plugins_for(CREATE if old is None else UPDATE, ctx.resource.group, ctx.resource.plural):
        if step(server, ctx, new, old):
            return


def admit_delete(server: ServerComponents, ctx: RequestContext, obj: Object) -> None:
    for step in _plugins_for(DELETE, ctx.resource.group, ctx.resource.plural):
        step(server, ctx, obj, obj)


def allocate(server: ServerComponents, ctx: RequestContext, new: Object) -> None:
    for step in _allocators_for(ctx.resource.group, ctx.resource.plural):
        step(server, ctx, new, None)


@lru_cache(maxsize=1024)
def _plugins_for(operation: str, group: str, plural: str) -> tuple[Admit, ...]:
    """Cached: which plugins are for a resource does not change."""
    return tuple(row.admit for row in PLUGINS if operation in row.operations and row.matches(group, plural))


@lru_cache(maxsize=1024)
def _allocators_for(group: str, plural: str) -> tuple[Admit, ...]:
    return tuple(row.admit for row in ALLOCATORS if row.matches(group, plural))
