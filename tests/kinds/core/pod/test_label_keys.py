"""Label keys of a new pod: what they add to the selectors."""

from __future__ import annotations

from typing import Any

from shoal.kinds.core.pod.pods import merge_label_keys

Object = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def pod(**spec: Any) -> Object:
    return {"metadata": {"name": "p", "labels": {"version": "2"}}, "spec": spec}


def label_expression(operator: str) -> Object:
    return {"key": "version", "operator": operator, "values": ["2"]}


def test_keys_of_affinity_terms_become_expressions() -> None:
    selector = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}
    near = {"topologyKey": "zone", "labelSelector": selector, "matchLabelKeys": ["version", "absent"]}
    far = {"topologyKey": "zone", "labelSelector": {}, "mismatchLabelKeys": ["version"]}
    weighted = [{"weight": 1, "podAffinityTerm": far}]
    made = pod(affinity={"podAffinity": {REQUIRED: [near]}, "podAntiAffinity": {PREFERRED: weighted}})
    merge_label_keys(made)
    assert near["labelSelector"] == {
        **selector,
        "matchExpressions": [*selector["matchExpressions"], label_expression("In")],
    }
    assert far["labelSelector"] == {"matchExpressions": [label_expression("NotIn")]}


def test_keys_of_spread_constraints_too() -> None:
    even = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["version"]}
    made = pod(topologySpreadConstraints=[even])
    merge_label_keys(made)
    assert even["labelSelector"] == {"matchExpressions": [label_expression("In")]}


def test_a_selector_that_selects_nothing_stays() -> None:
    even = {"topologyKey": "zone", "matchLabelKeys": ["version"]}
    made = pod(topologySpreadConstraints=[even])
    merge_label_keys(made)
    assert "labelSelector" not in even
    plain = pod()
    merge_label_keys(plain)
    assert plain == pod()
