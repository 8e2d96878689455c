"""No object begins to exist without the verb `create`, whatever request makes it: PUT, apply, other patches."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shoal.kinds.catalogue import BuiltinResource
from tests.apiserver.test_every_kind import KINDS, identity, paths, sample
from tests.serving import DEFINITIONS, WIDGETS, Answer, Cluster, Server, config_map, fresh_cluster, widget
from tests.serving import widget_definition as definition

Object = dict[str, Any]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLE_GROUP = "rbac.authorization.k8s.io"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
SECRETS = "/api/v1/namespaces/default/secrets"
SERVICES = "/api/v1/namespaces/default/services"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
EDITOR = {"Impersonate_User": "editor"}
"""Has `update` and `patch` of everything."""
MAKER = {"Impersonate_User": "maker"}
"""Has `create` as well."""
CHANGES = ("get", "list", "watch", "update", "patch")
RBAC_VERBS = ("escalate", "bind")
"""A role is refused for other reasons without them."""
MADE_BY_PUT = {
    "endpoints.v1", "events.events.k8s.io/v1", "events.v1", "leases.coordination.k8s.io/v1", "limitranges.v1",
    "runtimeclasses.node.k8s.io/v1", "services.v1",
    *(f"{plural}.{ROLE_GROUP}/v1" for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")),
}  # fmt: skip
GADGETS = "/apis/example.com/v1/gadgets"


def grant(cluster: Cluster, user: str, *rules: Object) -> None:
    cluster.post(f"{RBAC}/clusterroles", {"metadata": {"name": user}, "rules": list(rules)}).ok()
    reference = {"apiGroup": ROLE_GROUP, "kind": "ClusterRole", "name": user}
    subject = {"apiGroup": ROLE_GROUP, "kind": "User", "name": user}
    binding = {"metadata": {"name": user}, "roleRef": reference, "subjects": [subject]}
    cluster.post(f"{RBAC}/clusterrolebindings", binding).ok()


def everything(*verbs: str) -> Object:
    return {"apiGroups": ["*"], "resources": ["*"], "verbs": list(verbs)}


def with_users(cluster: Cluster) -> Cluster:
    grant(cluster, "editor", everything(*CHANGES, *RBAC_VERBS))
    grant(cluster, "maker", everything("create", *CHANGES, *RBAC_VERBS))
    return cluster


@pytest.fixture(scope="module")
def whole(still_server: Server) -> Iterator[Cluster]:
    cluster = with_users(fresh_cluster(still_server, profile="cluster"))
    cluster.post(DEFINITIONS, definition()).ok()
    gadgets = definition()
    gadgets["metadata"]["name"] = "gadgets.example.com"
    gadgets["spec"] |= {"scope": "Cluster", "names": {"kind": "Gadget", "plural": "gadgets"}}
    cluster.post(DEFINITIONS, gadgets).ok()
    yield cluster
    cluster.close()


def refusal(path: str, user: str = "editor") -> str:
    """The words of the refusal to create the object at that path."""
    parts = path.strip("/").split("/")
    group = parts[1] if parts[0] == "apis" else ""
    plural, name = parts[-2:]
    where = f'in the namespace "{parts[-3]}"' if parts[-4] == "namespaces" else "at the cluster scope"
    title = f"{plural}.{group}" if group else plural
    what = f'cannot create resource "{plural}" in API group "{group}" {where}'
    return f'{title} "{name}" is forbidden: User "{user}" {what}'


def refused(answer: Answer, path: str) -> None:
    assert (answer.status, answer["reason"]) == (403, "Forbidden"), answer.body
    assert answer["message"] == refusal(path)


def try_every_change(cluster: Cluster, path: str, body: Object, *, by_put: bool) -> None:
    """Nothing exists after any of them."""
    for query in ("?", "?dryRun=All&"):
        refused(cluster.patch(f"{path}{query}fieldManager=m", body, "apply", **EDITOR), path)
        refused(cluster.patch(f"{path}{query}fieldManager=m&force=true", body, "apply", **EDITOR), path)
        put = cluster.put(path + query, body, **EDITOR)
        if by_put:
            refused(put, path)
        else:
            assert put.status == 404, put.body
        for kind in ("merge", "strategic-merge"):
            assert cluster.patch(path + query, body, kind, **EDITOR).status in (404, 415)
        assert cluster.patch(path + query, [{"op": "add", "path": "", "value": body}], "json", **EDITOR).status == 404
        for subresource in ("status", "scale"):
            assert cluster.put(f"{path}/{subresource}", body, **EDITOR).status in (400, 404)
            assert cluster.patch(f"{path}/{subresource}?fieldManager=m", body, "apply", **EDITOR).status in (
                400,
                404,
                415,
            )
    assert cluster.get(path).status == 404


def make_by_every_change(cluster: Cluster, path: str, body: Object, *, by_put: bool) -> None:
    assert cluster.patch(f"{path}?fieldManager=m&dryRun=All", body, "apply", **MAKER).status == 201
    assert cluster.get(path).status == 404
    assert cluster.patch(f"{path}?fieldManager=m", body, "apply", **MAKER).status == 201
    changed = body | {"metadata": body["metadata"] | {"labels": {"by": "editor"}}}
    assert cluster.patch(f"{path}?fieldManager=m", changed, "apply", **EDITOR).status == 200
    assert cluster.get(path).ok()["metadata"]["labels"]["by"] == "editor"
    assert cluster.put(path, cluster.get(path).ok(), **EDITOR).status == 200
    remove(cluster, path)
    if by_put:
        assert cluster.put(path, body, **MAKER).status == 201
        remove(cluster, path)


def remove(cluster: Cluster, path: str) -> None:
    """At once, finalizers of its kind included: no controller runs that would remove them."""
    cluster.delete(path, {"gracePeriodSeconds": 0}).ok()
    if cluster.get(path).status == 200:
        cluster.patch(path, {"metadata": {"finalizers": None}}).ok()
    if cluster.get(path).status == 200:
        left = cluster.get(path).ok()
        cluster.put(f"{path}/finalize", left | {"spec": {}}).ok()
    assert cluster.get(path).status == 404


@pytest.mark.parametrize("builtin", KINDS, ids=identity)
def test_builtin_kinds(whole: Cluster, builtin: BuiltinResource) -> None:
    _, path = paths(builtin)
    by_put = identity(builtin) in MADE_BY_PUT
    try_every_change(whole, path, sample(builtin), by_put=by_put)
    make_by_every_change(whole, path, sample(builtin), by_put=by_put)


@pytest.mark.parametrize("path", [f"{WIDGETS}/sample", f"{GADGETS}/sample"], ids=["namespaced", "cluster-scoped"])
def test_custom_kinds(whole: Cluster, path: str) -> None:
    body = widget("sample") | ({"kind": "Gadget"} if path.startswith(GADGETS) else {})
    try_every_change(whole, path, body, by_put=False)
    make_by_every_change(whole, path, body, by_put=False)


def test_every_kind_of_root(server: Server) -> None:
    """Also Shoal's own kinds. Bodies that lack what a kind requires are refused as invalid."""
    root = Cluster(server, "root")
    grant(root, "editor-of-root", everything(*CHANGES, *RBAC_VERBS))
    tried = 0
    for collection, kind in served_kinds(root):
        path = f"{collection}/never-made"
        body = {**kind, "metadata": {"name": "never-made"}}
        if kind["kind"].endswith("RoleBinding"):  # as upstream, one without a role is an internal error
            body["roleRef"] = {"apiGroup": ROLE_GROUP, "kind": "ClusterRole", "name": "view"}
        for answer in (
            root.patch(f"{path}?fieldManager=m", body, "apply", Impersonate_User="editor-of-root"),
            root.put(path, body, Impersonate_User="editor-of-root"),
        ):
            assert answer.status in (400, 403, 404, 405, 422), answer.body
            if answer.status == 403:
                assert answer["message"] == refusal(path, "editor-of-root")
                tried += 1
        assert root.get(path).status == 404
    assert tried > 10
    for plural in ("clusterrolebindings", "clusterroles"):
        root.delete(f"{RBAC}/{plural}/editor-of-root").ok()
    root.close()


