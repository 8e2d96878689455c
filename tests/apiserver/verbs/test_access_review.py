"""Access, rules, subject and token reviews: responses and rejections."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.apiserver.authn.authenticator import Authenticator, User
from shoal.apiserver.authz import Authorizer
from shoal.apiserver.verbs.subresources.access_review import review_response
from shoal.objects.errors import BadRequest, InternalError, Invalid, StatusError
from tests.apiserver.authn.accounts import Accounts
from tests.apiserver.authz.role_table import RoleTable, grant, person, ref, rule, to, url_rule

READ_PODS = rule("", "pods", "get,list")
ALLOWED = 'RBAC: allowed by ClusterRoleBinding "grants" of ClusterRole "granted" to User "alice"'


class Desk:
    """Where reviews are brought to: alice may read pods and /healthz in root, nobody anything elsewhere."""

    def __init__(self) -> None:
        self.table = RoleTable()
        grant(self.table, [READ_PODS, url_rule("/healthz", "get")])
        self.authorizer = Authorizer(self.table)
        self.accounts = Accounts()
        self.authenticator = Authenticator(
            tokens={"static": User("alice", ("devs",), "u1")},
            service_accounts=self.accounts.tokens,
        )

    def ask(
        self, kind: str, spec: Any = None, *, user: User | None = None, metadata: Any = None, **where: Any
    ) -> dict[str, Any]:
        obj: dict[str, Any] = {"kind": kind, "apiVersion": "x/v1"}
        if spec is not None:
            obj["spec"] = spec
        if metadata is not None:
            obj["metadata"] = metadata
        cluster = where.pop("cluster", "root")
        return review_response(kind, obj, user or person(), cluster, self.authorizer, self.authenticator, **where)

    def status(self, kind: str, spec: Any = None, **where: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.ask(kind, spec, **where)["status"]
        return found

    def refusal(self, kind: str, spec: Any = None, **where: Any) -> StatusError:
        with pytest.raises(StatusError) as caught:
            self.ask(kind, spec, **where)
        return caught.value


@pytest.fixture
def desk() -> Desk:
    return Desk()


GET_PODS = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "ns"}}
DELETE_PODS = {"resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": "ns"}}


def test_self_access(desk: Desk) -> None:
    assert desk.ask("SelfSubjectAccessReview", GET_PODS) == {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "x/v1",
        "metadata": {},
        "spec": GET_PODS,
        "status": {"allowed": True, "reason": ALLOWED},
    }
    assert desk.status("SelfSubjectAccessReview", DELETE_PODS) == {"allowed": False}
    healthz = {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}
    assert desk.status("SelfSubjectAccessReview", healthz)["allowed"] is True
    assert desk.status("SelfSubjectAccessReview", DELETE_PODS, user=person("x", "system:masters")) == {"allowed": True}


def test_an_empty_path_is_not_a_resource(desk: Desk) -> None:
    grant(desk.table, [rule("*", "*", "*"), url_rule("/healthz,/api*", "get")])
    assert desk.status("SelfSubjectAccessReview", {"nonResourceAttributes": {"verb": "get"}}) == {"allowed": False}
    grant(desk.table, [url_rule("*", "get")])
    assert desk.status("SelfSubjectAccessReview", {"nonResourceAttributes": {"verb": "get"}})["allowed"] is True


def test_access_of_somebody(desk: Desk) -> None:
    asked = {**GET_PODS, "user": "alice"}
    assert desk.status("SubjectAccessReview", asked, user=person("admin"))["allowed"] is True
    assert desk.status("SubjectAccessReview", {**GET_PODS, "user": "bob"})["allowed"] is False
    assert desk.status("SubjectAccessReview", {**DELETE_PODS, "groups": ["system:masters"]})["allowed"] is True


def test_somebody_is_of_the_cluster_that_is_asked(desk: Desk) -> None:
    asked = {**GET_PODS, "user": "alice"}
    admin = person("admin", "system:masters")
    assert desk.status("SubjectAccessReview", asked, user=admin, cluster="blue") == {"allowed": False}
    desk.table.put("ClusterRole", "r", cluster="blue", rules=[READ_PODS])
    subjects = [to("User", "alice")]
    desk.table.put("ClusterRoleBinding", "b", cluster="blue", roleRef=ref("ClusterRole", "r"), subjects=subjects)
    assert desk.status("SubjectAccessReview", asked, user=admin, cluster="blue")["allowed"] is True


def test_denials_say_what_could_not_be_found(desk: Desk) -> None:
    desk.table.put("ClusterRoleBinding", "x", roleRef=ref("ClusterRole", "gone"), subjects=[to("User", "alice")])
    said = 'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'
    assert desk.status("SelfSubjectAccessReview", DELETE_PODS) == {"allowed": False, "reason": said}


def test_local_access(desk: Desk) -> None:
    asked = {**GET_PODS, "user": "alice"}
    found = desk.ask("LocalSubjectAccessReview", asked, namespace="ns", metadata={"namespace": "ns"})
    assert found["status"]["allowed"] is True
    assert desk.ask("LocalSubjectAccessReview", asked, namespace="ns")["metadata"] == {"namespace": "ns"}
    error = desk.refusal("LocalSubjectAccessReview", asked, namespace="other", metadata={"namespace": "ns"})
    assert isinstance(error, BadRequest)
    assert error.message == "spec.resourceAttributes.namespace must match namespace: other"


BOTH = {**GET_PODS, "nonResourceAttributes": {"path": "/a", "verb": "get"}}
SELECTOR = "spec.resourceAttributes.fieldSelector"


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        (
            "SelfSubjectAccessReview",
            {},
            [
                (
                    "spec.resourceAttributes: Invalid value: null: "
                    "exactly one of nonResourceAttributes or resourceAttributes must be specified"
                )
            ],
        ),
        (
            "SelfSubjectAccessReview",
            BOTH,
            [
                (
                    'spec.nonResourceAttributes: Invalid value: {"Path":"/a","Verb":"get"}: '
                    "cannot be specified in combination with resourceAttributes"
                )
            ],
        ),
        (
            "SubjectAccessReview",
            None,
            [
                (
                    "spec.resourceAttributes: Invalid value: null: "
                    "exactly one of nonResourceAttributes or resourceAttributes must be specified"
                ),
                'spec.user: Invalid value: "": at least one of user or group must be specified',
            ],
        ),
        (
            "LocalSubjectAccessReview",
            {"user": "a", "resourceAttributes": {"verb": "get", "namespace": "other"}},
            ['spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace'],
        ),
        (
            "LocalSubjectAccessReview",
            {"user": "a", "nonResourceAttributes": {"path": "/a"}},
            [
                (
                    'spec.nonResourceAttributes: Invalid value: {"Path":"/a","Verb":""}: '
                    "disallowed on this kind of request"
                )
            ],
        ),
        (
            "SelfSubjectAccessReview",
            {"resourceAttributes": {"fieldSelector": {}}},
            [
                (
                    f"{SELECTOR}.requirements: Required value: "
                    f"when {SELECTOR} is specified, requirements or rawSelector is required"
                )
            ],
        ),
        (
            "SelfSubjectAccessReview",
            {"resourceAttributes": {"fieldSelector": {"rawSelector": "a=b", "requirements": [{"operator": "In"}]}}},
            [
                f'{SELECTOR}.rawSelector: Invalid value: "a=b": may not specified at the same time as requirements',
                f"{SELECTOR}.requirements[0].key: Required value: must be specified",
                (
                    f"{SELECTOR}.requirements[0].values: Required value: "
                    "must be specified when `operator` is 'In' or 'NotIn'"
                ),
            ],
        ),
        (
            "SelfSubjectAccessReview",
            {
                "resourceAttributes": {
                    "labelSelector": {"requirements": [{"key": "a", "operator": "Exists", "values": ["b"]}]}
                }
            },
            [
                (
                    "spec.resourceAttributes.labelSelector.requirements[0].values: Forbidden: "
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                )
            ],
        ),
    ],
)
def test_invalid_access_reviews(desk: Desk, kind: str, spec: Any, said: list[str]) -> None:
    where = {"namespace": "ns"} if kind.startswith("Local") else {}
    error = desk.refusal(kind, spec, **where)
    assert isinstance(error, Invalid)
    assert [f"{cause.field}: {cause.message}" for cause in error.causes] == said
    assert error.message.startswith(f'{kind}.authorization.k8s.io "" is invalid: ')


@pytest.mark.parametrize(
    ("kind", "metadata", "said"),
    [
        ("SelfSubjectAccessReview", {"name": "x"}, 'Invalid value: {"name":"x"}: must be empty'),
        ("SubjectAccessReview", {"labels": {"a": "b"}}, 'Invalid value: {"labels":{"a":"b"}}: must be empty'),
        (
            "LocalSubjectAccessReview",
            {"name": "x", "namespace": "ns"},
            'Invalid value: {"name":"x","namespace":"ns"}: must be empty except for namespace',
        ),
    ],
)
def test_metadata_must_be_empty(desk: Desk, kind: str, metadata: Any, said: str) -> None:
    where = {"namespace": "ns"} if kind.startswith("Local") else {}
    error = desk.refusal(kind, {**GET_PODS, "user": "a"}, metadata=metadata, **where)
    assert [(cause.field, cause.message) for cause in error.causes] == [("metadata", said)]


def test_empty_metadata_fields_do_not_count(desk: Desk) -> None:
    metadata = {"creationTimestamp": None, "managedFields": [{"manager": "x"}]}
    assert desk.status("SelfSubjectAccessReview", GET_PODS, metadata=metadata)["allowed"] is True


@pytest.mark.parametrize(
    ("selectors", "problem"),
    [
        ({"fieldSelector": {"rawSelector": "metadata.name=a"}}, None),
        ({"fieldSelector": {"rawSelector": "nonsense"}}, "fieldSelector ignored due to parse error"),
        ({"labelSelector": {"rawSelector": "a in ("}}, "labelSelector ignored due to parse error"),
        (
            {"fieldSelector": {"requirements": [{"key": "a", "operator": "Exists"}]}},
            "fieldSelector ignored due to parse error",
        ),
        (
            {
                "labelSelector": {
                    "requirements": [
                        {"key": "a", "operator": "Newer"},
                        {"key": "b", "operator": "In", "values": ["c"]},
                    ]
                }
            },
            "labelSelector partially ignored due to parse error",
        ),
    ],
)
def test_selectors_that_are_not_understood(desk: Desk, selectors: dict[str, Any], problem: str | None) -> None:
    spec = {"resourceAttributes": {"verb": "list", "resource": "pods", **selectors}}
    status = desk.status("SelfSubjectAccessReview", spec)
    assert status["allowed"] is True
    assert status.get("evaluationError") == (problem and f"spec.resourceAttributes.{problem}")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("text", "spec must be an object"),
        ({"resourceAttributes": []}, "resourceAttributes must be an object"),
        ({"user": "a", "resourceAttributes": {"verb": 5}}, "verb must be a string"),
        ({**GET_PODS, "user": "a", "groups": "b"}, "groups must be a list of strings"),
        ({**GET_PODS, "user": "a", "extra": {"k": [1]}}, "k must be a list of strings"),
        (
            {"user": "a", "resourceAttributes": {"fieldSelector": {"requirements": "x"}}},
            "requirements must be a list of objects",
        ),
    ],
)
def test_shapes_that_are_no_review(desk: Desk, spec: Any, said: str) -> None:
    error = desk.refusal("SubjectAccessReview", spec)
    assert isinstance(error, BadRequest)
    assert error.message == said


def test_rules(desk: Desk) -> None:
    grant(desk.table, [rule("", "secrets", "get", "a")], "ns")
    desk.table.put("ClusterRoleBinding", "x", roleRef=ref("ClusterRole", "gone"), subjects=[to("User", "alice")])
    assert desk.ask("SelfSubjectRulesReview", {"namespace": "ns"}) == {
        "kind": "SelfSubjectRulesReview",
        "apiVersion": "x/v1",
        "metadata": {},
        "spec": {},
        "status": {
            "resourceRules": [
                {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]},
                {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]},
            ],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
            "incomplete": False,
            "evaluationError": 'clusterrole.rbac.authorization.k8s.io "gone" not found',
        },
    }
    error = desk.refusal("SelfSubjectRulesReview", {})
    assert isinstance(error, BadRequest)
    assert error.message == "no namespace on request"


def test_who_am_i(desk: Desk) -> None:
    user = User("alice", ("devs",), "u1", {"scopes": ("a", "b")})
    assert desk.ask("SelfSubjectReview", user=user, now=0.0) == {
        "kind": "SelfSubjectReview",
        "apiVersion": "x/v1",
        "metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"},
        "status": {"userInfo": {"username": "alice", "uid": "u1", "groups": ["devs"], "extra": {"scopes": ["a", "b"]}}},
    }


def test_static_token_review(desk: Desk) -> None:
    user = {"username": "alice", "uid": "u1", "groups": ["devs", "system:authenticated"]}
    ours = ["https://shoal/clusters/root"]
    expected = {"authenticated": True, "user": user, "audiences": ours}
    assert desk.status("TokenReview", {"token": "static"}) == expected
    assert desk.status("TokenReview", {"token": "static", "audiences": [*ours, "vault"]}) == expected
    refused = {"user": {}, "error": "invalid bearer token"}
    assert desk.status("TokenReview", {"token": "static", "audiences": ["vault"]}) == refused
    assert desk.status("TokenReview", {"token": "static"}, cluster="blue") == refused


def test_service_account_token_review(desk: Desk) -> None:
    token = desk.accounts.token("blue", ("vault",))
    status = desk.status("TokenReview", {"token": token, "audiences": ["vault", "db"]}, cluster="blue")
    assert (status["authenticated"], status["audiences"]) == (True, ["vault"])
    assert status["user"]["username"] == "system:serviceaccount:ci:bot"
    elsewhere = desk.status("TokenReview", {"token": token, "audiences": ["vault"]})
    assert elsewhere == {"user": {}, "error": "[invalid bearer token, invalid signature, no keys found]"}
    desk.accounts.clock.step(4000)
    status = desk.status("TokenReview", {"token": token, "audiences": ["vault"]}, cluster="blue")
    assert status["error"] == "[invalid bearer token, service account token has expired]"


def test_token_review_without_a_token(desk: Desk) -> None:
    for spec in (None, {}, {"token": ""}):
        error = desk.refusal("TokenReview", spec)
        assert isinstance(error, BadRequest)
        assert error.message == "token is required for TokenReview in authentication"


def test_other_kinds_are_no_reviews(desk: Desk) -> None:
    assert isinstance(desk.refusal("Pod"), InternalError)
