"""Service-account tokens: claims, rejections and invalidation."""

from __future__ import annotations

import base64
import hashlib
import hmac
import subprocess
import sys
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.apiserver.authn.es256 import PrivateKey
from shoal.apiserver.authn.serviceaccount_token import MAX_TOKEN, TokenSigner
from shoal.objects.errors import BadRequest, Unauthorized
from tests.apiserver.authn.accounts import BOT, Accounts, issuer, key_of, new_key


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(part: str) -> Any:
    return orjson.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def refusal(accounts: Accounts, token: str, cluster: str = "root", audiences: tuple[str, ...] = ()) -> str:
    with pytest.raises(Unauthorized) as caught:
        accounts.signer.verify(token, cluster, accounts.clock.now(), accounts.lookup, audiences)
    return caught.value.message


@pytest.fixture
def accounts() -> Accounts:
    return Accounts()


def test_claims(accounts: Accounts) -> None:
    now = int(accounts.clock.now())
    bound = {"pod": ("web", "uid-of-web"), "node": ("n1", "uid-of-n1")}
    token, expiry = accounts.signer.issue("blue", BOT, ["vault"], 600, bound, accounts.clock.now())
    header, claims, signature = token.split(".")
    assert unb64(header) == {"alg": "ES256", "kid": key_id("blue")}
    assert len(base64.urlsafe_b64decode(signature + "==")) == 64
    found = unb64(claims)
    assert len(found.pop("jti")) == 36
    assert found == {
        "aud": ["vault"],
        "exp": now + 600,
        "iat": now,
        "iss": "https://shoal/clusters/blue",
        "kubernetes.io": {
            "namespace": "ci",
            "serviceaccount": {"name": "bot", "uid": "uid-of-bot"},
            "pod": {"name": "web", "uid": "uid-of-web"},
            "node": {"name": "n1", "uid": "uid-of-n1"},
        },
        "nbf": now,
        "sub": "system:serviceaccount:ci:bot",
    }
    assert expiry == now + 600


def test_a_good_token(accounts: Accounts) -> None:
    found = accounts.signer.verify(accounts.token(), "root", accounts.clock.now(), accounts.lookup)
    assert (found.cluster, found.namespace, found.name, found.uid) == ("root", "ci", "bot", "uid-of-bot")
    assert found.audiences == ("https://shoal/clusters/root",)


def key_id(number: int | str) -> str:
    return b64(hashlib.sha256(PrivateKey(new_key(number)).public_der()).digest())


@pytest.mark.parametrize("cluster", ["root", "blue"])
def test_a_token_opens_its_own_cluster_only(accounts: Accounts, cluster: str) -> None:
    token = accounts.token(cluster)
    accounts.signer.verify(token, cluster, accounts.clock.now(), accounts.lookup)
    for other in {"root", "blue", "green", "*", ""} - {cluster}:
        assert refusal(accounts, token, other) == "invalid signature, no keys found"


@pytest.mark.parametrize(
    ("issuer", "accepted"),
    [
        ("https://10.0.0.1:20001", True),
        ("https://hub.example.com:6443/clusters/team.east", True),
        ("https://hub.example.com/managedclusters/team/east", True),
        ("https://shoal/clusters/team.west", False),
        ("https://shoal/clusters/*", False),
        ("https://hub/managedclusters/team/west", False),
        ("http://hub/clusters/team.east", False),
        ("team.east", False),
    ],
)
def test_tokens_stay_valid_when_the_address_of_their_cluster_changes(
    accounts: Accounts, issuer: str, accepted: bool
) -> None:
    now = accounts.clock.now()
    accounts.existing["team.east", "serviceaccounts", "ci", "bot"] = "uid-of-bot"
    token, _ = TokenSigner(key_of, lambda cluster: issuer).issue("team.east", BOT, (), 3600, {}, now)
    if accepted:
        assert accounts.signer.verify(token, "team.east", now, accounts.lookup).audiences == (issuer,)
    else:
        assert refusal(accounts, token, "team.east") == "token issuer is invalid"


