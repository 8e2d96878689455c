"""What a node's kubelet may do in its cluster: beside RBAC, as upstream's Node authorizer.

A node has its own Node, Lease, CSINode and the pods bound to it, and of everything else that pods need by name only
what those need. What the name in the URL does not tell, `admission.nodes` looks at. `decide` is pure.
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
"""Of these a node has the one of its name, in that namespace."""


class Bound(Protocol):
    """What the pods bound to a node are, and what they need."""

    def runs(self, cluster: str, node: str, namespace: str, pod: str) -> bool: ...

    def needs(self, cluster: str, node: str, namespace: str, need: Need) -> bool: ...

    def needs_volume(self, cluster: str, node: str, volume: str) -> bool:
        """A PersistentVolume, by the claim of a pod."""

    def is_attached(self, cluster: str, node: str, attachment: str) -> bool:
        """Whether a VolumeAttachment is about the node."""


_YES = Decision(True)


def _decision(allowed: bool, otherwise: str) -> Decision:
    return _YES if allowed else Decision(False, otherwise)


def decide(node: str, wanted: Attributes, bound: Bound) -> Decision:
    """What is nobody's business here may still be allowed by RBAC."""
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
    # A creation does not name it yet: admission looks.
    return _decision(wanted.name == node or (wanted.verb == "create" and not wanted.name), "a node has its own only")


def _pod(node: str, wanted: Attributes, bound: Bound) -> Decision:
    what = (wanted.verb, wanted.subresource)
    if what == ("create", ""):
        return _YES  # a mirror of a static pod: admission looks
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
    """Has a word for users that are nodes; of all others it knows nothing."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound

    def authorize(self, user: User, wanted: Attributes) -> Decision | None:
        if not wanted.resource:
            return None
        node = node_of(user.name, user.groups)
        return decide(node, wanted, self._bound) if node else None
