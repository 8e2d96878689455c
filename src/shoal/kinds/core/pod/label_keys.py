"""Merges `matchLabelKeys` and `mismatchLabelKeys` of a new pod into the label selectors beside them. Pure.

The scheduler and other readers of the pod then need to evaluate the selectors only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shoal.kinds.core.scheduling import PREFERRED, REQUIRED

Object = dict[str, Any]


def merge_label_keys(pod: Object) -> None:
    spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
    for term in (*_affinity_terms(spec.get("affinity") or {}), *(spec.get("topologySpreadConstraints") or ())):
        selector = term.get("labelSelector")
        if selector is None:
            continue  # a null selector matches nothing
        key_expressions = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
            for key in term.get(field) or ()
            if key in labels
        ]
        if key_expressions:
            expressions = [*(selector.get("matchExpressions") or ()), *key_expressions]
            term["labelSelector"] = {**selector, "matchExpressions": expressions}


def _affinity_terms(affinity: Object) -> Iterator[Object]:
    for field in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(field) or {}
        yield from rules.get(REQUIRED) or ()
        yield from (each["podAffinityTerm"] for each in rules.get(PREFERRED) or () if each.get("podAffinityTerm"))
