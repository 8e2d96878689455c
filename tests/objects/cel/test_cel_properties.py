"""Properties of arithmetic, equality and conversions: they hold for any value, or the evaluation reports an error."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.objects import cel
from shoal.objects.cel.regex import compile_regex
from shoal.objects.cel.types import DOUBLE, DYN, INT, STRING, CELType, list_of
from shoal.objects.cel.values import INT_MAX, INT_MIN, equal

LAWS = settings(derandomize=True, deadline=None, max_examples=150)
INTS = st.integers(INT_MIN, INT_MAX) | st.integers(-5, 5)
JSON = st.recursive(
    st.none() | st.booleans() | INTS | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
PROGRAMS: dict[tuple[str, str], cel.CELProgram] = {}


def evaluate_typed(source: str, kind: CELType, *values: Any) -> cel.EvalResult:
    key = (source, str(kind))
    if key not in PROGRAMS:
        PROGRAMS[key] = cel.compile_expression(source, {name: kind for name, _ in zip("abc", values, strict=False)})
    return PROGRAMS[key].evaluate(values, cel.PER_CALL_LIMIT)


@LAWS
@given(INTS, INTS)
def test_integers_are_exact_or_overflow(a: int, b: int) -> None:
    for sign, wanted in (("+", a + b), ("-", a - b), ("*", a * b)):
        found = evaluate_typed(f"a {sign} b", INT, a, b)
        if INT_MIN <= wanted <= INT_MAX:
            assert (found.value, found.error) == (wanted, None)
        else:
            assert str(found.error) == "integer overflow"
    if b and not (a == INT_MIN and b == -1):
        assert evaluate_typed("a / b * b + a % b == a", INT, a, b).value is True
        assert abs(evaluate_typed("a % b", INT, a, b).value) < abs(b)


@LAWS
@given(INTS, st.floats(allow_nan=False))
def test_order_of_numbers_does_not_depend_on_their_types(a: int, b: float) -> None:
    assert evaluate_typed("a < b", DYN, a, b).value is (a < b)
    assert evaluate_typed("a >= b", DYN, a, b).value is (a >= b)
    assert evaluate_typed("a == b", DYN, a, b).value is (a == b)


@LAWS
@given(JSON, JSON)
def test_equality_is_symmetric_and_of_itself(a: Any, b: Any) -> None:
    assert evaluate_typed("a == a", DYN, a, b).value is True
    assert evaluate_typed("a == b", DYN, a, b).value is equal(b, a)
    assert evaluate_typed("a != b", DYN, a, b).value is not equal(a, b)


@LAWS
@given(st.text(max_size=20), st.text(max_size=3))
def test_strings(a: str, b: str) -> None:
    assert (
        evaluate_typed("(a + b).startsWith(a) && (a + b).endsWith(b) && (a + b).contains(b)", STRING, a, b).value
        is True
    )
    assert evaluate_typed("(a + b).size() == a.size() + b.size()", STRING, a, b).value is True
    assert evaluate_typed("a.split(b).join(b) == a", STRING, a, b).value is True
    assert evaluate_typed("(a + b).substring(0, a.size()) == a", STRING, a, b).value is True


@LAWS
@given(st.lists(INTS, max_size=8))
def test_lists(items: list[int]) -> None:
    kind = list_of(INT)
    assert evaluate_typed("a.sort().isSorted() && sets.equivalent(a, a.sort())", kind, items).value is True
    assert evaluate_typed("a.reverse().reverse() == a", kind, items).value is True
    assert evaluate_typed("a.filter(x, x > 0) + a.filter(x, x <= 0)", kind, items).value == sorted(
        items, key=lambda item: item <= 0
    )
    assert evaluate_typed("!a.exists(x, x > 0) == a.all(x, !(x > 0))", kind, items).value is True


@LAWS
@given(INTS, st.floats(allow_nan=False, allow_infinity=False))
def test_conversions_return(a: int, b: float) -> None:
    assert evaluate_typed("int(string(a)) == a", INT, a).value is True
    assert evaluate_typed("double(string(a)) == a", DOUBLE, b).value is True
    assert evaluate_typed(
        "duration(a) == duration(string(duration(a))) || a < -9000000000000000000", INT, a // 1000
    ).value


@LAWS
@given(st.text("ab.*+?()[]|^${}0-1\\", max_size=8), st.text("ab01 \n", max_size=12))
def test_searches_agree_with_the_engine_and_with_python(pattern: str, text: str) -> None:
    try:
        expression = compile_regex(pattern)
    except ValueError:
        return
    found = expression.find_all(text)
    assert bool(found) == expression.matches(text)
    if not re.search(r"[\\^$.{]|\(\)", pattern):
        first = re.search(pattern, text)
        assert found[:1] == ([first.group()] if first else [])
