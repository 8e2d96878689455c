"""Validation of the kinds of other groups: each message equals upstream's for the same object."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from shoal.kinds.admissionregistration import policy_specs, webhooks
from shoal.kinds.discovery import endpointslice
from shoal.kinds.flowcontrol import bootstrap, flowcontrol
from shoal.kinds.networking import ingress, networking
from shoal.kinds.node import runtimeclass
from shoal.kinds.policy import poddisruptionbudget
from shoal.kinds.scheduling import priorityclass
from shoal.kinds.storage import storage
from shoal.objects.errors import Cause

Object = dict[str, Any]
LOOPBACK = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
Validate = Callable[[Object, Object | None], list[Cause]]


def no_defaults(obj: Object) -> None:
    pass


def validation_messages(
    default: Callable[[Object], None], validate: Validate, obj: Object, old: Object | None = None
) -> list[str]:
    obj = {"metadata": {"name": "x"}, **copy.deepcopy(obj)}
    default(obj)
    return [cause.message for cause in validate(obj, old)]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, "minAvailable and maxUnavailable cannot be both set"),
        ({"minAvailable": "120%"}, 'spec.minAvailable: Invalid value: "120%": must not be greater than 100%'),
        ({"minAvailable": -1}, "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"),
        ({"maxUnavailable": "x"}, "a valid percent string must be a numeric string followed by an ending '%'"),
    ],
)
def test_budgets(spec: Object, message: str) -> None:
    (complaint,) = validation_messages(
        poddisruptionbudget.default_pod_disruption_budget,
        poddisruptionbudget.validate_pod_disruption_budget,
        {"spec": spec},
    )
    assert message in complaint
    assert (
        validation_messages(
            poddisruptionbudget.default_pod_disruption_budget,
            poddisruptionbudget.validate_pod_disruption_budget,
            {"spec": {"minAvailable": "50%"}},
        )
        == []
    )


def _path(**entry: object) -> Object:
    return {"rules": [{"http": {"paths": [{"backend": {"service": {"name": "a", "port": {"number": 1}}}, **entry}]}}]}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"),
        (_path(path="/"), "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"),
        (
            _path(path="a", pathType="Exact"),
            'spec.rules[0].http.paths[0].path: Invalid value: "a": must be an absolute path',
        ),
        (
            _path(path="/a//b", pathType="Prefix"),
            "spec.rules[0].http.paths[0].path: Invalid value: \"/a//b\": must not contain '//'",
        ),
        (
            {"defaultBackend": {"service": {"name": "a"}}},
            "spec.defaultBackend: Required value: port name or number is required",
        ),
        (
            {"rules": [{"host": "1.2.3.4"}]},
            'spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address',
        ),
    ],
)
def test_ingresses(spec: Object, message: str) -> None:
    found = validation_messages(ingress.default_ingress, ingress.validate_ingress, {"spec": spec})
    assert found == [message]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"ports": [{"port": 0}]}, "ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"),
        ({"ports": [{"port": 9, "endPort": 8}]}, "endPort: Invalid value: 9: must be greater than or equal to `port`"),
        ({"ports": [{"endPort": 8}]}, "endPort: Invalid value: 8: may not be specified when `port` is not specified"),
        ({"from": [{}]}, "spec.ingress[0].from[0]: Required value: must specify a peer"),
        (
            {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/9"]}}]},
            'except[0]: Invalid value: "11.0.0.0/9": must be a strict subset of `cidr`',
        ),
    ],
)
def test_network_policies(rule: Object, message: str) -> None:
    spec = {"spec": {"ingress": [rule]}}
    (complaint,) = validation_messages(networking.default_network_policy, networking.validate_network_policy, spec)
    assert message in complaint


def test_policy_types_follow_the_rules() -> None:
    obj: Object = {"spec": {"egress": [{"ports": [{"port": 1}]}]}}
    networking.default_network_policy(obj)
    assert obj["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert obj["spec"]["egress"][0]["ports"] == [{"port": 1, "protocol": "TCP"}]


def test_service_networks() -> None:
    check = networking.validate_service_cidr
    old: Object = {"spec": {"cidrs": ["10.0.0.0/16"]}}
    assert (
        validation_messages(
            networking.default_service_cidr, check, {"spec": {"cidrs": ["10.0.0.0/16", "fd00::/64"]}}, old
        )
        == []
    )
    changed = validation_messages(networking.default_service_cidr, check, {"spec": {"cidrs": ["10.1.0.0/16"]}}, old)
    assert changed == ['spec.cidrs[0]: Invalid value: "10.1.0.0/16": field is immutable']
    loose = validation_messages(networking.default_service_cidr, check, {"spec": {"cidrs": ["10.0.0.1/16"]}})
    said_ = "must not have bits set beyond the prefix length"
    assert loose == [f'spec.cidrs[0]: Invalid value: "10.0.0.1/16": {said_}']
    assert networking.is_ip_address_name("2001:0db8::1") == ['must be in canonical form ("2001:db8::1")']
    assert networking.is_ip_address_name("10.0.0.1") == []


@pytest.mark.parametrize(
    ("endpoints", "message"),
    [
        ([{}], "endpoints[0].addresses: Required value: must contain at least 1 address"),
        ([{"addresses": ["fd00::1"]}], 'endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address'),
        (
            [{"addresses": ["127.0.0.1"]}],
            f'endpoints[0].addresses[0]: Invalid value: "127.0.0.1": {LOOPBACK}',
        ),
    ],
)
def test_endpoint_slices(endpoints: list[Object], message: str) -> None:
    obj = {"addressType": "IPv4", "endpoints": endpoints}
    assert validation_messages(endpointslice.default_endpoint_slice, endpointslice.validate_endpoint_slice, obj) == [
        message
    ]


def test_storage() -> None:
    assert validation_messages(storage.default_storage_class, storage.validate_storage_class, {}) == [
        "provisioner: Required value"
    ]
    old: Object = {"provisioner": "a", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    changed = validation_messages(
        storage.default_storage_class, storage.validate_storage_class, old | {"reclaimPolicy": "Retain"}, old
    )
    assert changed == ['reclaimPolicy: Invalid value: "Retain": field is immutable']
    assert (
        "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        in validation_messages(
            storage.default_volume_attachment,
            storage.validate_volume_attachment,
            {"spec": {"attacher": "a", "nodeName": "n"}},
        )
    )
    modes = validation_messages(
        storage.default_csi_driver, storage.validate_csi_driver, {"spec": {"volumeLifecycleModes": ["z"]}}
    )
    assert modes == [
        'spec.volumeLifecycleModes: Unsupported value: "z": supported values: "Persistent", "Ephemeral"',
    ]


def test_storage_is_checked_again_when_it_changes() -> None:
    old: Object = {"provisioner": "a", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    changed = old | {"provisioner": ""}
    assert validation_messages(storage.default_storage_class, storage.validate_storage_class, changed, old) == [
        "provisioner: Required value",
        'provisioner: Invalid value: "": field is immutable',
    ]
    few: Object = {"storageClassName": "x", "capacity": "1.5"}
    storage.default_csi_storage_capacity(few)
    assert few["capacity"] == "1500m"
    less = validation_messages(
        storage.default_csi_storage_capacity, storage.validate_csi_storage_capacity, few | {"capacity": "-1"}, few
    )
    assert less == ['capacity: Invalid value: "-1": must be greater than or equal to 0']


def test_topologies_are_sets() -> None:
    expression = {"key": "zone", "values": ["a", "a"]}
    terms = [{"matchLabelExpressions": [expression]}, {"matchLabelExpressions": [expression | {"values": ["a"]}] * 2}]
    obj: Object = {"provisioner": "a", "allowedTopologies": terms}
    assert validation_messages(storage.default_storage_class, storage.validate_storage_class, obj) == [
        'allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"',
        'allowedTopologies[1].matchLabelExpressions[1].key: Duplicate value: "zone"',
        'allowedTopologies[1].matchLabelExpressions: Duplicate value: ""',
    ]


def test_a_volume_within_an_attachment() -> None:
    inline = {"csi": {"driver": "a.b"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "x"}
    obj: Object = {"spec": {"attacher": "a", "nodeName": "n", "source": {"inlineVolumeSpec": inline}}}
    assert validation_messages(storage.default_volume_attachment, storage.validate_volume_attachment, obj) == [
        "spec.source.inlineVolumeSpec.csi.volumeHandle: Required value",
        (
            "spec.source.inlineVolumeSpec.storageClassName: Forbidden: "
            "may not be specified in the context of inline volumes"
        ),
    ]


def test_a_driver_that_shows_tokens_is_warned_of() -> None:
    obj: Object = {"spec": {"tokenRequests": [{"audience": "x"}]}}
    assert storage.warn_csi_driver(obj, None)[0].startswith("spec.serviceAccountTokenInSecrets is unset;")
    assert storage.warn_csi_driver(obj, obj) == []
    alone = {"spec": {"serviceAccountTokenInSecrets": True}}
    assert validation_messages(storage.default_csi_driver, storage.validate_csi_driver, alone) == [
        (
            "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no "
            "tokenRequests are specified"
        )
    ]


def test_old_labels_of_nodes_are_warned_of() -> None:
    old, said_ = (
        {"key": "beta.kubernetes.io/os", "values": ["x"]},
        'deprecated since v1.14; use "kubernetes.io/os" instead',
    )
    made: Object = {"allowedTopologies": [{"matchLabelExpressions": [old]}]}
    assert storage.warn_storage_class(made, None) == [f"allowedTopologies[0].matchLabelExpressions[0].key: {said_}"]
    made = {"nodeTopology": {"matchExpressions": [old], "matchLabels": {"beta.kubernetes.io/os": "x"}}}
    assert storage.warn_csi_storage_capacity(made, None) == [
        f"nodeTopology.matchExpressions[0].key: beta.kubernetes.io/os is {said_}",
        f"nodeTopology.matchLabels.beta.kubernetes.io/os: {said_}",
    ]


def test_classes() -> None:
    reserved = "priority class names with 'system-' prefix are reserved for system use only. error: "
    obj = {"metadata": {"name": "system-x"}, "value": 1}
    found = validation_messages(priorityclass.default_priority_class, priorityclass.validate_priority_class, obj)
    assert found == [f"metadata.name: Forbidden: {reserved}system-x is not a known system priority class"]
    for known in priorityclass.system_priority_classes():
        assert (
            validation_messages(priorityclass.default_priority_class, priorityclass.validate_priority_class, known)
            == []
        )
    assert validation_messages(no_defaults, runtimeclass.validate_runtime_class, {}) == ["handler: Required value"]


def test_runtime_classes_are_checked_again_when_they_change() -> None:
    check, old = runtimeclass.validate_runtime_class, {"handler": "runc"}
    assert validation_messages(runtimeclass.default_runtime_class, check, {"handler": ""}, old) == [
        "handler: Required value",
        'handler: Invalid value: "": field is immutable',
    ]
    overhead = {"handler": "runc", "overhead": {"podFixed": {"a": "1.5"}}}
    assert validation_messages(runtimeclass.default_runtime_class, check, overhead, old) == [
        'overhead.limits[a]: Invalid value: "a": must be a standard resource type or fully qualified',
        'overhead.limits[a]: Invalid value: "a": must be a standard resource for containers',
    ]
    twice = {"handler": "runc", "scheduling": {"tolerations": [{"key": "a", "effect": "NoExecute"}] * 2}}
    found = validation_messages(runtimeclass.default_runtime_class, check, twice)
    assert found == ['scheduling.tolerations[1]: Duplicate value: {"key":"a","effect":"NoExecute"}']


def test_parents_of_addresses() -> None:
    check = networking.validate_ip_address
    wrong: Object = {"spec": {"parentRef": {"group": "Up", "resource": "/data"}}}
    found = validation_messages(no_defaults, check, wrong)
    assert found[0].startswith('spec.parentRef.group: Invalid value: "Up": a lowercase RFC 1123 subdomain')
    assert found[1:] == [
        "spec.parentRef.resource: Invalid value: \"/data\": may not contain '/'",
        "spec.parentRef.name: Required value",
    ]
    assert validation_messages(no_defaults, check, {"spec": {}}) == ["spec.parentRef: Required value"]


def test_webhooks() -> None:
    found = validation_messages(
        webhooks.default_validating_webhooks, webhooks.validate_webhooks, {"webhooks": [{"name": "x"}]}
    )
    assert found == [
        'webhooks[0].name: Invalid value: "x": should be a domain with at least three segments separated by dots',
        "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
        "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
    ]


@pytest.mark.parametrize(
    ("path", "messages"),
    [
        ("/", []),
        ("/mutate/v1/", []),
        ("mutate", ["must start with a '/'"]),
        ("//", ["segment[0] may not be empty"]),
        ("/a//B", ["segment[1] may not be empty", "segment[2]: a lowercase RFC 1123 subdomain"]),
    ],
)
def test_paths_of_webhooks(path: str, messages: list[str]) -> None:
    config = {"service": {"name": "a", "namespace": "b", "port": 443, "path": path}}
    found = webhooks.validate_client_config(config, "clientConfig")
    assert len(found) == len(messages)
    for cause, message in zip(found, messages, strict=True):
        assert cause.message.startswith(f'clientConfig.service.path: Invalid value: "{path}": {message}')


def test_policies() -> None:
    policies = policy_specs
    found = validation_messages(policies.default_validating_policy, policies.validate_validating_policy, {"spec": {}})
    neither = "validations or auditAnnotations must contain at least one item"
    assert found == [
        "spec.matchConstraints: Required value",
        f"spec.validations: Required value: {neither}",
        f"spec.auditAnnotations: Required value: {neither}",
    ]
    assert validation_messages(
        policies.default_binding, policies.validate_validating_binding, {"spec": {"policyName": "p"}}
    ) == ["spec.validationActions: Required value: at least one validation action is required"]


def test_flows() -> None:
    found = validation_messages(
        flowcontrol.default_flow_schema, flowcontrol.validate_flow_schema, {"spec": {"matchingPrecedence": 1}}
    )
    assert found == [
        "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
        "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
    ]
    for made, default, validate in (
        (bootstrap.bootstrap_flow_schemas(), flowcontrol.default_flow_schema, flowcontrol.validate_flow_schema),
        (
            bootstrap.bootstrap_priority_levels(),
            flowcontrol.default_priority_level,
            flowcontrol.validate_priority_level,
        ),
    ):
        for obj in made:
            assert validation_messages(default, validate, obj) == []
