"""Authorization of a worker at its hub, as a table: little, and nothing of other workers."""

from __future__ import annotations

import pytest

from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authz import Attributes, AuthorizationDecision, Authorizer
from shoal.apiserver.authz.worker import WorkerAuthorizer, decide, decide_join_token
from tests.apiserver.authz.role_table import RoleTable

FLEET, SYSTEM = "infrastructure.cluster.x-k8s.io", "shoal-system"
LEASES, REQUESTS = "coordination.k8s.io", "certificates.k8s.io"
RBAC = "rbac.authorization.k8s.io"
LOGS = "shoal-logs"
UID = "11111111-1111-1111-1111-111111111111"
EARLIER = "22222222-2222-2222-2222-222222222222"
MINE = "status.assignedWorker=w1"


class Held:
    """w1 has default/east, w2 has default/west; default/odd-kubeconfig is a person's, and w1 has default/odd.
    w1 had team/north before. All have the uid UID."""

    def is_expelled(self, worker: str) -> bool:
        return worker == "out"

    def has_worker(self, worker: str) -> bool:
        return worker in ("w1", "w2", "out")

    def assigned_worker_of(self, namespace: str, name: str, uid: str = "") -> str:
        held = {("default", "east"): "w1", ("default", "odd"): "w1", ("default", "west"): "w2", ("team", "east"): "w2"}
        return held.get((namespace, name), "") if uid in ("", UID) else ""

    def was_assigned(self, worker: str, namespace: str, name: str) -> bool:
        return (worker, namespace, name) == ("w1", "team", "north")

    def is_foreign_secret(self, namespace: str, secret: str) -> bool:
        return (namespace, secret) in (
            ("default", "odd-kubeconfig"),
            ("default", "odd-log-1-2"),
            (LOGS, f"default.odd.{UID}.1.2"),
        )

    def requester_of(self, request: str) -> str:
        return {"mine": "system:worker:w1", "theirs": "system:worker:w2", "new": "system:bootstrap:abcdef"}.get(
            request, ""
        )


def wants(
    verb: str, group: str, resource: str, namespace: str = "", name: str = "", fields: str = "", cluster: str = "root"
) -> Attributes:
    resource, _, subresource = resource.partition("/")
    return Attributes(cluster, verb, group, "v1", resource, subresource, namespace, name, fields=fields)


ALLOWED = [
    wants("get", FLEET, "workers", SYSTEM, "w1"),
    wants("create", FLEET, "workers", SYSTEM),
    wants("patch", FLEET, "workers", SYSTEM, "w1"),
    wants("update", FLEET, "workers", SYSTEM, "w1"),
    wants("create", FLEET, "workers/tunnel", SYSTEM, "w1"),
    wants("get", LEASES, "leases", SYSTEM, "worker-w1"),
    wants("create", LEASES, "leases", SYSTEM),
    wants("patch", LEASES, "leases", SYSTEM, "worker-w1"),
    wants("list", FLEET, "managedclusters", fields=MINE),
    wants("watch", FLEET, "managedclusters", fields=MINE),
    wants("watch", FLEET, "managedclusters", "default", fields=f"{MINE},status.phase=Running"),
    wants("get", FLEET, "managedclusters", "default", "east"),
    wants("get", FLEET, "managedclusters", "team", "north"),
    wants("update", FLEET, "managedclusters/status", "team", "north"),
    wants("get", "", "secrets", "default", "east-log-1-2"),
    wants("delete", "", "secrets", "default", "east-log-1-2"),
    wants("create", "", "secrets", LOGS),
    wants("get", "", "secrets", LOGS, f"default.east.{UID}.1.2"),
    wants("delete", "", "secrets", LOGS, f"default.east.{UID}.1.2"),
    wants("update", FLEET, "managedclusters", "default", "east"),
    wants("update", FLEET, "managedclusters/status", "default", "east"),
    wants("patch", FLEET, "managedclusters/status", "default", "east"),
    wants("create", "", "secrets", "default"),
    wants("get", "", "secrets", "default", "east-kubeconfig"),
    wants("patch", "", "secrets", "default", "east-kubeconfig"),
    wants("delete", "", "secrets", "default", "east-kubeconfig"),
    wants("create", REQUESTS, "certificatesigningrequests"),
    wants("get", REQUESTS, "certificatesigningrequests", name="mine"),
    wants("get", "core.shoal.dev", "logicalclusters", name="root"),
]

