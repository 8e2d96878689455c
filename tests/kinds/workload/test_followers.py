"""What objects that follow a workload select, and the keys by which they are found."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.workload.followers import is_selected, leader_keys, pod_labels_of, selection_keys

Object = dict[str, Any]
WEB = ("Deployment", "web")
LABELS = {"app": "web", "tier": "front"}
WORDS = {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}]}
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}


@pytest.mark.parametrize(
    ("kind", "spec", "leader", "labels", "wanted"),
    [
        ("Service", {"selector": {"app": "web"}}, WEB, LABELS, True),
        ("Service", {"selector": {"app": "web", "tier": "back"}}, WEB, LABELS, False),
        ("Service", {"selector": {"app": "web"}}, WEB, None, False),
        ("Service", {"selector": {}}, WEB, LABELS, False),
        ("Service", {"selector": {"app": "not a label!"}}, WEB, LABELS, False),
        ("Service", {}, WEB, LABELS, False),
        ("PodDisruptionBudget", {"selector": {"matchLabels": {"app": "web"}}}, WEB, LABELS, True),
        ("PodDisruptionBudget", {"selector": {}}, WEB, LABELS, True),
        ("PodDisruptionBudget", {}, WEB, LABELS, False),
        ("NetworkPolicy", {"podSelector": WORDS}, WEB, LABELS, True),
        ("NetworkPolicy", {"podSelector": {}}, WEB, {}, True),
        ("NetworkPolicy", {}, WEB, LABELS, True),
        ("HorizontalPodAutoscaler", {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}, WEB, LABELS, True),
        ("HorizontalPodAutoscaler", {"scaleTargetRef": {"kind": "StatefulSet", "name": "web"}}, WEB, LABELS, False),
        ("Ingress", {"defaultBackend": BACKEND}, ("Service", "web"), None, True),
        ("Ingress", {"rules": [{"http": {"paths": [{"backend": BACKEND}]}}]}, ("Service", "web"), None, True),
        ("Ingress", {"defaultBackend": BACKEND}, WEB, LABELS, False),
        ("Ingress", {"rules": [{"host": "a"}]}, ("Service", "web"), None, False),
    ],
)
def test_what_is_selected(
    kind: str, spec: Object, leader: tuple[str, str], labels: dict[str, str] | None, wanted: bool
) -> None:
    obj = {"metadata": {"name": "o"}, "spec": spec}
    assert is_selected(kind, obj, leader, labels) == wanted
    if wanted:
        assert selection_keys(kind, obj) & leader_keys(*leader, labels, {}), "otherwise it is not found"


def test_pods_of_workloads() -> None:
    template = {"metadata": {"labels": LABELS}, "spec": {}}
    assert pod_labels_of({"spec": {"template": template}}) == LABELS
    assert pod_labels_of({"spec": {"jobTemplate": {"spec": {"template": template}}}}) == LABELS
    assert pod_labels_of({"spec": {"template": {"spec": {}}}}) == {}
    assert pod_labels_of({"data": {}}) is None
    assert pod_labels_of({"spec": {"template": "text"}}) is None
