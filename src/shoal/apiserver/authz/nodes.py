"""Node authorizer: what a kubelet may do in its cluster besides RBAC, as upstream.

A node may access its own Node, Lease and CSINode, the pods bound to it, and of the objects pods reference only those
its pods reference. The noderestriction plugin checks what the URL does not show. `decide` is pure.
"""

from __future__ import annotations

from typing import Protocol

from shoal.apiserver.authn import User
from shoal.apiserver.authz.rbac import Attributes, Decision
from shoal.kinds.nodes_identity import LEASES, node_of
from shoal.kinds.pod_references import NEEDED, Need
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import parse_fields

READS = ("get", "list", "watch")
CHANGES = ("update", "patch")
_OPEN: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "services"): READS,
    ("", "events"): ("create", *CHANGES),
    ("events.k8s.io", "events"): ("create", *CHANGES),
    ("storage.k8s.io", "csidrivers"): READS,
    ("node.k8s.io", "runtimeclasses"): READS,
    ("certificates.k8s.io", "certificatesigningrequests"): ("create", *READS),
    ("authentication.k8s.io", "tokenreviews"): ("create",),
    ("authorization.k8s.io", "subjectaccessreviews"): ("create",),
    ("authorization.k8s.io", "localsubjectaccessreviews"): ("create",),
}
"""The same for every node."""
_OWN = {("", "nodes"): "", ("storage.k8s.io", "csinodes"): "", ("coordination.k8s.io", "leases"): LEASES}
"""Resources of which a node owns the object of its name, in that namespace."""


class Bound(Protocol):
    """The pods bound to a node, and what they reference."""

    def runs(self, cluster: str, node: str, namespace: str, pod: str) -> bool: ...

    def needs(self, cluster: str, node: str, namespace: str, need: Need) -> bool: ...

    def needs_volume(self, cluster: str, node: str, volume: str) -> bool:
        """A PersistentVolume, through the claim of a pod."""

    def is_attached(self, cluster: str, node: str, attachment: str) -> bool:
        """Reports whether a VolumeAttachment belongs to the node."""


_YES = Decision(True)


def _decision(allowed: bool, otherwise: str) -> Decision:
    return _YES if allowed else Decision(False, otherwise)


def decide(node: str, wanted: Attributes, bound: Bound) -> Decision:
    """RBAC may still allow what is denied here."""
    what, verb, sub = (wanted.group, wanted.resource), wanted.verb, wanted.subresource
    if what in _OPEN and not sub:
        return _decision(verb in _OPEN[what], f"a node may not {verb} it")
    if what in _OWN and sub in (("", "status") if what == ("", "nodes") else ("",)):
        return _own(node, wanted, _OWN[what])
    if what == ("", "pods"):
        return _pod(node, wanted, bound)
    if wanted.group == "" and wanted.resource in NEEDED:
        return _needed(node, wanted, bound)
    if what == ("", "persistentvolumes") and (verb, sub) == ("get", ""):
        return _decision(bound.needs_volume(wanted.cluster, node, wanted.name), "no pod of this node needs it")
    if what == ("storage.k8s.io", "volumeattachments") and (verb, sub) == ("get", ""):
        return _decision(bound.is_attached(wanted.cluster, node, wanted.name), "it is not of this node")
    return Decision(False, "a node has nothing to do with it")


def _own(node: str, wanted: Attributes, namespace: str) -> Decision:
    verbs = ("create", *READS, *CHANGES) if wanted.resource == "nodes" else ("create", "get", "delete", *CHANGES)
    if wanted.verb not in verbs or wanted.namespace != namespace:
        return Decision(False, f"a node may not {wanted.verb} it")
    # A creation has no name yet: admission checks it.
    return _decision(wanted.name == node or (wanted.verb == "create" and not wanted.name), "a node has its own only")


def _pod(node: str, wanted: Attributes, bound: Bound) -> Decision:
    what = (wanted.verb, wanted.subresource)
    if what == ("create", ""):
        return _YES  # a mirror of a static pod: admission checks it
    if what in (("list", ""), ("watch", "")):
        return _decision(
            _chosen(wanted.fields) == node, f"can only list/watch pods with spec.nodeName={node} field selector"
        )
    usual = {"": ("get", "delete"), "status": ("get", *CHANGES), "eviction": ("create",)}
    if wanted.verb not in usual.get(wanted.subresource, ()):
        return Decision(False, f"a node may not {wanted.verb} it")
    return _decision(bound.runs(wanted.cluster, node, wanted.namespace, wanted.name), "it is not bound to this node")


def _chosen(fields: str) -> str | None:
    try:
        return parse_fields(fields).exact("spec.nodeName")
    except BadRequest:
        return None


_USES: dict[str, dict[str, tuple[str, ...]]] = {
    "secrets": {"": READS},
    "configmaps": {"": READS},
    "serviceaccounts": {"": ("get",), "token": ("create",)},
    "persistentvolumeclaims": {"": ("get",), "status": ("get", *CHANGES)},
}


def _needed(node: str, wanted: Attributes, bound: Bound) -> Decision:
    if wanted.verb not in _USES[wanted.resource].get(wanted.subresource, ()):
        return Decision(False, f"a node may not {wanted.verb} it")
    if not wanted.name or not wanted.namespace:
        return Decision(False, "a node may read it by name only")
    need = Need(wanted.resource, wanted.name)
    found = bound.needs(wanted.cluster, node, wanted.namespace, need)
    return _decision(found, f"no relationship found between node '{node}' and this object")


class NodeAuthorizer:
    """Decides for users that are nodes. Has no opinion on others."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound

    def authorize(self, user: User, wanted: Attributes) -> Decision | None:
        if not wanted.resource:
            return None
        node = node_of(user.name, user.groups)
        return decide(node, wanted, self._bound) if node else None
