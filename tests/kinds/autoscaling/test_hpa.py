"""Conversion of HorizontalPodAutoscalers between v1 and v2 is lossless."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from shoal.kinds.autoscaling.hpa import METRICS_ANNOTATION, default_hpa_v1, default_hpa_v2, to_v1, to_v2
from shoal.kinds.autoscaling.hpa_validation import validate_hpa_v1, validate_hpa_v2

Object = dict[str, Any]
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}


def autoscaler(**spec: object) -> Object:
    return {"apiVersion": "autoscaling/v2", "metadata": {"name": "h"}, "spec": {"scaleTargetRef": TARGET, **spec}}


def full_autoscaler() -> Object:
    metric, described = {"name": "q", "selector": {"matchLabels": {"a": "b"}}}, {"kind": "Service", "name": "s"}
    current = {"averageUtilization": 30, "averageValue": "10m"}
    obj = autoscaler(
        maxReplicas=5,
        metrics=[
            {"type": "Resource", "resource": {"name": "memory", "target": _average("1Mi")}},
            {"type": "Pods", "pods": {"metric": metric, "target": _average("10")}},
            {
                "type": "Object",
                "object": {"metric": metric, "describedObject": described, "target": {"type": "Value", "value": "5"}},
            },
            {"type": "External", "external": {"metric": metric, "target": _average("3")}},
            {
                "type": "ContainerResource",
                "containerResource": {"name": "cpu", "container": "c", "target": _utilization(70)},
            },
            {"type": "Resource", "resource": {"name": "cpu", "target": _utilization(60)}},
        ],
        behavior={"scaleDown": {"stabilizationWindowSeconds": 60}},
    )
    obj["metadata"]["annotations"] = {"mine": "x"}
    obj["status"] = {
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": current}}],
        "conditions": [{"type": "AbleToScale", "status": "True"}],
    }
    default_hpa_v2(obj)
    return obj


def _average(value: str) -> Object:
    return {"type": "AverageValue", "averageValue": value}


def _utilization(percent: int) -> Object:
    return {"type": "Utilization", "averageUtilization": percent}


def test_there_and_back() -> None:
    obj = full_autoscaler()
    before = copy.deepcopy(obj)
    first = to_v1(obj)
    assert obj == before
    assert first["apiVersion"] == "autoscaling/v1"
    assert first["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 5,
        "targetCPUUtilizationPercentage": 60,
    }
    assert first["status"] == {"currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 30}
    others = json.loads(first["metadata"]["annotations"][METRICS_ANNOTATION])
    assert others[0] == {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Mi"}}
    assert to_v2(first) == obj


def test_a_broken_annotation_holds_nothing() -> None:
    first = to_v1(full_autoscaler())
    first["metadata"]["annotations"][METRICS_ANNOTATION] = "{"
    assert [m["resource"]["name"] for m in to_v2(first)["spec"]["metrics"]] == ["cpu"]


def test_defaults() -> None:
    obj = autoscaler(maxReplicas=3)
    default_hpa_v2(obj)
    assert obj["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": _utilization(80)}}]
    assert obj["status"] == {"desiredReplicas": 0, "currentMetrics": None}
    assert validate_hpa_v2(obj, None) == []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, "spec.maxReplicas: Required value: must be set and greater than 0"),
        (
            {"maxReplicas": 1, "minReplicas": 2},
            "spec.maxReplicas: Invalid value: 1: must be greater than or equal to `minReplicas`",
        ),
        (
            {"maxReplicas": 1, "metrics": [{"type": "Pods"}]},
            "spec.metrics[0].pods: Required value: must populate information for the given metric source",
        ),
        (
            {"maxReplicas": 1, "scaleTargetRef": {"kind": "Deployment", "name": "w"}},
            'spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group',
        ),
    ],
)
def test_what_is_wrong(spec: Object, said: str) -> None:
    obj = autoscaler(**spec)
    default_hpa_v2(obj)
    assert said in [cause.message for cause in validate_hpa_v2(obj, None)]


def test_the_old_form_is_checked_as_the_new() -> None:
    obj = autoscaler(maxReplicas=3, targetCPUUtilizationPercentage=0) | {"apiVersion": "autoscaling/v1"}
    default_hpa_v1(obj)
    said = "spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0"
    assert [cause.message for cause in validate_hpa_v1(obj, None)] == [said]
