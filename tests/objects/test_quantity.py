"""Quantities: exact amounts, canonical text, order."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.objects.quantity import BINARY_SI, DECIMAL_EXPONENT, DECIMAL_SI, NANO, ZERO, Quantity

FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
parse = Quantity.parse


@pytest.mark.parametrize(
    ("text", "amount", "canonical"),
    [
        ("0", 0, "0"),
        ("-0", 0, "0"),
        ("100m", Fraction(1, 10), "100m"),
        ("0.5", Fraction(1, 2), "500m"),
        ("1.5", Fraction(3, 2), "1500m"),
        ("1000m", 1, "1"),
        ("1000", 1000, "1k"),
        ("1500", 1500, "1500"),
        ("1.500", Fraction(3, 2), "1.500"),
        ("+5", 5, "+5"),
        ("2G", 2 * 10**9, "2G"),
        ("1024Ki", 2**20, "1Mi"),
        ("1025Ki", 1025 * 1024, "1025Ki"),
        ("1.5Gi", 3 * 2**29, "1536Mi"),
        ("0.5Ki", 512, "512"),
        ("1.1Ki", Fraction(11264, 10), "1126400m"),
        ("12e6", 12 * 10**6, "12e6"),
        ("1500e-3", Fraction(3, 2), "1500e-3"),
        ("1E", 10**18, "1E"),
        ("1E2", 100, "100"),
        ("16Ei", 2**63 - 1, "9223372036854775807"),
        ("-2.5Mi", -5 * 2**19, "-2560Ki"),
        ("0.1n", Fraction(1, NANO), "1n"),
        ("-0.1n", Fraction(-1, NANO), "-1n"),
        ("1e-999999999", Fraction(1, NANO), "1e-9"),
        ("1.", 1, "1."),
        (".5", Fraction(1, 2), "500m"),
    ],
)
def test_parsing_and_writing(text: str, amount: Fraction | int, canonical: str) -> None:
    assert parse(text).nano == amount * NANO
    assert str(parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", FORMAT),
        ("+", FORMAT),
        ("Ki", FORMAT),
        ("1.2.3", FORMAT),
        ("1 Gi", FORMAT),
        ("1Gi\n", FORMAT),
        ("١", FORMAT),
        ("9" * 300, FORMAT),
        (".", "unable to parse numeric part of quantity"),
        ("1K", "unable to parse quantity's suffix"),
        ("1mm", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1e513", "unable to parse quantity's suffix"),
        ("1e99999999999", "unable to parse quantity's suffix"),
    ],
)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse(text)
    assert str(caught.value) == said


def test_json_numbers_are_quantities() -> None:
    assert parse(2) == parse("2")
    assert parse(0.1) == parse("100m")
    with pytest.raises(ValueError, match="quantities must match"):
        parse(True)


def test_the_suffix_family_is_kept() -> None:
    assert str(parse("1Gi") + parse("1Gi")) == "2Gi"
    assert str(parse("1Gi") + parse("1G")) == "2073741824"
    assert str(parse("1G") + parse("1Gi")) == "2073741824"
    assert str(ZERO + parse("2Gi")) == "2Gi"
    assert str(ZERO - parse("2Gi")) == "-2Gi"
    assert str(parse("3Gi") - parse("1Gi")) == "2Gi"
    assert str(parse("1e3") * 2) == "2e3"
    assert str(-parse("100m")) == "-100m"
    assert str(Quantity.from_int(2048, BINARY_SI)) == "2Ki"
    assert str(Quantity.from_int(10**24)) == "1000000E"


def test_whole_units_round_away_from_zero() -> None:
    assert (parse("100m").value(), parse("-100m").value(), parse("2").value()) == (1, -1, 2)
    assert (parse("1u").milli_value(), parse("1500m").milli_value()) == (1, 1500)


def test_a_quantity_is_a_value() -> None:
    assert parse("1") == parse("1000m")
    assert hash(parse("1")) == hash(parse("1000m"))
    assert parse("1Ki") > parse("1k")
    assert not ZERO
    assert parse("1") != 1
    assert repr(parse("1.5")) == "Quantity('1500m')"
    with pytest.raises(AttributeError):
        parse("1").nano = 2


suffixes = st.sampled_from(["", *"num kMGTPE".replace(" ", ""), "Ki", "Mi", "Gi", "Ti", "e3", "E-2", "e0"])
texts = st.builds("{}{}{}".format, st.integers(-(10**6), 10**6), st.sampled_from(["", ".5", ".25", ".001"]), suffixes)


@given(texts)
def test_reading_back_what_was_written(text: str) -> None:
    quantity = parse(text)
    again = parse(str(quantity))
    assert again == quantity
    assert str(parse(str(Quantity(quantity.nano, quantity.format)))) == str(Quantity(quantity.nano, quantity.format))


@given(st.integers(-(10**30), 10**30), st.sampled_from([DECIMAL_SI, DECIMAL_EXPONENT]))
def test_every_amount_can_be_written_exactly(nano: int, format_: str) -> None:
    assert parse(str(Quantity(nano, format_))).nano == nano


@given(texts, texts)
def test_order_and_sums_are_those_of_the_amounts(left: str, right: str) -> None:
    a, b = parse(left), parse(right)
    assert (a < b, a == b, a > b) == (a.nano < b.nano, a.nano == b.nano, a.nano > b.nano)
    assert (a + b) - b == a
    assert (a + b).nano == a.nano + b.nano
