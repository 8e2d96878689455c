"""Tests of label requirements: their meaning, and that operations preserve it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fit.requirements import (
    Requirement,
    Requirements,
    from_expressions,
    from_labels,
    from_pod,
    new_requirement,
    required_terms,
)

VALUES = ["a", "b", "c", "1", "2", "3", "4", "5"]
WORLD = [None, *VALUES, "other", "0", "9"]
"""What a label may be; None: it is not there. The last three stand for all values that nobody names."""

named = st.builds(
    new_requirement,
    st.just("k"),
    st.sampled_from(["In", "NotIn"]),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=4),
)
bare = st.builds(new_requirement, st.just("k"), st.sampled_from(["Exists", "DoesNotExist"]))
bounds = st.builds(
    lambda operator, bound: new_requirement("k", operator, [str(bound)]),
    st.sampled_from(["Gt", "Lt", "Gte", "Lte"]),
    st.integers(0, 9),
)
any_requirement = st.one_of(named, bare, bounds)


def allows(each: Requirement, value: str | None) -> bool:
    return each.allows_absent if value is None else each.has(value)


def meaning(each: Requirement) -> list[str | None]:
    return [value for value in WORLD if allows(each, value)]


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ["a", "1"], ["a", "1"]),
        ("NotIn", ["a", "b", "c", "other"], [None, "1", "2", "3", "4", "5", "0", "9"]),
        ("Exists", [], WORLD[1:]),
        ("DoesNotExist", [], [None]),
        ("Gt", ["3"], ["4", "5", "9"]),
        ("Gte", ["3"], ["3", "4", "5", "9"]),
        ("Lt", ["2"], ["1", "0"]),
        ("Lte", ["2"], ["1", "2", "0"]),
    ],
)
def test_operators(operator: str, values: list[str], expected: list[str | None]) -> None:
    assert meaning(new_requirement("k", operator, values)) == expected


@pytest.mark.parametrize(
    ("operator", "values", "complaint"),
    [
        ("Near", ["1"], "'Near' is no operator of a requirement"),
        ("Gt", ["x"], "operator Gt wants one whole number, not ['x']"),
        ("Lt", [], "operator Lt wants one whole number, not []"),
        ("Lte", ["1", "2"], "operator Lte wants one whole number, not ['1', '2']"),
    ],
)
def test_an_expression_that_says_nothing_is_refused(operator: str, values: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(complaint)}$"):
        new_requirement("k", operator, values)


@given(any_requirement, any_requirement, any_requirement)
def test_an_intersection_means_both(one: Requirement, other: Requirement, third: Requirement) -> None:
    both = one.intersection(other)
    assert meaning(both) == [value for value in meaning(one) if allows(other, value)]
    assert both == other.intersection(one)
    assert both.intersection(third) == one.intersection(other.intersection(third))


@given(any_requirement, any_requirement)
def test_what_meets_has_an_intersection(one: Requirement, other: Requirement) -> None:
    assert one.has_intersection(other) == (not one.intersection(other).is_impossible) == other.has_intersection(one)
    if meaning(one.intersection(other)):
        assert one.has_intersection(other)


@given(st.lists(any_requirement, min_size=1, max_size=4))
def test_a_requirement_survives_the_wire(parts: list[Requirement]) -> None:
    whole = Requirements(parts)
    assert meaning(from_expressions(whole.to_expressions()).requirement_for("k")) == meaning(whole["k"])


@given(st.lists(any_requirement, min_size=1, max_size=4))
def test_any_is_one_of_its_values(parts: list[Requirement]) -> None:
    each = Requirements(parts)["k"]
    assert each.any_value() == "" or each.has(each.any_value())
    if not each.complement and each.values:
        assert each.any_value()


@given(st.lists(any_requirement, max_size=4), st.sampled_from(WORLD))
def test_a_node_matches_when_each_part_does(parts: list[Requirement], value: str | None) -> None:
    labels = {} if value is None else {"k": value}
    assert Requirements(parts).matches(labels) == all(allows(each, value) for each in parts)


def expressions(*parts: tuple[Any, ...]) -> Requirements:
    return Requirements(new_requirement(*part) for part in parts)


@pytest.mark.parametrize(
    ("offered", "wanted", "conflicts"),
    [
        (expressions(("zone", "In", ["a", "b"])), expressions(("zone", "In", ["b", "c"])), []),
        (
            expressions(("zone", "In", ["b", "a"])),
            expressions(("zone", "In", ["c"])),
            ["key zone, In [c] not in In [a, b]"],
        ),
        (expressions(), expressions(("zone", "In", ["c"])), []),
        (expressions(), expressions(("team", "In", ["x"])), ['label "team" does not have known values']),
        (expressions(), expressions(("team", "Exists")), ['label "team" does not have known values']),
        (expressions(), expressions(("team", "NotIn", ["x"])), []),
        (expressions(), expressions(("team", "DoesNotExist")), []),
        (expressions(("team", "Exists")), expressions(("team", "In", ["x"])), []),
        (
            expressions(("team", "Exists")),
            expressions(("team", "DoesNotExist")),
            ["key team, DoesNotExist not in Exists"],
        ),
        (expressions(("team", "NotIn", ["x"])), expressions(("team", "DoesNotExist")), []),
        (expressions(("team", "DoesNotExist")), expressions(("team", "NotIn", ["x"])), []),
        (
            expressions(("size", "In", ["2", "8"])),
            expressions(("size", "Gt", ["8"])),
            ["key size, Exists >=9 not in In [2, 8]"],
        ),
        (expressions(("size", "In", ["2", "9"])), expressions(("size", "Gt", ["8"])), []),
        (
            expressions(("size", "Gt", ["3"])),
            expressions(("size", "Lt", ["4"])),
            ["key size, Exists <=3 not in Exists >=4"],
        ),
        (
            expressions(("zone", "In", ["a"])),
            expressions(("zone", "In", ["a"]), ("zone", "In", ["b"])),
            ["key zone, In [] not in In [a]"],
        ),
        (
            expressions(),
            expressions(("zone", "In", ["a"]), ("zone", "In", ["b"])),
            ['label "zone" does not have known values'],
        ),
    ],
)
def test_compatibility_where_zone_and_size_are_well_known(
    offered: Requirements, wanted: Requirements, conflicts: list[str]
) -> None:
    well_known = frozenset(["zone", "size"])
    assert offered.conflicts(wanted, well_known) == conflicts
    assert offered.is_compatible(wanted, well_known) == (not conflicts)


def test_requirements_add_up_per_key_and_leave_the_first_alone() -> None:
    pool = from_expressions([{"key": "zone", "operator": "In", "values": ["a", "b"], "minValues": 2}])
    both = pool.union(from_labels({"zone": "b", "team": "x"}))
    assert both.labels() == {"zone": "b", "team": "x"}
    assert both["zone"].min_values == 2
    assert pool["zone"].values == {"a", "b"}
    assert both.without("team") == {"zone": both["zone"]}
    assert both.requirement_for("none").allows_absent
    assert both.requirement_for("none").has("anything")
    assert pool.to_expressions() == [{"key": "zone", "operator": "In", "values": ["a", "b"], "minValues": 2}]
    assert hash(from_labels({"a": "1", "b": "2"})) == hash(from_labels({"b": "2", "a": "1"}))


def test_a_pod_asks_by_selector_and_by_one_term() -> None:
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]},
        {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["4"]}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {"nodeSelector": {"team": "x"}, "affinity": {"nodeAffinity": required}}
    assert str(from_pod(spec)) == "team In [x], zone NotIn [a]"
    assert str(from_pod(spec, 1)) == "size Exists >=5, team In [x]"
    assert len(required_terms(spec)) == 2
    assert len(from_pod({})) == 0
