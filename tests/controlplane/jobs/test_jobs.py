"""Tests of Jobs in a running server, with and without a simulated node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shoal.kinds.batch.job import COMPLETION_INDEX_ANNOTATION, TRACKING_FINALIZER
from tests.controlplane.jobs.crash_harness import JOBS, PODS, cluster_with_node, job
from tests.controlplane.workloads import Object, condition, pods, status_of
from tests.serving import Cluster, Server, fresh_cluster

JOB = f"{JOBS}/j"
LIMIT_REACHED = "Job has reached the specified backoff limit"


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = cluster_with_node(server)
    yield cluster
    cluster.close()


@pytest.fixture
def still(server: Server) -> Iterator[Cluster]:
    """Without nodes: tests say what becomes of pods."""
    cluster = fresh_cluster(server, profile="cluster")
    yield cluster
    cluster.close()


def wait_for_condition(cluster: Cluster, kind: str = "Complete") -> Object:
    cluster.eventually(lambda: condition(cluster.get(JOB).ok(), kind).get("status") == "True")
    return status_of(cluster, JOB)


def active(cluster: Cluster, count: int) -> list[Object]:
    cluster.eventually(lambda: status_of(cluster, JOB).get("active", 0) == count)
    return [pod for pod in pods(cluster) if pod["status"]["phase"] in ("Pending", "Running")]


def end(cluster: Cluster, pod: Object, phase: str = "Failed", code: int = 1) -> None:
    terminated = {"exitCode": code, "finishedAt": "2023-11-14T22:13:20Z"}
    container = {"name": "c", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": phase, "containerStatuses": [{**container, "state": {"terminated": terminated}}]}
    cluster.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": status}).ok()


def free(cluster: Cluster) -> bool:
    return all(TRACKING_FINALIZER not in pod["metadata"].get("finalizers", ()) for pod in pods(cluster))


def test_a_job_runs_to_its_completions(cluster: Cluster) -> None:
    made = cluster.post(JOBS, job(parallelism=3, completions=7)).ok()
    status = wait_for_condition(cluster)
    times = {field: status.pop(field) for field in ("startTime", "completionTime", "conditions")}
    assert status == {"succeeded": 7, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    assert [one["type"] for one in times["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    found = pods(cluster)
    assert len(found) == 7
    assert free(cluster)
    (owner,) = found[0]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", made["metadata"]["uid"], True)
    assert found[0]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"


def test_an_indexed_job(cluster: Cluster) -> None:
    cluster.post(JOBS, job(parallelism=2, completions=5, completionMode="Indexed")).ok()
    status = wait_for_condition(cluster)
    assert (status["completedIndexes"], status["succeeded"]) == ("0-4", 5)
    found = sorted(pods(cluster), key=lambda pod: pod["metadata"]["labels"][COMPLETION_INDEX_ANNOTATION])
    assert [pod["metadata"]["annotations"][COMPLETION_INDEX_ANNOTATION] for pod in found] == ["0", "1", "2", "3", "4"]
    assert [pod["spec"]["hostname"] for pod in found] == [f"j-{index}" for index in range(5)]
    assert found[3]["metadata"]["name"].startswith("j-3-")
    variable = found[3]["spec"]["containers"][0]["env"][0]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{COMPLETION_INDEX_ANNOTATION}']"


def test_a_job_that_fails(cluster: Cluster) -> None:
    cluster.post(JOBS, job(simulate="fail", backoffLimit=0)).ok()
    status = wait_for_condition(cluster, "Failed")
    assert status["failed"] == 1
    assert "completionTime" not in status
    said = condition(cluster.get(JOB).ok(), "Failed")
    assert (said["reason"], said["message"]) == ("BackoffLimitExceeded", LIMIT_REACHED)
    assert condition(cluster.get(JOB).ok(), "FailureTarget")["reason"] == "BackoffLimitExceeded"
    assert free(cluster)


def test_a_job_that_takes_too_long(cluster: Cluster) -> None:
    cluster.post(JOBS, job(run_for="1h", parallelism=2, completions=2, activeDeadlineSeconds=1)).ok()
    status = wait_for_condition(cluster, "Failed")
    assert (status["failed"], status.get("active", 0)) == (2, 0)
    assert condition(cluster.get(JOB).ok(), "Failed")["reason"] == "DeadlineExceeded"
    cluster.eventually(lambda: not pods(cluster))


def test_suspend_and_resume(cluster: Cluster) -> None:
    cluster.post(JOBS, job(run_for="1h", parallelism=2, completions=2, suspend=True)).ok()
    cluster.eventually(lambda: condition(cluster.get(JOB).ok(), "Suspended").get("status") == "True")
    assert not pods(cluster)
    assert "startTime" not in status_of(cluster, JOB)
    cluster.patch(JOB, {"spec": {"suspend": False}}).ok()
    active(cluster, 2)
    cluster.eventually(lambda: status_of(cluster, JOB).get("ready") == 2)
    assert condition(cluster.get(JOB).ok(), "Suspended")["reason"] == "JobResumed"
    cluster.patch(JOB, {"spec": {"suspend": True}}).ok()
    cluster.eventually(lambda: not pods(cluster))
    cluster.eventually(lambda: condition(cluster.get(JOB).ok(), "Suspended")["status"] == "True")
    status = status_of(cluster, JOB)
    assert (status.get("failed", 0), status.get("active", 0)) == (0, 0)


def test_parallelism_can_change(cluster: Cluster) -> None:
    cluster.post(JOBS, job(run_for="1h", parallelism=1, completions=9)).ok()
    active(cluster, 1)
    cluster.patch(JOB, {"spec": {"parallelism": 4}}).ok()
    active(cluster, 4)
    cluster.patch(JOB, {"spec": {"parallelism": 2}}).ok()
    active(cluster, 2)
    cluster.eventually(lambda: len(pods(cluster)) == 2)
    cluster.eventually(lambda: status_of(cluster, JOB)["terminating"] == 0)
    assert "failed" not in status_of(cluster, JOB)


def test_one_success_is_enough_where_no_number_is_asked_for(still: Cluster) -> None:
    still.post(JOBS, job(parallelism=2)).ok()
    first, second = active(still, 2)
    end(still, first, "Succeeded", 0)
    still.eventually(lambda: status_of(still, JOB).get("succeeded") == 1)
    assert len(active(still, 1)) == 1
    end(still, second, "Succeeded", 0)
    assert wait_for_condition(still)["succeeded"] == 2


def test_deleting_a_job_lets_its_pods_go(cluster: Cluster) -> None:
    for policy in ("Background", "Foreground"):
        cluster.post(JOBS, job(run_for="1h", parallelism=3, completions=3)).ok()
        active(cluster, 3)
        cluster.delete(JOB, {"propagationPolicy": policy}).ok()
        cluster.eventually(lambda: cluster.get(JOB).status == 404 and not pods(cluster))
    cluster.post(JOBS, job(run_for="1h", parallelism=2, completions=2)).ok()
    active(cluster, 2)
    cluster.delete(JOB, {"propagationPolicy": "Orphan"}).ok()
    cluster.eventually(lambda: cluster.get(JOB).status == 404 and free(cluster))
    assert len(pods(cluster)) == 2


def test_orphans_are_taken_over_and_strangers_let_go(still: Cluster) -> None:
    still.post(JOBS, job(parallelism=2, completions=9)).ok()
    first, _ = active(still, 2)
    name = first["metadata"]["name"]
    owner = first["metadata"]["ownerReferences"]
    still.patch(f"{PODS}/{name}", {"metadata": {"ownerReferences": None}}).ok()
    still.eventually(lambda: still.get(f"{PODS}/{name}").ok()["metadata"].get("ownerReferences") == owner)
    still.eventually(lambda: TRACKING_FINALIZER in still.get(f"{PODS}/{name}").ok()["metadata"]["finalizers"])
    still.patch(f"{PODS}/{name}", {"metadata": {"labels": None}}).ok()
    still.eventually(lambda: not still.get(f"{PODS}/{name}").ok()["metadata"].get("ownerReferences"))
    still.eventually(lambda: not still.get(f"{PODS}/{name}").ok()["metadata"].get("finalizers"))
    still.eventually(lambda: len(pods(still)) == 3)


def test_a_deleted_pod_counts_as_failed_at_once_or_after_its_end(cluster: Cluster) -> None:
    cluster.post(JOBS, job(run_for="1h")).ok()
    (pod,) = active(cluster, 1)
    cluster.eventually(lambda: status_of(cluster, JOB).get("ready") == 1)
    cluster.delete(f"{PODS}/{pod['metadata']['name']}").ok()
    cluster.eventually(lambda: status_of(cluster, JOB).get("failed") == 1)
    cluster.delete(JOB, {"propagationPolicy": "Background"}).ok()
    cluster.eventually(lambda: not pods(cluster))
    # Nobody ends a pod on a node that is not there: it goes on terminating.
    cluster.post(JOBS, job(run_for="1h", simulate="slow-stop", podReplacementPolicy="Failed")).ok()
    cluster.eventually(lambda: status_of(cluster, JOB).get("ready") == 1)
    (pod,) = active(cluster, 1)
    cluster.delete(f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 3600}).ok()
    cluster.eventually(lambda: status_of(cluster, JOB).get("terminating") == 1)
    status = status_of(cluster, JOB)
    assert (status.get("active", 0), status.get("failed", 0), len(pods(cluster))) == (0, 0, 1)
    end(cluster, pod)
    cluster.eventually(lambda: status_of(cluster, JOB).get("failed") == 1)


def test_rules_about_failed_pods(still: Cluster) -> None:
    rules = [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]
    still.post(JOBS, job(parallelism=2, completions=2, backoffLimit=0, podFailurePolicy={"rules": rules})).ok()
    first, second = active(still, 2)
    end(still, first, code=7)
    still.eventually(lambda: len(pods(still)) == 3)
    assert "failed" not in status_of(still, JOB)
    end(still, second, code=42)
    status = wait_for_condition(still, "Failed")
    said = condition(still.get(JOB).ok(), "Failed")
    name = second["metadata"]["name"]
    assert (said["reason"], said["message"]) == (
        "PodFailurePolicy",
        f"Container c for pod default/{name} failed with exit code 42 matching FailJob rule at index 1",
    )
    assert status["failed"] == 2, "the one that ran on counts, too"


def test_each_index_has_its_own_limit(still: Cluster) -> None:
    spec: dict[str, Any] = {"completionMode": "Indexed", "parallelism": 3, "completions": 3, "backoffLimitPerIndex": 1}
    still.post(JOBS, job(**spec)).ok()

    def at(index: int) -> Object:
        return next(
            pod for pod in active(still, 3) if pod["metadata"]["annotations"][COMPLETION_INDEX_ANNOTATION] == str(index)
        )

    failures = "batch.kubernetes.io/job-index-failure-count"
    assert at(1)["metadata"]["annotations"][failures] == "0"
    end(still, at(1))
    still.eventually(lambda: len(pods(still)) == 4)
    assert at(1)["metadata"]["annotations"][failures] == "1"
    last, others = at(1), [at(0), at(2)]
    end(still, last)
    still.eventually(lambda: status_of(still, JOB).get("failedIndexes") == "1")
    for pod in others:
        end(still, pod, "Succeeded", 0)
    status = wait_for_condition(still, "Failed")
    assert condition(still.get(JOB).ok(), "Failed")["reason"] == "FailedIndexes"
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0,2", "1")
    assert (status["succeeded"], status["failed"]) == (2, 2)
    assert free(still)


def test_success_by_policy(cluster: Cluster) -> None:
    spec: dict[str, Any] = {"completionMode": "Indexed", "parallelism": 3, "completions": 3}
    policy = {"rules": [{"succeededIndexes": "1"}]}
    still_running = job(run_for="1h", successPolicy=policy, **spec)
    cluster.post(JOBS, still_running).ok()
    cluster.eventually(lambda: status_of(cluster, JOB).get("ready") == 3)
    one = next(pod for pod in pods(cluster) if pod["metadata"]["annotations"][COMPLETION_INDEX_ANNOTATION] == "1")
    end(cluster, one, "Succeeded", 0)
    status = wait_for_condition(cluster)
    said = condition(cluster.get(JOB).ok(), "Complete")
    assert (said["reason"], said["message"]) == ("SuccessPolicy", "Matched rules at index 0")
    assert (status["completedIndexes"], status["succeeded"], status.get("failed", 0)) == ("1", 1, 0)
    cluster.eventually(lambda: len(pods(cluster)) == 1)


def test_a_job_of_another_manager_is_left_alone(still: Cluster) -> None:
    still.post(JOBS, job("theirs", managedBy="example.com/manager")).ok()
    still.post(JOBS, job()).ok()
    active(still, 1)
    assert {pod["metadata"]["labels"]["job-name"] for pod in pods(still)} == {"j"}
    assert still.get(f"{JOBS}/theirs").ok()["status"] == {}


def test_what_a_quota_refuses_comes_when_there_is_room(still: Cluster) -> None:
    quotas = "/api/v1/namespaces/default/resourcequotas"
    hard = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    still.post(quotas, hard).ok()
    still.post(JOBS, job(parallelism=3, completions=3)).ok()
    active(still, 1)
    still.patch(f"{quotas}/q", {"spec": {"hard": {"pods": "9"}}}).ok()
    active(still, 3)


def test_a_finished_job_goes_after_its_time(cluster: Cluster) -> None:
    cluster.post(JOBS, job("stays")).ok()
    cluster.post(JOBS, job("goes", ttlSecondsAfterFinished=0)).ok()
    cluster.eventually(lambda: cluster.get(f"{JOBS}/goes").status == 404)
    cluster.eventually(lambda: condition(cluster.get(f"{JOBS}/stays").ok(), "Complete"))
    cluster.eventually(lambda: len(pods(cluster)) == 1)


def test_events_tell_the_story(cluster: Cluster) -> None:
    cluster.post(JOBS, job()).ok()
    wait_for_condition(cluster)

    def told() -> list[tuple[str, str]]:
        found = cluster.get("/api/v1/namespaces/default/events").ok()["items"]
        return [(e["reason"], e["message"]) for e in found if e["involvedObject"]["kind"] == "Job"]

    (pod,) = pods(cluster)
    story = [("SuccessfulCreate", f"Created pod: {pod['metadata']['name']}"), ("Completed", "Job completed")]
    cluster.eventually(lambda: told() == story)


def test_workloads_of_a_hub_are_no_business_of_the_loop(server: Server) -> None:
    hub = fresh_cluster(server, profile="hub")
    assert hub.get(JOBS).status == 404
    hub.close()