def test_tokens_of_the_server_a_cluster_was_moved_from(accounts: Accounts) -> None:
    before = TokenSigner(lambda cluster: (new_key(1),), issuer)
    public = base64.b64encode(PrivateKey(new_key(1)).public_der()).decode()
    brought = {"blue": (public, "no key", base64.b64encode(b"none either").decode())}
    accounts.signer = TokenSigner(key_of, issuer, lambda cluster: brought.get(cluster, ()))
    now = accounts.clock.now()
    for cluster in ("blue", "green"):
        token, _ = before.issue(cluster, BOT, (), 3600, {}, now)
        if cluster == "blue":
            assert accounts.signer.verify(token, cluster, now, accounts.lookup).name == "bot"
            assert refusal(accounts, token[:-2] + ("AA" if token[-2:] != "AA" else "BB"), cluster)
        else:
            assert refusal(accounts, token, cluster) == "invalid signature, no keys found"
    assert refusal(accounts, before.issue("blue", BOT, (), 3600, {}, now)[0], "green").startswith("invalid signature")
    assert [key["kid"] for key in accounts.signer.jwks("blue")["keys"]] == [key_id("blue"), key_id(1)]
    assert [key["kid"] for key in accounts.signer.jwks("green")["keys"]] == [key_id("green")]


def test_an_audience_of_another_cluster_does_not_open_it(accounts: Accounts) -> None:
    token = accounts.token("blue", (accounts.signer.issuer("root"), accounts.signer.issuer("blue")))
    assert refusal(accounts, token, "root") == "invalid signature, no keys found"


def test_audiences(accounts: Accounts) -> None:
    token = accounts.token(audiences=("vault", "db"))
    assert refusal(accounts, token) == (
        'token audiences ["vault","db"] is invalid for the target audiences ["https://shoal/clusters/root"]'
    )
    assert "is invalid for" in refusal(accounts, token, audiences=("other",))
    found = accounts.signer.verify(token, "root", accounts.clock.now(), accounts.lookup, ("db", "other"))
    assert found.audiences == ("db",)


def test_time(accounts: Accounts) -> None:
    token = accounts.token(seconds=600)
    accounts.clock.step(660)
    accounts.signer.verify(token, "root", accounts.clock.now(), accounts.lookup)
    accounts.clock.step(1)
    assert refusal(accounts, token) == "service account token has expired"
    accounts.clock.step(-661 - 59)
    accounts.signer.verify(token, "root", accounts.clock.now(), accounts.lookup)
    accounts.clock.step(-2)
    assert refusal(accounts, token) == "service account token is not valid yet"


def test_the_account_must_still_exist(accounts: Accounts) -> None:
    token = accounts.token()
    accounts.existing["root", "serviceaccounts", "ci", "bot"] = "another-uid"
    assert refusal(accounts, token) == "service account ci/bot was deleted or recreated"
    del accounts.existing["root", "serviceaccounts", "ci", "bot"]
    assert refusal(accounts, token) == "service account ci/bot was deleted or recreated"


@pytest.mark.parametrize(
    ("kind", "where"), [("pod", ("pods", "ci")), ("secret", ("secrets", "ci")), ("node", ("nodes", ""))]
)
def test_the_bound_object_must_still_exist(accounts: Accounts, kind: str, where: tuple[str, str]) -> None:
    token, _ = accounts.signer.issue("root", BOT, (), 600, {kind: ("x", "uid-x")}, accounts.clock.now())
    assert refusal(accounts, token) == "service account token has been invalidated"
    accounts.existing["root", *where, "x"] = "uid-x"
    found = accounts.signer.verify(token, "root", accounts.clock.now(), accounts.lookup)
    assert found.bound_objects == {kind: ("x", "uid-x")}
    accounts.existing["root", *where, "x"] = "uid-y"
    assert refusal(accounts, token) == "service account token has been invalidated"


def test_a_pods_node_may_go(accounts: Accounts) -> None:
    accounts.existing["root", "pods", "ci", "web"] = "uid-web"
    token = accounts.token(pod=("web", "uid-web"), node=("n1", "gone"))
    accounts.signer.verify(token, "root", accounts.clock.now(), accounts.lookup)


def test_what_cannot_be_issued(accounts: Accounts) -> None:
    with pytest.raises(BadRequest, match="can only be bound to one object"):
        accounts.token(secret=("s", "u"), pod=("p", "u"))
    with pytest.raises(BadRequest, match="cannot be bound to a service"):
        accounts.token(service=("s", "u"))
    with pytest.raises(BadRequest, match="too many audiences"):
        accounts.token(audiences=tuple(f"https://audience-{i}.example.com" for i in range(1000)))


