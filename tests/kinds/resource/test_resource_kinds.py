"""Validation of the kinds of resource.k8s.io and of APIServices: each message equals upstream's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from shoal.kinds.apiregistration import apiservice
from shoal.kinds.resource import claim_status, resourceclaim, resourceslice
from shoal.objects.errors import Cause

Object = dict[str, Any]
GPU = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
SLICE = {"driver": "gpu.example.com", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}}
CREATED = "2026-01-01T00:00:00Z"


def validation_messages(
    default: Callable[[Object], None],
    validate: Callable[[Object, Object | None], list[Cause]],
    obj: Object,
    old: Object | None = None,
) -> list[str]:
    obj = {"metadata": {"name": "x"}, **copy.deepcopy(obj)}
    default(obj)
    return [cause.message for cause in validate(obj, old)]


def device_class_messages(**spec: object) -> list[str]:
    return validation_messages(resourceclaim.default_device_class, resourceclaim.validate_device_class, {"spec": spec})


def claim_messages(**devices: object) -> list[str]:
    return validation_messages(
        resourceclaim.default_claim, resourceclaim.validate_claim, {"spec": {"devices": devices}}
    )


def slice_messages(**spec: object) -> list[str]:
    return validation_messages(
        resourceslice.default_resource_slice, resourceslice.validate_resource_slice, {"spec": {**SLICE, **spec}}
    )


def device_messages(slice_: Object | None = None, **device: object) -> list[str]:
    return slice_messages(**(slice_ or {}), devices=[{"name": "a", **device}])


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('device.driver == "gpu.example.com"', ""),
        ('device.attributes["gpu.example.com"].fast', ""),
        ('device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("1Gi"))', ""),
        ('cel.bind(gpu, device.attributes["gpu.example.com"], gpu.fast && gpu.big)', ""),
        ("device.allowMultipleAllocations", ""),
        ("-a", "compilation failed: ERROR: <input>:1:2: undeclared reference to 'a' (in container '')"),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ("device.nothing", "undefined field 'nothing'"),
        ("", "compilation failed"),
        (
            " && ".join(
                3 * ["device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, a + b == c)))"]
            ),
            "spec.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit",
        ),
    ],
)
def test_selectors(expression: str, message: str) -> None:
    told = device_class_messages(selectors=[{"cel": {"expression": expression}}])
    assert (message in told[0]) if message else told == [], told


def test_classes() -> None:
    assert device_class_messages(selectors=[{}]) == ["spec.selectors[0].cel: Required value"]
    assert device_class_messages(config=[{}]) == ["spec.config[0].opaque: Required value"]
    assert device_class_messages(config=[{"opaque": {"driver": "a", "parameters": []}}]) == [
        'spec.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object'
    ]
    assert device_class_messages(selectors=33 * [{}]) == ["spec.selectors: Too many: 33: must have at most 32 items"]
    assert device_class_messages(extendedResourceName="example.com/gpu") == []
    assert device_class_messages(extendedResourceName="The") == [
        'spec.extendedResourceName: Invalid value: "The": must be a valid extended resource name'
    ]


@pytest.mark.parametrize(
    ("devices", "messages"),
    [
        ({"requests": [GPU]}, []),
        (
            {"requests": [{"name": "a"}]},
            ["spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"],
        ),
        (
            {"requests": [{**GPU, "firstAvailable": [{"name": "b"}]}]},
            ["exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"],
        ),
        ({"requests": [GPU, GPU]}, ['spec.devices.requests[1]: Duplicate value: "gpu"']),
        (
            {"requests": [{"name": "a", "exactly": {"allocationMode": "All", "count": 2}}]},
            ["deviceClassName: Required value", "2: must not be specified when allocationMode is 'All'"],
        ),
        (
            {"requests": [{"name": "a", "exactly": {"deviceClassName": "a", "allocationMode": "Some"}}]},
            ['Unsupported value: "Some": supported values: "All", "ExactCount"'],
        ),
        (
            {"requests": [{"name": "a", "exactly": {"deviceClassName": "a", "tolerations": [{"effect": "Often"}]}}]},
            ['Unsupported value: "Often": supported values: "NoExecute", "NoSchedule", "None"'],
        ),
        (
            {"requests": [GPU], "constraints": [{"requests": ["gpu", "cpu"], "matchAttribute": "a"}]},
            ['requests[1]: Invalid value: "cpu": must be the name of a request', "separated by a slash"],
        ),
        ({"constraints": [{}]}, ['constraints[0]: Required value: exactly one of "matchAttribute"']),
        ({"config": [{}]}, ["spec.devices.config[0].opaque: Required value"]),
    ],
)
def test_claims(devices: Object, messages: list[str]) -> None:
    told = claim_messages(**devices)
    assert len(told) == len(messages)
    assert all(message in one for message, one in zip(messages, told, strict=True)), told


def test_an_alternative_is_referred_to_by_two_names() -> None:
    first = {"name": "gpu", "firstAvailable": [{"name": "big", "deviceClassName": "big.example.com"}]}
    constraint = {"matchAttribute": "example.com/numa", "requests": ["gpu/big"]}
    assert claim_messages(requests=[first], constraints=[constraint]) == []
    (told,) = claim_messages(requests=[first], constraints=[{**constraint, "requests": ["gpu/small"]}])
    assert "must be the name of a request in the claim" in told


def test_templates_say_no_more_of_metadata_than_labels_and_annotations() -> None:
    template = {"metadata": {"labels": {"a": "!"}, "name": "x", "uid": "y"}, "spec": {"devices": {"requests": [GPU]}}}
    told = validation_messages(
        resourceclaim.default_claim_template, resourceclaim.validate_claim_template, {"spec": template}
    )
    assert told[0].startswith('spec.metadata.labels: Invalid value: "!"')
    assert told[1:] == [
        "spec.metadata.name: Forbidden: cannot be set",
        "spec.metadata.uID: Forbidden: cannot be set",
    ]


def _claim(**status: object) -> Object:
    claim: Object = {
        "metadata": {"name": "x"},
        "spec": {"devices": {"requests": [copy.deepcopy(GPU)]}},
        "status": status,
    }
    resourceclaim.default_claim(claim)
    return claim


RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "n", "device": "a"}
TOLD = {"driver": "gpu.example.com", "pool": "n", "device": "a"}


def test_what_is_allocated() -> None:
    allocation = {"devices": {"results": [RESULT]}}
    new, old = _claim(allocation=allocation, devices=[TOLD]), _claim()
    assert resourceclaim.validate_claim(new, old) == []
    (told,) = resourceclaim.validate_claim(_claim(devices=[TOLD]), old)
    assert told.message.endswith("must be an allocated device in the claim")
    (told,) = resourceclaim.validate_claim(_claim(reservedFor=[{"resource": "pods", "name": "p", "uid": "u"}]), old)
    assert told.message == "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
    other = {"devices": {"results": [{**RESULT, "device": "b"}]}}
    (told,) = resourceclaim.validate_claim(_claim(allocation=other), new)
    assert told.message.startswith("status.allocation: Invalid value:")
    given_back = _claim(devices=[TOLD])
    claim_status.drop_deallocated_device_status(given_back, new)
    assert given_back["status"] == {}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"nodeName": None}, "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, "),
        ({"allNodes": True}, 'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of '),
        ({"pool": {"name": "n"}}, "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero"),
        ({"pool": {"name": "In", "resourceSliceCount": 1}}, 'spec.pool.name: Invalid value: "In"'),
        ({"sharedCounters": [{"name": "a"}]}, "spec.sharedCounters[0].counters: Required value"),
        ({"driver": ""}, "spec.driver: Required value"),
    ],
)
def test_slices(spec: Object, message: str) -> None:
    (told,) = slice_messages(**spec)
    assert told.startswith(message)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ({"attributes": {"a": {"version": "1.2.3-rc.1+b"}}}, ""),
        ({"attributes": {"a": {"version": "1.2"}}}, "must be a string compatible with semver.org spec 2.0.0"),
        ({"attributes": {"a": {}}}, 'spec.devices[0].attributes[a]: Invalid value: "": exactly one value'),
        ({"attributes": {"a b": {"int": 1}}}, "a valid C identifier must start with alphabetic character"),
        ({"capacity": {"a": {"value": "1", "requestPolicy": {}}}}, "Forbidden: allowMultipleAllocations must be true"),
        ({"taints": [{"key": "a"}]}, "spec.devices[0].taints[0].effect: Required value"),
        ({"nodeName": "n"}, "can only be set if `perDeviceNodeSelection` is set to true"),
        ({"bindingConditions": ["a"]}, "bindingFailureConditions are required to use bindingConditions"),
    ],
)
def test_devices(device: Object, message: str) -> None:
    told = device_messages(**device)
    assert (message in told[0] and len(told) == 1) if message else told == [], told


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"default": "1Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}}, ""),
        ({"default": "1Gi", "validValues": ["1Gi", "2Gi"]}, ""),
        ({"validValues": ["1Gi"]}, "default: Required value: required when validValues is defined"),
        ({"default": "3Gi", "validValues": ["1Gi"]}, "default value is not valid according to the requestPolicy"),
        ({"default": "1Gi", "validRange": {}}, "validRange.min: Required value: required when validRange is defined"),
        (
            {"default": "3Gi", "validRange": {"min": "1Gi", "max": "2Gi"}},
            'max: Invalid value: "3Gi": default is more than max: 2Gi',
        ),
        (
            {"default": "1536Mi", "validRange": {"min": "1Gi", "step": "1Gi"}},
            'step: Invalid value: "1536Mi": value is not a multiple of a given step (1Gi) from (1Gi)',
        ),
    ],
)
def test_request_policies(policy: Object, message: str) -> None:
    capacity = {"memory": {"value": "8Gi", "requestPolicy": policy}}
    told = device_messages(allowMultipleAllocations=True, capacity=capacity)
    assert (message in told[0] and len(told) == 1) if message else told == [], told


def test_a_slice_is_filled() -> None:
    made: Object = {"metadata": {}, "spec": copy.deepcopy(SLICE)}
    made["spec"]["devices"] = [{"name": "a", "taints": [{"key": "a", "effect": "None"}], "capacity": {"m": {}}}]
    resourceslice.default_resource_slice(made)
    resourceslice.set_taint_times(made, CREATED)
    assert made["spec"]["devices"][0]["taints"][0]["timeAdded"] == CREATED
    assert made["spec"]["devices"][0]["capacity"] == {"m": {"value": "0"}}
    assert resourceslice.warn_resource_slice({"spec": {"driver": "This"}}, None) == [
        'spec.driver: driver names should be lowercase; "This" contains uppercase characters'
    ]


LOCAL = {"group": "example.net", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, ""),
        ({"group": "Group"}, 'spec.group: Invalid value: "Group": a lowercase RFC 1123 subdomain'),
        ({"version": "V1"}, 'spec.version: Invalid value: "V1": a DNS-1035 label'),
        ({"groupPriorityMinimum": 20001}, "Invalid value: 20001: must be positive and less than 20000"),
        ({"versionPriority": None}, "spec.versionPriority: Invalid value: 0: must be positive and less than 1000"),
        ({"caBundle": "YQ=="}, 'spec.caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle'),
        ({"insecureSkipTLSVerify": True}, "local APIServices may not have insecureSkipTLSVerify"),
        ({"service": {"name": "a"}}, "spec.service.namespace: Required value"),
        (
            {"service": {"name": "a", "namespace": "b"}},
            "spec.service: Forbidden: aggregated API servers are not supported",
        ),
    ],
)
def test_api_services(spec: Object, message: str) -> None:
    told = validation_messages(
        apiservice.default_api_service, apiservice.validate_api_service, {"spec": {**LOCAL, **spec}}
    )
    assert (message in told[0] and len(told) == 1) if message else told == [], told


def test_an_api_service_is_named_by_what_it_serves_and_is_available() -> None:
    made: Object = {"metadata": {"name": "v1.example.net", "creationTimestamp": CREATED}, "spec": LOCAL}
    rule = apiservice.name_rule(made)
    assert rule("v1.example.net") == []
    assert rule("x") == ['must be `spec.version+"."+spec.group`: "v1.example.net"']
    assert rule("a/b") == ["may not contain '/'"]
    apiservice.prepare_api_service_create(made)
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["lastTransitionTime"]) == ("Available", "True", CREATED)
