"""Patterns that were rewritten to run in linear time match what upstream's, or the plain ones, match."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kinds.core import security_context, volume_sources
from shoal.kinds.resource import claim_status, resourceslice
from shoal.kinds.validation import field
from shoal.objects import names, selectors
from shoal.objects.schema import formats

LABEL = "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
PRE_RELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
NUMBER = r"(0|[1-9]\d*)"
BASE64 = "[A-Za-z0-9+/]"
ATOM = r"[\w!#$%&'*+/=?^`{|}~\x80-\U0010ffff-]+"
QUOTED = r'"(?:[^"\\\r\n]|\\.)*"'
ADDRESS = rf"(?:{ATOM}(?:\.{ATOM})*|{QUOTED})@(?:{ATOM}(?:\.{ATOM})*|\[[^\[\]\\]*\])"

SAME: list[tuple[str, Callable[[str], object], str]] = [
    (names._LABEL, names._match_label, "ab1-_."),
    (names._SUBDOMAIN, names._match_subdomain, "ab1-_."),
    (names._SEARCH, names._match_search, "ab1-_."),
    (names._LABEL_1035, names._match_1035, "ab1-_."),
    (names._KEY, names._match_key, "aB1-_./"),
    (names._VALUE, names._match_value, "aB1-_./"),
    (security_context._SYSCTL.strip("^$"), security_context._match_sysctl, "ab1-_./"),
    (field._WILDCARD, field._match_wildcard, "ab1-.*"),
    (claim_status._REASON, claim_status._match_reason, "aB1_,:"),
    (
        rf"{NUMBER}\.{NUMBER}\.{NUMBER}(-{PRE_RELEASE}(\.{PRE_RELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
        resourceslice._match_version,
        "01.-+a",
    ),
    (
        r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})",
        formats.FORMATS["byte"],
        "aB1+=",
    ),
    (rf"{LABEL[:11]}(-?[a-zA-Z0-9]{{0,62}})?|({LABEL}\.)+[a-zA-Z]{{2,63}}", formats.is_hostname, "ab1-."),
    (r"[-+]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", formats._go_duration, "01.mshnuµ+-"),
    (rf'\s*(?:{ADDRESS}|(?:{QUOTED}|[^"<>@,;:\\]*)\s*<{ADDRESS}>)\s*', formats.is_email, 'ab.@<>" \\[]é'),
    (
        r"(?s:.*)iqn\.\d{4}-\d{2}\.([A-Za-z0-9.-]+)(:[^,;*&$|\s]+)",
        volume_sources._is_iscsi_name,
        ":,a.",
    ),
]
PIECES: dict[Callable[[str], object], list[str]] = {volume_sources._is_iscsi_name: ["iqn.2001-01.", "iqn.", "2001-01."]}


@pytest.mark.parametrize(("pattern", "check", "alphabet"), SAME, ids=[pattern[:24] for pattern, _, _ in SAME])
def test_matches_are_the_same(pattern: str, check: Callable[[str], object], alphabet: str) -> None:
    fullmatch = re.compile(pattern, re.ASCII).fullmatch

    @settings(max_examples=300)
    @given(st.lists(st.sampled_from([*alphabet, *PIECES.get(check, ())]), max_size=9).map("".join))
    def compare(text: str) -> None:
        assert bool(check(text)) is bool(fullmatch(text))

    compare()


@given(st.text("ab,\\=", max_size=9))
def test_terms_of_a_field_selector_are_the_same(text: str) -> None:
    assert selectors._term_texts(text) == re.findall(r"(?:[^,\\]|\\.|\\\Z)+", text, re.DOTALL)
