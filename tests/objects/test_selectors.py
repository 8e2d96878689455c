"""Label and field selectors: matching, canonical text and errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.objects.errors import BadRequest
from shoal.objects.selectors import (
    SELECT_EVERYTHING,
    SELECT_NOTHING,
    FieldSelector,
    LabelRequirement,
    LabelSelector,
    from_label_selector,
    parse_field_selector,
    parse_label_selector,
)

LABELS = {"app": "web", "tier": "5", "empty": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("!other", True),
        ("app=web", True),
        ("app==web", True),
        ("app=db", False),
        ("app!=web", False),
        ("other!=web", True),
        ("other=", False),
        ("empty=", True),
        ("empty=,app=web", True),
        ("app in (db, web)", True),
        ("other in (web)", False),
        ("app notin (db,web)", False),
        ("other notin (web)", True),
        ("empty in (,x)", True),
        ("empty in ()", True),
        ("tier>4", True),
        ("tier>5", False),
        ("tier < 6", True),
        ("app>1", False),
        ("other<1", False),
        ("app=web,tier=6", False),
        (" app = web , tier ", True),
        ("in in (in,notin)", False),
    ],
)
def test_matching(text: str, expected: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is expected


def test_no_labels_at_all() -> None:
    assert parse_label_selector("!app").matches(None)
    assert not parse_label_selector("app=web").matches(None)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("b=2, a == 1", "a==1,b=2"),
        ("x in (b,a,,b)", "x in (,a,b)"),
        ("y notin (a),!z,w", "w,y notin (a),!z"),
        ("a>1,a<9", "a>1,a<9"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(parse_label_selector(text)) == canonical


def test_what_an_index_can_use() -> None:
    assert parse_label_selector("a=1,b in (2),c!=3,d in (4,5),e").equality_pairs() == (("a", "1"), ("b", "2"))


def test_truth() -> None:
    assert not parse_label_selector("")
    assert parse_label_selector("").is_empty
    assert parse_label_selector("a")
    assert SELECT_NOTHING
    assert not SELECT_NOTHING.matches({})
    assert SELECT_EVERYTHING.matches({})


NAME_PART = "name part must consist of alphanumeric characters, '-', '_' or '.'"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a in (b,!", "unable to parse requirement: found '!', expected: ',', or identifier"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        (
            "a>x",
            (
                'unable to parse requirement: values[0]: Invalid value: "x": '
                "for 'Gt', 'Lt' operators, the value must be an integer"
            ),
        ),
    ],
)
def test_refused_texts(text: str, said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_label_selector(text)
    assert caught.value.message == said


def test_refused_keys_and_values() -> None:
    with pytest.raises(BadRequest) as caught:
        parse_label_selector("-a=b")
    assert caught.value.message.startswith(f'unable to parse requirement: <nil>: Invalid value: "-a": {NAME_PART}')
    with pytest.raises(BadRequest) as caught:
        parse_label_selector("a in (-b)")
    assert caught.value.message.startswith(
        'unable to parse requirement: values[0][a]: Invalid value: "-b": a valid label must be an empty string'
    )


def test_label_selector_objects() -> None:
    selector = from_label_selector(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["5", "4"]},
                {"key": "other", "operator": "DoesNotExist"},
                {"key": "empty", "operator": "Exists"},
                {"key": "app", "operator": "NotIn", "values": ["db"]},
            ],
        }
    )
    assert str(selector) == "app=web,app notin (db),empty,!other,tier in (4,5)"
    assert selector.matches(LABELS)
    assert from_label_selector(None) == SELECT_NOTHING
    assert from_label_selector({}) == SELECT_EVERYTHING


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ({"matchExpressions": [{"key": "a", "operator": "Is"}]}, '"Is" is not a valid label selector operator'),
        (
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
            'values: Invalid value: ["b"]: values set must be empty for exists and does not exist',
        ),
        ({"matchLabels": {"a": 1}}, 'invalid label selector: {"matchLabels":{"a":1}}'),
        (
            {"matchLabels": {f"k{number}": "" for number in range(4097)}},
            "more than 4096 requirements; select by fewer labels",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"] * 4096}]},
            "more than 4096 requirements; select by fewer labels",
        ),
    ],
)
def test_refused_label_selector_objects(selector: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        from_label_selector(selector)
    assert caught.value.message == said


keys = st.sampled_from(["a", "b", "in", "notin", "example.com/c"])
values = st.sampled_from(["", "a", "in", "notin", "x_y.z-1", "7"])
requirements = st.one_of(
    st.builds(LabelRequirement, keys, st.sampled_from(["=", "==", "!="]), st.tuples(values)),
    st.builds(LabelRequirement, keys, st.sampled_from([">", "<"]), st.tuples(st.integers(0, 99).map(str))),
    st.builds(LabelRequirement, keys, st.sampled_from(["exists", "!"])),
    st.builds(
        LabelRequirement,
        keys,
        st.sampled_from(["in", "notin"]),
        st.sets(values, min_size=1).map(lambda v: tuple(sorted(v))),
    ),
)


@given(st.lists(requirements, max_size=4))
def test_label_selectors_read_what_they_write(found: list[LabelRequirement]) -> None:
    selector = LabelSelector(found)
    assert parse_label_selector(str(selector)) == selector


@given(st.text(alphabet="ab=!(),<> in", max_size=12))
def test_any_text_is_a_selector_or_a_bad_request(text: str) -> None:
    try:
        selector = parse_label_selector(text)
    except BadRequest:
        return
    assert parse_label_selector(str(selector)) == selector


# --- fields ---


@pytest.mark.parametrize(
    ("text", "terms", "canonical"),
    [
        ("", (), ""),
        ("metadata.name=web", (("metadata.name", "=", "web"),), "metadata.name=web"),
        ("b!=1,a==2", (("a", "=", "2"), ("b", "!=", "1")), "a=2,b!=1"),
        (r"a=x\,y\=z\\", (("a", "=", r"x,y=z" + "\\"),), r"a=x\,y\=z\\"),
        (",a=,,", (("a", "=", ""),), "a="),
        ("=", (), ""),
    ],
)
def test_field_selectors(text: str, terms: tuple[tuple[str, str, str], ...], canonical: str) -> None:
    selector = parse_field_selector(text)
    assert selector.terms == terms
    assert str(selector) == canonical
    assert selector.is_empty is not bool(selector)
    assert bool(selector) is bool(terms)


def test_field_matching() -> None:
    selector = parse_field_selector("status.phase!=Failed,spec.nodeName=n1")
    assert selector.matches({"spec.nodeName": "n1"})
    assert not selector.matches({"spec.nodeName": "n1", "status.phase": "Failed"})
    assert not selector.matches({})
    assert selector.exact_value("spec.nodeName") == "n1"
    assert selector.exact_value("status.phase") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_refused_field_selectors(text: str, said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_field_selector(text)
    assert caught.value.message == said


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["=", "!="]), st.text(r"x\,=! ", max_size=5))))
def test_field_selectors_read_what_they_write(terms: list[tuple[str, str, str]]) -> None:
    assert sorted(parse_field_selector(str(FieldSelector(tuple(terms)))).terms) == sorted(terms)


def test_too_many_requirements_are_refused() -> None:
    assert len(parse_label_selector(",".join(f"k{number}" for number in range(4096))).requirements) == 4096
    with pytest.raises(BadRequest, match="more than 4096 requirements; select by fewer labels"):
        parse_label_selector(",".join(f"k{number}" for number in range(4098)))
