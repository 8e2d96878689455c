"""Warnings about valid workloads, in upstream's words."""

from __future__ import annotations

from typing import Any

from shoal.kinds.apps.strategy import daemon_set_warnings, stateful_set_warnings
from shoal.kinds.batch.strategy import cron_job_warnings, job_warnings
from shoal.kinds.core.pod_warnings import workload_warnings
from shoal.kinds.networking.ingress import ingress_warnings
from shoal.kinds.node.runtimeclass import runtime_class_warnings

Object = dict[str, Any]
OLD_LABEL = {"beta.kubernetes.io/os": "linux"}
ODD = {"spec": {"nodeSelector": OLD_LABEL, "containers": []}}
SAID = 'spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead'


def new_object(generation: Any = 1, name: Any = "web", **spec: object) -> Object:
    return {"metadata": {"name": name, "generation": generation}, "spec": {"template": ODD, **spec}}


def test_a_template_is_looked_at_when_it_may_have_changed() -> None:
    for warn in (workload_warnings, stateful_set_warnings, daemon_set_warnings, job_warnings):
        assert warn(new_object(), None) == [f"spec.template.{SAID}"]
        assert warn(new_object(), new_object()) == []
    assert workload_warnings(new_object(2), new_object(1)) == [f"spec.template.{SAID}"]
    assert daemon_set_warnings(new_object(2, minReadySeconds=1), new_object(1)) == []


def test_names_that_are_no_label() -> None:
    (first, second) = workload_warnings(new_object(name="a.b"), None)
    assert first.startswith("metadata.name: this is used in Pod names and hostnames")
    assert first.endswith("a DNS label is recommended: [must not contain dots]")
    assert second == f"spec.template.{SAID}"
    assert workload_warnings(new_object(name="a.b"), new_object(name="a.b")) == []


def test_claims_and_history_of_a_stateful_set() -> None:
    claim = {"spec": {"resources": {"requests": {"storage": "1500m"}}}}
    obj = new_object(template={}, volumeClaimTemplates=[claim], revisionHistoryLimit=-1)
    fraction = 'resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer'
    assert stateful_set_warnings(obj, None)[:1] == [f"spec.volumeClaimTemplates[0].{fraction}"]
    assert stateful_set_warnings(obj, obj)[:1] == [f"spec.volumeClaimTemplates[0].Spec.{fraction}"]
    assert stateful_set_warnings(obj, obj)[1].startswith("spec.revisionHistoryLimit: a negative value")


def test_jobs() -> None:
    many: Object = {"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001}
    (said,) = job_warnings(new_object(template={}, **many), None)
    assert said.startswith("spec: In Indexed Jobs with a number of completions higher than 10^5")
    assert job_warnings(new_object(template={}, **many | {"parallelism": 10_000}), None) == []
    cron: Object = {"schedule": "TZ=UTC * * * * *", "jobTemplate": {"spec": {"template": ODD}}}
    assert cron_job_warnings(new_object(**cron), None) == [f"spec.jobTemplate.spec.template.{SAID}"]
    (said,) = cron_job_warnings(new_object(**cron), new_object(**cron))
    assert said.startswith("cannot use TZ or CRON_TZ in spec.schedule, use timeZone instead")


def test_old_ways() -> None:
    ingress: Object = {"metadata": {"annotations": {"kubernetes.io/ingress.class": "x"}}, "spec": {}}
    said = "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
    assert ingress_warnings(ingress, None) == [said]
    assert ingress_warnings(ingress, ingress) == []
    found = runtime_class_warnings({"scheduling": {"nodeSelector": OLD_LABEL}}, None)
    assert found == ['scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead']
