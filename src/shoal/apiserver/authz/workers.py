"""Worker authorizer: what a worker, or the holder of a join token, may do at its hub besides RBAC. It is modelled on
upstream's Node authorizer.

A worker may access its own Worker, Lease and tunnel, the ManagedClusters assigned to it and the Secrets of their
kubeconfigs and logs, and its own CertificateSigningRequests. It may read ManagedClusters it had before. The
workerrestriction plugin checks what the URL does not show. `decide` is pure.
"""

from __future__ import annotations

from typing import Protocol

from shoal.apiserver.authn import User
from shoal.apiserver.authz.rbac import Attributes, Decision
from shoal.apiserver.paths import ROOT
from shoal.kinds import fleet, joining, logicalcluster, moving
from shoal.objects.errors import BadRequest
from shoal.objects.selectors import parse_fields

ASSIGNED = "status.assignedWorker"
CHANGES = ("update", "patch")

_WORKERS = (fleet.GROUP, "workers")
_LEASES = ("coordination.k8s.io", "leases")
_CLUSTERS = (fleet.GROUP, "managedclusters")
_SECRETS = ("", "secrets")
_REQUESTS = ("certificates.k8s.io", "certificatesigningrequests")
_ROOT = (logicalcluster.GROUP, logicalcluster.PLURAL)


class Holdings(Protocol):
    """Ownership relations of the hub's objects."""

    def is_expelled(self, worker: str) -> bool: ...

    def worker_of(self, namespace: str, name: str) -> str:
        """The worker a ManagedCluster is assigned to; empty if it is unassigned or does not exist."""

    def had(self, worker: str, namespace: str, name: str) -> bool:
        """Reports whether a ManagedCluster was assigned to that worker before."""

    def is_somebody_elses(self, namespace: str, secret: str) -> bool:
        """Reports whether a Secret exists and is not the kubeconfig, or a log segment, of the ManagedCluster its name
        suggests.
        """

    def requester_of(self, request: str) -> str:
        """The user who created a CertificateSigningRequest; empty if there is none."""


_YES = Decision(True)


def _no(reason: str) -> Decision:
    return Decision(False, reason)


def decide(worker: str, wanted: Attributes, holdings: Holdings) -> Decision:
    """Decides for the worker of that name. RBAC may still allow what is denied here."""
    if holdings.is_expelled(worker):
        return _no("this worker was expelled")
    what, sub = (wanted.group, wanted.resource), wanted.subresource
    if what == _CLUSTERS and sub in ("", "status"):
        return _cluster(worker, wanted, holdings)
    if what == _SECRETS and not sub:
        return _secret(worker, wanted, holdings)
    if what == _WORKERS and sub == "tunnel":
        return _own(worker, wanted, ("create",), named=True)
    if what == _WORKERS and not sub:
        return _own(worker, wanted, ("get", "create", *CHANGES))
    if what == _LEASES and not sub:
        return _own(fleet.lease_name(worker), wanted, ("get", "create", *CHANGES))
    if what == _REQUESTS and not sub:
        return _request(joining.user_name(worker), wanted, holdings)
    if what == _ROOT and (wanted.verb, sub, wanted.name) == ("get", "", ROOT):
        return _YES
    return _no("a worker has nothing to do with it")


def decide_joining(user: str, wanted: Attributes, holdings: Holdings) -> Decision:
    """Decides for the holder of a join token."""
    if (wanted.group, wanted.resource, wanted.subresource) == (*_REQUESTS, ""):
        return _request(user, wanted, holdings)
    return _no("a join token is for a certificate only")


def _own(name: str, wanted: Attributes, verbs: tuple[str, ...], *, named: bool = False) -> Decision:
    """An object of the worker's own, in the namespace of workers. With `named` its creation has the name in the URL,
    too.
    """
    if wanted.verb not in verbs:
        return _no(f"a worker may not {wanted.verb} it")
    ours = wanted.name == name or (wanted.verb == "create" and not wanted.name and not named)
    if wanted.namespace != fleet.NAMESPACE or not ours:
        return _no("a worker has its own only")
    return _YES


def _cluster(worker: str, wanted: Attributes, holdings: Holdings) -> Decision:
    if wanted.verb in ("list", "watch") and not wanted.subresource:
        if _selected(wanted.fields) == worker:
            return _YES
        return _no(f"a worker may {wanted.verb} only with the field selector {ASSIGNED}={worker}")
    if wanted.verb not in ("get", *CHANGES):
        return _no(f"a worker may not {wanted.verb} it")
    if not wanted.name or holdings.worker_of(wanted.namespace, wanted.name) != worker:
        what = (wanted.verb, wanted.subresource)
        gives_way = what == ("get", "") or (wanted.verb in CHANGES and wanted.subresource == "status")
        if wanted.name and gives_way and holdings.had(worker, wanted.namespace, wanted.name):
            return _YES  # so that it learns that it lost the cluster, and reports when it has released it
        return _no("it is not assigned to this worker")
    return _YES


def _selected(fields: str) -> str | None:
    try:
        return parse_fields(fields).exact(ASSIGNED)
    except BadRequest:
        return None


def _secret(worker: str, wanted: Attributes, holdings: Holdings) -> Decision:
    if wanted.verb == "create":
        return _YES if wanted.namespace else _no("a Secret has a namespace")
    if wanted.verb not in ("get", "delete", *CHANGES):
        return _no(f"a worker may not {wanted.verb} it")
    segment = moving.segment_of(wanted.name)
    if segment is not None:
        return _log(worker, wanted, segment[0], holdings)
    cluster = fleet.cluster_of_secret(wanted.name)
    if not cluster or holdings.worker_of(wanted.namespace, cluster) != worker:
        return _no("it is not the kubeconfig of a ManagedCluster assigned to this worker")
    if holdings.is_somebody_elses(wanted.namespace, wanted.name):
        return _no("it is somebody else's, though it has the name of a kubeconfig")
    return _YES


def _log(worker: str, wanted: Attributes, cluster: str, holdings: Holdings) -> Decision:
    """Admission checks the content of a new log. Logs are never updated."""
    if wanted.verb not in ("get", "delete"):
        return _no(f"a worker may not {wanted.verb} a log")
    if holdings.worker_of(wanted.namespace, cluster) != worker:
        return _no("it is not the log of a ManagedCluster assigned to this worker")
    if holdings.is_somebody_elses(wanted.namespace, wanted.name):
        return _no("it is somebody else's, though it has the name of a log")
    return _YES


def _request(user: str, wanted: Attributes, holdings: Holdings) -> Decision:
    if wanted.verb == "create" and not wanted.name:
        return _YES
    if wanted.verb == "get" and wanted.name and holdings.requester_of(wanted.name) == user:
        return _YES
    return _no("it is not its own request")


class WorkerAuthorizer:
    """Decides for users of root that are workers or are joining. Has no opinion on others."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings

    def authorize(self, user: User, wanted: Attributes) -> Decision | None:
        if user.cluster != ROOT or wanted.cluster != ROOT or not wanted.resource:
            return None
        worker = joining.worker_of(user.name, user.groups)
        if worker:
            return decide(worker, wanted, self._holdings)
        if joining.is_joining(user.name, user.groups):
            return decide_joining(user.name, wanted, self._holdings)
        return None