def served_kinds(cluster: Cluster) -> Iterator[tuple[str, Object]]:
    versions = [("/api/v1", "v1")]
    for group in cluster.get("/apis").ok()["groups"]:
        versions += [(f"/apis/{each['groupVersion']}", each["groupVersion"]) for each in group["versions"]]
    for root, version in versions:
        for resource in cluster.get(root).ok()["resources"]:
            if {"create", "patch"} <= set(resource["verbs"]) and "/" not in resource["name"]:
                scope = "/namespaces/default" if resource["namespaced"] else ""
                yield f"{root}{scope}/{resource['name']}", {"apiVersion": version, "kind": resource["kind"]}


def test_pods_and_token_secrets_of_any_account(whole: Cluster) -> None:
    """As they were made by an account with `patch` alone."""
    account = "/api/v1/namespaces/default/serviceaccounts"
    whole.post(account, {"metadata": {"name": "patcher"}}).ok()
    token = whole.post(f"{account}/patcher/token", {"spec": {}}).ok()["status"]["token"]
    subject = {"kind": "ServiceAccount", "namespace": "default", "name": "patcher"}
    reference = {"apiGroup": ROLE_GROUP, "kind": "ClusterRole", "name": "editor"}
    binding = {"metadata": {"name": "patcher"}, "roleRef": reference, "subjects": [subject]}
    whole.post(f"{RBAC}/namespaces/default/rolebindings", binding).ok()
    user = "system:serviceaccount:default:patcher"
    pod = {"serviceAccountName": "default", "containers": [{"name": "c", "image": "nginx"}]}
    annotations = {"kubernetes.io/service-account.name": "default"}
    made: tuple[tuple[str, Object], ...] = (
        (f"{MAPS}/stolen", config_map("stolen")),
        (f"{PODS}/stolen", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stolen"}, "spec": pod}),
        (
            f"{SECRETS}/stolen",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "kubernetes.io/service-account-token",
                "metadata": {"name": "stolen", "annotations": annotations},
            },
        ),
    )
    for path, body in made:
        content = {"Content_Type": "application/apply-patch+yaml"}
        answer = whole.request("PATCH", f"{path}?fieldManager=m", body, token=token, **content)
        assert (answer.status, answer["message"]) == (403, refusal(path, user))
        assert whole.get(path).status == 404


