"""NodeRestriction: limits what a kubelet may write, as upstream's plugin.

A kubelet creates its own Node, Lease and CSINode and mirrors of its own static pods, and reports the status of its own
pods. It may not set labels and taints that steer pods towards it.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.core import Call
from shoal.kinds.nodes_identity import LEASES, node_of
from shoal.kinds.pod_references import every_need_of

Object = dict[str, Any]

MIRROR = "kubernetes.io/config.mirror"
_OWN_LABELS = frozenset({
    "kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/instance-type",
    "beta.kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type", "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region", "failure-domain.kubernetes.io/zone",
    "failure-domain.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
})  # fmt: skip
"""Labels under kubernetes.io and k8s.io that a kubelet may set, besides those of these domains:"""
_OWN_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")


def admit(call: Call, new: Object, old: Object | None) -> None:
    node = node_of(call.user.name, call.user.groups)
    if not node:
        return
    what = (call.resource.group, call.resource.plural)
    wrong = ""
    if what == ("", "nodes"):
        wrong = node_wrong(node, new, old, bool(call.target.subresource))
    elif what == ("", "pods"):
        wrong = pod_wrong(node, new, old)
    elif what in (("coordination.k8s.io", "leases"), ("storage.k8s.io", "csinodes")):
        place = LEASES if what[1] == "leases" else ""
        if (new["metadata"].get("namespace", ""), new["metadata"].get("name")) != (place, node):
            wrong = f"can only access {what[1]} of its own name" + (f" in namespace {place}" if place else "")
    if wrong:
        raise call.resource.forbidden(new, f'node "{node}" {wrong}')


def admit_delete(call: Call, old: Object) -> None:
    node = node_of(call.user.name, call.user.groups)
    if node and (call.resource.group, call.resource.plural) == ("", "pods") and _bound_to(old) != node:
        why = f'node "{node}" can only delete pods with spec.nodeName set to itself'
        raise call.resource.forbidden(old, why)


def node_wrong(node: str, new: Object, old: Object | None, subresource: bool) -> str:
    name = new["metadata"].get("name")
    if name != node:
        return f'is not allowed to modify node "{name}"'
    before: Object = old if old is not None else {"metadata": {}}
    if old is not None and not subresource:
        for field, where in (("ownerReferences", "metadata"), ("taints", "spec")):
            if ((new.get(where) or {}).get(field) or None) != ((old.get(where) or {}).get(field) or None):
                return f"is not allowed to modify {field}"
    changed = _changed(new["metadata"].get("labels") or {}, before["metadata"].get("labels") or {})
    foreign = sorted(label for label in changed if _is_foreign(label))
    return f"is not allowed to modify labels: {', '.join(foreign)}" if foreign else ""


def pod_wrong(node: str, new: Object, old: Object | None) -> str:
    if old is not None:
        return "" if _bound_to(old) == node else "can only update pod status for pods with spec.nodeName set to itself"
    metadata = new["metadata"]
    if MIRROR not in (metadata.get("annotations") or {}):
        return f'pod does not have "{MIRROR}" annotation, node can only create mirror pods'
    if _bound_to(new) != node:
        return "can only create pods with spec.nodeName set to itself"
    owners = metadata.get("ownerReferences") or ()
    if [(owner.get("kind"), owner.get("name")) for owner in owners] != [("Node", node)]:
        return "can only create pods with an owner reference set to itself"
    needed = sorted({need.plural for need in every_need_of(new)})
    return f"can not create pods that reference {', '.join(needed)}" if needed else ""


def _bound_to(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def _changed(now: Object, then: Object) -> set[str]:
    return {label for label in {*now, *then} if now.get(label) != then.get(label)}


def _is_foreign(label: str) -> bool:
    domain = label.partition("/")[0] if "/" in label else ""
    if not _within(domain, ("kubernetes.io", "k8s.io")) or label in _OWN_LABELS:
        return False
    return not _within(domain, _OWN_DOMAINS)


def _within(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)
