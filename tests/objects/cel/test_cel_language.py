"""The language: literals, operators, macros, absorbed errors and errors that are not."""

from __future__ import annotations

import math
from typing import Any

import pytest

from shoal.objects import cel
from shoal.objects.cel.types import BOOL, INT, STRING, list_of
from shoal.objects.cel.values import Duration, Timestamp, UInt
from tests.objects.cel.samples import eval_error, value


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("1", 1),
        ("-9223372036854775808", -(1 << 63)),
        ("0xfF", 255),
        ("18446744073709551615u", UInt((1 << 64) - 1)),
        ("1.5e3", 1500.0),
        (".5", 0.5),
        ("'a\\n\\x41\\101\\u00e9\\U0001F600'", "a\nAAé😀"),
        ('"""a"b\nc"""', 'a"b\nc'),
        ("r'\\d'", "\\d"),
        ("b'\\xff\\377é'", b"\xff\xff\xc3\xa9"),
        ("rb'\\x'", b"\\x"),
        ("br'\\x'", b"\\x"),
        ("null", None),
        ("[1, 2,]", [1, 2]),
        ("{'a': [1], }", {"a": [1]}),
        ("duration('-1.5s')", Duration(-1_500_000_000)),
        ("timestamp('1970-01-01T00:00:01.5+00:00')", Timestamp(1_500_000_000)),
        ("1 + 2 * 3 - 4 / 2 % 3", 5),
        ("- 2 - -2", 0),
        ("!!true ? 'y' : 'n'", "y"),
        ("1 < 2 == true", True),
        ("true || false && false", True),
        ("'é' < 'z'", False),
        ("// all\n1 // end", 1),
    ],
)
def test_values(source: str, wanted: Any) -> None:
    found = value(source)
    assert found == wanted
    assert type(found) is type(wanted)


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("true && m.x", "no such key: x"),
        ("m.x && true", "no such key: x"),
        ("false || m.x", "no such key: x"),
        ("m.x || m.y || false", "no such key: x"),
        ("[1, 0].all(i, 1 / i > 0)", "division by zero"),
        ("[0, 1].exists(i, 1 / i > 5)", "division by zero"),
        ("[1, 0].exists_one(i, 1 / i > 0)", "division by zero"),
        ("dyn(1) && true", "no such overload"),
        ("dyn('a') ? 1 : 2", "no such overload"),
        ("[dyn(1)].all(i, i)", "no such overload"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("-9223372036854775808 / -1", "integer overflow"),
        ("-9223372036854775808 % -1", "integer overflow"),
        ("-(-9223372036854775808)", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("1 % 0", "modulus by zero"),
        ("duration('2562047h') + duration('1h')", "duration overflow"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"),
        ("[1][1]", "index out of bounds: 1"),
        ("[1][-1]", "index out of bounds: -1"),
        ("{'a': 1}['b']", "no such key: b"),
        ("dyn(0.0) / dyn(0.0) < 1", "NaN values cannot be ordered"),
        ("dyn(1).x", "no such key: x"),
        ("dyn(1).size()", "no such overload"),
        ("dyn(null) + 1", "no such overload"),
        ("{m.s: 1, m.s: 2}", "Failed with repeated key: t"),
    ],
)
def test_errors(source: str, wanted: str) -> None:
    assert eval_error(source, m={"s": "t"}) == wanted


@pytest.mark.parametrize(
    "source",
    [
        "true || m.x",
        "m.x || true",
        "!(false && m.x)",
        "!(m.x && false)",
        "m.x || m.y || true",
        "![0, 1].all(i, 1 / i > 5)",
        "[0, 1].exists(i, 1 / i > 0)",
        "true ? true : m.x",
        "!has(m.x) && has(m.s)",
    ],
)
def test_errors_that_do_not_matter(source: str) -> None:
    assert value(source, m={"s": "t"}) is True


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("m.map(k, k)", ["a", "b"]),
        ("m.all(k, v, v > 0)", True),
        ("m.exists(k, v, v == 2)", True),
        ("m.existsOne(k, v, v > 0)", False),
        ("m.transformMap(k, v, v > 1, v * 2)", {"b": 4}),
        ("m.transformMapEntry(k, v, {v: k})", {1: "a", 2: "b"}),
        ("l.transformList(i, x, x > 2, i)", [0, 2]),
        ("l.map(x, x > 2, x + 1)", [4, 6]),
        ("l.filter(x, l.exists(y, y == x - 2))", [3, 5]),
        ("l.map(x, l.map(x, x)[0])", [3, 3, 3]),
        ("l.sortBy(x, -x)", [5, 3, 1]),
        ("[].all(x, false)", True),
        ("[].exists(x, true)", False),
        ("[[1], [2]].map(x, x.map(y, y + 1))", [[2], [3]]),
    ],
)
def test_comprehensions(source: str, wanted: Any) -> None:
    assert value(source, m={"a": 1, "b": 2}, l=[3, 1, 5]) == wanted


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("dyn(1) == 1.0 && dyn(1u) == 1 && dyn(1.0) == 1u", True),
        ("dyn(1) == dyn(true)", False),
        ("dyn('1') == dyn(1)", False),
        ("dyn(null) == dyn(false)", False),
        ("{'a': 1} == dyn({'a': 1u})", True),
        ("{1: 'a'}[1]", "a"),
        ("dyn({1: 'a'})[1.0]", "a"),
        ("dyn(true) in dyn([1])", False),
        ("dyn(true) in dyn({1: 1})", False),
        ("dyn(0.0) / dyn(0.0) == dyn(0.0) / dyn(0.0)", False),
        ("1.0 / 0.0 > 1.0", True),
        ("-7 / 2 == -3 && -7 % 2 == -1", True),
        ("b'a' + b'b' == b'ab'", True),
    ],
)
def test_equality_and_numbers(source: str, wanted: Any) -> None:
    assert value(source) == wanted