def test_create_may_be_limited_to_names(whole: Cluster) -> None:
    """Apply and PUT name the object, so that unlike a POST they can be allowed by name."""
    named = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["create"], "resourceNames": ["mine"]}
    grant(whole, "limited", everything(*CHANGES), named)
    limited = {"Impersonate_User": "limited"}
    assert whole.patch(f"{MAPS}/mine?fieldManager=m", config_map("mine"), "apply", **limited).status == 201
    answer = whole.patch(f"{MAPS}/other?fieldManager=m", config_map("other"), "apply", **limited)
    assert (answer.status, answer["message"]) == (403, refusal(f"{MAPS}/other", "limited"))
    assert whole.post(MAPS, config_map("posted"), **limited).status == 403


def test_a_post_by_name_creates_no_other_name(whole: Cluster) -> None:
    """Custom kinds accept a POST at the path of an object, as upstream, and take the name from the body."""
    named = {"apiGroups": ["example.com"], "resources": ["*"], "verbs": ["create"], "resourceNames": ["mine"]}
    grant(whole, "namer", named)
    for name in ("mine", "other"):
        answer = whole.post(f"{WIDGETS}/mine", widget(name), Impersonate_User="namer")
        assert answer.status == 403
        assert answer["message"] == (
            'widgets.example.com is forbidden: User "namer" cannot create resource "widgets" in API group '
            '"example.com" in the namespace "default"'
        )
        assert whole.get(f"{WIDGETS}/{name}").status == 404
    assert whole.post(f"{WIDGETS}/mine", widget("other"), **MAKER).status == 201


def test_a_role_of_a_namespace_does_not_create_the_namespace(whole: Cluster) -> None:
    """A namespace is no object of its own namespace, whatever a RoleBinding left in it allows."""
    binding = {
        "metadata": {"name": "inside"},
        "roleRef": {"apiGroup": ROLE_GROUP, "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": ROLE_GROUP, "kind": "User", "name": "editor"}],
    }
    whole.post("/api/v1/namespaces", {"metadata": {"name": "left"}}).ok()
    whole.post(f"{RBAC}/namespaces/left/rolebindings", binding).ok()
    remove(whole, "/api/v1/namespaces/left")
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "left"}}
    answer = whole.patch("/api/v1/namespaces/left?fieldManager=m", body, "apply", **EDITOR)
    said = 'User "editor" cannot create resource "namespaces" in API group "" at the cluster scope'
    assert (answer.status, answer["message"]) == (403, f'namespaces "left" is forbidden: {said}')


# --- order


