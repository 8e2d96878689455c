"""Worker authorizer: what a worker, or the holder of a join token, may do at its hub besides RBAC. It is modelled on
upstream's Node authorizer.

A worker may access its own Worker, Lease and tunnel, the ManagedClusters assigned to it and the Secrets of their
kubeconfigs and logs, and its own CertificateSigningRequests. It may read ManagedClusters it had before. The
workerrestriction plugin checks what the URL does not show. `decide` is pure.
"""

from __future__ import annotations

from typing import Protocol

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authz.rbac import Attributes, AuthorizationDecision
from shoal.apiserver.cache.cacher import WatchCache
from shoal.apiserver.request.info import ROOT
from shoal.kinds.fleet import cluster_log, infrav1, logicalcluster, migration, worker_join
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import parse_field_selector

_EXPELLED_MARKER = worker_join.EXPELLED_ANNOTATION.encode()


class CachedWorkerGraph:
    def __init__(self, cache: WatchCache) -> None:
        self._clusters = cache.resource_cache(infrav1.GROUP, "managedclusters")
        self._workers = cache.resource_cache(infrav1.GROUP, "workers")
        self._secrets = cache.resource_cache("", "secrets")
        self._requests = cache.resource_cache("certificates.k8s.io", "certificatesigningrequests")

    def is_expelled(self, worker: str) -> bool:
        entry = self._workers.get(ROOT, infrav1.NAMESPACE, worker)
        # Rare, and the bytes show it without decoding.
        return entry is not None and _EXPELLED_MARKER in entry.data and worker_join.is_expelled(entry.object())

    def has_worker(self, worker: str) -> bool:
        return self._workers.get(ROOT, infrav1.NAMESPACE, worker) is not None

    def assigned_worker_of(self, namespace: str, name: str, uid: str = "") -> str:
        entry = self._clusters.get(ROOT, namespace, name)
        if entry is None:
            return ""
        managed = entry.object()
        return infrav1.assigned_worker(managed) if uid in ("", managed["metadata"]["uid"]) else ""

    def was_assigned(self, worker: str, namespace: str, name: str) -> bool:
        entry = self._clusters.get(ROOT, namespace, name)
        return entry is not None and worker in migration.former_workers(entry.object())

    def is_foreign_secret(self, namespace: str, secret: str) -> bool:
        entry = self._secrets.get(ROOT, namespace, secret)
        if entry is None:
            return False
        owner_secret, segment = entry.object(), cluster_log.parse_segment(namespace, secret)
        if segment is not None:
            return not cluster_log.belongs_to(owner_secret, segment.log)
        return not infrav1.is_owned_by_cluster(owner_secret, infrav1.cluster_of_kubeconfig_secret(secret))

    def requester_of(self, request: str) -> str:
        entry = self._requests.get(ROOT, "", request)
        return str(entry.object()["spec"].get("username") or "") if entry is not None else ""


ASSIGNED_WORKER_FIELD = "status.assignedWorker"
UPDATE_VERBS = ("update", "patch")

_WORKERS = (infrav1.GROUP, "workers")
_LEASES = ("coordination.k8s.io", "leases")
_CLUSTERS = (infrav1.GROUP, "managedclusters")
_SECRETS = ("", "secrets")
_CSRS = ("certificates.k8s.io", "certificatesigningrequests")
_LOGICAL_CLUSTERS = (logicalcluster.GROUP, logicalcluster.PLURAL)
_BEFORE_REGISTRATION = ((_WORKERS, ""), (_LOGICAL_CLUSTERS, ""))
"""What a worker accesses before its Worker exists. Only workers inside `shoal up` create it themselves: certificates of
others are refused without one.
"""


class WorkerGraph(Protocol):
    """Ownership relations of the hub's objects."""

    def is_expelled(self, worker: str) -> bool: ...

    def has_worker(self, worker: str) -> bool:
        """Reports whether there is a Worker of that name."""

    def assigned_worker_of(self, namespace: str, name: str, uid: str = "") -> str:
        """The worker a ManagedCluster is assigned to; empty if it is unassigned, does not exist or has another uid than
        the given one.
        """

    def was_assigned(self, worker: str, namespace: str, name: str) -> bool:
        """Reports whether a ManagedCluster was assigned to that worker before."""

    def is_foreign_secret(self, namespace: str, secret: str) -> bool:
        """Reports whether a Secret exists and is not the kubeconfig, or a log segment, of the ManagedCluster its name
        suggests.
        """

    def requester_of(self, request: str) -> str:
        """The user who created a CertificateSigningRequest; empty if there is none."""


_ALLOWED = AuthorizationDecision(True)


def _deny(reason: str) -> AuthorizationDecision:
    return AuthorizationDecision(False, reason)


def decide(worker: str, attributes: Attributes, graph: WorkerGraph) -> AuthorizationDecision:
    """Decides for the worker of that name. RBAC may still allow what is denied here."""
    if graph.is_expelled(worker):
        return _deny("this worker was expelled")
    group_resource, sub = (attributes.group, attributes.resource), attributes.subresource
    if (group_resource, sub) not in _BEFORE_REGISTRATION and not graph.has_worker(worker):
        return _deny("its Worker does not exist")
    if group_resource == _CLUSTERS and sub in ("", "status"):
        return _decide_cluster(worker, attributes, graph)
    if group_resource == _SECRETS and not sub:
        return _decide_secret(worker, attributes, graph)
    if group_resource == _WORKERS and sub == "tunnel":
        return _decide_own(worker, attributes, ("create",), named=True)
    if group_resource == _WORKERS and not sub:
        return _decide_own(worker, attributes, ("get", "create", *UPDATE_VERBS))
    if group_resource == _LEASES and not sub:
        return _decide_own(infrav1.lease_name(worker), attributes, ("get", "create", *UPDATE_VERBS))
    if group_resource == _CSRS and not sub:
        return _decide_csr(worker_join.user_name(worker), attributes, graph)
    if group_resource == _LOGICAL_CLUSTERS and (attributes.verb, sub, attributes.name) == ("get", "", ROOT):
        return _ALLOWED
    return _deny("a worker may not access it")