def test_optionals() -> None:
    held = {"a": {"b": 1}, "l": [1], "z": 0}
    cases: dict[str, Any] = {
        "m.?a.?b.value()": 1,
        "m.?x.?b.hasValue()": False,
        "m.?a.b.orValue(5)": 1,
        "m[?'x'].orValue(7)": 7,
        "m.l[?0].value()": 1,
        "m.l[?1].hasValue()": False,
        "m.?l[0].value()": 1,
        "optional.of(1).or(optional.of(1 / 0)).value()": 1,
        "optional.of(1).orValue(1 / 0)": 1,
        "optional.ofNonZeroValue(m.z).hasValue()": False,
        "m.?x.optMap(v, v + 1).hasValue()": False,
        "m.?z.optMap(v, v + 1).value()": 1,
        "m.?a.optFlatMap(v, v.?b).value()": 1,
        "[?m.?x, ?m.?z]": [0],
        "{?'a': m.?x, 'b': 1}": {"b": 1},
        "optional.unwrap([optional.of(1), optional.none()])": [1],
        "optional.of(1) == optional.of(1)": True,
        "optional.none() == optional.none()": True,
        "has(m.?a.b)": True,
    }
    for source, wanted in cases.items():
        assert value(source, m=held) == wanted, source
    assert eval_error("m.?x.value()", m=held) == "optional.none() dereference"
    assert eval_error("[?m.z]", m=held) == "cannot initialize optional list element from non-optional value 0"


def test_a_program_says_its_type_and_what_it_reads() -> None:
    program = cel.compile_expression("self.map(x, x > 1)", {"self": list_of(INT), "oldSelf": STRING})
    assert str(program.result) == "list(bool)"
    assert program.used_variables == {"self"}
    assert cel.compile_expression("oldSelf == 'a'", {"self": BOOL, "oldSelf": STRING}).used_variables == {"oldSelf"}


def test_a_program_keeps_nothing_between_evaluations() -> None:
    program = cel.compile_expression("self.map(x, x * 2)", {"self": list_of(INT)})
    first = program.evaluate([[1, 2]], cel.PER_CALL_LIMIT)
    second = program.evaluate([[3]], cel.PER_CALL_LIMIT)
    assert (first.value, second.value) == ([2, 4], [6])
    assert program.evaluate([[1, 2]], cel.PER_CALL_LIMIT) == first


def test_nan_is_no_number() -> None:
    assert math.isnan(value("0.0 / 0.0"))
