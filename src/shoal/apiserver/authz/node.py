"""Node authorizer: what a kubelet may do in its cluster besides RBAC, as upstream.

A node may access its own Node, Lease and CSINode, the pods bound to it, and of the objects pods reference only those
its pods reference. The noderestriction plugin checks what the URL does not show. `decide` is pure.
"""

from __future__ import annotations

from typing import Protocol

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authz.rbac import Attributes, AuthorizationDecision
from shoal.kinds.core.node_identity import LEASE_NAMESPACE, node_name_of
from shoal.kinds.core.pod.references import REFERENCED_PLURALS, PodReference
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import parse_field_selector

READ_VERBS = ("get", "list", "watch")
UPDATE_VERBS = ("update", "patch")
_SHARED_RESOURCES: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "services"): READ_VERBS,
    ("", "events"): ("create", *UPDATE_VERBS),
    ("events.k8s.io", "events"): ("create", *UPDATE_VERBS),
    ("storage.k8s.io", "csidrivers"): READ_VERBS,
    ("node.k8s.io", "runtimeclasses"): READ_VERBS,
    ("certificates.k8s.io", "certificatesigningrequests"): ("create", *READ_VERBS),
    ("authentication.k8s.io", "tokenreviews"): ("create",),
    ("authorization.k8s.io", "subjectaccessreviews"): ("create",),
    ("authorization.k8s.io", "localsubjectaccessreviews"): ("create",),
}
"""The same for every node."""
_OWN_RESOURCES = {
    ("", "nodes"): "",
    ("storage.k8s.io", "csinodes"): "",
    ("coordination.k8s.io", "leases"): LEASE_NAMESPACE,
}
"""Resources of which a node owns the object of its name, in that namespace."""


class NodeGraph(Protocol):
    """The pods bound to a node, and what they reference."""

    def has_pod(self, cluster: str, node: str, namespace: str, pod: str) -> bool: ...

    def references(self, cluster: str, node: str, namespace: str, need: PodReference) -> bool: ...

    def references_volume(self, cluster: str, node: str, volume: str) -> bool:
        """A PersistentVolume, through the claim of a pod."""

    def has_attachment(self, cluster: str, node: str, attachment: str) -> bool:
        """Reports whether a VolumeAttachment belongs to the node."""


_ALLOWED = AuthorizationDecision(True)


def _decision(allowed: bool, otherwise: str) -> AuthorizationDecision:
    return _ALLOWED if allowed else AuthorizationDecision(False, otherwise)


def decide(node: str, attributes: Attributes, graph: NodeGraph) -> AuthorizationDecision:
    """RBAC may still allow what is denied here."""
    group_resource, verb, sub = (attributes.group, attributes.resource), attributes.verb, attributes.subresource
    if group_resource in _SHARED_RESOURCES and not sub:
        return _decision(verb in _SHARED_RESOURCES[group_resource], f"a node may not {verb} it")
    if group_resource in _OWN_RESOURCES and sub in (("", "status") if group_resource == ("", "nodes") else ("",)):
        return _decide_own(node, attributes, _OWN_RESOURCES[group_resource])
    if group_resource == ("", "pods"):
        return _decide_pod(node, attributes, graph)
    if attributes.group == "" and attributes.resource in REFERENCED_PLURALS:
        return _decide_referenced(node, attributes, graph)
    if group_resource == ("", "persistentvolumes") and (verb, sub) == ("get", ""):
        return _decision(
            graph.references_volume(attributes.cluster, node, attributes.name), "no pod of this node needs it"
        )
    if group_resource == ("storage.k8s.io", "volumeattachments") and (verb, sub) == ("get", ""):
        return _decision(
            graph.has_attachment(attributes.cluster, node, attributes.name), "it does not belong to this node"
        )
    return AuthorizationDecision(False, "a node may not access it")


def _decide_own(node: str, attributes: Attributes, namespace: str) -> AuthorizationDecision:
    verbs = (
        ("create", *READ_VERBS, *UPDATE_VERBS)
        if attributes.resource == "nodes"
        else ("create", "get", "delete", *UPDATE_VERBS)
    )
    if attributes.verb not in verbs or attributes.namespace != namespace:
        return AuthorizationDecision(False, f"a node may not {attributes.verb} it")
    # A creation has no name yet: admission checks it.
    return _decision(
        attributes.name == node or (attributes.verb == "create" and not attributes.name),
        "a node may access its own only",
    )


def _decide_pod(node: str, attributes: Attributes, graph: NodeGraph) -> AuthorizationDecision:
    verb_and_subresource = (attributes.verb, attributes.subresource)
    if verb_and_subresource == ("create", ""):
        return _ALLOWED  # a mirror of a static pod: admission checks it
    if verb_and_subresource in (("list", ""), ("watch", "")):
        return _decision(
            _selected_node(attributes.fields) == node,
            f"can only list/watch pods with spec.nodeName={node} field selector",
        )
    verbs = {"": ("get", "delete"), "status": ("get", *UPDATE_VERBS), "eviction": ("create",)}
    if attributes.verb not in verbs.get(attributes.subresource, ()):
        return AuthorizationDecision(False, f"a node may not {attributes.verb} it")
    return _decision(
        graph.has_pod(attributes.cluster, node, attributes.namespace, attributes.name), "it is not bound to this node"
    )


def _selected_node(fields: str) -> str | None:
    try:
        return parse_field_selector(fields).exact_value("spec.nodeName")
    except BadRequest:
        return None


_REFERENCE_VERBS: dict[str, dict[str, tuple[str, ...]]] = {
    "secrets": {"": READ_VERBS},
    "configmaps": {"": READ_VERBS},
    "serviceaccounts": {"": ("get",), "token": ("create",)},
    "persistentvolumeclaims": {"": ("get",), "status": ("get", *UPDATE_VERBS)},
}


def _decide_referenced(node: str, attributes: Attributes, graph: NodeGraph) -> AuthorizationDecision:
    if attributes.verb not in _REFERENCE_VERBS[attributes.resource].get(attributes.subresource, ()):
        return AuthorizationDecision(False, f"a node may not {attributes.verb} it")
    if not attributes.name or not attributes.namespace:
        return AuthorizationDecision(False, "a node may read it by name only")
    need = PodReference(attributes.resource, attributes.name)
    referenced = graph.references(attributes.cluster, node, attributes.namespace, need)
    return _decision(referenced, f"no relationship found between node '{node}' and this object")


class NodeAuthorizer:
    """Decides for users that are nodes. Has no opinion on others."""

    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph

    def authorize(self, user: User, attributes: Attributes) -> AuthorizationDecision | None:
        if not attributes.resource:
            return None
        node = node_name_of(user.name, user.groups)
        return decide(node, attributes, self._graph) if node else None