def malformed() -> dict[str, str]:
    """Tokens nobody should have, by what is wrong with them. All but the last group are not even signed."""
    accounts = Accounts()
    good = accounts.token()
    header, claims, signature = good.split(".")
    kid, payload = key_id(0), unb64(claims)
    signed = f"{header}.{claims}".encode()
    other = TokenSigner(lambda cluster: (new_key(1),), issuer)

    def with_header(**changes: Any) -> str:
        data = f"{b64(orjson.dumps({'alg': 'ES256', 'kid': kid, **changes}))}.{claims}"
        return f"{data}.{b64(PrivateKey(new_key(0)).sign(data.encode()))}"

    def resigned(changes: dict[str, Any], key: int = 0, drop: str = "") -> str:
        body = {k: v for k, v in {**payload, **changes}.items() if k != drop}
        data = f"{header}.{b64(orjson.dumps(body))}"
        return f"{data}.{b64(PrivateKey(new_key(key)).sign(data.encode()))}"

    def raw(body: bytes) -> str:
        data = f"{header}.{b64(body)}"
        return f"{data}.{b64(PrivateKey(new_key(0)).sign(data.encode()))}"

    def private(**changes: Any) -> dict[str, Any]:
        return {"kubernetes.io": {**payload["kubernetes.io"], **changes}}

    # The control: signing anew alone breaks nothing.
    for control in (resigned({}), with_header(typ="JWT")):
        accounts.signer.verify(control, "root", accounts.clock.now(), accounts.lookup)
    none = b64(orjson.dumps({"alg": "none"}))
    shared = b64(hmac.digest(new_key(0), signed, hashlib.sha256))
    return {
        "empty": "",
        "a word": "hello",
        "one dot": "a.b",
        "three dots": f"{good}.",
        "four parts": f"{good}.{signature}",
        "dots only": "..",
        "many dots": "." * 5000,
        "space before": f" {good}",
        "space after": f"{good} ",
        "newline": f"{good}\n",
        "not ascii": f"{header}.{claims}é.{signature}",
        "surrogate": f"{header}.{claims}\ud800.{signature}",
        "nul": f"{good}\0",
        "padded": f"{header}.{claims}.{signature}==",
        "standard alphabet": f"{header}.{claims}.{'+/' + signature[2:]}",
        "header not base64": f"!!!.{claims}.{signature}",
        "header not json": f"{b64(b'{')}.{claims}.{signature}",
        "header a list": f"{b64(b'[]')}.{claims}.{signature}",
        "header null": f"{b64(b'null')}.{claims}.{signature}",
        "header nan": f"{b64(b'NaN')}.{claims}.{signature}",
        "deep header": f"{b64(b'[' * 5000)}.{claims}.{signature}",
        "alg none": f"{none}.{claims}.",
        "alg none with signature": f"{none}.{claims}.{signature}",
        "alg NONE": with_header(alg="NONE"),
        "alg HS256 with the key": f"{b64(orjson.dumps({'alg': 'HS256', 'kid': kid}))}.{claims}.{shared}",
        "alg a list": with_header(alg=["ES256"]),
        "alg lower case": with_header(alg="es256"),
        "no kid": f"{b64(orjson.dumps({'alg': 'ES256'}))}.{claims}.{signature}",
        "another kid": with_header(kid="other"),
        "kid null": with_header(kid=None),
        "critical": with_header(crit=["exp"]),
        "own key in header": with_header(kid="x", jwk=other.jwks("root")["keys"][0]),
        "header changed": f"{b64(orjson.dumps({'alg': 'ES256', 'kid': kid, 'typ': 'JWT'}))}.{claims}.{signature}",
        "no signature": f"{header}.{claims}.",
        "short signature": f"{header}.{claims}.{signature[:-4]}",
        "long signature": f"{header}.{claims}.{signature}AAAA",
        "zero signature": f"{header}.{claims}.{b64(bytes(64))}",
        "huge numbers": f"{header}.{claims}.{b64(bytes([255] * 64))}",
        "der signature": f"{header}.{claims}.{b64(b'0' * 70)}",
        "bit flipped": f"{header}.{claims}.{('A' if signature[0] != 'A' else 'B') + signature[1:]}",
        "claims changed": f"{header}.{b64(orjson.dumps({**payload, 'exp': payload['exp'] + 1}))}.{signature}",
        "huge": f"{header}.{claims}{'A' * MAX_TOKEN}.{signature}",
        "another key": resigned({}, key=1),
        "no issuer": resigned({}, drop="iss"),
        "issuer a list": resigned({"iss": [payload["iss"]]}),
        "issuer of upstream": resigned({"iss": "kubernetes/serviceaccount"}),
        "no expiry": resigned({}, drop="exp"),
        "expiry a string": resigned({"exp": "9999999999"}),
        "expiry true": resigned({"exp": True}),
        "no audience": resigned({}, drop="aud"),
        "empty audience": resigned({"aud": []}),
        "audience a number": resigned({"aud": 5}),
        "audience of objects": resigned({"aud": [{}]}),
        "no not-before": resigned({}, drop="nbf"),
        "issued in the future": resigned({"iat": payload["iat"] + 1000}),
        "no private claims": resigned({}, drop="kubernetes.io"),
        "private claims a string": resigned({"kubernetes.io": "x"}),
        "no namespace": resigned(private(namespace=None)),
        "another subject": resigned({"sub": "system:serviceaccount:kube-system:admin"}),
        "no account": resigned(private(serviceaccount=None)),
        "empty uid": resigned(private(serviceaccount={"name": "bot", "uid": ""})),
        "pod without uid": resigned(private(pod={"name": "web"})),
        "pod null": resigned(private(pod=None)),
        "claims a list": raw(b"[]"),
        "claims not json": raw(b"{"),
        "claims not utf-8": raw(b'{"iss":"\xff"}'),
    }


