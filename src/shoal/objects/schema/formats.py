"""String formats of schemas, as upstream (kube-openapi strfmt) defines them.

As upstream, validation ignores a format that is not in `FORMATS`. Names are looked up without dashes: `date-time` and
`datetime` are the same.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable
from datetime import date as calendar_date

FormatCheck = Callable[[str], bool]


def _full_matcher(fullmatch: Callable[[str], object]) -> FormatCheck:
    return lambda text: fullmatch(text) is not None


_HEX4 = "[0-9a-f]{4}"
_HEX12, _VARIANT, _NO_CASE = "[0-9a-f]{12}", "[89ab][0-9a-f]{3}", re.ASCII | re.IGNORECASE
_uuid = re.compile(f"[0-9a-f]{{8}}-?{_HEX4}-?{_HEX4}-?{_HEX4}-?{_HEX12}", _NO_CASE).fullmatch
_uuid3 = re.compile(f"[0-9a-f]{{8}}-?{_HEX4}-?3[0-9a-f]{{3}}-?{_HEX4}-?{_HEX12}", _NO_CASE).fullmatch
_uuid4 = re.compile(f"[0-9a-f]{{8}}-?{_HEX4}-?4[0-9a-f]{{3}}-?{_VARIANT}-?{_HEX12}", _NO_CASE).fullmatch
_uuid5 = re.compile(f"[0-9a-f]{{8}}-?{_HEX4}-?5[0-9a-f]{{3}}-?{_VARIANT}-?{_HEX12}", _NO_CASE).fullmatch


_full_date = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII).fullmatch
_partial_time = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})").fullmatch


def is_date(text: str) -> bool:
    match = _full_date(text)
    if match is None:
        return False
    year, month, day = (int(part) for part in match.groups())
    try:
        calendar_date(year or 2000, month, day)
    except ValueError:
        return False
    return True


def is_date_time(text: str) -> bool:
    parts = text.lower().split("t")
    if len(parts) < 2 or not is_date(parts[0]):
        return False
    match = _partial_time(parts[1])
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


_go_duration = re.compile(r"[-+]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[nuµμ]s|ms?|s|h))+)", re.ASCII).fullmatch
_find_worded_durations = re.compile(r"(?<!\d)\d++\s*+([A-Za-zµ]*+)", re.ASCII).finditer
_UNITS = frozenset(("ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"))
_UNIT_STEMS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


def is_duration(text: str) -> bool:
    """Accepts Go's `1h30m`, or words anywhere in the text, as in `2 days`."""
    if _go_duration(text):
        return True
    units = (match[1].lower() for match in _find_worded_durations(text))
    return any(unit in _UNITS or unit.startswith(_UNIT_STEMS) for unit in units)


_single_label = re.compile("[a-zA-Z0-9](?:-?[a-zA-Z0-9]{0,62})?").fullmatch
_labels = re.compile(r"[a-zA-Z0-9]+(?:-+[a-zA-Z0-9]+)*(?:\.[a-zA-Z0-9]+(?:-+[a-zA-Z0-9]+)*)*").fullmatch
_top_level = re.compile("[a-zA-Z]{2,63}").fullmatch


def is_hostname(text: str) -> bool:
    if len(text.encode()) > 255 or any(len(part.encode()) > 63 for part in text.split(".")):
        return False
    labels, dot, last = "".join(map(_ascii_equivalent, text)).rpartition(".")
    return bool(_labels(labels) and _top_level(last) if dot else _single_label(last))


def _ascii_equivalent(char: str) -> str:
    """Letters and symbols of any script are accepted: a letter where letters are allowed, a symbol where digits are."""
    if char.isascii() and (char.isalnum() or char in "-."):
        return char
    category = unicodedata.category(char)
    return "a" if category[0] == "L" else "0" if category[0] == "S" else "!"


_ATOM = r"[\w!#$%&'*+/=?^`{|}~\x80-\U0010ffff-]+"
_QUOTED = r'"(?:[^"\\\r\n]|\\.)*"'
_address = re.compile(
    rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?:{_ATOM}(?:\.{_ATOM})*|\[[^\[\]\\]*\])", re.ASCII
).fullmatch
_display_name = re.compile(rf'(?:{_QUOTED}\s*|[^"<>@,;:\\]*)<', re.ASCII).match
_SPACE = " \t\n\r\f\v"


def is_email(text: str) -> bool:
    """Accepts an address, or a name followed by an address in angle brackets."""
    text = text.strip(_SPACE)
    if not text.endswith(">"):
        return _address(text) is not None
    name = _display_name(text)
    return name is not None and _address(text, name.end(), len(text) - 1) is not None


_uri = re.compile(
    r"/[^\x00-\x1f\x7f]*|\*|[a-zA-Z][a-zA-Z0-9+.-]*:(?://(?:[^\s/?#@\x00-\x1f]*@)?"
    r"(?:\[[0-9a-fA-F:.%\w]+\]|[^\s/?#:\[\]\x00-\x1f\x7f]*)(?::\d*)?(?:[/?#][^\x00-\x1f\x7f]*)?|(?!//)[^\x00-\x1f\x7f]+)"
).fullmatch
_bad_escape = re.compile(r"%(?![0-9a-fA-F]{2})").search


