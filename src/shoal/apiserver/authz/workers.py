"""What a worker may do at its hub, and who comes with a join token: beside RBAC, as upstream's Node authorizer is.

A worker has its own Worker, Lease and tunnel; the ManagedClusters assigned to it and the Secrets of their kubeconfigs
and logs; its own certificate. Those it had before it may look at. What the name in the URL does not tell,
`admission.workers` looks at. `decide` is pure.
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
    """What the hub's objects say about who has what."""

    def is_expelled(self, worker: str) -> bool: ...

    def worker_of(self, namespace: str, name: str) -> str:
        """Whom a ManagedCluster is assigned to; empty: nobody, or there is none."""

    def had(self, worker: str, namespace: str, name: str) -> bool:
        """Whether a ManagedCluster was assigned to that worker before."""

    def is_somebody_elses(self, namespace: str, secret: str) -> bool:
        """Whether a Secret is there and not the kubeconfig, or a part of the log, of the ManagedCluster it is named
        after."""

    def requester_of(self, request: str) -> str:
        """The user whose CertificateSigningRequest it is; empty: there is none."""


_YES = Decision(True)


def _no(reason: str) -> Decision:
    return Decision(False, reason)


def decide(worker: str, wanted: Attributes, holdings: Holdings) -> Decision:
    """Whether the worker of that name may. What is nobody's business here may still be allowed by RBAC."""
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
    """Whether who has come with a join token may."""
    if (wanted.group, wanted.resource, wanted.subresource) == (*_REQUESTS, ""):
        return _request(user, wanted, holdings)
    return _no("a join token is for a certificate only")


def _own(name: str, wanted: Attributes, verbs: tuple[str, ...], *, named: bool = False) -> Decision:
    """Something of the worker's own, in the namespace of workers. `named`: its creation names it, too."""
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
            return _YES  # so it learns that it has to give way, and says when it has
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
    """What it is created with, admission looks at; it is never changed."""
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
    """Has a word for users of root that are workers, or are joining; of all others it knows nothing."""

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