def test_an_invalid_object_is_refused_as_invalid(whole: Cluster) -> None:
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "bad"}, "spec": {"ports": [{"port": 70000}]}}
    for answer in (
        whole.patch(f"{SERVICES}/bad?fieldManager=m", body, "apply", **EDITOR),
        whole.put(f"{SERVICES}/bad", body, **EDITOR),
    ):
        assert (answer.status, answer["reason"]) == (422, "Invalid")
    gone = config_map("a")
    answer = whole.patch("/api/v1/namespaces/nowhere/configmaps/a?fieldManager=m", gone, "apply", **EDITOR)
    assert (answer.status, answer["message"]) == (404, 'namespaces "nowhere" not found')


def test_a_quota_is_not_asked_first(whole: Cluster) -> None:
    """Who may not create does not learn that the quota is used up."""
    quota = whole.post(QUOTAS, {"metadata": {"name": "none"}, "spec": {"hard": {"count/secrets": "0"}}}).ok()
    status = {"hard": quota["spec"]["hard"], "used": {"count/secrets": "0"}}
    whole.put(f"{QUOTAS}/none/status", quota | {"status": status}).ok()
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "over"}}
    path = f"{SECRETS}/over"
    refused(whole.patch(f"{path}?fieldManager=m", body, "apply", **EDITOR), path)
    assert "exceeded quota" in whole.patch(f"{path}?fieldManager=m", body, "apply", **MAKER)["message"]
    whole.delete(f"{QUOTAS}/none").ok()


def test_validating_policies_come_after(whole: Cluster) -> None:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["endpoints"]}]
    policy = {
        "metadata": {"name": "never"},
        "spec": {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "false"}]},
    }
    binding = {"metadata": {"name": "never"}, "spec": {"policyName": "never", "validationActions": ["Deny"]}}
    whole.post(f"{POLICIES}/validatingadmissionpolicies", policy).ok()
    whole.post(f"{POLICIES}/validatingadmissionpolicybindings", binding).ok()
    path = "/api/v1/namespaces/default/endpoints/denied"
    body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "denied"}}
    whole.eventually(lambda: "never" in whole.put(path, body, **MAKER)["message"])
    refused(whole.put(path, body, **EDITOR), path)
    refused(whole.patch(f"{path}?fieldManager=m", body, "apply", **EDITOR), path)
    bad = body | {"subsets": [{"addresses": [{"ip": "no"}]}]}
    assert whole.put(path, bad, **EDITOR).status == 422


# --- races, identities


def test_an_object_that_vanishes_meanwhile_stays_away(whole: Cluster) -> None:
    """The editor's PUT finds a Lease or none, in any order with the administrator's deletions: it never makes one."""
    path = f"{LEASES}/fleeting"
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "fleeting"}}
    rounds = 150

    def come_and_go() -> None:
        admin = Cluster(whole.server, whole.name)
        for _ in range(rounds):
            admin.post(LEASES, body).ok()
            admin.delete(path).ok()
        admin.close()

    def change() -> set[int]:
        editor = Cluster(whole.server, whole.name)
        seen = set()
        for number in range(rounds):
            applied = body | {"spec": {"leaseTransitions": number}}
            seen.add(editor.patch(f"{path}?fieldManager=m&force=true", applied, "apply", **EDITOR).status)
            seen.add(editor.put(path, applied, **EDITOR).status)
        editor.close()
        return seen

    with ThreadPoolExecutor(4) as pool:
        admin, *editors = pool.submit(come_and_go), pool.submit(change), pool.submit(change)
        admin.result()
        seen = set.union(*(editor.result() for editor in editors))
    assert seen <= {200, 403, 409, 422}
    assert 403 in seen


def test_a_kubelet_makes_its_own_lease(whole: Cluster) -> None:
    node = {"Impersonate_User": "system:node:n1", "Impersonate_Group": "system:nodes"}
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    for name, status in (("n1", 201), ("n2", 403)):
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
        assert whole.put(f"{leases}/{name}", body, **node).status == status
        assert whole.get(f"{leases}/{name}").status == (200 if status == 201 else 404)


def test_bootstrap_objects_are_updated_not_created(whole: Cluster) -> None:
    """They exist before they are stored. One that was deleted does not exist."""
    path = f"{RBAC}/clusterroles/view"
    role = whole.get(path).ok()
    role["metadata"]["labels"]["mark"] = "x"
    assert whole.put(path, role, **EDITOR).status == 200
    whole.delete(path).ok()
    body = {"apiVersion": f"{ROLE_GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": "view"}}
    refused(whole.put(path, body, **EDITOR), path)
    assert whole.put(path, body, **MAKER).status == 201
