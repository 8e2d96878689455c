"""Syncer authorizer: what a remote syncer may do at its hub besides RBAC.

A syncer uses the service account `shoal-syncers/<workload Cluster>`. It reads objects assigned to its cluster and the
objects they reference. It writes their status and its finalizer, the status of its own Cluster, the APIs its cluster
offers, events, and its cluster's pods if that Cluster mirrors pods. The syncerrestriction plugin checks what the URL
does not show. `decide` is pure.
"""

from __future__ import annotations

from typing import Protocol

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authz.rbac import Attributes, AuthorizationDecision
from shoal.apiserver.request.info import ROOT
from shoal.kinds.core.pod.references import REFERENCED_PLURALS
from shoal.kinds.workload import apiresource, workloadcluster
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import parse_field_selector, parse_label_selector

READ_VERBS = ("get", "list", "watch")
UPDATE_VERBS = ("update", "patch")

_CLUSTERS = (workloadcluster.GROUP, workloadcluster.PLURAL)
_IMPORTS = (apiresource.GROUP, apiresource.IMPORT_PLURAL)
_NEGOTIATED = (apiresource.GROUP, apiresource.NEGOTIATED_PLURAL)
_SCHEMAS = (apiresource.GROUP, "apiresourceschemas")
_CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
_NAMESPACES = ("", "namespaces")
_EVENTS = ("", "events")
_PODS = ("", "pods")
HUB_IDENTITY_NAMESPACE = "kube-system"
"""The namespace whose uid identifies the hub's store."""


class SyncerGraph(Protocol):
    """Relations between the hub's objects and workload Clusters."""

    def is_registered(self, cluster: str) -> bool: ...

    def relation(self, cluster: str, attributes: Attributes) -> str:
        """The relation of an object to a cluster: `assigned`, `held` or `needed`; empty if there is none."""

    def location_of(self, name: str) -> str:
        """The location of an APIResourceImport; empty if there is none."""

    def reporting_instance_of(self, namespace: str, name: str) -> str:
        """The reporting instance of an event."""

    def mirrors_pods(self, cluster: str) -> bool:
        """Reports whether the cluster asks for its pods to be mirrored."""

    def mirrored_from(self, namespace: str, name: str) -> str:
        """The cluster whose pod is mirrored; empty if the pod is not a mirror or does not exist."""


_ALLOWED = AuthorizationDecision(True)


def _deny(reason: str) -> AuthorizationDecision:
    return AuthorizationDecision(False, reason)


def decide(cluster: str, attributes: Attributes, graph: SyncerGraph) -> AuthorizationDecision:
    """Decides for the syncer of that workload Cluster."""
    if not graph.is_registered(cluster):
        return _deny("its workload Cluster is not registered")
    group_resource, sub, verb = (attributes.group, attributes.resource), attributes.subresource, attributes.verb
    if group_resource == _CLUSTERS:
        return _decide_own_cluster(cluster, attributes)
    if group_resource == _IMPORTS and not sub:
        return _decide_import(cluster, attributes, graph)
    if group_resource in (_NEGOTIATED, _SCHEMAS) and not sub:
        allowed = verb in READ_VERBS or (group_resource == _SCHEMAS and verb == "create")
        return _ALLOWED if allowed else _deny(f"a syncer may not {verb} it")
    if group_resource == _CRDS and not sub:
        return _ALLOWED if verb == "get" else _deny(f"a syncer may not {verb} it")
    if group_resource == _NAMESPACES and (verb, sub, attributes.name) == ("get", "", HUB_IDENTITY_NAMESPACE):
        return _ALLOWED
    if group_resource == _EVENTS and not sub:
        return _decide_event(cluster, attributes, graph)
    if (
        not workloadcluster.is_syncable(attributes.resource, attributes.group)
        or attributes.namespace in workloadcluster.UNSYNCED_NAMESPACES
    ):
        return _deny("a syncer may not access it")
    if group_resource == _PODS and not sub and _may_mirror_pod(cluster, attributes, graph):
        return _ALLOWED
    return _decide_object(cluster, attributes, graph)


def _decide_own_cluster(cluster: str, attributes: Attributes) -> AuthorizationDecision:
    verbs = (
        (*READ_VERBS,)
        if not attributes.subresource
        else ("get", *UPDATE_VERBS)
        if attributes.subresource == "status"
        else ()
    )
    if attributes.verb not in verbs:
        return _deny(f"a syncer may not {attributes.verb} it")
    name = attributes.name
    if attributes.verb in ("list", "watch"):
        name = _selected_name(attributes.fields)
    return _ALLOWED if name == cluster else _deny("a syncer may access its own workload Cluster only")


