"""Approval of workers' CertificateSigningRequests, and the format of join tokens."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fleet.join.decide import decide, is_pending, joined_patch, joined_worker, with_decision
from shoal.kinds.certificates.pem import CSRSubject
from shoal.kinds.fleet import infrav1, worker_join
from shoal.kinds.fleet.worker_join import new_token_secret, parse_token, token_from_secret

Object = dict[str, Any]

NOW = 1_700_000_000.0
LATER, EARLIER = "2023-11-14T23:13:20Z", "2023-11-14T22:13:19Z"
TOKEN = ("abcdef", "0123456789abcdef")
W1 = CSRSubject("system:worker:w1", ("system:workers",))
USAGES = ["client auth", "digital signature"]


def request(user: str = "system:bootstrap:abcdef", group: str = worker_join.JOIN_GROUP, **spec: Any) -> Object:
    return {
        "metadata": {"name": "r", "uid": "r-1", "annotations": {infrav1.STORE_ANNOTATION: "store-1"}},
        "spec": {"username": user, "groups": [group], "usages": USAGES, "signerName": worker_join.SIGNER_NAME, **spec},
    }


def token(
    expiration: str = LATER, worker: str = "", reusable: bool = False, **marks: str
) -> worker_join.BootstrapToken:
    secret = new_token_secret(TOKEN, expiration, worker, reusable=reusable)
    secret["metadata"]["annotations"] |= {f"shoal.dev/{key.replace('_', '-')}": value for key, value in marks.items()}
    found = token_from_secret(secret)
    assert found is not None
    return found


def worker(store: str = "", request: str = "", **spec: Any) -> Object:
    marks = {infrav1.STORE_ANNOTATION: store, worker_join.JOIN_REQUEST_ANNOTATION: request}
    annotations = {key: value for key, value in marks.items() if value}
    return {
        "metadata": {"name": "w1", "uid": "uid-1", "resourceVersion": "7", "annotations": annotations},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("given", "there", "claims"),
    [
        (token(), None, True),
        (token(worker="w1"), None, True),
        (token(request="r-1", used_by="w1"), None, False),  # killed between the mark and the approval
        (token(reusable=True, request="r-0", used_by="w0"), None, True),
        (token(worker="w1"), worker("store-1"), True),  # its certificate had ended
        (token(worker="w1"), worker(), True),  # one that somebody has declared
        (token(request="r-1"), worker("store-1", "r-1"), False),  # killed between the Worker and the approval
        (token(), worker("store-1", "r-0"), True),  # the worker was killed, and comes again with another token
    ],
)
def test_let_in(given: worker_join.BootstrapToken, there: Object | None, claims: bool) -> None:
    verdict = decide(request(), W1, given, there, NOW)
    assert verdict is not None
    assert (verdict.type, verdict.claims_token, verdict.joins) == ("Approved", claims, True)


def test_a_worker_that_joins_has_a_worker() -> None:
    made = joined_worker(request(), "w1")
    assert made["metadata"]["annotations"] == {"shoal.dev/store": "store-1", "shoal.dev/join-request": "r-1"}
    assert made["spec"] == {"infrastructure": "external"}, "no hub starts a process for it"
    assert joined_patch(request(), made) is None
    patch = joined_patch(request(), worker())
    assert patch == {"metadata": {"resourceVersion": "7", "annotations": {"shoal.dev/join-request": "r-1"}}}


@pytest.mark.parametrize(
    ("given", "there", "said"),
    [
        (None, None, "join token abcdef has expired"),
        (token(EARLIER), None, "join token abcdef has expired"),
        (token("whenever"), None, "join token abcdef has expired"),
        (
            token(worker="w1"),
            {"metadata": {"annotations": {infrav1.STORE_ANNOTATION: "store-1", "shoal.dev/expelled": "true"}}},
            "worker w1 was expelled",
        ),
        (token(worker="w2"), None, "join token abcdef is for worker w2, not for w1"),
        (token(request="r-0", used_by="w0"), None, "join token abcdef was already used by worker w0"),
        (token(), worker("store-1"), "worker w1 already exists; to let it join again, create a token with --name w1"),
        (token(), worker(), "worker w1 already exists"),
        (token(), worker("store-2"), "the name w1 is taken by a worker with another store"),
        (token(worker="w1"), worker("store-2"), "the name w1 is taken by a worker with another store"),
        (token(reusable=True), worker("store-2"), "the name w1 is taken by a worker with another store"),
    ],
)
def test_kept_out(given: worker_join.BootstrapToken | None, there: Object | None, said: str) -> None:
    verdict = decide(request(), W1, given, there, NOW)
    assert verdict is not None
    assert (verdict.type, verdict.claims_token) == ("Denied", False)
    assert said in verdict.message


@pytest.mark.parametrize(
    ("asked", "usages", "said"),
    [
        (None, USAGES, "cannot decode the certificate request"),
        (CSRSubject("shoal-admin", ("system:workers",)), USAGES, "subject common name is not system:worker:NAME"),
        (CSRSubject("system:worker:", ("system:workers",)), USAGES, "subject common name is not"),
        (CSRSubject("system:worker:A b", ("system:workers",)), USAGES, "subject common name is not"),
        (CSRSubject("system:worker:" + "x" * 57, ("system:workers",)), USAGES, "subject common name is not"),
        (CSRSubject("system:worker:w1", ("system:masters",)), USAGES, "subject organization is not system:workers"),
        (CSRSubject("system:worker:w1", ("system:workers", "system:masters")), USAGES, "subject organization is not"),
        (CSRSubject("system:worker:w1", ()), USAGES, "subject organization is not"),
        (
            CSRSubject("system:worker:w1", ("system:workers",), uris=("shoal://blue",)),
            USAGES,
            "subjectAltNames are not",
        ),
        (CSRSubject("system:worker:w1", ("system:workers",), dns_names=("hub",)), USAGES, "subjectAltNames are not"),
        (W1, [*USAGES, "server auth"], "usages did not match"),
        (W1, ["cert sign"], "usages did not match"),
    ],
)
def test_requests_for_something_else(asked: CSRSubject | None, usages: list[str], said: str) -> None:
    for user, group in (
        ("system:bootstrap:abcdef", worker_join.JOIN_GROUP),
        ("system:worker:w1", worker_join.WORKERS_GROUP),
    ):
        verdict = decide(request(user, group, usages=usages), asked, token(), None, NOW)
        assert verdict is not None
        assert verdict.type == "Denied"
        assert said in verdict.message


def test_a_worker_renews_its_own_and_nobody_elses() -> None:
    verdict = decide(request("system:worker:w1", worker_join.WORKERS_GROUP), W1, None, worker("store-1"), NOW)
    assert verdict is not None
    assert (verdict.type, verdict.claims_token) == ("Approved", False)
    verdict = decide(request("system:worker:w2", worker_join.WORKERS_GROUP), W1, None, worker("store-1"), NOW)
    assert verdict is not None
    assert (verdict.type, verdict.message) == (
        "Denied",
        "worker w2 may not request a certificate for worker w1",
    )


@pytest.mark.parametrize(
    ("uid", "there", "type_", "said"),
    [
        ("uid-1", worker("store-1"), "Approved", "renews its own certificate"),
        ("", worker("store-1"), "Approved", "renews its own certificate"),
        ("uid-0", worker("store-1"), "Denied", "worker w1 was deleted"),
        ("uid-1", None, "Denied", "worker w1 was deleted"),
        ("", None, "Denied", "worker w1 was deleted"),
        (
            "uid-1",
            {"metadata": {"uid": "uid-1", "annotations": {"shoal.dev/expelled": "true"}}},
            "Denied",
            "worker w1 was expelled",
        ),
    ],
)
def test_who_is_expelled_or_deleted_renews_nothing(uid: str, there: Object | None, type_: str, said: str) -> None:
    verdict = decide(request("system:worker:w1", worker_join.WORKERS_GROUP, uid=uid), W1, None, there, NOW)
    assert verdict is not None
    assert verdict.type == type_
    assert said in verdict.message


@pytest.mark.parametrize(
    ("user", "group"),
    [
        ("jane", "system:authenticated"),
        ("shoal-admin", "system:masters"),
        ("system:worker:w1", "system:authenticated"),
        ("system:bootstrap:abcdef", "system:bootstrappers"),
        ("jane", worker_join.JOIN_GROUP),
        ("jane", worker_join.WORKERS_GROUP),
    ],
)
def test_others_are_left_to_people(user: str, group: str) -> None:
    assert decide(request(user, group), W1, token(), None, NOW) is None


def test_only_open_requests_of_the_signer_are_looked_at() -> None:
    assert is_pending(request())
    assert not is_pending(request(signerName="kubernetes.io/kube-apiserver-client"))
    verdict = decide(request(), W1, token(), None, NOW)
    assert verdict is not None
    assert not is_pending(with_decision(request(), verdict))


def test_a_token_and_its_secret() -> None:
    secret = new_token_secret(TOKEN, LATER, "w1", "north")
    assert (secret["metadata"]["name"], secret["metadata"]["namespace"]) == ("bootstrap-token-abcdef", "kube-system")
    assert secret["type"] == "bootstrap.kubernetes.io/token"
    found = token_from_secret(secret)
    assert found is not None
    assert (found.id, found.secret, found.worker, found.location, found.is_join_token) == (*TOKEN, "w1", "north", True)
    assert not found.is_expired(NOW + 3599)
    assert found.is_expired(NOW + 3600)


def test_secrets_that_are_no_tokens() -> None:
    secret = new_token_secret(TOKEN, LATER)
    assert token_from_secret({**secret, "type": "Opaque"}) is None
    assert token_from_secret({**secret, "data": {}}) is None
    assert token_from_secret({**secret, "data": {**secret["data"], "token-secret": "!"}}) is None
    assert token_from_secret({**secret, "metadata": {**secret["metadata"], "name": "bootstrap-token-other0"}}) is None
    assert token_from_secret({**secret, "metadata": {**secret["metadata"], "deletionTimestamp": LATER}}) is None
    powerful = {**secret["data"], "auth-extra-groups": "c3lzdGVtOm1hc3RlcnM="}  # system:masters
    found = token_from_secret({**secret, "data": powerful})
    assert found is not None
    assert not found.allows_authentication
    unending = {key: value for key, value in secret["data"].items() if key != "expiration"}
    found = token_from_secret({**secret, "data": unending})
    assert found is not None
    assert not found.is_expired(NOW * 2)


@pytest.mark.parametrize(
    "text", ["", "abcdef", "abcdef.0123456789ABCDEF", "abcdef.0123456789abcde", "abcde.f0123456789abcdef", "a" * 23]
)
def test_what_is_no_token(text: str) -> None:
    assert parse_token(text) is None
    assert parse_token("abcdef.0123456789abcdef") == TOKEN
