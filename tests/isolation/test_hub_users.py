"""Users of the hub in hosted clusters: nobody gets further than `spec.access` says, and nobody but the hub may ask a
worker for a token.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from contextlib import closing
from typing import Any

import pytest

from shoal.apiserver.authn import hub_user_token
from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authn.es256 import generate_secret
from shoal.apiserver.authn.serviceaccount_token import TokenSigner
from shoal.assemble.server.api_server import worker_user
from shoal.fleet.tunnel.user_tokens import TOKENS_PATH, encode_request
from shoal.kinds.fleet.access import HubUser, HubUserTokenRequest
from shoal.objects.wire import Request
from tests.isolation.tenants import BINDINGS, MANAGED, People, eventually
from tests.serving import HANG, Answer

Object = dict[str, Any]

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
MAPS = "/api/v1/namespaces/default/configmaps"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
MASTER = HubUser("admin", ("system:masters",))
ADMIN_OF_WEST = ("west-admin", "/managedclusters/default/west")


@pytest.fixture(scope="module")
def mentioned(people: People) -> People:
    """alice may read east and is mentioned nowhere else; all users of the hub may ask for tokens of every cluster."""
    authenticator = people.hub.shoal.server.core.authenticator
    for name, groups in (("alice", ("developers", "secret-project")), ("mallory", ("developers",))):
        people._tokens[name] = f"token-of-{name}"
        authenticator.add_static_token(f"token-of-{name}", User(name, groups))
    people._tokens["worker"] = "token-of-a-worker"
    authenticator.add_static_token("token-of-a-worker", worker_user("worker-1"))
    rule = {"apiGroups": ["infrastructure.cluster.x-k8s.io"], "resources": ["managedclusters/token"]}
    people.root.post(ROLES, {"metadata": {"name": "enter"}, "rules": [{**rule, "verbs": ["create"]}]}).ok()
    reference = {"kind": "ClusterRole", "name": "enter", "apiGroup": "rbac.authorization.k8s.io"}
    subjects = [{"kind": "Group", "name": "developers", "apiGroup": "rbac.authorization.k8s.io"}]
    people.root.post(BINDINGS, {"metadata": {"name": "enter"}, "roleRef": reference, "subjects": subjects}).ok()
    grant(people, {"role": "view", "users": ["alice"]})
    return people


def grant(people: People, *entries: Object) -> None:
    patch = {"spec": {"access": list(entries)}}
    headers = {"Content-Type": "application/merge-patch+json"}
    people.ask("root-admin", "PATCH", f"{MANAGED}/east", patch, headers).ok()


def request_token(people: People, who: str, cluster: str, **spec: Any) -> Answer:
    return people.ask(who, "POST", f"{MANAGED}/{cluster}/token", {"spec": spec})


def enter(people: People, token: str, path: str, method: str = "GET", body: object = None) -> Answer:
    people._tokens["somebody"] = token
    return people.ask("somebody", method, path, body)


def token_of(people: People, who: str, cluster: str = "east") -> str:
    return str(request_token(people, who, cluster).ok()["status"]["token"])


def test_a_user_mentioned_for_one_cluster_gets_no_token_for_another(mentioned: People) -> None:
    token = token_of(mentioned, "alice")
    assert enter(mentioned, token, f"/managedclusters/default/east{MAPS}").status == 200
    refused = request_token(mentioned, "alice", "west")
    assert refused.status == 403
    assert b'spec.access mentions neither user \\"alice\\"' in refused.body
    assert request_token(mentioned, "mallory", "east").status == 403


@pytest.mark.parametrize(
    "path",
    [
        f"/managedclusters/default/west{MAPS}",
        f"/managedclusters/default/east/../west{MAPS}",
        f"/managedclusters/default/east/..%2fwest{MAPS}",
        f"/clusters/default.east{MAPS}",
        f"/clusters/root{MAPS}",
        f"/clusters/alpha{MAPS}",
        f"/clusters/*{MAPS}",
        MAPS,
        "/version",
    ],
)
def test_a_token_of_one_cluster_opens_nothing_else(mentioned: People, path: str) -> None:
    assert enter(mentioned, token_of(mentioned, "alice"), path).status in (400, 401)


def test_groups_without_a_role_are_not_passed_on(mentioned: People) -> None:
    token = token_of(mentioned, "alice")
    answer = enter(mentioned, token, f"/managedclusters/default/east{SELF}", "POST", REVIEW).ok()
    assert answer["status"]["userInfo"]["groups"] == ["system:authenticated"]
    assert "secret-project" not in base64.urlsafe_b64decode(token.split(".")[1] + "==").decode()


def test_a_token_never_gives_more_than_the_role(mentioned: People) -> None:
    token, prefix = token_of(mentioned, "alice"), "/managedclusters/default/east"
    assert enter(mentioned, token, f"{prefix}/api/v1/secrets").status == 403
    subjects = [{"kind": "User", "name": "hub:alice", "apiGroup": "rbac.authorization.k8s.io"}]
    role = {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}
    mine = {"metadata": {"name": "mine"}, "roleRef": role, "subjects": subjects}
    assert enter(mentioned, token, f"{prefix}{BINDINGS}", "POST", mine).status == 403
    accounts = f"{prefix}/api/v1/namespaces/kube-system/serviceaccounts/shoal-admin/token"
    assert enter(mentioned, token, accounts, "POST", {"spec": {}}).status == 403


def test_roles_end_with_their_entry(mentioned: People) -> None:
    token, path = token_of(mentioned, "alice"), f"/managedclusters/default/east{MAPS}"
    try:
        grant(mentioned, {"role": "view", "users": ["somebody-else"]})
        assert request_token(mentioned, "alice", "east").status == 403
        eventually(lambda: enter(mentioned, token, path).status == 403)
    finally:
        grant(mentioned, {"role": "view", "users": ["alice"]})


def test_a_token_of_the_hub_is_not_handed_to_a_worker(mentioned: People) -> None:
    # The hub's own clients read the cluster through the tunnel as well: only requests with the mark are of this test.
    path, mark = f"/managedclusters/default/east{MAPS}?limit=7", "limit=7"
    every, handed, for_tokens = list[str](), list[str](), list[str]()
    tunnels = mentioned.hub.shoal.tunnels
    connected = tunnels._workers["worker-1"]

    def spy(request: Request) -> Any:
        authorization = request.headers.get("authorization", "")
        every.append(authorization)
        if request.query == mark:
            handed.append(authorization)
        if request.path == TOKENS_PATH:
            for_tokens.append(authorization)
        return connected.handler(request)

    tunnels._workers["worker-1"] = connected._replace(handler=spy)
    try:
        for who in ("root-admin", "root-account", "alice", "worker"):
            for spelling in ("Bearer ", "bearer  ", " Bearer "):
                headers = {"Authorization": spelling + mentioned.token(who)}
                answer = mentioned.ask("nobody", "GET", path, headers=headers)
                assert answer.status == 401
                assert b"a token of the hub is not valid in a hosted cluster" in answer.body
            assert not handed
            assert not [sent for sent in every if mentioned.token(who) in sent]
        with closing(
            http.client.HTTPSConnection("127.0.0.1", mentioned.hub.port, context=mentioned.hub.context)
        ) as twice:
            twice.putrequest("GET", path)
            for who in ("east-admin", "alice"):
                twice.putheader("Authorization", f"Bearer {mentioned.token(who)}")
            twice.endheaders()
            assert twice.getresponse().status in (400, 401)
        assert not handed
        assert mentioned.ask("east-admin", "GET", path).status == 200
        assert handed == [f"Bearer {mentioned.token('east-admin')}"]
        request_token(mentioned, "alice", "east").ok()
        assert for_tokens == [""]
        assert not [sent for sent in every if mentioned.token("alice") in sent]
    finally:
        tunnels._workers["worker-1"] = connected


def test_a_worker_gets_no_token(mentioned: People) -> None:
    for cluster in ("east", "west"):
        assert request_token(mentioned, "worker", cluster).status == 403


# --- forgery by a tenant, who is the administrator of west ---


def of_west(people: People, method: str, path: str, body: object = None) -> Answer:
    who, prefix = ADMIN_OF_WEST
    return people.ask(who, method, prefix + path, body)


def test_an_account_is_never_a_user_of_the_hub(mentioned: People) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    of_west(mentioned, "POST", accounts, {"metadata": {"name": "hub"}}).ok()
    for audiences in ([], ["hub:admin"], ["https://hub"], ["shoal.dev/hub-user"]):
        answer = of_west(mentioned, "POST", f"{accounts}/hub/token", {"spec": {"audiences": audiences}}).ok()
        token = answer["status"]["token"]
        for cluster in ("east", "west"):
            seen = enter(mentioned, token, f"/managedclusters/default/{cluster}{SELF}", "POST", REVIEW)
            assert seen.status == 401 or b"system:serviceaccount:default:hub" in seen.body
            assert b"hub:admin" not in seen.body
        changed = [retyped(token), retyped(token, sub="hub:admin"), retyped(token, sub="hub:admin", keep=False)]
        for forged in changed:
            for cluster in ("east", "west"):
                assert enter(mentioned, forged, f"/managedclusters/default/{cluster}{MAPS}").status == 401


def retyped(token: str, sub: str = "", keep: bool = True) -> str:
    """The token with the header, and then the claims, of a hub user, under its own signature."""
    header, claims, signature = token.split(".")
    said = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    head = json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    if sub:
        said |= {"sub": sub, hub_user_token.CLAIM: {"cluster": "any", "groups": ["hub:system:masters"]}}
    if not keep:
        said.pop("kubernetes.io")
    parts = [
        json.dumps(part, separators=(",", ":")).encode() for part in ({"typ": hub_user_token.TOKEN_TYPE, **head}, said)
    ]
    return ".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), signature])


def test_keys_of_others_sign_no_user_of_the_hub(mentioned: People) -> None:
    core = mentioned.hub.up.workers[0].shoal.server.core
    uid = core.clusters.get("default.east").uid  # type: ignore[union-attr]
    now, path = time.time(), f"/managedclusters/default/east{MAPS}"

    def signed(keys: tuple[bytes, ...], at: float = now, issuer: str = "east", of: str = uid) -> str:
        # By path: every address with a port may have been one of the cluster.
        signer = TokenSigner(lambda name: keys, lambda name: f"https://hub/managedclusters/default/{issuer}")
        return hub_user_token.issue(signer, "default.east", of, MASTER, seconds=600, now=at)[0]

    easts, wests = (core.keys.signing_keys(f"default.{name}") for name in ("east", "west"))
    assert enter(mentioned, signed(easts), path).status == 200
    forged = {
        "a new key": signed((generate_secret(),)),
        "the key of west": signed(wests),
        "expired": signed(easts, now - 700),
        "not valid yet": signed(easts, now + 700),
        "the issuer of west": signed(easts, issuer="west"),
        "the uid of another cluster": signed(easts, of=core.clusters.get("default.west").uid),  # type: ignore[union-attr]
    }
    for how, token in forged.items():
        assert enter(mentioned, token, path).status == 401, how
    at_the_hub = TokenSigner(mentioned.hub.shoal.server.core.keys.signing_keys, lambda name: "https://hub")
    for cluster in ("root", "alpha"):
        token = hub_user_token.issue(at_the_hub, cluster, "any", MASTER, seconds=600, now=now)[0]
        assert enter(mentioned, token, f"/clusters/{cluster}{MAPS}").status == 401


# --- the path between hub and worker ---


@pytest.mark.parametrize("who", ["root-admin", "west-admin", "alice", "nobody", "worker"])
@pytest.mark.parametrize(
    "path",
    [
        TOKENS_PATH,
        f"/managedclusters/default/west{TOKENS_PATH}",
        f"/managedclusters/default/west/..{TOKENS_PATH}",
        f"/managedclusters/default/../..{TOKENS_PATH}",
        f"/managedclusters/default/west/%2e%2e/%2e%2e/%2e%2e{TOKENS_PATH}",
        f"/managedclusters/..{TOKENS_PATH}/x",
        f"//{TOKENS_PATH}",
        f"/clusters/default.west{TOKENS_PATH}",
    ],
)
def test_no_client_reaches_the_workers_issuer(mentioned: People, who: str, path: str) -> None:
    body = json.loads(encode_request(wanted(mentioned)).body)
    answer = mentioned.ask(who, "POST", path, body)
    assert answer.status >= 400
    assert b'"token"' not in answer.body


def wanted(people: People) -> HubUserTokenRequest:
    uid = people.root.get(f"{MANAGED}/west").ok()["metadata"]["uid"]
    return HubUserTokenRequest("default", "west", uid, MASTER, 600)


def test_the_listener_of_a_worker_has_no_such_path(mentioned: People) -> None:
    shoal = mentioned.hub.up.workers[0].shoal
    context = ssl.create_default_context(cadata=shoal.server.authority.certificate.decode())
    for token in (shoal.directory.admin_token(), mentioned.token("west-admin"), ""):
        for path in (TOKENS_PATH, f"/clusters/default.west{TOKENS_PATH}"):
            connection = http.client.HTTPSConnection("127.0.0.1", shoal.server.port, context=context, timeout=HANG)
            headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
            connection.request("POST", path, encode_request(wanted(mentioned)).body, headers)
            answer = connection.getresponse()
            assert answer.status >= 400
            assert b'"token"' not in answer.read()
            connection.close()
