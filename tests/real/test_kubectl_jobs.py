"""Jobs and CronJobs with kubectl, in a cluster with a simulated node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.jobs.crash_harness import cluster_with_node
from tests.real.programs import Kubectl
from tests.serving import Cluster, Server


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = cluster_with_node(server)
    yield cluster
    cluster.close()


def test_a_job_from_the_command_line(kubectl: Kubectl, cluster: Cluster) -> None:
    kubectl("create", "job", "sum", "--image=work:1", "--", "sh", "-c", "true")
    assert "condition met" in kubectl("wait", "job/sum", "--for=condition=complete", "--timeout=30s")
    row = kubectl.rows("get", "job", "sum", "--no-headers")[0]
    assert "1/1" in row
    described = kubectl("describe", "job", "sum")
    assert "Pods Statuses:" in described
    assert "0 Active (0 Ready) / 1 Succeeded / 0 Failed" in described
    cluster.eventually(lambda: "Job completed" in kubectl("describe", "job", "sum"))
    names = kubectl("get", "pods", "-l", "job-name=sum", "-o", "name").split()
    assert len(names) == 1
    kubectl("delete", "job", "sum", "--timeout=30s")
    cluster.eventually(lambda: not kubectl("get", "pods", "-o", "name"))


def test_a_job_from_a_cron_job(kubectl: Kubectl, cluster: Cluster) -> None:
    kubectl("create", "cronjob", "nightly", "--image=work:1", "--schedule=0 3 29 2 *", "--", "true")
    kubectl("create", "job", "now", "--from=cronjob/nightly")
    kubectl("wait", "job/now", "--for=condition=complete", "--timeout=30s")
    owner = kubectl("get", "job", "now", "-o", "jsonpath={.metadata.ownerReferences[0].kind}")
    assert owner == "CronJob"
    row = kubectl.rows("get", "cronjob", "nightly", "--no-headers")[0]
    assert row[0] == "nightly"
    if kubectl.minor >= 28:  # before, the reference did not make it the CronJob's own
        said = "jsonpath={.status.lastSuccessfulTime}"
        cluster.eventually(lambda: kubectl("get", "cronjob", "nightly", "-o", said))
    kubectl("delete", "cronjob", "nightly", "--timeout=30s")
    cluster.eventually(lambda: not kubectl("get", "jobs,pods", "-o", "name"))


def test_a_job_that_fails_is_waited_for(kubectl: Kubectl, cluster: Cluster) -> None:
    template = {
        "metadata": {"annotations": {"shoal.dev/simulate": "fail"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "work:1"}]},
    }
    spec = {"backoffLimit": 0, "template": template}
    given = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "bad"}, "spec": spec}
    kubectl("apply", "-f", "-", given=given)
    kubectl("wait", "job/bad", "--for=condition=failed", "--timeout=30s")
    reason = 'jsonpath={.status.conditions[?(@.type=="Failed")].reason}'
    assert kubectl("get", "job", "bad", "-o", reason) == "BackoffLimitExceeded"


def test_suspend_and_resume(kubectl: Kubectl, cluster: Cluster) -> None:
    kubectl("create", "cronjob", "c", "--image=work:1", "--schedule=* * * * *")
    kubectl("patch", "cronjob", "c", "-p", '{"spec":{"suspend":true}}')
    assert kubectl.rows("get", "cronjob", "c", "--no-headers")[0][-4:-2] == ["True", "0"]
    spec = {"suspend": True, "template": kubectl.json("get", "cronjob", "c")["spec"]["jobTemplate"]["spec"]["template"]}
    spec["template"]["spec"]["restartPolicy"] = "Never"
    given = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "later"}, "spec": spec}
    kubectl("create", "-f", "-", given=given)
    kubectl("wait", "job/later", "--for=condition=Suspended", "--timeout=30s")
    kubectl("patch", "job", "later", "-p", '{"spec":{"suspend":false}}')
    kubectl("wait", "job/later", "--for=condition=complete", "--timeout=30s")
