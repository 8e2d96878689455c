"""Every attempt of the table is rejected, reveals nothing and changes nothing."""

from __future__ import annotations

import pytest

from tests.isolation.attempts import BETA, SECRET, TREASURE, Attempt, attempts
from tests.isolation.tenants import People, token_for

ATTEMPTS = attempts()


@pytest.fixture(scope="session")
def before(people: People) -> dict[str, int]:
    return people.settled()


def test_there_are_enough_of_them() -> None:
    assert len({str(attempt) for attempt in ATTEMPTS}) == len(ATTEMPTS) >= 200


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=str)
def test_it_is_refused(people: People, before: dict[str, int], attempt: Attempt) -> None:
    answer = people.ask(attempt.who, attempt.method, attempt.path, attempt.body, attempt.headers)
    assert answer.status in (400, 401, 403, 404, 405), answer.body
    assert TREASURE.encode() not in answer.body
    assert people.state() == before


def test_those_it_belongs_to_are_let_in(people: People) -> None:
    """Or all of the above would say nothing."""
    for who in ("root-admin",):
        assert TREASURE.encode() in people.ask(who, "GET", f"/clusters/{BETA}{SECRET}").body
    people._tokens["beta-robot"] = token_for(people.beta, "robot")
    assert people.ask("beta-robot", "GET", f"/clusters/{BETA}/version").status == 200
    people._certified("beta-certificate", ["system:masters"], BETA, people.uid(BETA))
    assert TREASURE.encode() in people.ask("beta-certificate", "GET", f"/clusters/{BETA}{SECRET}").body
    for who in ("alpha-admin", "alpha-certificate"):
        assert people.ask(who, "GET", "/clusters/alpha/api/v1/secrets").status == 200
    assert people.ask("east-admin", "GET", "/managedclusters/default/east/api/v1/secrets").status == 200
    assert people.ask("root-account", "GET", "/api/v1/secrets").status == 200