REFUSED = [
    # Workers
    wants("get", FLEET, "workers", SYSTEM, "w2"),
    wants("get", FLEET, "workers", "default", "w1"),
    wants("list", FLEET, "workers", SYSTEM),
    wants("watch", FLEET, "workers", SYSTEM),
    wants("list", FLEET, "workers"),
    wants("list", FLEET, "workers", SYSTEM, "w2", "metadata.name=w2"),
    wants("update", FLEET, "workers", SYSTEM, "w2"),
    wants("patch", FLEET, "workers", SYSTEM, "w2"),
    wants("delete", FLEET, "workers", SYSTEM, "w1"),
    wants("delete", FLEET, "workers", SYSTEM, "w2"),
    wants("deletecollection", FLEET, "workers", SYSTEM),
    wants("update", FLEET, "workers/status", SYSTEM, "w1"),
    wants("patch", FLEET, "workers/status", SYSTEM, "w1"),
    wants("create", FLEET, "workers", "default"),
    wants("create", FLEET, "workers/tunnel", SYSTEM, "w2"),
    wants("create", FLEET, "workers/tunnel", SYSTEM),
    wants("create", FLEET, "workers/tunnel", "default", "w1"),
    # Leases
    wants("get", LEASES, "leases", SYSTEM, "worker-w2"),
    wants("patch", LEASES, "leases", SYSTEM, "worker-w2"),
    wants("patch", LEASES, "leases", SYSTEM, "w1"),
    wants("patch", LEASES, "leases", "kube-system", "worker-w1"),
    wants("update", LEASES, "leases", "kube-system", "shoal-loops"),
    wants("delete", LEASES, "leases", SYSTEM, "worker-w1"),
    wants("list", LEASES, "leases", SYSTEM),
    wants("create", LEASES, "leases", "kube-system"),
    # ManagedClusters
    wants("list", FLEET, "managedclusters"),
    wants("watch", FLEET, "managedclusters"),
    wants("list", FLEET, "managedclusters", "default"),
    wants("list", FLEET, "managedclusters", fields="status.assignedWorker=w2"),
    wants("watch", FLEET, "managedclusters", fields="status.assignedWorker=w2"),
    wants("watch", FLEET, "managedclusters", fields="status.assignedWorker!=w2"),
    wants("watch", FLEET, "managedclusters", fields="status.assignedWorker="),
    wants("watch", FLEET, "managedclusters", fields="status.phase=Running"),
    wants("watch", FLEET, "managedclusters", "default", "west", "metadata.name=west"),
    wants("list", FLEET, "managedclusters", fields="nonsense"),
    wants("get", FLEET, "managedclusters", "default", "west"),
    wants("get", FLEET, "managedclusters", "team", "east"),
    wants("get", FLEET, "managedclusters", "default", "none"),
    wants("create", FLEET, "managedclusters", "default"),
    wants("delete", FLEET, "managedclusters", "default", "east"),
    wants("deletecollection", FLEET, "managedclusters", fields=MINE),
    wants("update", FLEET, "managedclusters", "default", "west"),
    wants("update", FLEET, "managedclusters/status", "default", "west"),
    wants("patch", FLEET, "managedclusters/status", "team", "east"),
    wants("patch", FLEET, "managedclusters/status", "default", "none"),
    wants("update", FLEET, "managedclusters/scale", "default", "east"),
    # Secrets
    wants("update", FLEET, "managedclusters", "team", "north"),
    wants("get", FLEET, "managedclusters/status", "team", "north"),
    wants("get", "", "secrets", "team", "north-log-1-2"),
    wants("get", "", "secrets", "default", "west-log-1-2"),
    wants("delete", "", "secrets", "default", "west-log-1-2"),
    wants("update", "", "secrets", "default", "east-log-1-2"),
    wants("patch", "", "secrets", "default", "east-log-1-2"),
    wants("get", "", "secrets", "default", "odd-log-1-2"),
    wants("get", "", "secrets", LOGS, f"team.north.{UID}.1.2"),
    wants("get", "", "secrets", LOGS, f"team.east.{UID}.1.2"),
    wants("get", "", "secrets", LOGS, f"default.west.{UID}.1.2"),
    wants("delete", "", "secrets", LOGS, f"default.west.{UID}.1.2"),
    wants("get", "", "secrets", LOGS, f"default.east.{EARLIER}.1.2"),
    wants("delete", "", "secrets", LOGS, f"default.east.{EARLIER}.1.2"),
    wants("get", "", "secrets", LOGS, f"default.odd.{UID}.1.2"),
    wants("delete", "", "secrets", LOGS, f"default.odd.{UID}.1.2"),
    wants("update", "", "secrets", LOGS, f"default.east.{UID}.1.2"),
    wants("patch", "", "secrets", LOGS, f"default.east.{UID}.1.2"),
    wants("get", "", "secrets", LOGS, f"default.east.{UID}.1.02"),
    wants("get", "", "secrets", LOGS, "east-log-1-2"),
    wants("get", "", "secrets", "default", f"default.east.{UID}.1.2"),
    wants("list", "", "secrets", LOGS),
    wants("watch", "", "secrets", LOGS),
    wants("deletecollection", "", "secrets", LOGS),
    wants("delete", "", "secrets", "default", "odd-log-1-2"),
    wants("get", "", "secrets", "default", "east-log-1-x"),
    wants("list", "", "secrets"),
    wants("list", "", "secrets", "default"),
    wants("watch", "", "secrets", "kube-system"),
    wants("list", "", "secrets", "default", "east-kubeconfig", "metadata.name=east-kubeconfig"),
    wants("get", "", "secrets", "default", "west-kubeconfig"),
    wants("get", "", "secrets", "team", "east-kubeconfig"),
    wants("get", "", "secrets", "default", "odd-kubeconfig"),
    wants("delete", "", "secrets", "default", "odd-kubeconfig"),
    wants("get", "", "secrets", "default", "east"),
    wants("get", "", "secrets", "default", "-kubeconfig"),
    wants("get", "", "secrets", "kube-system", "bootstrap-token-abcdef"),
    wants("patch", "", "secrets", "default", "west-kubeconfig"),
    wants("delete", "", "secrets", "default", "west-kubeconfig"),
    wants("deletecollection", "", "secrets", "default"),
    wants("create", "", "secrets"),
    # certificates
    wants("get", REQUESTS, "certificatesigningrequests", name="theirs"),
    wants("get", REQUESTS, "certificatesigningrequests", name="new"),
    wants("list", REQUESTS, "certificatesigningrequests"),
    wants("update", REQUESTS, "certificatesigningrequests/approval", name="mine"),
    wants("update", REQUESTS, "certificatesigningrequests/status", name="mine"),
    wants("delete", REQUESTS, "certificatesigningrequests", name="mine"),
    wants("approve", REQUESTS, "signers", name="shoal.dev/worker"),
    wants("sign", REQUESTS, "signers", name="shoal.dev/worker"),
    # everything else
    wants("list", "core.shoal.dev", "logicalclusters"),
    wants("get", "core.shoal.dev", "logicalclusters", name="blue"),
    wants("update", "core.shoal.dev", "logicalclusters", name="root"),
    wants("create", "core.shoal.dev", "logicalclusters"),
    wants("create", "", "namespaces"),
    wants("get", "", "namespaces", name="default"),
    wants("get", "", "configmaps", "default", "x"),
    wants("create", "", "events", "default"),
    wants("create", "", "serviceaccounts/token", "default", "robot"),
    wants("create", RBAC, "clusterrolebindings"),
    wants("escalate", RBAC, "clusterroles", name="cluster-admin"),
    wants("impersonate", "", "users", name="shoal-admin"),
    wants("impersonate", "", "groups", name="system:masters"),
    wants("get", "workload.kcp.dev", "clusters", name="east"),
    wants("update", "apps", "deployments", "default", "web"),
    wants("create", "apiextensions.k8s.io", "customresourcedefinitions"),
    wants("*", "*", "*"),
]


