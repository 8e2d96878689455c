"""Who is asking: tokens, impersonation, reviews, roles, certificates."""

# ruff: noqa: E501 - one case, one line
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.apiserver.kind_samples import signing_request
from tests.real.differential.asking import Ask, Object, Story
from tests.real.differential.kinds import MERGE, NAMESPACE

RBAC = "/apis/rbac.authorization.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
NOBODY = {"Impersonate-User": "nobody"}


def stories() -> Iterator[Story]:
    for name, headers in _callers().items():
        for path in ("/api/v1/namespaces/default/secrets", "/api", "/healthz", "/nothing", "/api/v1/nodes/x/status"):
            yield Story(f"callers: {name}, {path}", (Ask("GET", path, headers=headers),))
    for method, path in _forbidden():
        yield Story(
            f"forbidden: {method} {path}", (Ask(method, path, {} if method in ("POST", "PUT") else None, NOBODY),)
        )
    for number, (path, body) in enumerate(_reviews()):
        yield Story(f"reviews: {number}", (Ask("POST", path, body),))
    yield Story("tokens", tuple(_tokens()))
    yield Story("roles", tuple(_roles()))
    yield Story("certificates", tuple(_certificates()))


def _callers() -> dict[str, dict[str, str]]:
    return {
        "anonymous": {"Authorization": ""},
        "wrong token": {"Authorization": "Bearer wrong"},
        "no bearer": {"Authorization": "Basic YTpi"},
        "empty bearer": {"Authorization": "Bearer "},
        "nobody": NOBODY,
        "group alone": {"Impersonate-Group": "g"},
        "uid alone": {"Impersonate-Uid": "1"},
        "extra alone": {"Impersonate-Extra-Scopes": "a"},
        "masters": {**NOBODY, "Impersonate-Group": "system:masters"},
        "account": {"Impersonate-User": "system:serviceaccount:default:default"},
        "account that is none": {"Impersonate-User": "system:serviceaccount:default"},
        "anonymous by name": {"Impersonate-User": "system:anonymous"},
    }


def _forbidden() -> Iterator[tuple[str, str]]:
    maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    for method in ("GET", "POST", "DELETE"):
        yield method, maps
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        yield method, f"{maps}/x"
    yield from (("GET", f"{maps}?watch=1"), ("GET", "/api/v1/nodes"), ("GET", "/apis/apps/v1/deployments"))
    yield from (
        ("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/x/scale"),
        ("GET", "/metrics"),
        ("GET", "/logs"),
    )
    yield from (("GET", f"/apis/example.com/v1/namespaces/{NAMESPACE}/widgets/x"), ("GET", "/apis/nothing/v1/things"))
    yield from (("POST", f"{ACCOUNTS}/default/token"), ("POST", f"{AUTHORIZATION}/subjectaccessreviews"))
    yield from (("GET", "/api/v1/namespaces/default"), ("POST", "/apis"))


