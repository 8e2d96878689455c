"""Tests of default topology spread: which pods are kept apart, and the score of a node among them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from shoal.fit.default_spread import DomainSizes, merged_selector, owner_selector, spread_score

WEB, CANARY = {"app": "web"}, {"track": "canary"}
HASHED = {"matchLabels": {"app": "web", "pod-template-hash": "h"}}
TIERED = {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("services", "resource", "selector", "text"),
    [
        ([], "", None, ""),
        ([{}], "", None, ""),
        ([WEB], "", None, "app=web"),
        ([WEB, CANARY, WEB], "", None, "app=web,track=canary"),
        ([], "replicasets", HASHED, "app=web,pod-template-hash=h"),
        ([WEB], "replicasets", HASHED, "app=web,pod-template-hash=h"),
        ([CANARY], "replicasets", TIERED, "tier,track=canary"),
        ([CANARY], "statefulsets", HASHED, "app=web,pod-template-hash=h,track=canary"),
        ([], "replicationcontrollers", WEB, "app=web"),
        ([CANARY], "replicationcontrollers", WEB, "app=web,track=canary"),
        ([WEB], "replicasets", {}, "app=web"),
        ([WEB], "replicasets", {"matchExpressions": [{"key": "a", "operator": "Near"}]}, "app=web"),
        ([], "replicasets", {}, ""),
    ],
)
def test_the_selectors_of_services_and_of_the_owner_are_merged(
    services: list[dict[str, str]], resource: str, selector: dict[str, Any] | None, text: str
) -> None:
    owner = owner_selector(resource, selector) if selector is not None else None
    merged = merged_selector(services, owner)
    assert str(merged) == text
    assert merged.is_empty == (not text)


@pytest.mark.parametrize(
    ("on_node", "in_zone", "sizes", "score"),
    [
        (0, 0, DomainSizes(3, 2), 2 + 4),
        (0, None, DomainSizes(3, 2), 2),
        (None, 0, DomainSizes(3, 2), 4),
        (None, None, DomainSizes(3, 2), 0),
        (2, 0, DomainSizes(3, 2), round(2 * math.log(5) + 6)),
        (0, 2, DomainSizes(3, 2), round(2 * math.log(4) + 6)),
        (1, 5, DomainSizes(8, 1), round(math.log(10) + 5 * math.log(3) + 6)),
    ],
)
def test_few_pods_near_a_node_score_low(
    on_node: int | None, in_zone: int | None, sizes: DomainSizes, score: int
) -> None:
    assert spread_score(on_node, in_zone, sizes) == score