MALFORMED = malformed()


def test_there_are_many_ways_to_be_wrong() -> None:
    assert len(set(MALFORMED.values())) == len(MALFORMED) > 60


@pytest.mark.parametrize("token", MALFORMED.values(), ids=MALFORMED)
def test_malformed_tokens_are_refused(accounts: Accounts, token: str) -> None:
    assert refusal(accounts, token)


def test_a_huge_token_is_not_even_looked_at(accounts: Accounts) -> None:
    assert refusal(accounts, MALFORMED["huge"]) == "invalid bearer token"


@given(st.text())
def test_garbage_is_refused(token: str) -> None:
    assert refusal(Accounts(), token) == "invalid bearer token"


@given(st.floats(0, 1, exclude_max=True), st.permutations("ABab01-_.=+/ "))
def test_no_character_can_be_changed(share: float, others: list[str]) -> None:
    """What is drawn must not depend on the token: that is another one every time."""
    accounts = Accounts()
    token = accounts.token()
    at = int(share * len(token))
    other = next(character for character in others if character != token[at])
    assert refusal(accounts, token[:at] + other + token[at + 1 :])


def test_keys_and_discovery_documents(accounts: Accounts) -> None:
    (key,) = accounts.signer.jwks("root")["keys"]
    assert {name: key[name] for name in ("use", "kty", "crv", "alg")} == {
        "use": "sig",
        "kty": "EC",
        "crv": "P-256",
        "alg": "ES256",
    }
    assert key["kid"] == key_id(0)
    assert len(key["x"]) == len(key["y"]) == 43
    assert "d" not in key
    assert accounts.signer.openid_configuration("blue") == {
        "issuer": "https://shoal/clusters/blue",
        "jwks_uri": "https://shoal/clusters/blue/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }
    assert accounts.signer.openid_configuration("blue", "https://hub/keys")["jwks_uri"] == "https://hub/keys"


def test_another_implementation_reads_our_tokens(accounts: Accounts) -> None:
    joserfc_jwt = pytest.importorskip("joserfc.jwt")
    jwk = pytest.importorskip("joserfc.jwk")
    keys = jwk.KeySet.import_key_set(accounts.signer.jwks("root"))
    found = joserfc_jwt.decode(accounts.token(), keys, algorithms=["ES256"])
    assert found.claims["sub"] == "system:serviceaccount:ci:bot"


def test_cryptography_is_not_imported_before_it_is_needed() -> None:
    program = "import sys, shoal.apiserver.authn.authenticator; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