def is_uri(text: str) -> bool:
    return _uri(text) is not None and not _bad_escape(text.partition("?")[0])


def is_ipv4(text: str) -> bool:
    """Leading zeros are accepted, as before Go 1.17; so is an IPv4 address embedded in an IPv6 one."""
    if ":" in text:
        return "." in text and is_ipv6(text)
    parts = text.split(".")
    return len(parts) == 4 and all(map(_is_octet, parts))


def _is_octet(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text.lstrip("0")) <= 3 and int(text) < 256


def is_ipv6(text: str) -> bool:
    if ":" not in text or "%" in text:
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not (bits.isascii() and bits.isdigit()) or len(bits) > 3:
        return False
    if ":" in address:
        return is_ipv6(address) and int(bits) <= 128
    return is_ipv4(address) and int(bits) <= 32


_mac_pairs = re.compile(
    r"[0-9a-fA-F]{2}(?:(:[0-9a-fA-F]{2}){5}|(:[0-9a-fA-F]{2}){7}|(:[0-9a-fA-F]{2}){19}"
    r"|(-[0-9a-fA-F]{2}){5}|(-[0-9a-fA-F]{2}){7}|(-[0-9a-fA-F]{2}){19})",
    re.ASCII,
).fullmatch
_mac_quads = re.compile(
    r"[0-9a-fA-F]{4}(?:(\.[0-9a-fA-F]{4}){2}|(\.[0-9a-fA-F]{4}){3}|(\.[0-9a-fA-F]{4}){9})", re.ASCII
).fullmatch


def is_mac(text: str) -> bool:
    return bool(_mac_pairs(text) or _mac_quads(text))


_remove_separators = re.compile(r"[\s-]+").sub
_isbn10 = re.compile("[0-9]{9}X|[0-9]{10}", re.ASCII).fullmatch
_isbn13 = re.compile("[0-9]{13}", re.ASCII).fullmatch


def is_isbn10(text: str) -> bool:
    code = _remove_separators("", text)
    if not _isbn10(code):
        return False
    digits = [10 if char == "X" else int(char) for char in code]
    return sum(place * digit for place, digit in enumerate(digits, 1)) % 11 == 0


def is_isbn13(text: str) -> bool:
    code = _remove_separators("", text)
    return _isbn13(code) is not None and sum(int(char) * (1, 3)[place % 2] for place, char in enumerate(code)) % 10 == 0


_remove_others = re.compile("[^0-9]+").sub
_card = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}",
    re.ASCII,
).fullmatch


def is_credit_card(text: str) -> bool:
    digits = _remove_others("", text)
    if not _card(digits):
        return False
    doubled = (sum(divmod(int(digit) * 2, 10)) for digit in digits[-2::-2])
    return (sum(doubled) + sum(int(digit) for digit in digits[-1::-2])) % 10 == 0


_base64 = re.compile("(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}(?:==|[A-Za-z0-9+/]=))?").fullmatch
_ssn = re.compile(r"\d{3}[- ]?\d{2}[- ]?\d{4}", re.ASCII).fullmatch
_CHANNEL = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_LABEL = "[a-z0-9]+(?:-+[a-z0-9]+)*"
_label = re.compile(_LABEL, re.ASCII).fullmatch
_subdomain = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII).fullmatch

FORMATS: dict[str, FormatCheck] = {
    "bsonobjectid": _full_matcher(re.compile("[0-9a-fA-F]{24}", re.ASCII).fullmatch),
    "byte": lambda text: bool(text and _base64(text)),
    "cidr": is_cidr,
    "creditcard": is_credit_card,
    "date": is_date,
    "datetime": is_date_time,
    "duration": is_duration,
    "email": is_email,
    "hexcolor": _full_matcher(re.compile("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})", re.ASCII).fullmatch),
    "hostname": is_hostname,
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
    "isbn": lambda text: is_isbn10(text) or is_isbn13(text),
    "isbn10": is_isbn10,
    "isbn13": is_isbn13,
    "k8slongname": lambda text: len(text) <= 253 and _subdomain(text) is not None,
    "k8sshortname": lambda text: len(text) <= 63 and _label(text) is not None,
    "mac": is_mac,
    "password": lambda _: True,
    "rgbcolor": _full_matcher(re.compile(rf"rgb\({_CHANNEL},{_CHANNEL},{_CHANNEL}\)", re.ASCII).fullmatch),
    "ssn": lambda text: len(text) == 11 and _ssn(text) is not None,
    "uri": is_uri,
    "uuid": _full_matcher(_uuid),
    "uuid3": _full_matcher(_uuid3),
    "uuid4": _full_matcher(_uuid4),
    "uuid5": _full_matcher(_uuid5),
}
_NUMERIC = {"integer": ("int32", "int64"), "number": ("float", "double")}


def format_check(name: str) -> FormatCheck | None:
    return FORMATS.get(name.replace("-", ""))


def is_recognized(name: str, type_name: str) -> bool:
    """True if a schema of that type may name this format and have it checked."""
    if type_name in ("", "string"):
        return format_check(name) is not None
    return name in _NUMERIC.get(type_name, ())
