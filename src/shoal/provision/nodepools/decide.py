"""What a NodePool and a node class have to say of themselves. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.fit.requirements import IN, from_expressions
from shoal.fit.resources import quantities
from shoal.kinds.karpenter import (
    CAPACITY_TYPE,
    CLASS_GROUP,
    HASH_VERSION,
    HOSTNAME,
    NODE_CLASS,
    NODE_CLASS_READY,
    POOL_HASH,
    POOL_HASH_VERSION,
    POOL_LABEL,
    READY,
    VALIDATION_SUCCEEDED,
    WELL_KNOWN,
    annotation,
    class_ref,
    is_going,
    pool_hash,
    template_labels,
    template_spec,
)
from shoal.objects.conditions import condition_is, get_condition, set_condition

Object = dict[str, Any]

_RESTRICTED = ("kubernetes.io", "k8s.io", "karpenter.sh")
_EXCEPT = ("node.kubernetes.io", "node-restriction.kubernetes.io", "kops.k8s.io", "cluster.x-k8s.io")


def with_conditions(pool: Object, node_class: Object | None, resources: Mapping[str, int], now: str) -> Object:
    """The NodePool with its status as it should be; the very same where nothing changes."""
    wrong = invalid(pool)
    found = _said(pool, VALIDATION_SUCCEEDED, ("NodePoolValidationFailed", wrong) if wrong else None, now)
    found = _said(found, NODE_CLASS_READY, class_problem(pool, node_class), now)
    failing = [name for name in (VALIDATION_SUCCEEDED, NODE_CLASS_READY) if not condition_is(found, name)]
    unready = ("UnhealthyDependents", ", ".join(f"{name}=False" for name in failing)) if failing else None
    found = _said(found, READY, unready, now)
    status = dict(found.get("status") or {})
    status["resources"] = quantities(dict(sorted(resources.items())))
    if node_class is not None:
        status["nodeClassObservedGeneration"] = node_class["metadata"].get("generation", 0)
    return found if status == found.get("status") else {**found, "status": status}


def hash_patch(pool: Object) -> Object | None:
    wanted = {POOL_HASH: pool_hash(pool), POOL_HASH_VERSION: HASH_VERSION}
    if all(annotation(pool, name) == value for name, value in wanted.items()):
        return None
    return {"metadata": {"annotations": wanted}}


def class_with_condition(node_class: Object, problem: tuple[str, str] | None, now: str) -> Object:
    return _said(node_class, READY, problem, now)


def class_problem(pool: Object, node_class: Object | None) -> tuple[str, str] | None:
    reference = class_ref(template_spec(pool))
    if (reference.get("group"), reference.get("kind")) != (CLASS_GROUP, NODE_CLASS):
        said = f"{reference.get('kind')}.{reference.get('group')} is no node class of this provider"
        return "NodeClassNotSupported", f"{said}: {NODE_CLASS}.{CLASS_GROUP} is"
    if node_class is None:
        return "NodeClassNotFound", f"NodeClass {reference.get('name')!r} not found on cluster"
    if is_going(node_class):
        return "NodeClassTerminating", "NodeClass is Terminating"
    ready = get_condition(node_class, READY)
    if ready is None:
        return "NodeClassReadinessUnknown", "Node Class Readiness Unknown"
    return None if ready.get("status") == "True" else ("NodeClassNotReady", str(ready.get("message") or ""))


def invalid(pool: Object) -> str:
    """What the definition's rules say too, where nobody evaluates them; empty: nothing is wrong."""
    spec = template_spec(pool)
    for key in template_labels(pool):
        if problem := _restricted(key):
            return problem
    for each in spec.get("requirements") or ():
        operator, values = each.get("operator", IN), each.get("values") or []
        if problem := _restricted(each["key"]):
            return problem
        if operator in (IN, "NotIn") and not values:
            return f"key {each['key']} with operator {operator} must have a value defined"
        if operator == IN and len(values) < (each.get("minValues") or 0):
            return f"key {each['key']}: requirements with 'minValues' must have at least that many values"
    try:
        wanted = from_expressions(spec.get("requirements"))
    except ValueError as error:
        return str(error)
    empty = next((each for each in wanted.values() if each.impossible), None)
    return f"key {empty.key}: no value satisfies all requirements" if empty is not None else ""


def _restricted(key: str) -> str:
    if key in (HOSTNAME, POOL_LABEL):
        return f'label "{key}" is restricted'
    domain = key.partition("/")[0]
    if key in WELL_KNOWN or key == CAPACITY_TYPE or "beta.kubernetes.io" in domain:
        return ""
    if any(domain.endswith(each) for each in _EXCEPT):
        return ""
    found = next((each for each in _RESTRICTED if domain == each or domain.endswith(f".{each}")), "")
    return f'label domain "{found}" is restricted' if found else ""


def _said(obj: Object, condition: str, problem: tuple[str, str] | None, now: str) -> Object:
    reason, message = problem if problem is not None else (condition, "")
    return set_condition(
        obj,
        condition,
        "False" if problem is not None else "True",
        reason=reason,
        message=message,
        observed_generation=obj["metadata"].get("generation"),
        now=now,
    )