def _selected_name(fields: str) -> str:
    try:
        return parse_field_selector(fields).exact_value("metadata.name") or ""
    except BadRequest:
        return ""


def _decide_import(cluster: str, attributes: Attributes, graph: SyncerGraph) -> AuthorizationDecision:
    if attributes.verb == "create" and not attributes.name:
        return _ALLOWED  # admission checks its location
    if attributes.verb in ("list", "watch"):
        return (
            _ALLOWED if _selects_only_own(attributes.labels, cluster) else _missing_selector(attributes.verb, cluster)
        )
    if attributes.verb not in ("get", "delete", *UPDATE_VERBS):
        return _deny(f"a syncer may not {attributes.verb} it")
    return (
        _ALLOWED
        if graph.location_of(attributes.name) == cluster
        else _deny("it does not belong to this syncer's cluster")
    )


def _decide_event(cluster: str, attributes: Attributes, graph: SyncerGraph) -> AuthorizationDecision:
    if attributes.verb == "create" and attributes.namespace:
        return _ALLOWED  # admission checks its reporting instance
    if attributes.verb == "patch" and graph.reporting_instance_of(attributes.namespace, attributes.name) == cluster:
        return _ALLOWED
    return _deny(f"a syncer may not {attributes.verb} it")


def _may_mirror_pod(cluster: str, attributes: Attributes, graph: SyncerGraph) -> bool:
    """Reports whether the request is for mirrored pods of the syncer's own cluster. Admission checks their content."""
    if attributes.verb in ("list", "watch"):
        return _selects_only_own(attributes.labels, cluster, label=workloadcluster.MIRRORED_FROM_LABEL)
    if attributes.verb == "create":
        return bool(attributes.namespace) and not attributes.name and graph.mirrors_pods(cluster)
    is_own = bool(attributes.name) and graph.mirrored_from(attributes.namespace, attributes.name) == cluster
    return is_own and attributes.verb in ("get", "update", "delete")


def _decide_object(cluster: str, attributes: Attributes, graph: SyncerGraph) -> AuthorizationDecision:
    verb, sub = attributes.verb, attributes.subresource
    if verb in ("list", "watch") and not sub:
        needed = not attributes.group and attributes.resource in REFERENCED_PLURALS
        return _ALLOWED if _selects_only_own(attributes.labels, cluster, needed) else _missing_selector(verb, cluster)
    if (verb, sub) not in (("get", ""), ("patch", ""), ("get", "status"), ("patch", "status")):
        return _deny(f"a syncer may not {verb} it")
    relation = graph.relation(cluster, attributes) if attributes.name else ""
    if not relation:
        return _deny("it is neither assigned to this syncer's cluster nor referenced by an object that is")
    if sub and relation == "needed":
        return _deny("a syncer may write the status only of objects assigned to its cluster")
    return _ALLOWED


def _missing_selector(verb: str, cluster: str) -> AuthorizationDecision:
    return _deny(f"a syncer may {verb} only with the label selector {workloadcluster.CLUSTER_LABEL}={cluster}")


def _selects_only_own(
    labels: str, cluster: str, allow_dependencies: bool = False, label: str = workloadcluster.CLUSTER_LABEL
) -> bool:
    """Reports whether a label selector selects only objects of the cluster."""
    try:
        selector = parse_label_selector(labels)
    except BadRequest:
        return False
    if (label, cluster) in selector.equality_pairs():
        return True
    dependency_label = workloadcluster.dependency_label(cluster)
    return allow_dependencies and any(
        each.key == dependency_label and each.operator == "exists" for each in selector.requirements
    )


class SyncerAuthorizer:
    """Decides for users of root that are syncers. Has no opinion on others."""

    def __init__(self, graph: SyncerGraph) -> None:
        self._graph = graph

    def authorize(self, user: User, attributes: Attributes) -> AuthorizationDecision | None:
        if user.cluster != ROOT or attributes.cluster != ROOT or not attributes.resource:
            return None
        cluster = workloadcluster.cluster_of_syncer(user.name)
        return decide(cluster, attributes, self._graph) if cluster else None
