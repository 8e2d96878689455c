"""Authorization of a worker over the wire: what it needs works, and nothing of other workers can be read or written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.assemble.server.api_server import worker_user
from tests.serving import Cluster, Server

Object = dict[str, Any]

FLEET, LEASES = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1", "/apis/coordination.k8s.io/v1"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SYSTEM, SPACE = "shoal-system", "rights"
LOGS = "/api/v1/namespaces/shoal-logs/secrets"
MANAGED, SECRETS = f"{FLEET}/namespaces/{SPACE}/managedclusters", f"/api/v1/namespaces/{SPACE}/secrets"
WORKERS, THEIR_LEASES = f"{FLEET}/namespaces/{SYSTEM}/workers", f"{LEASES}/namespaces/{SYSTEM}/leases"
MINE = "fieldSelector=status.assignedWorker%3Drights-1"
MERGE = "application/merge-patch+json"
STORE = {"shoal.dev/store": "s"}


def kind(api: str, name: str, value: str, **fields: Any) -> Object:
    return {"apiVersion": api, "kind": name, "metadata": {"name": value}, **fields}


def managed(name: str) -> Object:
    return kind("infrastructure.cluster.x-k8s.io/v1alpha1", "ManagedCluster", name, spec={})


def worker(name: str, **spec: Any) -> Object:
    made = kind("infrastructure.cluster.x-k8s.io/v1alpha1", "Worker", name, spec=spec)
    made["metadata"]["annotations"] = STORE
    return made


class Hub:
    """Its root, with the ManagedClusters mine and theirs, and the worker rights-1 that has the first."""

    def __init__(self, server: Server) -> None:
        self.root = Cluster(server, "root")
        server.shoal.server.core.authenticator.add_static_token("rights-1-token", worker_user("rights-1"))
        for namespace in (SYSTEM, SPACE, "shoal-logs"):
            self.root.post("/api/v1/namespaces", kind("v1", "Namespace", namespace))
        self.uids = {}
        for name, held in (("mine", "rights-1"), ("theirs", "rights-2")):
            self.uids[name] = self.root.post(MANAGED, managed(name)).ok()["metadata"]["uid"]
            self.assign(name, held)
            self.root.post(WORKERS, worker(held)).ok()
            lease = kind("coordination.k8s.io/v1", "Lease", f"worker-{held}", spec={"holderIdentity": "s"})
            self.root.post(THEIR_LEASES, lease).ok()
        self.root.post(SECRETS, self.secret("theirs")).ok()
        self.root.post(SECRETS, kind("v1", "Secret", "password", data={"p": "c2VjcmV0"})).ok()

    def assign(self, name: str, held: str) -> None:
        self.root.patch(f"{MANAGED}/{name}/status", {"status": {"assignedWorker": held, "epoch": 1}}).ok()

    def secret(self, cluster: str) -> Object:
        owner = {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
            "kind": "ManagedCluster",
            "name": cluster,
            "uid": self.uids[cluster],
        }
        made = kind("v1", "Secret", f"{cluster}-kubeconfig", type="cluster.x-k8s.io/secret", data={"value": "eA=="})
        made["metadata"] |= {"ownerReferences": [owner], "labels": {"cluster.x-k8s.io/cluster-name": cluster}}
        return made

    def segment(self, cluster: str, number: int, epoch: int = 1, uid: str = "") -> Object:
        uid = uid or self.uids[cluster]
        name = f"{SPACE}.{cluster}.{uid}.{epoch}.{number}"
        made = kind("v1", "Secret", name, type="shoal.dev/cluster-log", data={"log": "c2VjcmV0"})
        made["metadata"]["labels"] = {"shoal.dev/cluster-log": uid}
        return made

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str]:
        answer = self.root.request(method, path, body, token="rights-1-token", **headers)
        return answer.status, answer.body.decode()

    def all(self) -> str:
        """Everything a worker could hurt."""
        paths = (MANAGED, SECRETS, WORKERS, THEIR_LEASES, REQUESTS, "/api/v1/namespaces")
        return json.dumps([self.root.get(path).ok()["items"] for path in paths])


@pytest.fixture(scope="module")
def hub(still_server: Server) -> Iterator[Hub]:
    made = Hub(still_server)
    yield made
    made.root.close()


CREATED = [
    (WORKERS, worker("rights-3")),
    (WORKERS, worker("rights-2")),
    (f"{FLEET}/namespaces/{SPACE}/workers", worker("rights-1")),
    (THEIR_LEASES, kind("coordination.k8s.io/v1", "Lease", "worker-rights-9")),
    (f"{LEASES}/namespaces/kube-system/leases", kind("coordination.k8s.io/v1", "Lease", "worker-rights-1")),
    (MANAGED, managed("new")),
    (SECRETS, kind("v1", "Secret", "planted", data={})),
    (SECRETS, kind("v1", "Secret", "mine-kubeconfig", data={})),
    (SECRETS, kind("v1", "Secret", "theirs-kubeconfig", data={})),
    ("/api/v1/namespaces/kube-system/secrets", kind("v1", "Secret", "bootstrap-token-aaaaaa", data={})),
    ("/api/v1/namespaces", kind("v1", "Namespace", "planted")),
    (f"/api/v1/namespaces/{SPACE}/configmaps", kind("v1", "ConfigMap", "planted")),
    ("/apis/core.shoal.dev/v1alpha1/logicalclusters", kind("core.shoal.dev/v1alpha1", "LogicalCluster", "planted")),
    (f"/api/v1/namespaces/{SPACE}/serviceaccounts/default/token", {"spec": {}}),
]
READ = [
    f"{FLEET}/managedclusters",
    f"{FLEET}/managedclusters?watch=true",
    MANAGED,
    f"{MANAGED}?watch=true",
    f"{MANAGED}?fieldSelector=status.assignedWorker%3Drights-2",
    f"{MANAGED}?watch=true&fieldSelector=status.assignedWorker%21%3Drights-1",
    f"{MANAGED}?fieldSelector=metadata.name%3Dtheirs",
    f"{MANAGED}?labelSelector=a",
    f"{MANAGED}/theirs",
    f"{MANAGED}/theirs/status",
    f"{MANAGED}/theirs?watch=true",
    f"{MANAGED}/none",
    f"{MANAGED}/mine/scale",
    WORKERS,
    f"{WORKERS}/rights-2",
    f"{WORKERS}?fieldSelector=metadata.name%3Drights-2",
    f"{WORKERS}/rights-1/status",
    THEIR_LEASES,
    f"{THEIR_LEASES}/worker-rights-2",
    "/api/v1/secrets",
    f"/api/v1/secrets?{MINE}",
    SECRETS,
    f"{SECRETS}?watch=true",
    f"{SECRETS}/password",
    f"{SECRETS}/theirs-kubeconfig",
    f"{SECRETS}?fieldSelector=metadata.name%3Dtheirs-kubeconfig",
    "/api/v1/namespaces/kube-system/secrets",
    REQUESTS,
    f"{REQUESTS}/none",
    "/api/v1/namespaces",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/core.shoal.dev/v1alpha1/logicalclusters",
    "/apis/core.shoal.dev/v1alpha1/logicalclusters/other",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
]
CHANGED: list[tuple[str, Object]] = [
    (f"{WORKERS}/rights-2", {"spec": {"capacity": 0}}),
    (f"{WORKERS}/rights-1", {"metadata": {"labels": {"gold": "yes"}}}),
    (f"{WORKERS}/rights-1", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
    (f"{WORKERS}/rights-1", {"metadata": {"annotations": {"shoal.dev/store": "other"}}}),
    (f"{WORKERS}/rights-1/status", {"status": {"availableCapacity": 1000}}),
    (f"{WORKERS}/rights-2/status", {"status": {"phase": "Lost"}}),
    (f"{THEIR_LEASES}/worker-rights-2", {"spec": {"holderIdentity": "rights-1"}}),
    (f"{MANAGED}/theirs/status", {"status": {"phase": "Failed"}}),
    (f"{MANAGED}/theirs/status", {"status": {"assignedWorker": "rights-1"}}),
    (f"{MANAGED}/theirs", {"metadata": {"finalizers": []}}),
    (f"{MANAGED}/none/status", {"status": {"phase": "Running"}}),
    (f"{MANAGED}/mine/status", {"status": {"assignedWorker": "rights-2"}}),
    (f"{MANAGED}/mine/status", {"status": {"epoch": 9}}),
    (f"{MANAGED}/mine/status", {"status": {"endpoint": {"host": "x", "port": 20000}}}),
    (f"{MANAGED}/mine", {"spec": {"nodes": 9}}),
    (f"{MANAGED}/mine", {"metadata": {"finalizers": []}}),
    (f"{MANAGED}/mine", {"metadata": {"labels": {"workloads.kcp.dev/cluster": "x"}}}),
    (f"{SECRETS}/theirs-kubeconfig", {"data": {"value": "eQ=="}}),
    (f"{SECRETS}/password", {"data": None}),
]
DELETED = [
    f"{WORKERS}/rights-1",
    f"{WORKERS}/rights-2",
    WORKERS,
    f"{THEIR_LEASES}/worker-rights-2",
    f"{MANAGED}/mine",
    f"{MANAGED}/theirs",
    f"{MANAGED}?{MINE}",
    f"{SECRETS}/theirs-kubeconfig",
    f"{SECRETS}/password",
    SECRETS,
    f"/api/v1/namespaces/{SPACE}",
]


def test_nothing_of_anothers_is_shown_changed_or_hurt(hub: Hub) -> None:
    before = hub.all()
    attempts = [
        *(("POST", path, body, {}) for path, body in CREATED),
        *(("GET", path, None, {}) for path in READ),
        *(("PATCH", path, body, {"Content_Type": MERGE}) for path, body in CHANGED),
        *(("DELETE", path, None, {}) for path in DELETED),
    ]
    assert len(attempts) > 60
    wrong = []
    for method, path, body, headers in attempts:
        status, said = hub.ask(method, path, body, **headers)
        if status != 403 or "c2VjcmV0" in said:
            wrong.append((method, path, status, said[:200]))
    assert wrong == []
    assert hub.all() == before


def test_logs_of_others_are_out_of_reach(hub: Hub) -> None:
    earlier = "11111111-1111-1111-1111-111111111111"
    theirs, of_before = hub.segment("theirs", 1), hub.segment("mine", 1, uid=earlier)
    password = kind("v1", "Secret", f"{SPACE}.mine.{hub.uids['mine']}.1.7", data={"p": "c2VjcmV0"})
    stored = [hub.root.post(LOGS, each).ok() for each in (theirs, of_before, password)]
    for each in stored:
        path = f"{LOGS}/{each['metadata']['name']}"
        for method, body in (("GET", None), ("DELETE", None), ("PATCH", {"data": {"log": ""}})):
            status, said = hub.ask(method, path, body, **({"Content_Type": MERGE} if body else {}))
            assert (status, "c2VjcmV0" in said) == (403, False)
    for segment in (hub.segment("theirs", 2), hub.segment("mine", 2, epoch=2), hub.segment("mine", 2, uid=earlier)):
        assert hub.ask("POST", LOGS, segment)[0] == 403
    assert hub.ask("POST", SECRETS, hub.segment("mine", 2))[0] == 403, "in another namespace"
    for query in ("", "?watch=true", f"?labelSelector=shoal.dev%2Fcluster-log%3D{hub.uids['theirs']}"):
        assert hub.ask("GET", f"{LOGS}{query}")[0] == 403
    assert hub.ask("DELETE", LOGS)[0] == 403
    assert [hub.root.get(f"{LOGS}/{each['metadata']['name']}").ok() for each in stored] == stored


def test_other_clusters_and_other_people_are_out_of_reach(hub: Hub) -> None:
    answer = hub.root.server.connect()
    try:
        for path in ("/clusters/*/api/v1/secrets", "/clusters/other/api/v1/secrets"):
            answer.request("GET", path, headers={"Authorization": "Bearer rights-1-token"})
            got = answer.getresponse()
            got.read()
            assert got.status in (401, 403)
    finally:
        answer.close()
    for who in ({"Impersonate_User": "shoal-admin"}, {"Impersonate_User": "a", "Impersonate_Group": "system:masters"}):
        assert hub.ask("GET", SECRETS, **who)[0] == 403


def test_a_refusal_says_why(hub: Hub) -> None:
    _, said = hub.ask("GET", f"{FLEET}/managedclusters")
    assert json.loads(said)["message"] == (
        'managedclusters.infrastructure.cluster.x-k8s.io is forbidden: User "system:worker:rights-1" cannot list '
        'resource "managedclusters" in API group "infrastructure.cluster.x-k8s.io" at the cluster scope: '
        "a worker may list only with the field selector status.assignedWorker=rights-1"
    )
    _, said = hub.ask("PATCH", f"{MANAGED}/mine/status", {"status": {"epoch": 9}}, Content_Type=MERGE)
    assert json.loads(said)["message"] == (
        'managedclusters.infrastructure.cluster.x-k8s.io "mine" is forbidden: a worker may not change status.epoch'
    )


def test_a_request_for_another_signer(hub: Hub) -> None:
    spec = {"signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"], "request": "eA=="}
    body = kind("certificates.k8s.io/v1", "CertificateSigningRequest", "sly", spec=spec)
    status, said = hub.ask("POST", REQUESTS, body)
    assert status == 403
    assert "system:worker:rights-1 may request certificates only from signer shoal.dev/worker" in said


def test_what_it_lives_on(hub: Hub) -> None:
    def ok(method: str, path: str, body: object = None, **headers: str) -> Object:
        status, said = hub.ask(method, path, body, **headers)
        assert status < 300, said
        found: Object = json.loads(said)
        return found

    assert [each["metadata"]["name"] for each in ok("GET", f"{FLEET}/managedclusters?{MINE}")["items"]] == ["mine"]
    ok("GET", "/apis/core.shoal.dev/v1alpha1/logicalclusters/root")
    ok("PATCH", f"{WORKERS}/rights-1", {"spec": {"capacity": 7}}, Content_Type=MERGE)
    ok("PATCH", f"{THEIR_LEASES}/worker-rights-1", {"spec": {"holderIdentity": "me"}}, Content_Type=MERGE)
    found = ok("GET", f"{MANAGED}/mine")
    ok("PUT", f"{MANAGED}/mine/status", {**found, "status": {**found["status"], "phase": "Running"}})
    ok("POST", SECRETS, hub.secret("mine"))
    ok("PATCH", f"{SECRETS}/mine-kubeconfig", {"data": {"value": "eQ=="}}, Content_Type=MERGE)
    ok("DELETE", f"{SECRETS}/mine-kubeconfig")
    segment = hub.segment("mine", 1)
    ok("POST", LOGS, segment)
    assert ok("GET", f"{LOGS}/{segment['metadata']['name']}")["data"] == segment["data"]
    ok("DELETE", f"{LOGS}/{segment['metadata']['name']}")


def test_a_watch_brings_its_own_only_and_ends_with_the_assignment(hub: Hub) -> None:
    hub.root.post(MANAGED, managed("moving")).ok()
    hub.assign("moving", "rights-2")
    start = hub.root.get(MANAGED).ok()["metadata"]["resourceVersion"]
    path = f"{FLEET}/managedclusters?{MINE}&resourceVersion={start}"
    with hub.root.watch(path, Authorization="Bearer rights-1-token") as watch:
        assert watch.answer.status == 200
        hub.root.patch(f"{MANAGED}/theirs/status", {"status": {"phase": "Running"}}).ok()
        hub.assign("moving", "rights-1")
        event = watch.next()
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "moving")
        patch = {"status": {"phase": "Running"}}
        assert hub.ask("PATCH", f"{MANAGED}/moving/status", patch, Content_Type=MERGE)[0] == 200
        assert watch.next()["object"]["status"]["phase"] == "Running"
        hub.assign("moving", "rights-2")
        event = watch.next()
        assert (event["type"], event["object"]["status"]["assignedWorker"]) == ("DELETED", "rights-1")
    late = {"status": {"phase": "Failed"}}
    assert hub.ask("PATCH", f"{MANAGED}/moving/status", late, Content_Type=MERGE)[0] == 403
    assert hub.root.get(f"{MANAGED}/moving").ok()["status"]["phase"] == "Running"


def test_a_kubeconfig_of_an_earlier_cluster_is_not_given_to_the_new_one(hub: Hub) -> None:
    stale = hub.secret("mine")
    stale["metadata"]["ownerReferences"][0]["uid"] = "before"
    status, said = hub.ask("POST", SECRETS, stale)
    assert status == 403
    assert "it is not the kubeconfig of the current ManagedCluster" in said


def test_it_lets_go_of_what_is_being_deleted(hub: Hub) -> None:
    hub.root.post(MANAGED, managed("going")).ok()
    hub.assign("going", "rights-1")
    hub.root.patch(f"{MANAGED}/going", {"metadata": {"finalizers": [FINALIZER]}}).ok()
    hub.root.delete(f"{MANAGED}/going").ok()
    patch: Object = {"metadata": {"finalizers": []}}
    assert hub.ask("PATCH", f"{MANAGED}/going", patch, Content_Type=MERGE)[0] == 200
    assert hub.root.get(f"{MANAGED}/going").status == 404


def test_who_is_expelled_has_no_rights_until_people_change_their_mind(hub: Hub) -> None:
    away = {"metadata": {"annotations": {"shoal.dev/expelled": "stolen"}}}
    hub.root.patch(f"{WORKERS}/rights-1", away).ok()
    back = {"metadata": {"annotations": {"shoal.dev/expelled": None}}}
    for path, patch in ((f"{WORKERS}/rights-1", back), (f"{MANAGED}/mine/status", {"status": {"phase": "Failed"}})):
        status, said = hub.ask("PATCH", path, patch, Content_Type=MERGE)
        assert (status, "this worker was expelled" in said) == (403, True)
    assert hub.ask("GET", f"{FLEET}/managedclusters?{MINE}")[0] == 403
    hub.root.patch(f"{WORKERS}/rights-1", back).ok()
    assert hub.ask("GET", f"{FLEET}/managedclusters?{MINE}")[0] == 200


FINALIZER = "infrastructure.cluster.x-k8s.io/managedcluster"
