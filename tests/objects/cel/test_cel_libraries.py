"""Kubernetes' CEL libraries: typical and invalid values."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.objects import cel
from tests.objects.cel.samples import eval_error, value

STRINGS = {
    "'tacocat'.charAt(3)": "o",
    "'abc'.charAt(3)": "",
    "'héllo'.indexOf('l')": 2,
    "'hello'.indexOf('l', 3)": 3,
    "'hello'.indexOf('', 4)": 4,
    "'hello'.indexOf('z')": -1,
    "'hello'.indexOf('o', 9)": -1,
    "'hello'.lastIndexOf('l')": 3,
    "'hello'.lastIndexOf('l', 2)": 2,
    "'hello'.lastIndexOf('')": 5,
    "'hello'.lastIndexOf('l', 9)": -1,
    "'ÄbC'.lowerAscii()": "Äbc",
    "'äbc'.upperAscii()": "äBC",
    "'hello'.replace('l', 'L', 1)": "heLlo",
    "'ab'.replace('', '-')": "-a-b-",
    "'a,b,c'.split(',')": ["a", "b", "c"],
    "'a,b,c'.split(',', 2)": ["a", "b,c"],
    "'a,b,c'.split(',', 0)": [],
    "'abc'.split('')": ["a", "b", "c"],
    "'abc'.substring(1)": "bc",
    "'abc'.substring(1, 2)": "b",
    "' \\t a '.trim()": "a",
    "['a', 'b'].join()": "ab",
    "['a', 'b'].join('-')": "a-b",
    "strings.quote('a\\n\"b\"')": '"a\\n\\"b\\""',
    "'abc'.matches('b')": True,
    "matches('abc', '^b')": False,
    "'foo123bar45'.find('[0-9]+')": "123",
    "'foo123bar45'.findAll('[0-9]+')": ["123", "45"],
    "'foo123bar45'.findAll('[0-9]+', 1)": ["123"],
    "'abc'.find('x')": "",
}
FORMATTING = {
    "'%s %s %s'.format(['a', 1, 1.5])": "a 1 1.5",
    "'%s'.format([[1, 'a', null, true, b'x']])": '[1, "a", null, true, b"x"]',
    "'%s'.format([{'b': 1.5, 'a': duration('1m')}])": '{"a":duration("60s"), "b":1.500000}',
    "'%s'.format([timestamp('2024-01-01T00:00:00.5Z')])": "2024-01-01T00:00:00.5Z",
    "'%d%%'.format([5])": "5%",
    "'%.2f'.format([1234.567])": "1,234.57",
    "'%x %X %x'.format([255, 255, 'hi'])": "ff FF 6869",
    "'%b %o %b'.format([5, 8, true])": "101 10 1",
    "'%s'.format([int])": "int",
}
LISTS = {
    "[1, 2].isSorted()": True,
    "['b', 'a'].isSorted()": False,
    "[1.5, 2.5].sum()": 4.0,
    "[duration('1s'), duration('2s')].sum() == duration('3s')": True,
    "[].sum()": 0,
    "['b', 'a'].min()": "a",
    "[1, 3, 2].max()": 3,
    "[1, 2, 1].lastIndexOf(1)": 2,
    "[1, 2].indexOf(3)": -1,
    "[[[1]], [[2], [3]]].flatten(2)": [1, 2, 3],
    "[[1, 2], [3]].flatten()": [1, 2, 3],
    "[1, 2, 3].slice(1, 2)": [2],
    "[1, 2, 1].distinct()": [1, 2],
    "[1, 2].reverse()": [2, 1],
    "['b', 'a'].sort()": ["a", "b"],
    "lists.range(3)": [0, 1, 2],
    "[1].first().value()": 1,
    "[].last().hasValue()": False,
    "sets.contains([1, 2], [])": True,
    "sets.equivalent([1, 1, 2], [2, 1])": True,
    "sets.intersects([1], [2])": False,
}
NET = {
    "string(ip('::FFFF'))": "::ffff",
    "ip('fe80::1').isLinkLocalUnicast()": True,
    "ip('224.0.0.1').isLinkLocalMulticast()": True,
    "ip('ff02::1').isLinkLocalMulticast()": True,
    "ip('0.0.0.0').isUnspecified()": True,
    "ip('127.0.0.1').isGlobalUnicast()": False,
    "ip('255.255.255.255').isGlobalUnicast()": False,
    "ip('192.168.0.1').isGlobalUnicast()": True,
    "isIP('::ffff:1.2.3.4')": False,
    "isIP('fe80::1%eth0')": False,
    "isIP('1.2.3.04')": False,
    "ip.isCanonical('2001:DB8::1')": False,
    "isCIDR('10.0.0.0/33')": False,
    "isCIDR('10.0.0.0/08')": False,
    "cidr('::/0').containsIP('10.0.0.1')": False,
    "cidr('10.0.0.0/16').containsCIDR('10.0.0.0/8')": False,
    "cidr('10.0.0.0/8') == cidr('10.0.0.0/8')": True,
    "type(ip('::1')) == net.IP": True,
}
OTHERS = {
    "url('https://user@[::1]:8080/a%20b?q=1#f').getHostname()": "::1",
    "url('https://[::1]:8080/').getPort()": "8080",
    "url('https://[::1]/').getHost()": "[::1]",
    "url('/path?k=a&k=b').getQuery()": {"k": ["a", "b"]},
    "url('/path').getScheme()": "",
    "isURL('https://a b')": False,
    "isURL('')": False,
    "isQuantity('1.5Gi') && !isQuantity('1.5Gx')": True,
    "quantity('1k').sub(1).asInteger()": 999,
    "quantity('1').compareTo(quantity('1000m'))": 0,
    "quantity('1') == quantity('1000m')": True,
    "sign(quantity('0'))": 0,
    "semver('1.0.0-alpha.2').isLessThan(semver('1.0.0-alpha.10'))": True,
    "semver('1.0.0-alpha').isGreaterThan(semver('1.0.0-1'))": True,
    "semver('1.0.0+a') == semver('1.0.0+b')": True,
    "isSemver('01.0.0') || isSemver('1.0')": False,
    "semver('v01.2', true).patch()": 0,
    "format.labelValue().validate('a b').hasValue()": True,
    "format.dns1123LabelPrefix().validate('a-').hasValue()": False,
    "format.uuid().validate('x').value()": ["does not match the UUID format"],
    "format.date().validate('2024-02-30').value()": ["invalid date"],
    "format.uri().validate('/a').hasValue()": False,
    "format.named('nope').hasValue()": False,
    "timestamp('2024-02-29T23:00:00Z').getDayOfYear('+02:00')": 60,
    "timestamp('2024-02-29T23:00:00Z').getDayOfWeek()": 4,
    "timestamp('2024-02-29T23:00:00Z').getDayOfMonth()": 28,
    "duration('-90s').getMinutes()": -1,
    "string(duration('1500ms'))": "1.5s",
    "int(timestamp('1970-01-01T00:01:00Z'))": 60,
    "string(1e21) + string(1e20) + string(0.00001)": "1e+211000000000000000000001e-05",
    "int('+5')": 5,
    "bool('T')": True,
    "bytes('é')": "é".encode(),
}
CASES = [*STRINGS.items(), *FORMATTING.items(), *LISTS.items(), *NET.items(), *OTHERS.items()]


@pytest.mark.parametrize(("source", "wanted"), CASES)
def test_values(source: str, wanted: Any) -> None:
    assert value(source) == wanted


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("'a'.charAt(2)", "index out of range: 2"),
        ("'a'.indexOf('a', -1)", "index out of range: -1"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("'abc'.substring(4)", "index out of range: 4"),
        ("['a', dyn(1)].join()", "join: invalid input: 1"),
        (
            "'%d'.format(['a'])",
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("'%s %s'.format([1])", "index 1 out of range"),
        ("'%y'.format([1])", 'could not parse formatting clause: unrecognized formatting clause "y"'),
        ("[9223372036854775807, 1].sum()", "integer overflow"),
        ("dyn([]).max()", "max called on empty list"),
        ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
        ("[dyn(1), dyn('a')].sort()", "list elements must have the same type"),
        ("lists.range(999999).map(x, x)", "operation cancelled: actual cost limit exceeded"),
        ("'a'.matches('(' + 'a')", "error parsing regexp: missing closing ): `(a`"),
        ("'a'.find('(?' + '=a)')", "Illegal regex: error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
        ("ip('1.2.3').family()", 'IP Address "1.2.3" parse error during conversion from string: ParseAddr("1.2.3"): '),
        ("ip('::1%a').family()", 'IP address "::1%a" with zone value is not allowed'),
        ("cidr('::ffff:1.2.3.4/120').ip()", "network address parse error during conversion from string: IPv4-mapped"),
        ("url('a').getHost()", 'URL parse error during conversion from string: parse "a": invalid URI for request'),
        ("quantity('x')", "quantities must match the regular expression"),
        ("quantity('1.5').asInteger()", "cannot convert value to integer"),
        ("semver('1.0')", "No Major.Minor.Patch elements found"),
        ("int('1' + 'x')", "type conversion error from 'string' to 'int'"),
        ("int(1e19 * 1.0)", "integer overflow"),
        ("string(b'\\xff' + b'')", "invalid UTF-8 in bytes, cannot convert to string"),
        ("timestamp('2024-01-01T00:00:00Z').getHours('Nowhere/Land')", "unknown time zone Nowhere/Land"),
    ],
)
def test_errors(source: str, wanted: str) -> None:
    assert eval_error(source).startswith(wanted)


@pytest.mark.parametrize(
    "source",
    ["'abc'.reverse()", "base64.encode(b'a')", "math.greatest(1, 2)", "cel.bind(x, 1, x)", "regex.extract('a', 'b')"],
)
def test_what_kubernetes_does_not_serve_is_not_served(source: str) -> None:
    with pytest.raises(cel.CELCompileError, match=r"undeclared reference|found no matching overload"):
        cel.compile_expression(source, {})
