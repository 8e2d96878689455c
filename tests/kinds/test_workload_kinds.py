"""Defaults and validation of apps and batch, in upstream's words."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from shoal.kinds.apps import workload_defaults
from shoal.kinds.apps.workload_validation import (
    validate_controller_revision,
    validate_daemon_set,
    validate_deployment,
    validate_stateful_set,
)
from shoal.kinds.batch import job_defaults
from shoal.kinds.batch.job_policies import count_indexes
from shoal.kinds.batch.job_validation import validate_cron_job, validate_job

Object = dict[str, Any]
ZONE_SAID = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
SUSPENDED = {"type": "Suspended", "status": "True"}
POD = {"containers": [{"name": "main", "image": "nginx"}]}


def workload(**spec: object) -> Object:
    labels = {"app": "web"}
    made = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": POD}}
    return copy.deepcopy({"metadata": {"name": "w", "uid": "u"}, "spec": made | spec})


def job(**spec: object) -> Object:
    made: Object = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
    obj: Object = copy.deepcopy({"metadata": {"name": "j", "uid": "u"}, "spec": made | spec})
    job_defaults.default_job(obj)
    job_defaults.prepare_job_create(obj)
    return obj


def cron_job(**spec: object) -> Object:
    made = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}}}
    obj: Object = copy.deepcopy({"metadata": {"name": "c", "uid": "u"}, "spec": made | spec})
    job_defaults.default_cron_job(obj)
    return obj


def test_a_deployment_is_defaulted() -> None:
    obj = workload()
    workload_defaults.default_deployment(obj)
    spec = obj["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    again = copy.deepcopy(obj)
    workload_defaults.default_deployment(again)
    assert again == obj
    assert validate_deployment(obj, None) == []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"selector": {"matchLabels": {"app": "x"}}},
            'spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template `labels`',
        ),
        ({"selector": {}}, "spec.selector: Invalid value: {}: empty selector is invalid for deployment"),
        (
            {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
        (
            {"minReadySeconds": 600},
            "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
        ),
    ],
)
def test_a_wrong_deployment(spec: Object, said: str) -> None:
    obj = workload(**spec)
    workload_defaults.default_deployment(obj)
    assert [cause.message for cause in validate_deployment(obj, None)] == [said]


def test_a_selector_never_changes() -> None:
    old = workload()
    workload_defaults.default_deployment(old)
    new = copy.deepcopy(old)
    new["spec"]["template"]["metadata"]["labels"]["x"] = new["spec"]["selector"]["matchLabels"]["x"] = "y"
    (cause,) = validate_deployment(new, old)
    assert (cause.field, cause.message.endswith("field is immutable")) == ("spec.selector", True)


def test_counts_of_a_status_fit_together() -> None:
    old = workload()
    workload_defaults.default_deployment(old)
    new = copy.deepcopy(old) | {"status": {"replicas": 1, "readyReplicas": 2}}
    said = "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"
    assert [cause.message for cause in validate_deployment(new, old)] == [said]
    assert validate_deployment(copy.deepcopy(old) | {"status": {"replicas": 2, "readyReplicas": 2}}, old) == []


def test_what_of_a_stateful_set_may_change() -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    old = workload(serviceName="a", volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": claim}])
    old["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/d"}]
    workload_defaults.default_stateful_set(old)
    assert validate_stateful_set(old, None) == []
    nothing = copy.deepcopy(old)
    nothing["spec"]["volumeClaimTemplates"][0]["spec"] = {}
    missing = {cause.field for cause in validate_stateful_set(nothing, None)}
    assert missing == {f"spec.volumeClaimTemplates[0].spec.{field}" for field in ("accessModes", "resources[storage]")}
    new = copy.deepcopy(old)
    new["spec"] |= {"replicas": 5, "minReadySeconds": 3}
    assert validate_stateful_set(new, old) == []
    new["spec"]["serviceName"] = "b"
    (cause,) = validate_stateful_set(new, old)
    assert cause.message.startswith("spec: Forbidden: updates to statefulset spec for fields other than 'replicas'")


def test_a_daemon_set_counts_its_templates() -> None:
    old = workload()
    workload_defaults.default_daemon_set(old)
    workload_defaults.prepare_daemon_set_create(old)
    assert old["metadata"]["annotations"] == {workload_defaults.TEMPLATE_GENERATION: "1"}
    bare: Object = {"metadata": {"annotations": {workload_defaults.TEMPLATE_GENERATION: "0"}}}
    workload_defaults.prepare_daemon_set_status_update(bare, old)
    assert bare["metadata"]["annotations"] == {workload_defaults.TEMPLATE_GENERATION: "1"}
    new = copy.deepcopy(old)
    new["metadata"]["annotations"] = {}
    workload_defaults.prepare_daemon_set_update(new, old)
    assert new["metadata"]["annotations"] == {workload_defaults.TEMPLATE_GENERATION: "1"}
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    workload_defaults.prepare_daemon_set_update(new, old)
    assert new["metadata"]["annotations"] == {workload_defaults.TEMPLATE_GENERATION: "2"}
    new["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] = 1
    said = "may not be set when maxUnavailable is non-zero"
    assert [cause.message.rpartition(": ")[2] for cause in validate_daemon_set(new, old)] == [said]


def test_selectors_are_shown_as_go_prints_them() -> None:
    expressions = [{"operator": "NotIn"}, {"values": ["b"], "operator": "In", "key": "a"}]
    selector = {"matchExpressions": expressions, "matchLabels": {"z": "1", "a": "2"}}
    shown = (
        'spec.selector: Invalid value: {"matchLabels":{"a":"2","z":"1"},"matchExpressions":'
        '[{"key":"","operator":"NotIn"},{"key":"a","operator":"In","values":["b"]}]}'
    )
    deployment, stateful, daemon = workload(selector=selector), workload(selector=selector), workload(selector=selector)
    workload_defaults.default_deployment(deployment)
    workload_defaults.default_stateful_set(stateful)
    workload_defaults.default_daemon_set(daemon)
    assert validate_deployment(deployment, None)[-1].message == f"{shown}: invalid label selector"
    assert validate_stateful_set(stateful, None)[-1].message == shown
    daemon["spec"]["template"]["spec"]["containers"] = []
    assert validate_daemon_set(daemon, None)[-1].message == "spec.template.spec.containers: Required value"


def test_the_data_of_a_revision_is_compared_by_what_it_says() -> None:
    old: Object = {"revision": 1, "data": {"b": 1, "a": {"d": 1, "c": 2}}}
    assert validate_controller_revision({"revision": 2, "data": {"a": {"c": 2, "d": 1}, "b": 1}}, old) == []
    (cause,) = validate_controller_revision({"revision": 1, "data": {"b": 1, "a": 2}}, old)
    assert cause.message == 'data: Invalid value: {"a":2,"b":1}: field is immutable'


def test_whose_labels_a_job_has() -> None:
    """A Job without labels has those of its pods; invalid ones are reported once."""
    bare = job()
    assert "labels" not in bare["metadata"]
    job_defaults.canonicalize_job(bare)
    assert bare["metadata"]["labels"] == bare["spec"]["template"]["metadata"]["labels"]
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {**POD, "restartPolicy": "Never"}}
    follows = job(template=template)
    assert follows["metadata"]["labels"] == follows["spec"]["template"]["metadata"]["labels"]
    assert follows["metadata"]["labels"]["job-name"] == "j"
    own: Object = copy.deepcopy({"metadata": {"name": "j", "uid": "u", "labels": {"app": "a"}}})
    own["spec"] = {"template": copy.deepcopy(template)}
    job_defaults.default_job(own)
    job_defaults.prepare_job_create(own)
    assert own["metadata"]["labels"] == {"app": "a"}


def test_a_job_selects_by_its_uid() -> None:
    obj = job()
    job_defaults.canonicalize_job(obj)
    labels = {
        "job-name": "j",
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": "u",
        "batch.kubernetes.io/controller-uid": "u",
    }
    assert obj["spec"]["template"]["metadata"]["labels"] == obj["metadata"]["labels"] == labels
    assert obj["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    assert (obj["spec"]["backoffLimit"], obj["spec"]["completions"], obj["spec"]["suspend"]) == (6, 1, False)
    assert validate_job(obj, None) == []
    assert job(backoffLimitPerIndex=1)["spec"]["backoffLimit"] == 2**31 - 1
    assert "completions" not in job(parallelism=3)["spec"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "x"}}},
            "`selector` not auto-generated",
        ),
        ({"completionMode": "Indexed", "parallelism": 2}, "Required value: when completion mode is Indexed"),
        ({"backoffLimitPerIndex": 1}, "Invalid value: 1: requires indexed completion mode"),
        (
            {"template": {"spec": POD}},
            'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}]}},
            "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
        ),
    ],
)
def test_a_wrong_job(spec: Object, said: str) -> None:
    assert said in "; ".join(cause.message for cause in validate_job(job(**spec), None))


IDLE: list[tuple[Object, Object, bool]] = [
    ({"suspend": True}, {}, True),
    ({"suspend": False}, {}, False),
    ({"suspend": True}, {"startTime": "2024-01-01T00:00:00Z"}, False),
    ({"suspend": True}, {"startTime": "2024-01-01T00:00:00Z", "conditions": [SUSPENDED]}, True),
    ({"suspend": True}, {"active": 1, "conditions": [SUSPENDED]}, False),
]


@pytest.mark.parametrize(("spec", "status", "is_open"), IDLE)
@pytest.mark.parametrize(
    "change",
    [
        {"nodeSelector": {"zone": "a"}},
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        {"schedulingGates": [{"name": "example.com/hold"}]},
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
        {"resources": {"requests": {"cpu": "1"}}},
        {"labels": {"more": "true"}},
    ],
)
def test_what_is_open_of_a_job_that_stands_still(spec: Object, status: Object, is_open: bool, change: Object) -> None:
    old = job(**spec) | {"status": status}
    new = copy.deepcopy(old)
    template = new["spec"]["template"]
    if "labels" in change:
        template.setdefault("metadata", {}).setdefault("labels", {}).update(change["labels"])
    elif "resources" in change:
        template["spec"]["containers"][0].update(change)
    else:
        template["spec"].update(change)
    assert [cause.field for cause in validate_job(new, old)] == ([] if is_open else ["spec.template"])
    template["spec"]["priorityClassName"] = "high"
    assert [cause.field for cause in validate_job(new, old)] == ["spec.template.spec" if is_open else "spec.template"]


def test_a_finished_job_stays_finished() -> None:
    old = job()
    done = {"startTime": "2024-01-01T00:00:00Z", "completionTime": "2024-01-01T00:01:00Z"}
    kinds = ("SuccessCriteriaMet", "Complete")
    old["status"] = {**done, "conditions": [{"type": kind, "status": "True"} for kind in kinds]}
    new = copy.deepcopy(old) | {"status": done}
    said = "; ".join(cause.message for cause in validate_job(new, old))
    assert "cannot disable the terminal Complete=True condition" in said
    assert "cannot set completionTime when there is no Complete=True condition" in said


@pytest.mark.parametrize(("text", "count"), [("", 0), ("1", 1), ("1,3-5", 4), ("0-9", 10)])
def test_indexes_are_counted(text: str, count: int) -> None:
    assert count_indexes(text, 10) == count


@pytest.mark.parametrize("text", ["a", "10", "3-3", "5-3", "3,3", "1-2-3", "-1"])
def test_indexes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"index|order|fragment"):
        count_indexes(text, 10)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"schedule": ""}, "spec.schedule: Required value"),
        (
            {"schedule": "TZ=UTC * * * * *"},
            f'spec.schedule: Invalid value: "TZ=UTC * * * * *": {ZONE_SAID}',
        ),
        ({"timeZone": "../x"}, 'spec.timeZone: Invalid value: "../x": unknown time zone ../x'),
        (
            {"concurrencyPolicy": "x"},
            'spec.concurrencyPolicy: Unsupported value: "x": supported values: "Allow", "Forbid", "Replace"',
        ),
    ],
)
def test_a_wrong_cron_job(spec: Object, said: str) -> None:
    assert [cause.message for cause in validate_cron_job(cron_job(**spec), None)] == [said]
    assert validate_cron_job(cron_job(), None) == []


def test_a_time_zone_is_looked_up_when_it_is_new() -> None:
    there = {"Europe/Rome"}.__contains__
    assert validate_cron_job(cron_job(timeZone="Europe/Rome"), None, there) == []
    old = cron_job(timeZone="Atlantis/City")
    found = validate_cron_job(old, None, there)
    said = 'spec.timeZone: Invalid value: "Atlantis/City": unknown time zone Atlantis/City'
    assert [cause.message for cause in found] == [said]
    assert validate_cron_job(cron_job(timeZone="Atlantis/City", suspend=True), old, there) == []
