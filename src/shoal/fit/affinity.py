"""Node selectors and node affinity against a node that exists: may the pod run there, would it like to. Pure.

Alternatives (`nodeSelectorTerms`) are ORed, what is in one is ANDed; a term without anything selects no node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.fit.requirements import from_expressions

Object = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def selected(spec: Object, name: str, labels: Mapping[str, str]) -> bool:
    """Whether the node of this name and these labels satisfies the pod's nodeSelector and required node affinity."""
    for key, value in (spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return False
    required = _node_affinity(spec).get(REQUIRED)
    if required is None:
        return True
    return any(matches(term, name, labels) for term in required.get("nodeSelectorTerms") or ())


def pinned(spec: Object) -> frozenset[str] | None:
    """The names of the only nodes that the required node affinity can select, as that of a DaemonSet's pod does; None:
    it does not go by name."""
    found: set[str] = set()
    terms = (_node_affinity(spec).get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    for term in terms:
        fields = [each for each in term.get("matchFields") or () if each.get("operator") == "In"]
        named = [set(each.get("values") or ()) for each in fields if each.get("key") == "metadata.name"]
        if not named:
            return None
        found |= set.intersection(*named)
    return frozenset(found) if terms else None


def preference(spec: Object, name: str, labels: Mapping[str, str]) -> int:
    """The weights of the preferred terms that the node matches, together."""
    terms = _node_affinity(spec).get(PREFERRED) or ()
    return sum(term.get("weight", 0) for term in terms if matches(term.get("preference") or {}, name, labels))


def highest_preference(spec: Object) -> int:
    """What `preference` would be of a node that matches all."""
    return sum(term.get("weight", 0) for term in _node_affinity(spec).get(PREFERRED) or ())


def matches(term: Object, name: str, labels: Mapping[str, str]) -> bool:
    """A NodeSelectorTerm. One that cannot be read matches nothing."""
    expressions, fields = term.get("matchExpressions"), term.get("matchFields")
    if not expressions and not fields:
        return False
    try:
        return from_expressions(expressions).matches(labels) and _matches_fields(fields or (), name)
    except ValueError:
        return False


def _matches_fields(fields: list[Object] | tuple[()], name: str) -> bool:
    """`metadata.name` is the only field a node has for this."""
    for field in fields:
        values, operator = field.get("values") or [], field.get("operator")
        if len(values) != 1 or operator not in ("In", "NotIn"):
            return False
        found = name if field.get("key") == "metadata.name" else ""
        if (found == values[0]) != (operator == "In"):
            return False
    return True


def _node_affinity(spec: Object) -> Object:
    return (spec.get("affinity") or {}).get("nodeAffinity") or {}
