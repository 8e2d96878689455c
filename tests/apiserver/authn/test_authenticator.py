"""Authentication: the user of a request, and the cluster it belongs to."""

from __future__ import annotations

import pytest

from shoal.apiserver.authn import authenticator as authn_authenticator
from shoal.apiserver.authn.authenticator import Authenticator, User, parse_token_file
from shoal.objects.errors import ShoalError, Unauthorized
from shoal.objects.wire import ClientCertificate, Request
from tests.apiserver.authn.accounts import Accounts

AUTHENTICATED = "system:authenticated"
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
UIDS = {"root": "r-1", "blue": "b-2", "green": "g-1"}
"""Of the logical clusters there are; an earlier blue was b-1."""


def request(authorization: str | None = None, certificate: ClientCertificate | None = None) -> Request:
    headers = {} if authorization is None else {"authorization": authorization}
    return Request("GET", "/api", headers=headers, certificate=certificate)


def certificate(name: str, *organizations: str, uris: tuple[str, ...]) -> ClientCertificate:
    return ClientCertificate(name, organizations, uris)


@pytest.fixture
def accounts() -> Accounts:
    return Accounts()


@pytest.fixture
def authenticator(accounts: Accounts) -> Authenticator:
    tokens = {
        "admin-token": User("admin", ("system:masters",), "1"),
        "alice-token": User("alice", ("devs",)),
        "blue-token": User("admin", ("system:masters",), cluster="blue"),
    }
    return Authenticator(tokens=tokens, service_accounts=accounts.tokens, uid_of=UIDS.get)


def refused(authenticator: Authenticator, asked: Request, cluster: str = "root") -> None:
    with pytest.raises(Unauthorized) as caught:
        authenticator.authenticate(asked, cluster)
    assert caught.value.message == "Unauthorized"
    assert caught.value.status_code == 401


def test_nobody_in_particular(authenticator: Authenticator) -> None:
    assert authenticator.authenticate(request(), "root") == ANONYMOUS
    assert authenticator.authenticate(request(), "blue").cluster == "blue"
    refused(Authenticator(anonymous=False), request())


def test_anonymous_across_clusters_is_nobody_special(authenticator: Authenticator) -> None:
    user = authenticator.authenticate(request(), "*")
    assert (user.cluster, user.crosses_clusters) == ("root", False)


def test_static_tokens(authenticator: Authenticator) -> None:
    user = authenticator.authenticate(request("Bearer alice-token"), "root")
    assert user == User("alice", ("devs", AUTHENTICATED))
    assert authenticator.authenticate(request("bearer alice-token"), "root") is user
    assert authenticator.authenticate(request(" BEARER alice-token "), "root") is user


@pytest.mark.parametrize(
    "header",
    [
        "Bearer wrong",
        "Bearer ",
        "Bearer",
        "bearer",
        "Bearer  alice-token",
        "Bearer alice-token extra",
        "Bearer alice-token, Bearer admin-token",
        "Bearer Alice-Token",
        "Bearer alice-token\0",
        "Bearer a.b.c",
        "Bearer " + "x" * 100_000,
    ],
)
def test_a_bad_bearer_token_is_never_anonymous(authenticator: Authenticator, header: str) -> None:
    refused(authenticator, request(header))


@pytest.mark.parametrize("header", ["", "Basic YWRtaW46YWRtaW4=", "Negotiate x", "alice-token"])
def test_other_schemes_say_nothing(authenticator: Authenticator, header: str) -> None:
    assert authenticator.authenticate(request(header), "root") == ANONYMOUS


def test_a_static_token_opens_its_own_cluster_only(authenticator: Authenticator) -> None:
    assert authenticator.authenticate(request("Bearer blue-token"), "blue").privileged
    for token, clusters in (("alice-token", ("blue", "*")), ("blue-token", ("root", "green", "*"))):
        for cluster in clusters:
            refused(authenticator, request(f"Bearer {token}"), cluster)


def test_masters_of_root_enter_every_cluster(authenticator: Authenticator) -> None:
    for cluster in ("root", "blue", "*"):
        user = authenticator.authenticate(request("Bearer admin-token"), cluster)
        assert (user.cluster, user.crosses_clusters) == ("root", True)