def _reviews() -> Iterator[tuple[str, Object]]:
    def review(kind: str, **spec: object) -> tuple[str, Object]:
        return f"{AUTHORIZATION}/{kind.lower()}s", {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}

    asked = {"namespace": "default", "verb": "get", "resource": "pods"}
    yield review("SubjectAccessReview")
    yield review("SubjectAccessReview", user="nobody", resourceAttributes=asked)
    yield review("SubjectAccessReview", user="nobody", groups=["system:masters"], resourceAttributes=asked)
    yield review("SubjectAccessReview", resourceAttributes=asked)
    yield review(
        "SubjectAccessReview", user="x", resourceAttributes=asked, nonResourceAttributes={"path": "/", "verb": "get"}
    )
    yield review("SubjectAccessReview", user="x", nonResourceAttributes={"path": "/healthz", "verb": "get"})
    yield review("SubjectAccessReview", user="x", groups=["system:authenticated"], nonResourceAttributes={"path": "/version", "verb": "get"})  # fmt: skip
    selector = {"requirements": [{"key": "a", "operator": "Odd"}]}
    yield review("SubjectAccessReview", user="x", resourceAttributes={**asked, "labelSelector": selector})
    yield review("SelfSubjectAccessReview", resourceAttributes=asked)
    yield review("SelfSubjectAccessReview")
    yield review("SelfSubjectRulesReview", namespace="default")
    yield review("SelfSubjectRulesReview")
    local = {"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview"}
    path = f"{AUTHORIZATION}/namespaces/{NAMESPACE}/localsubjectaccessreviews"
    yield path, {**local, "spec": {"user": "x", "resourceAttributes": asked}}
    yield path, {**local, "spec": {"user": "x", "resourceAttributes": {**asked, "namespace": NAMESPACE}}}
    yield path, {**local, "spec": {"user": "x", "nonResourceAttributes": {"path": "/", "verb": "get"}}}
    yield path, {**local, "spec": {}}
    authentication = "/apis/authentication.k8s.io/v1"
    head = {"apiVersion": "authentication.k8s.io/v1"}
    yield f"{authentication}/selfsubjectreviews", {**head, "kind": "SelfSubjectReview"}
    yield f"{authentication}/tokenreviews", {**head, "kind": "TokenReview", "spec": {"token": "wrong"}}
    yield f"{authentication}/tokenreviews", {**head, "kind": "TokenReview", "spec": {}}
    yield f"{authentication}/tokenreviews", {**head, "kind": "TokenReview", "spec": {"token": "x", "audiences": ["y"]}}
    yield f"{authentication}/tokenreviews", {**head, "kind": "Odd"}


def _tokens() -> Iterator[Ask]:
    def wanted(**spec: object) -> Object:
        return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}

    path = f"{ACCOUNTS}/talker/token"
    yield Ask("POST", ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "talker"}})
    yield Ask("POST", path, wanted())
    yield Ask("POST", path, wanted(expirationSeconds=60))
    yield Ask("POST", path, wanted(expirationSeconds=2**33))
    yield Ask("POST", path, wanted(expirationSeconds=3600, audiences=["a"]))
    yield Ask("POST", path, wanted(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "nobody"}))
    yield Ask("POST", path, wanted(boundObjectRef={"kind": "Odd", "apiVersion": "v1", "name": "nobody"}))
    yield Ask("POST", path, wanted(boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "x", "uid": "y"}))
    yield Ask("POST", path, {**wanted(), "metadata": {"name": "other"}})
    yield Ask("POST", f"{ACCOUNTS}/nobody/token", wanted())
    yield Ask("GET", path)
    yield Ask("DELETE", f"{ACCOUNTS}/talker")


