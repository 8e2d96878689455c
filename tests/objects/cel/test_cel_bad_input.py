"""Hostile expressions: each ends with a clear error, and soon."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.objects import cel
from shoal.objects.cel.regex import compile_regex
from tests.objects.cel.samples import evaluate

EXCEEDED = "operation cancelled: actual cost limit exceeded"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("(" * 5000 + "1" + ")" * 5000, "expression recursion limit exceeded: 80"),
        ("[" * 5000, "expression recursion limit exceeded: 80"),
        ("{1:" * 5000, "expression recursion limit exceeded: 80"),
        ("int(" * 5000, "expression recursion limit exceeded: 80"),
        ("true ? 1 : " * 5000 + "1", "expression recursion limit exceeded: 80"),
        ("+".join(["1"] * 5000), "expression recursion limit exceeded: 160"),
        ("self" + ".a" * 5000, "expression recursion limit exceeded: 160"),
        ("self" + "[0]" * 5000, "expression recursion limit exceeded: 160"),
        ("[1]" + ".map(x, x)" * 5000, "expression recursion limit exceeded: 160"),
        ("9" * 5000, "invalid int literal"),
        ("0x" + "f" * 5000, "invalid int literal"),
        ("9" * 5000 + "u", "invalid uint literal"),
        ("1e999", "invalid double literal"),
        ("'" + "a" * 100_000 + "'", "expression code point size exceeds limit: size: 100002, limit 100000"),
        ("'a", "token recognition error at: ''a'"),
        ("'\\q'", "unable to unescape string"),
        ("'\\ud800'", "unable to unescape string"),
        ("b'\\u0041'", "unable to unescape string"),
        ("\x00", "token recognition error"),
        ("", "mismatched input '<EOF>'"),
        ("a b", "extraneous input 'b' expecting <EOF>"),
        ("self.in", "no viable alternative at input '.in'"),
        ("../up", "no viable alternative at input '..'"),
        ("[1].map(1, 2)", "argument must be a simple name"),
        ("[1].map(a.b, 2)", "argument must be a simple name"),
        ("[1].all(x, x, true)", "duplicate variable name: x"),
        ("[1].map(__result__, 1)", "iteration variable overwrites accumulator variable"),
        ("has(1)", "invalid argument to has() macro"),
        ("'a'.matches('((a{100}){100}){100}')", "invalid matches argument"),
    ],
)
def test_refused(source: str, told: str) -> None:
    with pytest.raises(cel.CELCompileError) as refusal:
        cel.compile_expression(source, {})
    assert told in refusal.value.errors[0]


@pytest.mark.parametrize(
    ("source", "variables", "told"),
    [
        ("[1,2,3,4,5,6,7,8,9]" + ".map(x, [1,2,3,4,5,6,7,8,9]" * 8 + ")" * 8, {}, EXCEEDED),
        ("l" + ".map(x, x + x)" * 40, {"l": ["aaaa"]}, EXCEEDED),
        ("l" + ".map(x, x + x)" * 40, {"l": [[1, 2]]}, EXCEEDED),
        ("l.exists(x, l.exists(y, l.exists(z, x + y + z < 0)))", {"l": list(range(1000))}, EXCEEDED),
        ("lists.range(900000000000).size()", {}, EXCEEDED),
        ("l.sort().size()", {"l": list(range(5000))}, EXCEEDED),
        ("l.join(s).size()", {"l": ["a"] * 10_000, "s": "b" * 10_000}, EXCEEDED),
        ("s.contains(s)", {"s": "b" * 100_000}, EXCEEDED),
        ("'aaaaaaaaaa'" + ".replace('a', 'aaaaaaaaaa')" * 12, {}, EXCEEDED),
        ("l.all(a, l == l)", {"l": list(range(5000))}, EXCEEDED),
        ("l.all(a, [l] == [l])", {"l": list(range(5000))}, EXCEEDED),
        ("l.all(a, [l].flatten().size() > 0)", {"l": list(range(5000))}, EXCEEDED),
        ("l.all(a, l in [l])", {"l": list(range(5000))}, EXCEEDED),
        ("l.all(a, '%s'.format([l]) != '')", {"l": list(range(5000))}, EXCEEDED),
        ("l.all(a, l.indexOf('b') < 0)", {"l": ["a"] * 5000}, EXCEEDED),
        ("l.all(a, !isURL(s))", {"l": list(range(5000)), "s": "a" * 10_000}, EXCEEDED),
        ("l.all(a, double(s) > 0.0)", {"l": list(range(5000)), "s": "1" * 10_000}, EXCEEDED),
        ("l.all(a, sets.contains(m, m))", {"l": list(range(500)), "m": [[n, n] for n in range(100)]}, EXCEEDED),
        ("'%.999999999f'.format([1.0])", {}, "error while parsing precision: it is too large"),
    ],
)
def test_ended(source: str, variables: dict[str, Any], told: str) -> None:
    assert str(evaluate(source, **variables).error).startswith(told)


@pytest.mark.parametrize("source", ["\U0001f600" * 7000, "#" * 20_000, "self\n" + "`" * 9000])
def test_as_many_errors_are_reported_as_by_cel_go(source: str) -> None:
    """Each repeats its line: all of them would be gigabytes."""
    with pytest.raises(cel.CELCompileError) as refusal:
        cel.compile_expression(source, {})
    assert len(refusal.value.errors) == 100
    assert str(refusal.value).endswith("\n1 more errors were truncated")


def test_values_nested_deeper_than_python_descends() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    assert str(evaluate("d == d", d=deep).error) == "the values are nested too deeply"


def test_the_limit_is_met_within_one_round() -> None:
    found = evaluate("l.all(x, x >= 0)", 100, l=list(range(1000)))
    assert isinstance(found.error, cel.CostLimitExceeded)
    assert found.cost <= 110
    assert evaluate("l.all(x, x >= 0)", 100, l=[1]).value is True


def test_nothing_absorbs_the_limit() -> None:
    found = evaluate("true || l.all(x, true)", 100, l=list(range(1000)))
    assert found.value is True
    assert isinstance(evaluate("l.all(x, true) || true", 100, l=list(range(1000))).error, cel.CostLimitExceeded)


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|aa)+$", "(a?){50}a{50}", "a.*a.*a.*b|a"])
def test_patterns_that_explode_elsewhere(pattern: str) -> None:
    expression = compile_regex(pattern)
    text = "a" * 2000
    assert expression.matches(text) is (pattern != "(a*)*b")
    assert expression.find(text) == {"(a?){50}a{50}": "a" * 100, "a.*a.*a.*b|a": "a"}.get(
        pattern, text if pattern != "(a*)*b" else ""
    )


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)", "invalid or unsupported Perl syntax: `(?<`"),
        ("(?>a)", "invalid or unsupported Perl syntax: `(?>`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:nope:]]", "invalid character class range: `[:nope:]`"),
        (r"\p{Nope}", r"invalid character class range: `\p{Nope}`"),
        ("(?P<a>x)(?P<a>y)", "duplicate capture group name: `(?P<a>`"),
        ("+", "missing argument to repetition operator: `+`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("(" * 100, "expression nests too deeply"),
        ("((a{100}){100}){100}", "expression too large"),
    ],
)
def test_patterns_re2_does_not_have(pattern: str, told: str) -> None:
    with pytest.raises(ValueError, match="error parsing regexp") as refusal:
        compile_regex(pattern)
    assert told in str(refusal.value)
