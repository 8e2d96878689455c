"""Approval of workers' CertificateSigningRequests, and the format of join tokens."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fleet.joining.decide import decide, decided, is_open
from shoal.kinds import fleet, joining
from shoal.kinds.certificate_requests import Asked
from shoal.kinds.joining import read_token, split_token, token_secret

Object = dict[str, Any]

NOW = 1_700_000_000.0
LATER, EARLIER = "2023-11-14T23:13:20Z", "2023-11-14T22:13:19Z"
TOKEN = ("abcdef", "0123456789abcdef")
W1 = Asked("system:worker:w1", ("system:workers",))
USAGES = ["client auth", "digital signature"]


def request(user: str = "system:bootstrap:abcdef", group: str = joining.JOINING, **spec: Any) -> Object:
    return {
        "metadata": {"name": "r", "uid": "r-1", "annotations": {fleet.STORE: "store-1"}},
        "spec": {"username": user, "groups": [group], "usages": USAGES, "signerName": joining.SIGNER, **spec},
    }


def token(expiration: str = LATER, worker: str = "", reusable: bool = False, **marks: str) -> joining.Token:
    secret = token_secret(TOKEN, expiration, worker, reusable=reusable)
    secret["metadata"]["annotations"] |= {f"shoal.dev/{key.replace('_', '-')}": value for key, value in marks.items()}
    found = read_token(secret)
    assert found is not None
    return found


def worker(store: str = "") -> Object:
    return {"metadata": {"name": "w1", "annotations": {fleet.STORE: store} if store else {}}}


@pytest.mark.parametrize(
    ("given", "there", "claims"),
    [
        (token(), None, True),
        (token(worker="w1"), None, True),
        (token(request="r-1", used_by="w1"), None, False),  # killed between the mark and the approval
        (token(reusable=True, request="r-0", used_by="w0"), None, True),
        (token(worker="w1"), worker("store-1"), True),  # its certificate had ended
        (token(worker="w1"), worker(), True),  # one that somebody has declared
    ],
)
def test_let_in(given: joining.Token, there: Object | None, claims: bool) -> None:
    verdict = decide(request(), W1, given, there, NOW)
    assert verdict is not None
    assert (verdict.type, verdict.claims) == ("Approved", claims)


@pytest.mark.parametrize(
    ("given", "there", "said"),
    [
        (None, None, "join token abcdef has expired"),
        (token(EARLIER), None, "join token abcdef has expired"),
        (token("whenever"), None, "join token abcdef has expired"),
        (
            token(worker="w1"),
            {"metadata": {"annotations": {fleet.STORE: "store-1", "shoal.dev/expelled": "true"}}},
            "worker w1 was expelled",
        ),
        (token(worker="w2"), None, "join token abcdef is for worker w2, not for w1"),
        (token(request="r-0", used_by="w0"), None, "join token abcdef was used already, by worker w0"),
        (token(), worker("store-1"), "there is a worker w1 already; to let it join again, make a token with --name w1"),
        (token(), worker(), "there is a worker w1 already"),
        (token(), worker("store-2"), "the name w1 belongs to another worker's store"),
        (token(worker="w1"), worker("store-2"), "the name w1 belongs to another worker's store"),
        (token(reusable=True), worker("store-2"), "the name w1 belongs to another worker's store"),
    ],
)
def test_kept_out(given: joining.Token | None, there: Object | None, said: str) -> None:
    verdict = decide(request(), W1, given, there, NOW)
    assert verdict is not None
    assert (verdict.type, verdict.claims) == ("Denied", False)
    assert said in verdict.message


@pytest.mark.parametrize(
    ("asked", "usages", "said"),
    [
        (None, USAGES, "the request cannot be read"),
        (Asked("shoal-admin", ("system:workers",)), USAGES, "subject common name is not system:worker:NAME"),
        (Asked("system:worker:", ("system:workers",)), USAGES, "subject common name is not"),
        (Asked("system:worker:A b", ("system:workers",)), USAGES, "subject common name is not"),
        (Asked("system:worker:" + "x" * 57, ("system:workers",)), USAGES, "subject common name is not"),
        (Asked("system:worker:w1", ("system:masters",)), USAGES, "subject organization is not system:workers"),
        (Asked("system:worker:w1", ("system:workers", "system:masters")), USAGES, "subject organization is not"),
        (Asked("system:worker:w1", ()), USAGES, "subject organization is not"),
        (Asked("system:worker:w1", ("system:workers",), uris=("shoal://blue",)), USAGES, "subjectAltNames are not"),
        (Asked("system:worker:w1", ("system:workers",), dns=("hub",)), USAGES, "subjectAltNames are not"),
        (W1, [*USAGES, "server auth"], "usages did not match"),
        (W1, ["cert sign"], "usages did not match"),
    ],
)
def test_requests_for_something_else(asked: Asked | None, usages: list[str], said: str) -> None:
    for user, group in (("system:bootstrap:abcdef", joining.JOINING), ("system:worker:w1", joining.GROUP)):
        verdict = decide(request(user, group, usages=usages), asked, token(), None, NOW)
        assert verdict is not None
        assert verdict.type == "Denied"
        assert said in verdict.message


def test_a_worker_renews_its_own_and_nobody_elses() -> None:
    verdict = decide(request("system:worker:w1", joining.GROUP), W1, None, worker("store-1"), NOW)
    assert verdict is not None
    assert (verdict.type, verdict.claims) == ("Approved", False)
    verdict = decide(request("system:worker:w2", joining.GROUP), W1, None, worker("store-1"), NOW)
    assert verdict is not None
    assert (verdict.type, verdict.message) == (
        "Denied",
        "worker w2 may not ask for the certificate of worker w1",
    )


@pytest.mark.parametrize(
    ("user", "group"),
    [
        ("jane", "system:authenticated"),
        ("shoal-admin", "system:masters"),
        ("system:worker:w1", "system:authenticated"),
        ("system:bootstrap:abcdef", "system:bootstrappers"),
        ("jane", joining.JOINING),
        ("jane", joining.GROUP),
    ],
)
def test_others_are_left_to_people(user: str, group: str) -> None:
    assert decide(request(user, group), W1, token(), None, NOW) is None


def test_only_open_requests_of_the_signer_are_looked_at() -> None:
    assert is_open(request())
    assert not is_open(request(signerName="kubernetes.io/kube-apiserver-client"))
    verdict = decide(request(), W1, token(), None, NOW)
    assert verdict is not None
    assert not is_open(decided(request(), verdict))


def test_a_token_and_its_secret() -> None:
    secret = token_secret(TOKEN, LATER, "w1", "north")
    assert (secret["metadata"]["name"], secret["metadata"]["namespace"]) == ("bootstrap-token-abcdef", "kube-system")
    assert secret["type"] == "bootstrap.kubernetes.io/token"
    found = read_token(secret)
    assert found is not None
    assert (found.id, found.secret, found.worker, found.location, found.joins) == (*TOKEN, "w1", "north", True)
    assert not found.has_expired(NOW + 3599)
    assert found.has_expired(NOW + 3600)


def test_secrets_that_are_no_tokens() -> None:
    secret = token_secret(TOKEN, LATER)
    assert read_token({**secret, "type": "Opaque"}) is None
    assert read_token({**secret, "data": {}}) is None
    assert read_token({**secret, "data": {**secret["data"], "token-secret": "!"}}) is None
    assert read_token({**secret, "metadata": {**secret["metadata"], "name": "bootstrap-token-other0"}}) is None
    assert read_token({**secret, "metadata": {**secret["metadata"], "deletionTimestamp": LATER}}) is None
    powerful = {**secret["data"], "auth-extra-groups": "c3lzdGVtOm1hc3RlcnM="}  # system:masters
    found = read_token({**secret, "data": powerful})
    assert found is not None
    assert not found.authenticates
    unending = {key: value for key, value in secret["data"].items() if key != "expiration"}
    found = read_token({**secret, "data": unending})
    assert found is not None
    assert not found.has_expired(NOW * 2)


@pytest.mark.parametrize(
    "text", ["", "abcdef", "abcdef.0123456789ABCDEF", "abcdef.0123456789abcde", "abcde.f0123456789abcdef", "a" * 23]
)
def test_what_is_no_token(text: str) -> None:
    assert split_token(text) is None
    assert split_token("abcdef.0123456789abcdef") == TOKEN
