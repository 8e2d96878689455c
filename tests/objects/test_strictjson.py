"""JSON bodies: Go's error messages, and duplicate fields with their paths."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.objects.errors import BadRequest
from shoal.objects.strictjson import duplicate_field_errors, loads


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"a":', "unexpected end of JSON input"),
        (b'{"a":"b', "unexpected end of JSON input"),
        (b'{"a":}', "invalid character '}' looking for beginning of value"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":[1] "b":2}', "invalid character '\"' after object key:value pair"),
        (b'{"a]":[1 2]}', "invalid character '2' after array element"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b'"a\nb"', "invalid character '\\n' in string literal"),
        (b'"\\x"', "invalid character 'x' in string escape code"),
        (b"no", "invalid character 'o' in literal null (expecting 'u')"),
        (b'{"a":tru}', "invalid character '}' in literal true (expecting 'e')"),
        (b"[fal", "unexpected end of JSON input"),
        (b'"\x01"', "invalid character '\\x01' in string literal"),
        (b"'a'", "invalid character '\\'' looking for beginning of value"),
        (b'{"a":NaN}', "invalid character 'N' looking for beginning of value"),
        (b"[-Infinity]", "invalid character 'I' looking for beginning of value"),
        (b"[1e400]", "json: cannot unmarshal number 1e400 into Go value of type float64"),
        (b'"\xff"', "invalid UTF-8 in JSON input"),
        (b'"\\ud800"', "invalid Unicode in JSON string"),
        (b"[" * 100_000, "invalid character '[' exceeded max depth"),
        (b"[" * 2_000 + b"]" * 2_000, "invalid character '[' exceeded max depth"),
        (b'{"a":' * 300 + b"1" + b"}" * 300, "invalid character '{' exceeded max depth"),
    ],
)
def test_what_is_no_json(data: bytes, said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        loads(data)
    assert caught.value.message == said


def test_depth_is_not_breadth() -> None:
    assert len(loads(b"[" + b",".join([b"{}"] * 1000) + b"]")) == 1000
    assert loads(b"[" * 254 + b"]" * 254)


def test_large_numbers() -> None:
    found = loads(b"[9223372036854775807,-9223372036854775808,18446744073709551616,1.5]")
    assert found == [2**63 - 1, -(2**63), 2.0**64, 1.5]
    assert [type(number) for number in found] == [int, int, float, float]


def test_text_is_fine_too() -> None:
    assert loads('{"ü": [true, null]}') == {"ü": [True, None]}
    assert loads(memoryview(b"[1]")) == [1]


@pytest.mark.parametrize(
    ("data", "paths"),
    [
        ('{"a":1,"b":{"a":1}}', []),
        ('{"a":1,"a":2}', ["a"]),
        ('{"a":1,"a":2,"a":3}', ["a"]),
        ('{"spec":{"a":1,"b":2,"a":3}}', ["spec.a"]),
        ('{"spec":{"list":[{"a":1,"a":2},{"a":1},[{"b":1,"b":1}]]}}', ["spec.list[0].a", "spec.list[2][0].b"]),
        ('{"a":{"x":1,"x":1},"a":{"y":1,"y":2}}', ["a.x", "a", "a.y"]),
        (r'{"a":1,"\u0061":2}', ["a"]),
        ('[{"a":1,"a":1}]', ["[0].a"]),
    ],
)
def test_duplicates(data: str, paths: list[str]) -> None:
    expected = [f'duplicate field "{path}"' for path in paths]
    assert duplicate_field_errors(data.encode()) == expected
    assert duplicate_field_errors(data) == expected


def test_duplicates_end_at_a_hundred() -> None:
    data = "{" + ",".join(f'"k{i}":1,"k{i}":2' for i in range(150)) + "}"
    found = duplicate_field_errors(data.encode())
    assert len(found) == 100
    assert found[-1] == 'duplicate field "k99"'


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 5000 + b"1" + b"}" * 5000])
def test_duplicates_of_a_bomb(data: bytes) -> None:
    with pytest.raises(BadRequest):
        duplicate_field_errors(data)


def test_duplicates_of_no_json() -> None:
    with pytest.raises(BadRequest) as caught:
        duplicate_field_errors(b'{"a":}')
    assert caught.value.message == "invalid character '}' looking for beginning of value"


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=10,
)


@given(values.filter(lambda value: "Infinity" not in json.dumps(value)))
def test_as_the_standard_library_reads(value: Any) -> None:
    data = json.dumps(value).encode()
    assert loads(data) == json.loads(data)
    assert duplicate_field_errors(data) == []


@given(st.text(alphabet='{}[]",:a1e-. \\nul', max_size=12))
def test_any_text_is_json_or_a_bad_request(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(BadRequest):
            loads(text)
    else:
        assert loads(text) == expected
