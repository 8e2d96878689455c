"""Kinds outside the core group: immutability, scale, subresources, columns, bootstrap objects."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.apiserver.pki.sign import new_ca
from tests.apiserver.kind_samples import LABELS, ONCE, SELECTED, TARGET, signing_request, webhook
from tests.serving import Cluster, Server, fresh_cluster

Object = dict[str, Any]
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
AUTOSCALERS = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture
def whole(still_server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(still_server, profile="cluster")
    yield cluster
    cluster.close()


def named(name: str, **fields: object) -> Object:
    return {"metadata": {"name": name}, **fields}


def cells(whole: Cluster, path: str, wide: bool = False) -> dict[str, object]:
    table = whole.get(path, Accept=TABLE).ok()
    columns = [c["name"] for c in table["columnDefinitions"] if wide or c["priority"] == 0]
    shown = [cell for c, cell in zip(table["columnDefinitions"], table["rows"][0]["cells"], strict=True)
             if wide or c["priority"] == 0]  # fmt: skip
    return dict(zip(columns, shown, strict=True))


def test_a_deployment_is_scaled(whole: Cluster) -> None:
    whole.post(DEPLOYMENTS, named("web", spec=SELECTED)).ok()
    found = whole.get(f"{DEPLOYMENTS}/web/scale").ok()
    assert (found["kind"], found["spec"]) == ("Scale", {"replicas": 1})
    assert found["status"] == {"replicas": 0, "selector": "app=web"}
    whole.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 3}}).ok()
    scaled = whole.get(f"{DEPLOYMENTS}/web").ok()
    assert (scaled["spec"]["replicas"], scaled["metadata"]["generation"]) == (3, 2)
    strategic = whole.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 4}}, "strategic-merge").ok()
    assert strategic["spec"] == {"replicas": 4}
    answer = whole.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": -1}})
    said = 'Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
    assert (answer.status, answer["message"]) == (422, said)
    (listed,) = [r for r in whole.get("/apis/apps/v1").ok()["resources"] if r["name"] == "deployments/scale"]
    assert (listed["group"], listed["kind"]) == ("autoscaling", "Scale")
    assert whole.get("/apis/apps/v1/namespaces/default/daemonsets/web/scale").status == 404


def test_generations_of_a_deployment(whole: Cluster) -> None:
    made = whole.post(DEPLOYMENTS, named("web", spec=SELECTED, status={"replicas": 9})).ok()
    assert (made["metadata"]["generation"], made["status"]) == (1, {})
    path = f"{DEPLOYMENTS}/web"
    steps: list[tuple[str, Object, int]] = [
        ("", {"metadata": {"labels": {"a": "b"}}}, 1),
        ("", {"metadata": {"annotations": {"a": "b"}}}, 2),
        ("", {"spec": {"replicas": 2}}, 3),
        ("/status", {"status": {"replicas": 2}}, 3),
    ]
    for sub, patch, generation in steps:
        assert whole.patch(path + sub, patch).ok()["metadata"]["generation"] == generation
    assert whole.get(path).ok()["status"] == {"replicas": 2}


def test_a_selector_is_immutable(whole: Cluster) -> None:
    whole.post(DEPLOYMENTS, named("web", spec=SELECTED)).ok()
    more = {**LABELS, "x": "y"}
    answer = whole.patch(
        f"{DEPLOYMENTS}/web", {"spec": {"selector": {"matchLabels": more}, "template": {"metadata": {"labels": more}}}}
    )
    shown = '{"matchLabels":{"app":"web","x":"y"}}'
    said = f'Deployment.apps "web" is invalid: spec.selector: Invalid value: {shown}: field is immutable'
    assert (answer.status, answer["message"]) == (422, said)


def test_columns_of_workloads(whole: Cluster) -> None:
    whole.post(DEPLOYMENTS, named("web", spec=SELECTED)).ok()
    whole.patch(f"{DEPLOYMENTS}/web/status", {"status": {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1}}).ok()
    found = cells(whole, f"{DEPLOYMENTS}/web", wide=True)
    assert [*found][:5] == ["Name", "Ready", "Up-to-date", "Available", "Age"]
    assert (found["Ready"], found["Up-to-date"], found["Available"]) == ("1/1", 1, 0)
    assert (found["Containers"], found["Images"], found["Selector"]) == ("main", "nginx", "app=web")
    whole.post(JOBS, named("j", spec={"template": ONCE})).ok()
    found = cells(whole, f"{JOBS}/j")
    assert (found["Status"], found["Completions"], found["Duration"]) == ("Running", "0/1", "")
    start = {"startTime": "2024-01-01T00:00:00Z", "completionTime": "2024-01-01T00:01:30Z", "succeeded": 1}
    conditions = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
    whole.patch(f"{JOBS}/j/status", {"status": {**start, "conditions": conditions}}).ok()
    found = cells(whole, f"{JOBS}/j")
    assert (found["Status"], found["Completions"], found["Duration"]) == ("Complete", "1/1", "90s")


def test_jobs_are_selected_by_success(whole: Cluster) -> None:
    for name in ("a", "b"):
        whole.post(JOBS, named(name, spec={"template": ONCE})).ok()
    whole.patch(f"{JOBS}/a/status", {"status": {"succeeded": 1}}).ok()
    for count, names in ((0, ["b"]), (1, ["a"])):
        found = whole.get(f"{JOBS}?fieldSelector=status.successful={count}").ok()["items"]
        assert [item["metadata"]["name"] for item in found] == names


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_an_autoscaler_is_refused_by_name(whole: Cluster, version: str) -> None:
    path = AUTOSCALERS.format(version)
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 3}
    sent = {"apiVersion": f"autoscaling/{version}", "kind": "HorizontalPodAutoscaler", **named("h", spec=spec)}
    said = (
        "HorizontalPodAutoscalers are not supported: pods on simulated nodes have no metrics to scale by; "
        "set the number of replicas (kubectl scale)"
    )
    applied = whole.patch(f"{path}/h?fieldManager=m", sent, "apply")
    for answer in (whole.post(path, sent), applied, whole.post(f"{path}?dryRun=All", sent)):
        assert (answer.status, answer["reason"], answer["message"]) == (501, "NotImplemented", said)
    assert whole.get(path).ok()["items"] == [], "as kubectl get all asks for them"


def test_who_asks_for_a_certificate(whole: Cluster) -> None:
    spec = {"request": signing_request(), "signerName": "example.com/s", "usages": ["client auth"]}
    made = whole.post(REQUESTS, named("r", spec={**spec, "username": "root", "groups": ["system:masters"]})).ok()
    assert made["spec"]["username"] == "shoal-admin"
    assert made["status"] == {}
    kept = whole.patch(f"{REQUESTS}/r", {"spec": {"signerName": "example.com/other"}}).ok()
    assert kept["spec"] == made["spec"]
    assert len(whole.get(f"{REQUESTS}?fieldSelector=spec.signerName=example.com/s").ok()["items"]) == 1
    assert whole.get(f"{REQUESTS}?fieldSelector=spec.signerName=example.com/x").ok()["items"] == []


def test_a_certificate_is_approved_and_issued(whole: Cluster) -> None:
    spec = {"request": signing_request(), "signerName": "example.com/s", "usages": ["client auth"]}
    made = whole.post(REQUESTS, named("r", spec=spec)).ok()
    approved = {"conditions": [{"type": "Approved", "status": "True"}], "certificate": "eA=="}
    answer = whole.put(f"{REQUESTS}/r/status", made | {"status": approved})
    assert 'status.conditions: Forbidden: updates may not add a condition of type "Approved"' in answer["message"]
    new = whole.put(f"{REQUESTS}/r/approval", made | {"status": approved, "spec": {}}).ok()
    assert new["spec"] == made["spec"]
    assert [*new["status"]] == ["conditions"]
    assert new["status"]["conditions"][0].keys() >= {"lastUpdateTime", "lastTransitionTime"}
    assert whole.get(f"{REQUESTS}/r/approval").ok() == new
    both = [*new["status"]["conditions"], {"type": "Denied", "status": "True"}]
    answer = whole.put(f"{REQUESTS}/r/approval", new | {"status": {"conditions": both}})
    assert "Approved and Denied conditions are mutually exclusive" in answer["message"]
    answer = whole.put(f"{REQUESTS}/r/approval", new | {"status": {"conditions": []}})
    assert 'status.conditions: Forbidden: updates may not remove a condition of type "Approved"' in answer["message"]
    answer = whole.put(f"{REQUESTS}/r/status", new | {"status": {**new["status"], "certificate": "eA=="}})
    said = 'status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block'
    assert said in answer["message"]
    one, other = (b64encode(new_ca(0.0, end)[0]).decode() for end in (1e9, 2e9))
    issued = whole.put(f"{REQUESTS}/r/status", new | {"status": {**new["status"], "certificate": one}}).ok()
    assert "f:spec" not in str(issued["metadata"].get("managedFields"))
    assert cells(whole, f"{REQUESTS}/r")["Condition"] == "Approved,Issued"
    answer = whole.put(f"{REQUESTS}/r/status", issued | {"status": {**issued["status"], "certificate": other}})
    assert "status.certificate: Forbidden: updates may not modify existing certificate content" in answer["message"]


def test_approving_needs_the_signer(whole: Cluster) -> None:
    spec = {"request": signing_request(), "signerName": "example.com/s", "usages": ["client auth"]}
    made = whole.post(REQUESTS, named("r", spec=spec)).ok()
    group, rbac = "certificates.k8s.io", "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": [group], "resources": ["certificatesigningrequests/approval"], "verbs": ["update"]}]
    whole.post(f"{rbac}/clusterroles", named("approver", rules=rules)).ok()
    whole.post(ACCOUNTS, named("a")).ok()
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "approver"}
    subject = {"kind": "ServiceAccount", "name": "a", "namespace": "default"}
    whole.post(f"{rbac}/clusterrolebindings", named("approver", roleRef=reference, subjects=[subject])).ok()
    token = whole.post(f"{ACCOUNTS}/a/token", {"spec": {}}).ok()["status"]["token"]
    body = made | {"status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    answer = whole.request("PUT", f"{REQUESTS}/r/approval", body, token=token)
    assert answer.status == 403
    assert 'user not permitted to approve requests with signerName "example.com/s"' in answer["message"]
    rules.append(
        {"apiGroups": [group], "resources": ["signers"], "resourceNames": ["example.com/*"], "verbs": ["approve"]}
    )
    whole.patch(f"{rbac}/clusterroles/approver", {"rules": rules}).ok()
    whole.request("PUT", f"{REQUESTS}/r/approval", body, token=token).ok()


def test_no_rules_are_somebodys(whole: Cluster) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    made = whole.post(f"{roles}?fieldManager=one", named("r", rules=[])).ok()
    assert (made["rules"], made["metadata"]["managedFields"][0]["fieldsV1"]) == (None, {"f:rules": {}})
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", **named("r", rules=[])}
    answer = whole.patch(f"{roles}/r?fieldManager=two", role, "apply")
    said = 'Apply failed with 1 conflict: conflict with "one" using rbac.authorization.k8s.io/v1: .rules'
    assert (answer.status, answer["message"]) == (409, said)


def test_requests_that_are_none(whole: Cluster) -> None:
    spec = {"signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}
    answer = whole.post(REQUESTS, named("r", spec={**spec, "request": "YWJj"}))
    said = 'spec.request: Invalid value: "YWJj": PEM block type must be CERTIFICATE REQUEST'
    both = whole.post(REQUESTS, named("r", spec={"signerName": "example.com/s", "request": "YWJj"}))
    assert f"[{said}, spec.usages: Required value]" in both["message"]
    assert (answer.status, said in answer["message"]) == (422, True)
    answer = whole.post(REQUESTS, named("r", spec={**spec, "request": signing_request("system:masters")}))
    said = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    assert (answer.status, said in answer["message"]) == (403, True)


def test_hooks_have_defaults_and_nobody_is_warned_of_them(whole: Cluster) -> None:
    answer = whole.post(f"{REGISTRATION}/validatingwebhookconfigurations", named("h", webhooks=[webhook()]))
    assert (answer.status, "warning" in answer.headers) == (201, False)
    hook = answer["webhooks"][0]
    assert (hook["failurePolicy"], hook["timeoutSeconds"], hook["rules"][0]["scope"]) == ("Fail", 10, "*")
    binding = {"policyName": "p", "validationActions": ["Deny"]}
    answer = whole.post(f"{REGISTRATION}/validatingadmissionpolicybindings", named("b", spec=binding))
    assert (answer.status, "warning" in answer.headers) == (201, False)


def test_priorities(whole: Cluster) -> None:
    found = {item["metadata"]["name"]: item["value"] for item in whole.get(CLASSES).ok()["items"]}
    assert found == {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
    answer = whole.post(CLASSES, named("high", value=1_000_000_001))
    assert "value: Forbidden: maximum allowed value of a user defined priority is 1000000000" in answer["message"]
    whole.post(CLASSES, named("a", value=1, globalDefault=True)).ok()
    answer = whole.post(CLASSES, named("b", value=2, globalDefault=True))
    said = "PriorityClass a is already marked as default. Only one default can exist"
    assert (answer.status, said in answer["message"]) == (403, True)
    answer = whole.patch(f"{CLASSES}/a", {"value": 5})
    assert "value: Forbidden: may not be changed in an update." in answer["message"]
    whole.patch(f"{CLASSES}/a", {"description": "mine"}).ok()


def test_flows_every_cluster_has(whole: Cluster) -> None:
    levels, schemas = (
        {item["metadata"]["name"] for item in whole.get(f"{FLOWS}/{plural}").ok()["items"]}
        for plural in ("prioritylevelconfigurations", "flowschemas")
    )
    assert levels == {
        "catch-all", "exempt", "global-default", "leader-election", "node-high", "system", "workload-high",
        "workload-low",
    }  # fmt: skip
    assert len(schemas) == 11
    answer = whole.patch(
        f"{FLOWS}/prioritylevelconfigurations/catch-all", {"spec": {"limited": {"lendablePercent": 5}}}
    )
    assert "spec of 'catch-all' must equal the fixed value" in answer["message"]
    spec = {"exempt": {"nominalConcurrencyShares": 7}}
    whole.patch(f"{FLOWS}/prioritylevelconfigurations/exempt", {"spec": spec}).ok()


def test_the_default_class_is_marked(whole: Cluster) -> None:
    collection = "/apis/storage.k8s.io/v1/storageclasses"
    made = named("fast", provisioner="csi.example.com")
    made["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    whole.post(collection, made).ok()
    assert cells(whole, f"{collection}/fast")["Name"] == "fast (default)"
    answer = whole.patch(f"{collection}/fast", {"provisioner": "other.example.com"})
    assert 'provisioner: Invalid value: "other.example.com": field is immutable' in answer["message"]
    assert whole.delete(f"{collection}/fast").ok()["kind"] == "StorageClass"


def test_jobs_keep_their_pods_unless_told_otherwise(whole: Cluster) -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    for name in ("a", "b"):
        whole.post(jobs, named(name, spec={"suspend": True, "template": template})).ok()
    answer = whole.delete(f"{jobs}/a")
    assert answer.ok()["metadata"]["finalizers"] == ["orphan"]
    assert answer.headers["warning"] == (
        '299 - "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove '
        'them or set propagationPolicy=Orphan to suppress this warning"'
    )
    answer = whole.delete(f"{jobs}/b", {"propagationPolicy": "Background"})
    assert "warning" not in answer.headers
    assert whole.get(f"{jobs}/b").status == 404


def test_a_cron_job_names_a_zone_that_exists(whole: Cluster) -> None:
    crons = "/apis/batch/v1/namespaces/default/cronjobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    spec = {"schedule": "0 3 1 1 *", "jobTemplate": {"spec": {"template": template}}}
    assert whole.post(crons, named("there", spec={**spec, "timeZone": "Europe/London"})).status == 201
    answer = whole.post(crons, named("nowhere", spec={**spec, "timeZone": "bad-time-zone"}))
    assert answer.status == 422
    said = 'spec.timeZone: Invalid value: "bad-time-zone": unknown time zone bad-time-zone'
    assert answer["message"] == f'CronJob.batch "nowhere" is invalid: {said}'


def test_the_labels_of_a_slice_count(whole: Cluster) -> None:
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    whole.post(path, named("web", addressType="IPv4", endpoints=[])).ok()
    labelled = whole.patch(f"{path}/web", {"metadata": {"labels": {"a": "1"}}}).ok()
    noted = whole.patch(f"{path}/web", {"metadata": {"annotations": {"a": "1"}}}).ok()
    both = whole.patch(f"{path}/web", {"metadata": {"labels": {"a": "2"}}, "ports": [{"port": 80}]}).ok()
    assert [each["metadata"]["generation"] for each in (labelled, noted, both)] == [2, 2, 3]


@pytest.mark.parametrize("plural", ["flowschemas", "prioritylevelconfigurations"])
def test_labels_of_flows_do_not_change_by_their_status(whole: Cluster, plural: str) -> None:
    spec: Object = {"priorityLevelConfiguration": {"name": "exempt"}}
    if plural != "flowschemas":
        spec = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    whole.post(f"{FLOWS}/{plural}", named("mine", spec=spec)).ok()
    told = whole.patch(f"{FLOWS}/{plural}/mine/status", {"metadata": {"labels": {"a": "1"}}}).ok()
    assert "labels" not in told["metadata"]


def test_who_warns_of_an_old_kind(whole: Cluster) -> None:
    """Whoever looks for one is told, not who asks for what is not done with any kind."""
    path = "/api/v1/namespaces/default/endpoints"
    said = '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'
    gone = whole.get(f"{path}/none")
    assert (gone.status, gone.headers["warning"]) == (404, said)
    for answer in (whole.post(f"{path}/none", named("none")), whole.patch(f"{path}/none", {}, "unknown")):
        assert answer.status in (405, 415)
        assert "warning" not in answer.headers
