"""The FlowSchemas and PriorityLevelConfigurations every cluster starts with: upstream's mandatory and suggested ones.
Pure.

The specs of the mandatory ones (exempt, catch-all) are fixed. Users may change the suggested ones.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds import nodes_identity

Object = dict[str, Any]

API = "flowcontrol.apiserver.k8s.io/v1"
_EVERYWHERE: Object = {"namespaces": ["*"]}
_RESOURCES: Object = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, **_EVERYWHERE}
_ANYTHING: Object = {
    "resourceRules": [_RESOURCES],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}
_LEASES: Object = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], **_EVERYWHERE}
_NODES: Object = {"verbs": ["*"], "apiGroups": [""], "resources": ["nodes", "nodes/status"], "clusterScope": True}
_LEADING: Object = {"resourceRules": [{"verbs": ["get", "create", "update"], **_LEASES}]}
_OF_NODES: Object = {"resourceRules": [{**_NODES, **_EVERYWHERE}, {"verbs": ["*"], **_LEASES}]}
_PROBES: Object = {"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]}
_BY_USER, _BY_NAMESPACE = "ByUser", "ByNamespace"
_CONTROLLERS, _SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"


def _group(name: str) -> Object:
    return {"kind": "Group", "group": {"name": name}}


def _user(name: str) -> Object:
    return {"kind": "User", "user": {"name": name}}


_EVERYBODY = [_group("system:unauthenticated"), _group("system:authenticated")]
_NODE_GROUP = [_group(nodes_identity.GROUP)]
_SYSTEM_ACCOUNTS: Object = {"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}}


def mandatory_priority_levels() -> list[Object]:
    limited = {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}, "lendablePercent": 0}
    exempt = {"nominalConcurrencyShares": 0, "lendablePercent": 0}
    return [
        _made("PriorityLevelConfiguration", "catch-all", {"type": "Limited", "limited": limited}),
        _made("PriorityLevelConfiguration", "exempt", {"type": "Exempt", "exempt": exempt}),
    ]


def mandatory_flow_schemas() -> list[Object]:
    return [
        _schema("catch-all", "catch-all", 10_000, _EVERYBODY, _ANYTHING, _BY_USER),
        _schema("exempt", "exempt", 1, [_group("system:masters")], _ANYTHING),
    ]


def first_priority_levels() -> list[Object]:
    return [
        *mandatory_priority_levels(),
        _level("system", 30, 33, 64),
        _level("node-high", 40, 25, 64),
        _level("leader-election", 10, 0, 16, 4),
        _level("workload-high", 40, 50, 128),
        _level("workload-low", 100, 90, 128),
        _level("global-default", 20, 50, 128),
    ]


def first_flow_schemas() -> list[Object]:
    leaders = [_user(_CONTROLLERS), _user(_SCHEDULER), _SYSTEM_ACCOUNTS]
    accounts = [_group("system:serviceaccounts")]
    return [
        *mandatory_flow_schemas(),
        _schema("probes", "exempt", 2, _EVERYBODY, _PROBES),
        _schema("system-leader-election", "leader-election", 100, leaders, _LEADING, _BY_USER),
        _schema("system-node-high", "node-high", 400, _NODE_GROUP, _OF_NODES, _BY_USER),
        _schema("system-nodes", "system", 500, _NODE_GROUP, _ANYTHING, _BY_USER),
        _schema("kube-controller-manager", "workload-high", 800, [_user(_CONTROLLERS)], _ANYTHING, _BY_NAMESPACE),
        _schema("kube-scheduler", "workload-high", 800, [_user(_SCHEDULER)], _ANYTHING, _BY_NAMESPACE),
        _schema("kube-system-service-accounts", "workload-high", 900, [_SYSTEM_ACCOUNTS], _ANYTHING, _BY_NAMESPACE),
        _schema("service-accounts", "workload-low", 9000, accounts, _ANYTHING, _BY_USER),
        _schema("global-default", "global-default", 9900, _EVERYBODY, _ANYTHING, _BY_USER),
    ]


def dangling(level: str, exists: bool) -> Object:
    """Returns the condition Dangling of a FlowSchema: whether its priority level is missing, in upstream's words."""
    said = "and it exists" if exists else "but there is no such object"
    return {
        "type": "Dangling",
        "status": "False" if exists else "True",
        "reason": "Found" if exists else "NotFound",
        "message": f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" {said}',
    }


def _level(name: str, shares: int, lendable: int, queues: int, hand: int = 6) -> Object:
    queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 50}
    limited = {
        "nominalConcurrencyShares": shares,
        "limitResponse": {"type": "Queue", "queuing": queuing},
        "lendablePercent": lendable,
    }
    return _made("PriorityLevelConfiguration", name, {"type": "Limited", "limited": limited})


def _schema(
    name: str, level: str, precedence: int, subjects: list[Object], rules: Object, distinguisher: str = ""
) -> Object:
    spec: Object = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
    if distinguisher:
        spec["distinguisherMethod"] = {"type": distinguisher}
    spec["rules"] = [{"subjects": subjects, **rules}]
    return {**_made("FlowSchema", name, spec), "status": {"conditions": [dangling(level, True)]}}


def _made(kind: str, name: str, spec: Object) -> Object:
    metadata = {"name": name, "generation": 1, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec, "status": {}}
