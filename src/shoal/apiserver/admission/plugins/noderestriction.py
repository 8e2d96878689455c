"""NodeRestriction: limits what a kubelet may write, as upstream's plugin.

A kubelet creates its own Node, Lease and CSINode and mirrors of its own static pods, and reports the status of its own
pods. It may not set labels and taints that steer pods towards it.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.kinds.core.node_identity import LEASE_NAMESPACE, node_name_of
from shoal.kinds.core.pod.references import all_pod_references

Object = dict[str, Any]

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_KUBELET_LABELS = frozenset({
    "kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/instance-type",
    "beta.kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type", "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region", "failure-domain.kubernetes.io/zone",
    "failure-domain.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
})  # fmt: skip
"""Labels under kubernetes.io and k8s.io that a kubelet may set, besides those of these domains:"""
_KUBELET_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")


def admit(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    node = node_name_of(ctx.user.name, ctx.user.groups)
    if not node:
        return
    group_resource = (ctx.resource.group, ctx.resource.plural)
    error = ""
    if group_resource == ("", "nodes"):
        error = node_error(node, new, old, bool(ctx.info.subresource))
    elif group_resource == ("", "pods"):
        error = pod_error(node, new, old)
    elif group_resource in (("coordination.k8s.io", "leases"), ("storage.k8s.io", "csinodes")):
        namespace = LEASE_NAMESPACE if group_resource[1] == "leases" else ""
        if (new["metadata"].get("namespace", ""), new["metadata"].get("name")) != (namespace, node):
            error = f"can only access {group_resource[1]} of its own name" + (
                f" in namespace {namespace}" if namespace else ""
            )
    if error:
        raise ctx.resource.forbidden(new, f'node "{node}" {error}')


def admit_delete(server: ServerComponents, ctx: RequestContext, obj: Object, old: object) -> None:
    node = node_name_of(ctx.user.name, ctx.user.groups)
    if node and _node_name_of(obj) != node:
        reason = f'node "{node}" can only delete pods with spec.nodeName set to itself'
        raise ctx.resource.forbidden(obj, reason)


def node_error(node: str, new: Object, old: Object | None, subresource: bool) -> str:
    name = new["metadata"].get("name")
    if name != node:
        return f'is not allowed to modify node "{name}"'
    before: Object = old if old is not None else {"metadata": {}}
    if old is not None and not subresource:
        for field, where in (("ownerReferences", "metadata"), ("taints", "spec")):
            if ((new.get(where) or {}).get(field) or None) != ((old.get(where) or {}).get(field) or None):
                return f"is not allowed to modify {field}"
    changed = _changed_labels(new["metadata"].get("labels") or {}, before["metadata"].get("labels") or {})
    foreign = sorted(label for label in changed if _is_forbidden_label(label))
    return f"is not allowed to modify labels: {', '.join(foreign)}" if foreign else ""


def pod_error(node: str, new: Object, old: Object | None) -> str:
    if old is not None:
        return (
            "" if _node_name_of(old) == node else "can only update pod status for pods with spec.nodeName set to itself"
        )
    metadata = new["metadata"]
    if MIRROR_ANNOTATION not in (metadata.get("annotations") or {}):
        return f'pod does not have "{MIRROR_ANNOTATION}" annotation, node can only create mirror pods'
    if _node_name_of(new) != node:
        return "can only create pods with spec.nodeName set to itself"
    owners = metadata.get("ownerReferences") or ()
    if [(owner.get("kind"), owner.get("name")) for owner in owners] != [("Node", node)]:
        return "can only create pods with an owner reference set to itself"
    referenced = sorted({need.plural for need in all_pod_references(new)})
    return f"can not create pods that reference {', '.join(referenced)}" if referenced else ""


def _node_name_of(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _changed_labels(now: Object, then: Object) -> set[str]:
    return {label for label in {*now, *then} if now.get(label) != then.get(label)}


def _is_forbidden_label(label: str) -> bool:
    domain = label.partition("/")[0] if "/" in label else ""
    if not _is_within_domain(domain, ("kubernetes.io", "k8s.io")) or label in _KUBELET_LABELS:
        return False
    return not _is_within_domain(domain, _KUBELET_DOMAINS)


def _is_within_domain(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)
