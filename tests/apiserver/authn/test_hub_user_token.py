"""Tokens of hub users: valid in one cluster, for a while, and never taken for those of ServiceAccounts."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from shoal.apiserver.authn import hub_user_token
from shoal.apiserver.authn.authenticator import Authenticator, HubUserTokenAuthenticator
from shoal.apiserver.authn.hub_user_token import CLAIM, TOKEN_TYPE
from shoal.apiserver.authn.serviceaccount_token import TokenSigner
from shoal.kinds.fleet.access import HubUser
from shoal.objects.errors import BadRequest, Unauthorized
from shoal.objects.wire import Request
from tests.apiserver.authn.accounts import Accounts, issuer, key_of

ALICE = HubUser("alice", ("developers",))
UIDS = {"blue": "uid-of-blue", "green": "uid-of-green", "root": "uid-of-root"}


class World(Accounts):
    def __init__(self) -> None:
        super().__init__()
        self.uids = dict(UIDS)
        self.hub_users = HubUserTokenAuthenticator(self.signer, self.uids.get, self.clock.now)
        self.authenticator = Authenticator(service_accounts=self.tokens, hub_users=self.hub_users)

    def issue(self, cluster: str = "blue", user: HubUser = ALICE, seconds: int = 600) -> str:
        now = self.clock.now()
        return hub_user_token.issue(self.signer, cluster, UIDS[cluster], user, seconds=seconds, now=now)[0]

    def signed(self, cluster: str = "blue", token_type: str = TOKEN_TYPE, **changes: Any) -> str:
        """As if the key of the cluster had signed other claims; None removes one."""
        claims = {**_claims(self.issue(cluster)), **changes}
        return self.signer.sign(cluster, {key: value for key, value in claims.items() if value is not None}, token_type)

    def enter(self, token: str, cluster: str = "blue") -> tuple[str, tuple[str, ...]]:
        headers = {"authorization": f"Bearer {token}"}
        user = self.authenticator.authenticate(Request("GET", "/", headers=headers), cluster)
        assert user.cluster == cluster
        return user.name, user.groups


def _claims(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    found: dict[str, Any] = orjson.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def test_a_user_of_the_hub_enters() -> None:
    world = World()
    token = world.issue()
    for _ in range(2):
        assert world.enter(token) == ("hub:alice", ("hub:developers", "system:authenticated"))
    user, audiences = world.authenticator.review(token, "blue")
    assert (user.name, audiences) == ("hub:alice", (issuer("blue"),))
    assert world.authenticator.review(token, "blue", [issuer("blue")])[1] == (issuer("blue"),)
    with pytest.raises(Unauthorized, match="is for the API of the cluster only"):
        world.authenticator.review(token, "blue", ["vault"])


@pytest.mark.parametrize("known", [False, True])
def test_it_ends(known: bool) -> None:
    world = World()
    token = world.issue(seconds=600)
    if known:
        world.enter(token)
    world.clock.step(661)
    with pytest.raises(Unauthorized):
        world.enter(token)
    with pytest.raises(Unauthorized, match="token of a hub user has expired"):
        world.authenticator.review(token, "blue")


@pytest.mark.parametrize("known", [False, True])
def test_it_ends_with_its_cluster(known: bool) -> None:
    world = World()
    token = world.issue()
    if known:
        world.enter(token)
    world.uids["blue"] = "another"
    with pytest.raises(Unauthorized):
        world.enter(token)
    world.uids["blue"] = UIDS["blue"]
    world.enter(token)


@pytest.mark.parametrize("cluster", ["green", "root", "*"])
def test_it_is_not_valid_elsewhere(cluster: str) -> None:
    world = World()
    token = world.issue()
    world.enter(token)
    with pytest.raises(Unauthorized):
        world.enter(token, cluster)
    with pytest.raises(Unauthorized):
        World().enter(token, cluster)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sub": "alice"}, "claims of a hub user could not be validated"),
        ({"sub": "hub:"}, "claims of a hub user could not be validated"),
        ({"sub": "system:serviceaccount:ci:bot"}, "claims of a hub user could not be validated"),
        ({"sub": None}, "claims of a hub user could not be validated"),
        ({CLAIM: None}, "claims of a hub user could not be validated"),
        ({CLAIM: {"cluster": "uid-of-blue", "groups": ["system:masters"]}}, "claims of a hub user could not"),
        ({CLAIM: {"cluster": "uid-of-blue", "groups": "hub:x"}}, "claims of a hub user could not be validated"),
        ({CLAIM: {"groups": []}}, "claims of a hub user could not be validated"),
        ({CLAIM: {"cluster": "uid-of-green", "groups": []}}, "an earlier cluster of that name"),
        ({"kubernetes.io": {}}, "claims of a hub user could not be validated"),
        ({"aud": ["https://elsewhere"]}, "is not for the API of the cluster"),
        ({"aud": None}, "claims of a hub user could not be validated"),
        ({"iss": "https://shoal/clusters/green"}, "token issuer is invalid"),
        ({"exp": "never"}, "claims could not be validated"),
        ({"exp": None}, "claims could not be validated"),
        ({"nbf": 1e12}, "token of a hub user is not valid yet"),
    ],
)
def test_claims_that_are_rejected(changes: dict[str, Any], reason: str) -> None:
    world = World()
    token = world.signed(**changes)
    with pytest.raises(Unauthorized, match=reason):
        world.authenticator.review(token, "blue")
    with pytest.raises(Unauthorized, match="Unauthorized"):
        world.enter(token)


def test_the_two_kinds_of_token_are_never_confused() -> None:
    world = World()
    account = _claims(world.token("blue"))
    for token in (
        world.signer.sign("blue", account, TOKEN_TYPE),  # the claims of an account under the type of a hub user
        world.signed(token_type=""),  # the claims of a hub user under the type of an account
        world.signed(token_type="JWT"),
        world.signer.sign("blue", {**account, CLAIM: {"cluster": "uid-of-blue", "groups": []}}, TOKEN_TYPE),
        world.signer.sign("blue", {**account, "sub": "hub:alice"}),
    ):
        with pytest.raises(Unauthorized):
            world.enter(token)
    assert world.enter(world.token("blue"))[0] == "system:serviceaccount:ci:bot"


def test_other_keys_are_rejected() -> None:
    world = World()
    other = TokenSigner(lambda cluster: key_of("green"), issuer)
    forged = hub_user_token.issue(other, "blue", UIDS["blue"], ALICE, seconds=600, now=world.clock.now())[0]
    with pytest.raises(Unauthorized, match="invalid signature, no keys found"):
        world.authenticator.review(forged, "blue")
    head, claims, signature = world.issue().split(".")
    changed = base64.urlsafe_b64encode(orjson.dumps({**_claims(f".{claims}."), "sub": "hub:root"})).decode().rstrip("=")
    with pytest.raises(Unauthorized, match="invalid signature"):
        world.authenticator.review(f"{head}.{changed}.{signature}", "blue")


def test_its_address_may_change() -> None:
    world = World()
    token = world.issue()
    moved = TokenSigner(key_of, lambda cluster: f"https://other:6443/clusters/{cluster}")
    after = HubUserTokenAuthenticator(moved, world.uids.get, world.clock.now)
    assert after.authenticate(token, "blue").name == "hub:alice"


def test_too_many_groups() -> None:
    world = World()
    with pytest.raises(BadRequest, match="the user has too many groups"):
        world.issue(user=HubUser("alice", tuple(f"group-{number:0200}" for number in range(100))))