def decide_join_token(user: str, attributes: Attributes, graph: WorkerGraph) -> AuthorizationDecision:
    """Decides for the holder of a join token."""
    if (attributes.group, attributes.resource, attributes.subresource) == (*_CSRS, ""):
        return _decide_csr(user, attributes, graph)
    return _deny("a join token may request a certificate only")


def _decide_own(
    name: str, attributes: Attributes, verbs: tuple[str, ...], *, named: bool = False
) -> AuthorizationDecision:
    """An object of the worker's own, in the namespace of workers. With `named` its creation has the name in the URL,
    too.
    """
    if attributes.verb not in verbs:
        return _deny(f"a worker may not {attributes.verb} it")
    ours = attributes.name == name or (attributes.verb == "create" and not attributes.name and not named)
    if attributes.namespace != infrav1.NAMESPACE or not ours:
        return _deny("a worker may access its own only")
    return _ALLOWED


def _decide_cluster(worker: str, attributes: Attributes, graph: WorkerGraph) -> AuthorizationDecision:
    if attributes.verb in ("list", "watch") and not attributes.subresource:
        if _selected_worker(attributes.fields) == worker:
            return _ALLOWED
        return _deny(f"a worker may {attributes.verb} only with the field selector {ASSIGNED_WORKER_FIELD}={worker}")
    if attributes.verb not in ("get", *UPDATE_VERBS):
        return _deny(f"a worker may not {attributes.verb} it")
    if not attributes.name or graph.assigned_worker_of(attributes.namespace, attributes.name) != worker:
        what = (attributes.verb, attributes.subresource)
        gives_way = what == ("get", "") or (attributes.verb in UPDATE_VERBS and attributes.subresource == "status")
        if attributes.name and gives_way and graph.was_assigned(worker, attributes.namespace, attributes.name):
            return _ALLOWED  # so that it learns that it lost the cluster, and reports when it has released it
        return _deny("it is not assigned to this worker")
    return _ALLOWED


def _selected_worker(fields: str) -> str | None:
    try:
        return parse_field_selector(fields).exact_value(ASSIGNED_WORKER_FIELD)
    except BadRequest:
        return None


def _decide_secret(worker: str, attributes: Attributes, graph: WorkerGraph) -> AuthorizationDecision:
    if attributes.verb == "create":
        return _ALLOWED if attributes.namespace else _deny("a Secret needs a namespace")
    if attributes.verb not in ("get", "delete", *UPDATE_VERBS):
        return _deny(f"a worker may not {attributes.verb} it")
    segment = cluster_log.parse_segment(attributes.namespace, attributes.name)
    if segment is not None:
        return _decide_log(worker, attributes, segment.log, graph)
    cluster = infrav1.cluster_of_kubeconfig_secret(attributes.name)
    if not cluster or graph.assigned_worker_of(attributes.namespace, cluster) != worker:
        return _deny("it is not the kubeconfig of a ManagedCluster assigned to this worker")
    if graph.is_foreign_secret(attributes.namespace, attributes.name):
        return _deny("it has the name of a kubeconfig but is not owned by that ManagedCluster")
    return _ALLOWED


def _decide_log(
    worker: str, attributes: Attributes, log: cluster_log.LogKey, graph: WorkerGraph
) -> AuthorizationDecision:
    """Admission checks the content of a new log. Logs are never updated."""
    if attributes.verb not in ("get", "delete"):
        return _deny(f"a worker may not {attributes.verb} a log")
    if graph.assigned_worker_of(log.namespace, log.cluster, log.uid) != worker:
        return _deny("it is not the log of a ManagedCluster assigned to this worker")
    if graph.is_foreign_secret(attributes.namespace, attributes.name):
        return _deny("it has the name of a log but is not of that ManagedCluster")
    return _ALLOWED


def _decide_csr(user: str, attributes: Attributes, graph: WorkerGraph) -> AuthorizationDecision:
    if attributes.verb == "create" and not attributes.name:
        return _ALLOWED
    if attributes.verb == "get" and attributes.name and graph.requester_of(attributes.name) == user:
        return _ALLOWED
    return _deny("it is the request of another user")


class WorkerAuthorizer:
    """Decides for users of root that are workers or are joining. Has no opinion on others."""

    def __init__(self, graph: WorkerGraph) -> None:
        self._graph = graph

    def authorize(self, user: User, attributes: Attributes) -> AuthorizationDecision | None:
        if user.cluster != ROOT or attributes.cluster != ROOT or not attributes.resource:
            return None
        worker = worker_join.worker_of(user.name, user.groups)
        if worker:
            return decide(worker, attributes, self._graph)
        if worker_join.is_join_token_user(user.name, user.groups):
            return decide_join_token(user.name, attributes, self._graph)
        return None