def said(wanted: Attributes) -> str:
    where = f"{wanted.namespace}/{wanted.name}?{wanted.fields}"
    return f"{wanted.verb} {wanted.resource}/{wanted.subresource} {where}"


@pytest.mark.parametrize("wanted", ALLOWED, ids=said)
def test_what_a_worker_lives_on(wanted: Attributes) -> None:
    assert decide("w1", wanted, Held()).allowed


@pytest.mark.parametrize("wanted", REFUSED, ids=said)
def test_what_a_worker_may_not(wanted: Attributes) -> None:
    refused = decide("w1", wanted, Held())
    assert not refused.allowed
    assert refused.reason


@pytest.mark.parametrize("wanted", [each._replace(name=each.name.replace("w1", "out")) for each in ALLOWED], ids=said)
def test_who_was_expelled_may_nothing(wanted: Attributes) -> None:
    assert decide("out", wanted, Held()) == AuthorizationDecision(False, "this worker was expelled")


@pytest.mark.parametrize("wanted", [each._replace(name=each.name.replace("w1", "new")) for each in ALLOWED], ids=said)
def test_who_has_no_worker_may_register_only(wanted: Attributes) -> None:
    registers = (wanted.group, wanted.resource, wanted.subresource) in (
        (FLEET, "workers", ""),
        ("core.shoal.dev", "logicalclusters", ""),
    )
    assert decide("new", wanted, Held()).allowed is registers