@pytest.mark.parametrize(
    ("user", "crosses"),
    [
        (User("a", ("system:masters",)), True),
        (User("a", ("system:masters",), cluster="blue"), False),
        (User("a", ("devs",)), False),
        (User("system:masters", ()), False),
    ],
)
def test_who_crosses_clusters(user: User, crosses: bool) -> None:
    assert user.crosses_clusters is crosses
    assert user.may_enter("green") is crosses
    assert user.is_privileged_in("green") is crosses


def test_nobody_belongs_to_all_clusters() -> None:
    with pytest.raises(ValueError, match="a user belongs to one cluster"):
        User("a", (), cluster="*")


def test_certificates(authenticator: Authenticator) -> None:
    asked = request(certificate=certificate("alice", "devs", "ops", uris=("https://x", "shoal://blue#b-2")))
    user = authenticator.authenticate(asked, "blue")
    assert user == User("alice", ("devs", "ops", AUTHENTICATED), cluster="blue")
    assert authenticator.authenticate(asked, "blue") is user


@pytest.mark.parametrize(
    ("organization", "uris", "cluster"),
    [
        ("devs", ("shoal://blue#b-2",), "root"),
        ("devs", ("shoal://blue#b-2",), "green"),
        ("devs", ("shoal://blue",), "blue"),
        ("devs", ("shoal://blue#",), "blue"),
        ("devs", ("shoal://blue#b-1",), "blue"),
        ("devs", ("shoal://blue#g-1",), "blue"),
        ("devs", ("shoal://gone#x",), "gone"),
        ("devs", ("shoal://gone",), "gone"),
        ("devs", ("shoal://root#r-0",), "root"),
        ("devs", ("shoal://#r-1",), "root"),
        ("system:masters", ("shoal://root#r-0",), "blue"),
        ("system:masters", ("shoal://*#r-1",), "*"),
        ("devs", ("shoal://root",), "blue"),
        ("system:masters", ("shoal://blue#b-2",), "root"),
        ("system:masters", ("shoal://blue#b-2",), "green"),
        ("system:masters", ("shoal://blue#b-2",), "*"),
        ("system:masters", ("shoal://*",), "*"),
        ("system:masters", ("shoal://*",), "root"),
        ("system:masters", ("shoal://",), ""),
        ("system:masters", (), "root"),
        ("system:masters", ("SHOAL://root",), "root"),
        ("system:masters", ("shoal://root/",), "root"),
        ("system:masters", ("https://root",), "root"),
        ("system:masters", ("shoal://blue", "shoal://root"), "root"),
        ("system:masters", ("shoal://blue", "shoal://root"), "blue"),
    ],
)
def test_certificates_of_elsewhere_are_refused(
    authenticator: Authenticator, organization: str, uris: tuple[str, ...], cluster: str
) -> None:
    refused(authenticator, request(certificate=certificate("admin", organization, uris=uris)), cluster)


def test_a_master_certificate_of_root_enters_every_cluster(authenticator: Authenticator) -> None:
    for uri in ("shoal://root", "shoal://root#r-1"):
        asked = request(certificate=certificate("admin", "system:masters", uris=(uri,)))
        for cluster in ("root", "blue", "*"):
            assert authenticator.authenticate(asked, cluster).crosses_clusters


def test_a_certificate_ends_with_its_cluster() -> None:
    uids: dict[str, str] = {"blue": "b-1"}
    authenticator = Authenticator(uid_of=uids.get)
    asked = request(certificate=certificate("ann", uris=("shoal://blue#b-1",)))
    assert authenticator.authenticate(asked, "blue").name == "ann"
    del uids["blue"]
    refused(authenticator, asked, "blue")
    uids["blue"] = "b-2"
    refused(authenticator, asked, "blue")


def test_a_certificate_needs_a_name(authenticator: Authenticator) -> None:
    refused(authenticator, request(certificate=certificate("", uris=("shoal://root",))))


def test_certificate_and_token(authenticator: Authenticator) -> None:
    good, bad = (certificate("cert", uris=(uri,)) for uri in ("shoal://root", "shoal://blue#b-2"))
    assert authenticator.authenticate(request("Bearer alice-token", good), "root").name == "cert"
    assert authenticator.authenticate(request("Bearer alice-token", bad), "root").name == "alice"
    refused(authenticator, request("Bearer wrong", bad))
    refused(authenticator, request("Basic x", bad))