def _roles() -> Iterator[Ask]:
    def made(kind: str, name: str, **more: object) -> Object:
        return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **more}

    roles, bindings = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    rules: Any
    more: Object
    for rules in (
        [{}], [{"verbs": ["get"]}], [{"verbs": [], "resources": ["pods"], "apiGroups": [""]}], [{"verbs": ["get"], "resources": ["pods"]}],
        [{"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"], "apiGroups": [""]}], [{"verbs": ["get"], "nonResourceURLs": ["x"]}],
    ):  # fmt: skip
        yield Ask("POST", f"{roles}?dryRun=All", made("ClusterRole", "checked", rules=rules))
        path = f"{RBAC}/namespaces/{NAMESPACE}/roles"
        yield Ask("POST", f"{path}?dryRun=All", made("Role", "checked", rules=rules))
    for more in (
        {"roleRef": reference}, {"roleRef": {**reference, "kind": "Odd"}}, {"roleRef": {**reference, "name": ""}}, {"roleRef": {**reference, "apiGroup": "x"}},
        {"roleRef": reference, "subjects": [{"kind": "User", "name": ""}]}, {"roleRef": reference, "subjects": [{"kind": "Odd", "name": "x"}]},
        {"roleRef": reference, "subjects": [{"kind": "ServiceAccount", "name": "x"}]}, {"roleRef": reference, "subjects": [{"kind": "User", "name": "x", "apiGroup": "y"}]},
        {"roleRef": {**reference, "kind": "Role"}}, {},
    ):  # fmt: skip
        yield Ask("POST", f"{bindings}?dryRun=All", made("ClusterRoleBinding", "checked", **more))
    yield Ask("POST", bindings, made("ClusterRoleBinding", "pairs", roleRef=reference))
    yield Ask("PATCH", f"{bindings}/pairs", {"roleRef": {"name": "edit"}}, {"Content-Type": MERGE})
    yield Ask("DELETE", f"{bindings}/pairs")
    allowed = [
        {
            "verbs": ["*"],
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["clusterroles", "clusterrolebindings"],
        }
    ]
    limited = [rule | {"verbs": ["create", "get"]} for rule in allowed]
    yield Ask("POST", roles, made("ClusterRole", "role-maker", rules=limited))
    maker = {"roleRef": {**reference, "name": "role-maker"}, "subjects": [{"kind": "User", "name": "maker"}]}
    yield Ask("POST", bindings, made("ClusterRoleBinding", "role-maker", **maker))
    acting = {"Impersonate-User": "maker"}
    yield Ask("GET", f"{roles}/role-maker", headers=acting, until=200)
    pods = [{"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods"]}]
    yield Ask("POST", f"{roles}?dryRun=All", made("ClusterRole", "more", rules=pods), acting)
    yield Ask("POST", f"{roles}?dryRun=All", made("ClusterRole", "same", rules=limited), acting)
    yield Ask(
        "POST",
        f"{bindings}?dryRun=All",
        made("ClusterRoleBinding", "more", roleRef={**reference, "name": "cluster-admin"}),
        acting,
    )
    yield Ask("GET", f"{roles}/cluster-admin")
    yield Ask("GET", f"{bindings}/cluster-admin")
    yield Ask("DELETE", f"{bindings}/role-maker")
    yield Ask("DELETE", f"{roles}/role-maker")


def _certificates() -> Iterator[Ask]:
    request = signing_request()

    def made(name: str, **spec: object) -> Object:
        whole = {"request": request, "signerName": "example.com/signer", "usages": ["client auth"], **spec}
        return {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name}, "spec": whole}  # fmt: skip

    spec: Object
    for spec in (
        {"request": ""}, {"request": "eA=="}, {"signerName": ""}, {"signerName": "x"}, {"signerName": "kubernetes.io/legacy-unknown"}, {"usages": []},
        {"usages": ["x"]}, {"usages": ["client auth", "client auth"]}, {"expirationSeconds": 5}, {"signerName": "a.b/c d"}, {"username": "somebody else"},
    ):  # fmt: skip
        yield Ask("POST", f"{REQUESTS}?dryRun=All", made("checked", **spec))
    path = f"{REQUESTS}/pairs"
    yield Ask("POST", REQUESTS, made("pairs"))
    condition = {"type": "Approved", "status": "True", "reason": "Because"}
    yield Ask(
        "PATCH", f"{path}/approval", {"status": {"conditions": [{**condition, "type": ""}]}}, {"Content-Type": MERGE}
    )
    yield Ask(
        "PATCH",
        f"{path}/approval",
        {"status": {"conditions": [{**condition, "status": "False"}]}},
        {"Content-Type": MERGE},
    )
    yield Ask("PATCH", f"{path}/approval", {"status": {"conditions": [condition]}}, {"Content-Type": MERGE})
    denied = [condition, {**condition, "type": "Denied"}]
    yield Ask("PATCH", f"{path}/approval", {"status": {"conditions": denied}}, {"Content-Type": MERGE})
    yield Ask("PATCH", f"{path}/approval", {"status": {"conditions": []}}, {"Content-Type": MERGE})
    yield Ask("PATCH", f"{path}/status", {"status": {"certificate": "eA=="}}, {"Content-Type": MERGE})
    yield Ask("PATCH", path, {"spec": {"usages": ["server auth"]}}, {"Content-Type": MERGE})
    yield Ask("DELETE", path)
