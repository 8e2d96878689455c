"""Node selector and node affinity of a pod against an existing node. Pure.

`nodeSelectorTerms` are ORed, expressions within a term are ANDed. An empty term selects no node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.fit.requirements import from_expressions

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def matches_node_affinity(spec: Object, name: str, labels: Mapping[str, str]) -> bool:
    """Returns whether the node satisfies the pod's nodeSelector and required node affinity."""
    for key, value in (spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return False
    required = _node_affinity(spec).get(REQUIRED)
    if required is None:
        return True
    return any(matches_term(term, name, labels) for term in required.get("nodeSelectorTerms") or ())


def required_node_names(spec: Object) -> frozenset[str] | None:
    """Returns the names of the only nodes that required node affinity can select, as for a DaemonSet's pod; None
    without a restriction by name.
    """
    node_names: set[str] = set()
    terms = (_node_affinity(spec).get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    for term in terms:
        fields = [each for each in term.get("matchFields") or () if each.get("operator") == "In"]
        name_sets = [set(each.get("values") or ()) for each in fields if each.get("key") == "metadata.name"]
        if not name_sets:
            return None
        node_names |= set.intersection(*name_sets)
    return frozenset(node_names) if terms else None


def preferred_weight(spec: Object, name: str, labels: Mapping[str, str]) -> int:
    """Returns the sum of the weights of the preferred terms that the node matches."""
    terms = _node_affinity(spec).get(PREFERRED) or ()
    return sum(term.get("weight", 0) for term in terms if matches_term(term.get("preference") or {}, name, labels))


def max_preferred_weight(spec: Object) -> int:
    """Returns `preferred_weight` of a node that matches all terms."""
    return sum(term.get("weight", 0) for term in _node_affinity(spec).get(PREFERRED) or ())


def matches_term(term: Object, name: str, labels: Mapping[str, str]) -> bool:
    """Matches a NodeSelectorTerm. A malformed term matches nothing."""
    expressions, fields = term.get("matchExpressions"), term.get("matchFields")
    if not expressions and not fields:
        return False
    try:
        return from_expressions(expressions).matches(labels) and _matches_fields(fields or (), name)
    except ValueError:
        return False


def _matches_fields(fields: list[Object] | tuple[()], name: str) -> bool:
    """`metadata.name` is the only supported field."""
    for field in fields:
        values, operator = field.get("values") or [], field.get("operator")
        if len(values) != 1 or operator not in ("In", "NotIn"):
            return False
        actual = name if field.get("key") == "metadata.name" else ""
        if (actual == values[0]) != (operator == "In"):
            return False
    return True


def _node_affinity(spec: Object) -> Object:
    return (spec.get("affinity") or {}).get("nodeAffinity") or {}