def test_service_account_tokens(accounts: Accounts, authenticator: Authenticator) -> None:
    accounts.existing["blue", "pods", "ci", "web"] = "uid-web"
    token = accounts.token("blue", pod=("web", "uid-web"), node=("n1", "uid-n1"))
    user = authenticator.authenticate(request(f"Bearer {token}"), "blue")
    assert user.name == "system:serviceaccount:ci:bot"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ci", AUTHENTICATED)
    assert (user.uid, user.cluster) == ("uid-of-bot", "blue")
    extra = dict(user.extra)
    (credential,) = extra.pop("authentication.kubernetes.io/credential-id")
    assert credential.startswith("JTI=")
    assert extra == {
        "authentication.kubernetes.io/pod-name": ("web",),
        "authentication.kubernetes.io/pod-uid": ("uid-web",),
        "authentication.kubernetes.io/node-name": ("n1",),
        "authentication.kubernetes.io/node-uid": ("uid-n1",),
    }


def test_a_known_token_is_not_verified_again_but_still_checked(
    accounts: Accounts, authenticator: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(f"Bearer {accounts.token(seconds=600)}")
    user = authenticator.authenticate(asked, "root")
    monkeypatch.setattr(accounts.signer, "verify", lambda *_: pytest.fail("verified twice"))
    lookups = accounts.lookups
    assert authenticator.authenticate(asked, "root") is user
    assert accounts.lookups == lookups + 1
    for cluster in ("blue", "*"):
        refused(authenticator, asked, cluster)
    uid = accounts.existing.pop(("root", "serviceaccounts", "ci", "bot"))
    refused(authenticator, asked)
    accounts.existing["root", "serviceaccounts", "ci", "bot"] = uid
    assert authenticator.authenticate(asked, "root") is user
    accounts.clock.step(661)
    refused(authenticator, asked)


def test_tokens_for_others_are_not_for_us(accounts: Accounts, authenticator: Authenticator) -> None:
    token = accounts.token(audiences=("vault",))
    _, audiences = authenticator.review(token, "root", ("vault",))
    assert audiences == ("vault",)
    refused(authenticator, request(f"Bearer {token}"))


def test_memory_is_bounded(accounts: Accounts, authenticator: Authenticator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authn_authenticator, "MAX_CACHED", 4)
    for i in range(10):
        authenticator.authenticate(request(f"Bearer {accounts.token()}"), "root")
        authenticator.authenticate(request(certificate=certificate(f"u{i}", uris=("shoal://root",))), "root")
    assert len(accounts.tokens._cache) <= 4
    assert len(authenticator._certificate_users) <= 4


def test_without_a_signer_there_are_no_service_account_tokens(accounts: Accounts) -> None:
    refused(Authenticator(), request(f"Bearer {accounts.token()}"))
    with pytest.raises(Unauthorized, match="invalid bearer token"):
        Authenticator().review(accounts.token(), "root")


@pytest.mark.parametrize("group", [AUTHENTICATED, "system:unauthenticated"])
def test_groups_that_say_it_already(group: str) -> None:
    authenticator = Authenticator(tokens={"t": User("a", (group,))})
    assert authenticator.authenticate(request("Bearer t"), "root").groups == (group,)


def test_token_file() -> None:
    lines = ['t1,admin,u1,"system:masters,devs"', "", "t2,bob,u2", "t3,eve,"]
    assert parse_token_file(lines, "blue") == {
        "t1": User("admin", ("system:masters", "devs"), "u1", cluster="blue"),
        "t2": User("bob", (), "u2", cluster="blue"),
        "t3": User("eve", (), cluster="blue"),
    }


@pytest.mark.parametrize("lines", [["t1,bob"], [",bob,u"], ["t1,,u"], ["t1,a,1", "t1,b,2"]])
def test_wrong_token_files(lines: list[str]) -> None:
    with pytest.raises(ShoalError) as caught:
        parse_token_file(lines)
    assert "t1" not in str(caught.value), "tokens never appear in messages"