def test_the_table_is_long_enough_to_be_worth_something() -> None:
    assert len({said(each) for each in REFUSED}) > 80


@pytest.mark.parametrize("wanted", [*ALLOWED, *REFUSED], ids=said)
def test_a_join_token_is_for_a_certificate_only(wanted: Attributes) -> None:
    asks = wanted.resource == "certificatesigningrequests" and not wanted.subresource
    allowed = asks and (wanted.verb == "create" or (wanted.verb, wanted.name) == ("get", "new"))
    assert decide_join_token("system:bootstrap:abcdef", wanted, Held()).allowed is allowed


OWN = wants("get", FLEET, "workers", SYSTEM, "w1")


@pytest.mark.parametrize(
    "user",
    [
        User("system:worker:w1", ()),
        User("system:worker:w1", ("system:nodes",)),
        User("system:worker:", ("system:workers",)),
        User("w1", ("system:workers",)),
        User("system:worker:w2", ("system:workers",)),
        User("system:bootstrap:abcdef", ("system:bootstrappers:workers",)),
        User("system:worker:w1", ("system:workers",), cluster="blue"),
    ],
)
def test_who_is_no_worker_of_that_name(user: User) -> None:
    authorizer = Authorizer(RoleTable(), WorkerAuthorizer(Held()).authorize)
    assert not authorizer.authorize(user, OWN).allowed


def test_rbac_is_asked_too_and_a_refusal_says_why() -> None:
    table = RoleTable()
    authorizer = Authorizer(table, WorkerAuthorizer(Held()).authorize)
    user = User("system:worker:w1", ("system:workers",))
    assert authorizer.authorize(user, OWN) == AuthorizationDecision(True)
    other = wants("get", FLEET, "workers", SYSTEM, "w2")
    assert authorizer.authorize(user, other) == AuthorizationDecision(False, "a worker may access its own only")
    everything = WorkerAuthorizer(Held()).authorize(User("jane", ()), other)
    assert everything is None, "of others it knows nothing"
    in_another = OWN._replace(cluster="blue")
    assert not authorizer.authorize(user, in_another).allowed
