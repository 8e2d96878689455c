"""The FlowSchemas and PriorityLevelConfigurations every cluster starts with: upstream's mandatory and suggested ones.
Pure.

The specs of the mandatory ones (exempt, catch-all) are fixed. Users may change the suggested ones.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.core import node_identity

Object = dict[str, Any]

API_VERSION = "flowcontrol.apiserver.k8s.io/v1"
_ANY_NAMESPACE: Object = {"namespaces": ["*"]}
_RESOURCES: Object = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, **_ANY_NAMESPACE}
_ANY_REQUEST: Object = {
    "resourceRules": [_RESOURCES],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}
_LEASES: Object = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], **_ANY_NAMESPACE}
_NODES: Object = {"verbs": ["*"], "apiGroups": [""], "resources": ["nodes", "nodes/status"], "clusterScope": True}
_LEADER_ELECTION: Object = {"resourceRules": [{"verbs": ["get", "create", "update"], **_LEASES}]}
_NODE_HEARTBEATS: Object = {"resourceRules": [{**_NODES, **_ANY_NAMESPACE}, {"verbs": ["*"], **_LEASES}]}
_PROBES: Object = {"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]}
_BY_USER, _BY_NAMESPACE = "ByUser", "ByNamespace"
_CONTROLLER_MANAGER_USER, _SCHEDULER_USER = "system:kube-controller-manager", "system:kube-scheduler"


def _group(name: str) -> Object:
    return {"kind": "Group", "group": {"name": name}}


def _user(name: str) -> Object:
    return {"kind": "User", "user": {"name": name}}


_ALL_USERS = [_group("system:unauthenticated"), _group("system:authenticated")]
_NODE_SUBJECTS = [_group(node_identity.NODES_GROUP)]
_SYSTEM_ACCOUNTS: Object = {"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}}


def mandatory_priority_levels() -> list[Object]:
    limited = {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}, "lendablePercent": 0}
    exempt = {"nominalConcurrencyShares": 0, "lendablePercent": 0}
    return [
        _new_object("PriorityLevelConfiguration", "catch-all", {"type": "Limited", "limited": limited}),
        _new_object("PriorityLevelConfiguration", "exempt", {"type": "Exempt", "exempt": exempt}),
    ]


def mandatory_flow_schemas() -> list[Object]:
    return [
        _new_flow_schema("catch-all", "catch-all", 10_000, _ALL_USERS, _ANY_REQUEST, _BY_USER),
        _new_flow_schema("exempt", "exempt", 1, [_group("system:masters")], _ANY_REQUEST),
    ]


def bootstrap_priority_levels() -> list[Object]:
    return [
        *mandatory_priority_levels(),
        _new_priority_level("system", 30, 33, 64),
        _new_priority_level("node-high", 40, 25, 64),
        _new_priority_level("leader-election", 10, 0, 16, 4),
        _new_priority_level("workload-high", 40, 50, 128),
        _new_priority_level("workload-low", 100, 90, 128),
        _new_priority_level("global-default", 20, 50, 128),
    ]


def bootstrap_flow_schemas() -> list[Object]:
    leaders = [_user(_CONTROLLER_MANAGER_USER), _user(_SCHEDULER_USER), _SYSTEM_ACCOUNTS]
    accounts = [_group("system:serviceaccounts")]
    return [
        *mandatory_flow_schemas(),
        _new_flow_schema("probes", "exempt", 2, _ALL_USERS, _PROBES),
        _new_flow_schema("system-leader-election", "leader-election", 100, leaders, _LEADER_ELECTION, _BY_USER),
        _new_flow_schema("system-node-high", "node-high", 400, _NODE_SUBJECTS, _NODE_HEARTBEATS, _BY_USER),
        _new_flow_schema("system-nodes", "system", 500, _NODE_SUBJECTS, _ANY_REQUEST, _BY_USER),
        _new_flow_schema(
            "kube-controller-manager",
            "workload-high",
            800,
            [_user(_CONTROLLER_MANAGER_USER)],
            _ANY_REQUEST,
            _BY_NAMESPACE,
        ),
        _new_flow_schema("kube-scheduler", "workload-high", 800, [_user(_SCHEDULER_USER)], _ANY_REQUEST, _BY_NAMESPACE),
        _new_flow_schema(
            "kube-system-service-accounts", "workload-high", 900, [_SYSTEM_ACCOUNTS], _ANY_REQUEST, _BY_NAMESPACE
        ),
        _new_flow_schema("service-accounts", "workload-low", 9000, accounts, _ANY_REQUEST, _BY_USER),
        _new_flow_schema("global-default", "global-default", 9900, _ALL_USERS, _ANY_REQUEST, _BY_USER),
    ]


def dangling_condition(level: str, exists: bool) -> Object:
    """Returns the condition Dangling of a FlowSchema: whether its priority level is missing, in upstream's words."""
    existence = "and it exists" if exists else "but there is no such object"
    return {
        "type": "Dangling",
        "status": "False" if exists else "True",
        "reason": "Found" if exists else "NotFound",
        "message": f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" {existence}',
    }


def _new_priority_level(name: str, shares: int, lendable: int, queues: int, hand: int = 6) -> Object:
    queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 50}
    limited = {
        "nominalConcurrencyShares": shares,
        "limitResponse": {"type": "Queue", "queuing": queuing},
        "lendablePercent": lendable,
    }
    return _new_object("PriorityLevelConfiguration", name, {"type": "Limited", "limited": limited})


def _new_flow_schema(
    name: str, level: str, precedence: int, subjects: list[Object], rules: Object, distinguisher: str = ""
) -> Object:
    spec: Object = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
    if distinguisher:
        spec["distinguisherMethod"] = {"type": distinguisher}
    spec["rules"] = [{"subjects": subjects, **rules}]
    return {**_new_object("FlowSchema", name, spec), "status": {"conditions": [dangling_condition(level, True)]}}


def _new_object(kind: str, name: str, spec: Object) -> Object:
    metadata = {"name": name, "generation": 1, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec, "status": {}}
