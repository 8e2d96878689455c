"""Syncer authorizer: what a remote syncer may do at its hub besides RBAC.

A syncer uses the service account `shoal-syncers/<workload Cluster>`. It reads objects assigned to its cluster and the
objects they reference. It writes their status and its finalizer, the status of its own Cluster, the APIs its cluster
offers, events, and its cluster's pods if that Cluster mirrors pods. The syncerrestriction plugin checks what the URL
does not show. `decide` is pure.
"""

from __future__ import annotations

from typing import Protocol

from shoal.apiserver.authn import User
from shoal.apiserver.authz.rbac import Attributes, Decision
from shoal.apiserver.paths import ROOT
from shoal.kinds import apiresource, workload
from shoal.kinds.pod_references import NEEDED
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import parse_fields, parse_labels

READS = ("get", "list", "watch")
CHANGES = ("update", "patch")

_CLUSTERS = (workload.GROUP, workload.PLURAL)
_IMPORTS = (apiresource.GROUP, apiresource.IMPORTS)
_AGREED = (apiresource.GROUP, apiresource.NEGOTIATED_PLURAL)
_SCHEMAS = (apiresource.GROUP, "apiresourceschemas")
_DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
_NAMESPACES = ("", "namespaces")
_EVENTS = ("", "events")
_PODS = ("", "pods")
STORE_NAMESPACE = "kube-system"
"""The namespace whose uid identifies the hub's store."""


class Meant(Protocol):
    """Relations between the hub's objects and workload Clusters."""

    def is_registered(self, cluster: str) -> bool: ...

    def belongs(self, cluster: str, wanted: Attributes) -> str:
        """The relation of an object to a cluster: `assigned`, `held` or `needed`; empty if there is none."""

    def location_of(self, name: str) -> str:
        """The location of an APIResourceImport; empty if there is none."""

    def teller_of(self, namespace: str, name: str) -> str:
        """The reporting instance of an event."""

    def mirrors_pods(self, cluster: str) -> bool:
        """Reports whether the cluster asks for its pods to be mirrored."""

    def shown_from(self, namespace: str, name: str) -> str:
        """The cluster whose pod is mirrored; empty if the pod is not a mirror or does not exist."""


_YES = Decision(True)


def _no(reason: str) -> Decision:
    return Decision(False, reason)


def decide(cluster: str, wanted: Attributes, meant: Meant) -> Decision:
    """Decides for the syncer of that workload Cluster."""
    if not meant.is_registered(cluster):
        return _no("its workload Cluster is not registered")
    what, sub, verb = (wanted.group, wanted.resource), wanted.subresource, wanted.verb
    if what == _CLUSTERS:
        return _own_cluster(cluster, wanted)
    if what == _IMPORTS and not sub:
        return _import(cluster, wanted, meant)
    if what in (_AGREED, _SCHEMAS) and not sub:
        allowed = verb in READS or (what == _SCHEMAS and verb == "create")
        return _YES if allowed else _no(f"a syncer may not {verb} it")
    if what == _DEFINITIONS and not sub:
        return _YES if verb == "get" else _no(f"a syncer may not {verb} it")
    if what == _NAMESPACES and (verb, sub, wanted.name) == ("get", "", STORE_NAMESPACE):
        return _YES
    if what == _EVENTS and not sub:
        return _event(cluster, wanted, meant)
    if not workload.may_travel(wanted.resource, wanted.group) or wanted.namespace in workload.HOME_ONLY:
        return _no("a syncer has nothing to do with it")
    if what == _PODS and not sub and _shows(cluster, wanted, meant):
        return _YES
    return _object(cluster, wanted, meant)


def _own_cluster(cluster: str, wanted: Attributes) -> Decision:
    verbs = (*READS,) if not wanted.subresource else ("get", *CHANGES) if wanted.subresource == "status" else ()
    if wanted.verb not in verbs:
        return _no(f"a syncer may not {wanted.verb} it")
    name = wanted.name
    if wanted.verb in ("list", "watch"):
        name = _chosen_name(wanted.fields)
    return _YES if name == cluster else _no("a syncer has its own workload Cluster only")


def _chosen_name(fields: str) -> str:
    try:
        return parse_fields(fields).exact("metadata.name") or ""
    except BadRequest:
        return ""


def _import(cluster: str, wanted: Attributes, meant: Meant) -> Decision:
    if wanted.verb == "create" and not wanted.name:
        return _YES  # admission checks its location
    if wanted.verb in ("list", "watch"):
        return _YES if _selects(wanted.labels, cluster) else _unselected(wanted.verb, cluster)
    if wanted.verb not in ("get", "delete", *CHANGES):
        return _no(f"a syncer may not {wanted.verb} it")
    return _YES if meant.location_of(wanted.name) == cluster else _no("it is not of this syncer's cluster")


def _event(cluster: str, wanted: Attributes, meant: Meant) -> Decision:
    if wanted.verb == "create" and wanted.namespace:
        return _YES  # admission checks its reporting instance
    if wanted.verb == "patch" and meant.teller_of(wanted.namespace, wanted.name) == cluster:
        return _YES
    return _no(f"a syncer may not {wanted.verb} it")


def _shows(cluster: str, wanted: Attributes, meant: Meant) -> bool:
    """Reports whether the request is for mirrored pods of the syncer's own cluster. Admission checks their content."""
    if wanted.verb in ("list", "watch"):
        return _selects(wanted.labels, cluster, by=workload.MIRRORED)
    if wanted.verb == "create":
        return bool(wanted.namespace) and not wanted.name and meant.mirrors_pods(cluster)
    its_own = bool(wanted.name) and meant.shown_from(wanted.namespace, wanted.name) == cluster
    return its_own and wanted.verb in ("get", "update", "delete")


def _object(cluster: str, wanted: Attributes, meant: Meant) -> Decision:
    verb, sub = wanted.verb, wanted.subresource
    if verb in ("list", "watch") and not sub:
        needed = not wanted.group and wanted.resource in NEEDED
        return _YES if _selects(wanted.labels, cluster, needed) else _unselected(verb, cluster)
    if (verb, sub) not in (("get", ""), ("patch", ""), ("get", "status"), ("patch", "status")):
        return _no(f"a syncer may not {verb} it")
    belongs = meant.belongs(cluster, wanted) if wanted.name else ""
    if not belongs:
        return _no("it is not meant for this syncer's cluster, nor named by what is")
    if sub and belongs == "needed":
        return _no("a syncer writes the status of what is meant for its cluster only")
    return _YES


def _unselected(verb: str, cluster: str) -> Decision:
    return _no(f"a syncer may {verb} only with the label selector {workload.ASSIGNED}={cluster}")


def _selects(labels: str, cluster: str, needed: bool = False, by: str = workload.ASSIGNED) -> bool:
    """Reports whether a label selector selects only objects of the cluster."""
    try:
        selector = parse_labels(labels)
    except BadRequest:
        return False
    if (by, cluster) in selector.required():
        return True
    label = workload.dependency_label(cluster)
    return needed and any(each.key == label and each.operator == "exists" for each in selector.requirements)


class SyncerAuthorizer:
    """Decides for users of root that are syncers. Has no opinion on others."""

    def __init__(self, meant: Meant) -> None:
        self._meant = meant

    def authorize(self, user: User, wanted: Attributes) -> Decision | None:
        if user.cluster != ROOT or wanted.cluster != ROOT or not wanted.resource:
            return None
        cluster = workload.cluster_of_syncer(user.name)
        return decide(cluster, wanted, self._meant) if cluster else None
