"""What people of one logical cluster try against another, as a table: who asks what, and how.

`alpha` and `beta` are hosted by the hub, `east` and `west` by its worker. Nobody here may enter the cluster that is
asked for; everybody has a good credential of somewhere else, or a forged one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

ALPHA, BETA = "alpha", "beta"
TREASURE = "treasure-of-beta"
"""In the Secret, and in the name of every object of beta: no answer may show it."""
STRANGERS = ("alpha-admin", "alpha-certificate", "root-account", "root-certificate", "east-admin", "nobody")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
LOGICAL = "/apis/core.shoal.dev/v1alpha1/logicalclusters"
SECRETS = "/api/v1/namespaces/default/secrets"
SECRET = f"{SECRETS}/treasure"
CSR = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True)
class Attempt:
    way: str
    who: str
    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        worn = "".join(f" {name}={value}" for name, value in self.headers.items() if name.startswith("Impersonate"))
        return f"{self.way}: {self.who}: {self.method} {self.path}{worn}"


def _meta(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **more}


_MERGE = {"Content-Type": "application/merge-patch+json"}
_APPLY = {"Content-Type": "application/apply-patch+yaml"}
_EXEC = {"Connection": "Upgrade", "Upgrade": "websocket"}
_BINDING = _meta(
    "thief",
    roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    subjects=[{"kind": "ServiceAccount", "namespace": "default", "name": "robot"}],
)
_ACCESS = {"spec": {"resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "default"}}}
Question = tuple[str, str, Any, dict[str, str]]
INSIDE: list[Question] = [
    ("GET", "/api/v1/secrets", None, {}),
    ("GET", SECRET, None, {}),
    ("GET", f"{SECRETS}?watch=true", None, {}),
    ("GET", f"{SECRETS}?watch=true&resourceVersion=0&timeoutSeconds=1", None, {}),
    ("GET", "/api/v1/namespaces/default", None, {}),
    ("GET", "/api/v1/nodes", None, {}),
    ("POST", "/api/v1/namespaces/default/configmaps", _meta("planted"), {}),
    ("PUT", SECRET, _meta("treasure", data={}), {}),
    ("PATCH", SECRET, {"data": None}, _MERGE),
    ("PATCH", f"{SECRET}?fieldManager=thief&force=true", {"apiVersion": "v1", "kind": "Secret"}, _APPLY),
    ("DELETE", SECRET, None, {}),
    ("DELETE", SECRETS, None, {}),
    ("DELETE", "/api/v1/namespaces/default", None, {}),
    ("POST", "/api/v1/namespaces/default/serviceaccounts/robot/token", {"spec": {}}, {}),
    ("GET", "/api/v1/namespaces/default/pods/web/log", None, {}),
    ("POST", "/api/v1/namespaces/default/pods/web/exec?command=sh", None, _EXEC),
    ("POST", "/api/v1/namespaces/default/pods/web/eviction", _meta("web"), {}),
    ("GET", "/api/v1/namespaces/default/services/web/proxy/", None, {}),
    ("POST", f"{RBAC}/clusterrolebindings", _BINDING, {}),
    ("GET", f"{RBAC}/clusterroles/cluster-admin", None, {}),
    ("DELETE", f"{RBAC}/clusterroles/cluster-admin", None, {}),
    ("PUT", f"{CSR}/wanted/approval", _meta("wanted"), {}),
    ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, {}),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}}, {}),
    ("POST", f"{REVIEWS}/selfsubjectaccessreviews", _ACCESS, {}),
    ("POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, {}),
    ("GET", "/apis", None, {"Accept": AGGREGATED}),
    ("GET", "/apis/apps/v1", None, {}),
    ("GET", "/openapi/v3", None, {}),
    ("GET", "/metrics", None, {}),
    ("GET", "/.well-known/openid-configuration", None, {}),
]
EVERYWHERE: list[Question] = [
    ("GET", "/api/v1/secrets", None, {}),
    ("GET", "/api/v1/secrets?limit=1", None, {}),
    ("GET", "/api/v1/secrets?watch=true", None, {}),
    ("GET", f"{SECRET}", None, {}),
    ("GET", "/metadata?watch=1", None, {}),
    ("GET", "/metadata?resource=/secrets&namespace=default&name=treasure", None, {}),
    ("GET", "/apis", None, {"Accept": AGGREGATED}),
    ("DELETE", "/api/v1/secrets", None, {}),
]
IN_ROOT: list[Question] = [
    ("GET", LOGICAL, None, {}),
    ("GET", f"{LOGICAL}?watch=true", None, {}),
    ("GET", f"{LOGICAL}/{BETA}", None, {}),
    ("DELETE", f"{LOGICAL}/{BETA}", None, {}),
    ("DELETE", LOGICAL, None, {}),
    ("PATCH", f"{LOGICAL}/{BETA}?dryRun=All", {"spec": {"version": "v1.36.4"}}, _MERGE),
    ("PATCH", f"{LOGICAL}/{BETA}/status", {"status": {"phase": "Terminating"}}, _MERGE),
    ("PATCH", f"{LOGICAL}/{BETA}", {"metadata": {"finalizers": None}}, _MERGE),
    ("GET", "/api/v1/namespaces/default/secrets/west-kubeconfig", None, {}),
]
CROOKED = (
    f"/clusters/{ALPHA}/../{BETA}{SECRET}",
    f"/clusters/{ALPHA}/%2e%2e/{BETA}{SECRET}",
    f"/clusters/{ALPHA}/%2E%2E/{BETA}{SECRET}",
    f"/clusters/{ALPHA}%2f..%2f{BETA}{SECRET}",
    f"/clusters/{ALPHA}/..%2f{BETA}{SECRET}",
    f"/clusters/{ALPHA}%2F{BETA}{SECRET}",
    f"/clusters/{ALPHA}/clusters/{BETA}{SECRET}",
    f"/clusters/./{BETA}{SECRET}",
    f"/clusters//{BETA}{SECRET}",
    f"//clusters/{BETA}{SECRET}",
    f"/./clusters/{BETA}{SECRET}",
    f"/clusters/{ALPHA},{BETA}{SECRET}",
    f"/clusters/{BETA}%00{SECRET}",
    f"/clusters/{BETA}%20{SECRET}",
    f"/clusters/{BETA}.{SECRET}",
    f"/clusters/{BETA.upper()}{SECRET}",
    f"/clusters/%62eta{SECRET}",
    f"/clusters/b%65ta{SECRET}",
    f"/clusters/%2562eta{SECRET}",
    f"/clusters/{BETA};v=1{SECRET}",
    f"/clusters/%2A{SECRETS}",
    f"/clusters/%2a{SECRETS}",
    f"/clusters/**{SECRETS}",
    f"/clusters/{ALPHA}/api/v1/namespaces/default/secrets/..%2f..%2f..%2f..%2f{BETA}%2fdefault%2ftreasure",
    f"/clusters/{ALPHA}/api/v1/namespaces/..%2f{BETA}/secrets/treasure",
    f"/clusters/{ALPHA}/api/v1/namespaces/%2e%2e/{BETA}/secrets/treasure",
    f"/clusters/{ALPHA}/api/v1/namespaces/default%2Fsecrets%2F..%2F..%2F{BETA}/secrets/treasure",
    f"/clusters/{ALPHA}/apis/..%2fcore/v1/namespaces/default/secrets/treasure",
    f"https://shoal/clusters/{BETA}{SECRET}",
)
"""Asked with alpha's own credentials. Not one of these leads to an answer."""
FORGED = (
    "of-another-key",
    "unsigned",
    "with-the-public-key-as-secret",
    "with-another-algorithm",
    "without-a-signature",
    "with-the-issuer-of-beta",
    "with-the-audience-of-beta",
    "with-issuer-and-audience-of-beta",
    "signed-for-beta-with-an-account-of-alpha",
    "signed-for-beta-with-no-uid",
    "signed-for-beta-and-expired",
    "signed-for-beta-and-not-yet-valid",
    "signed-for-beta-for-another-audience",
    "signed-for-the-wildcard",
    "of-the-key-of-alpha",
    "signed-for-root-with-an-account-of-beta",
    "of-an-account-that-is-gone",
    "of-a-secret-that-is-gone",
)
MASKS: tuple[dict[str, str], ...] = (
    {"Impersonate-User": "shoal-admin", "Impersonate-Group": "system:masters"},
    {"Impersonate-User": "system:serviceaccount:default:robot"},
    {"Impersonate-User": "system:admin", "Impersonate-Group": "system:masters", "Impersonate-Uid": "0"},
    {"Impersonate-User": "x", "Impersonate-Group": "system:masters", "Impersonate-Extra-cluster": BETA},
)
MASKED_PATHS = (
    f"/clusters/{BETA}{SECRET}",
    f"/clusters/*{SECRETS}",
    f"{LOGICAL}/{BETA}",
    "/clusters/*/metadata?watch=1",
)
BY_ADDRESS = (
    f"/managedclusters/default/west{SECRET}",
    f"/managedclusters/default/west{SECRETS}?watch=true",
    "/managedclusters/default/west/apis",
    f"/managedclusters/default/east/../west{SECRET}",
    f"/managedclusters/default/east%2f..%2fwest{SECRET}",
    f"/managedclusters/default/east/clusters/default.west{SECRET}",
    f"/managedclusters/default/west/clusters/default.west{SECRET}",
    f"/managedclusters/default/west/clusters/root{LOGICAL}",
    f"/managedclusters/default/*{SECRET}",
    f"/managedclusters/default/default.west{SECRET}",
    f"/clusters/default.west{SECRET}",
)
VISITORS = ("east-admin", "alpha-admin", "root-admin", "nobody")


