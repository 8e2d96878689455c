"""Every credential against every action on a real server: the table of docs/security.md holds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.security.credentials import ACTIONS, CREDENTIALS, ROOT, Action, Credentials, table
from tests.serving import Server

REFUSED = (401, 403)


@pytest.fixture(scope="module")
def credentials(server: Server) -> Iterator[Credentials]:
    made = Credentials(server)
    yield made
    made.close()


@pytest.mark.parametrize("who", CREDENTIALS)
@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.what)
def test_it_may_or_may_not(credentials: Credentials, action: Action, who: str) -> None:
    answer = credentials.ask(who, action)
    said = f"{who} {action.method} {action.path}: {answer.status} {answer.body[:300]!r}"
    if who in action.allowed:
        assert answer.status not in REFUSED, said
        assert answer.status < 500, said
    else:
        assert answer.status in REFUSED, said


def test_a_refusal_shows_nothing_of_what_it_guards(credentials: Credentials) -> None:
    secret = {"metadata": {"name": "guarded"}, "stringData": {"word": "abracadabra"}}
    credentials.mine.post("/api/v1/namespaces/default/secrets", secret).ok()
    for who in CREDENTIALS:
        for action in ACTIONS:
            if who not in action.allowed:
                assert b"YWJyYWNhZGFicmE" not in credentials.ask(who, action).body


def test_the_page_has_this_table() -> None:
    assert table() in (ROOT / "docs" / "security.md").read_text()