def attempts() -> list[Attempt]:
    return list(_all())


def _all() -> Iterator[Attempt]:
    for who in STRANGERS:
        for method, path, body, headers in INSIDE:
            yield Attempt("into another cluster", who, method, f"/clusters/{BETA}{path}", body, headers)
        for method, path, body, headers in EVERYWHERE:
            yield Attempt("by the wildcard", who, method, f"/clusters/*{path}", body, headers)
    for who in ("alpha-admin", "alpha-certificate", "root-certificate", "east-admin", "nobody"):
        for method, path, body, headers in IN_ROOT:
            yield Attempt("at its LogicalCluster", who, method, path, body, headers)
        tunnel = {"Connection": "Upgrade", "Upgrade": "shoal-tunnel"}
        yield Attempt("as a worker", who, "GET", "/workers/worker-1/tunnel", None, tunnel)
        yield Attempt("as a worker", who, "POST", "/workers/worker-1/tunnel", None, tunnel)
    for who in ("alpha-admin", "alpha-certificate"):
        for path in CROOKED:
            yield Attempt("by a crooked path", who, "GET", path)
        for mask in MASKS:
            for path in MASKED_PATHS:
                yield Attempt("behind a mask", who, "GET", path, None, mask)
    for forged in FORGED:
        yield Attempt("with a forged token", forged, "GET", f"/clusters/{BETA}{SECRET}")
        yield Attempt("with a forged token", forged, "POST", f"/clusters/{BETA}/api/v1/namespaces", _meta("planted"))
    for who in VISITORS:
        for path in BY_ADDRESS:
            # What the hub's administrator may see of the hub is no secret to him.
            yield Attempt("by an address", who, "GET", path)
    for who in ("earlier-certificate", "bare-certificate", "certificate-of-nowhere", "certificate-of-two-clusters"):
        for method, path, body, headers in INSIDE[:6]:
            yield Attempt("with a certificate", who, method, f"/clusters/{BETA}{path}", body, headers)
