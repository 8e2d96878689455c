"""Every credential Shoal gives out, in one place: a hub, a worker's name, a hosted cluster and its processes' accounts.

What each of them may do in depth is tried elsewhere: workers in `tests/fleet/join`, syncers in
`tests/sync/test_pull_mode.py`, strangers in `tests/isolation`. Here is the table of docs/security.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from shoal.apiserver.authn import hub_user_token
from shoal.assemble.server.api_server import worker_user
from shoal.assemble.workers.join_tokens import create_token
from shoal.client.rest import Client
from shoal.clock import SystemClock
from shoal.kinds.fleet import access
from tests.isolation.tenants import administrator, token_for
from tests.serving import Answer, Cluster, Server, fresh_cluster
from tests.sync.pull_mode import identity
from tests.sync.sync_environment import WORKLOAD_CLUSTERS, World

Object = dict[str, Any]
ROOT = Path(__file__).parent.parent.parent
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
FLEET = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/shoal-system/workers"
WORKER = "security-1"

ADMIN, JOIN, WORKS, SYNCS = "administrator", "join token", "worker", "syncer at the hub"
HOSTED, ENTERS, BUYS, COPIES = "hosted cluster", "user of the hub there", "provisioner", "syncer in its cluster"
SCRAPES, NOBODY = "scraper", "nobody"
CREDENTIALS = (ADMIN, JOIN, WORKS, SYNCS, HOSTED, ENTERS, BUYS, COPIES, SCRAPES, NOBODY)
EVERYBODY = frozenset(CREDENTIALS)


@dataclass(frozen=True)
class Action:
    what: str
    method: str
    path: str
    """`{mine}`: the hosted cluster; `{other}`: another; `{cluster}`: the syncer's workload Cluster."""
    allowed: frozenset[str]
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def _of(*who: str) -> frozenset[str]:
    return frozenset({ADMIN, *who})


_BINDING = {
    "metadata": {"generateName": "more-"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "User", "name": "thief", "apiGroup": "rbac.authorization.k8s.io"}],
}
_REQUEST = {
    "metadata": {"generateName": "wanted-"},
    "spec": {"signerName": "shoal.dev/worker", "request": "eA==", "usages": ["client auth", "digital signature"]},
}
_AS_MASTER = {"Impersonate-User": "somebody", "Impersonate-Group": "system:masters"}
_DRY = "dryRun=All"
ROOT_API, MINE, OTHER = "/clusters/root", "/clusters/{mine}", "/clusters/{other}"
CORE_SHOAL, CERTIFICATES = "/apis/core.shoal.dev/v1alpha1", "/apis/certificates.k8s.io/v1/certificatesigningrequests"
MANAGED = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/managedclusters"
_OUTSIDE = EVERYBODY - {HOSTED, ENTERS, BUYS, COPIES}
_LOGICAL = {"metadata": {"name": "planted"}, "spec": {"profile": "hub"}}
_TOKEN = {"metadata": {"name": "bootstrap-token-aaaaaa"}, "type": "bootstrap.kubernetes.io/token"}
_NAMED = {"metadata": {"name": "none"}}
ACTIONS = (
    Action("ask the hub for its version", "GET", f"{ROOT_API}/version", _OUTSIDE),
    Action("read Secrets of the hub", "GET", f"{ROOT_API}/api/v1/namespaces/kube-system/secrets", _of()),
    Action("list ManagedClusters of all", "GET", f"{ROOT_API}{MANAGED}", _of()),
    Action("make a logical cluster", "POST", f"{ROOT_API}{CORE_SHOAL}/logicalclusters?{_DRY}", _of(), _LOGICAL),
    Action("read across all logical clusters", "GET", "/clusters/*/api/v1/secrets?limit=1", _of()),
    Action("take a backup of the store", "GET", "/backup", _of()),
    Action("make a join token", "POST", f"{ROOT_API}/api/v1/namespaces/kube-system/secrets?{_DRY}", _of(), _TOKEN),
    Action("ask for a worker's certificate", "POST", f"{ROOT_API}{CERTIFICATES}?{_DRY}", _of(JOIN, WORKS), _REQUEST),
    Action("approve one", "PUT", f"{ROOT_API}{CERTIFICATES}/none/approval", _of(), _NAMED),
    Action("read its own Worker", "GET", f"{ROOT_API}{FLEET}/{WORKER}", _of(WORKS)),
    Action("read another Worker", "GET", f"{ROOT_API}{FLEET}/another", _of()),
    Action("read its own workload Cluster", "GET", f"{ROOT_API}{WORKLOAD_CLUSTERS}/{{cluster}}", _of(SYNCS)),
    Action("read another workload Cluster", "GET", f"{ROOT_API}{WORKLOAD_CLUSTERS}/another", _of()),
    Action("scrape the hub", "GET", f"{ROOT_API}/metrics", _of(SCRAPES)),
    Action("act as somebody else at the hub", "GET", f"{ROOT_API}/api/v1/namespaces", _of(), None, _AS_MASTER),
    Action("give itself more at the hub", "POST", f"{ROOT_API}{RBAC}/clusterrolebindings?{_DRY}", _of(), _BINDING),
    Action("read Secrets of the hosted cluster", "GET", f"{MINE}/api/v1/secrets", _of(HOSTED, COPIES)),
    Action("list its pods", "GET", f"{MINE}/api/v1/pods", _of(HOSTED, ENTERS, BUYS, COPIES)),
    Action("make a Deployment there", "POST", f"{MINE}{DEPLOYMENTS}?{_DRY}", _of(HOSTED, COPIES), {}),
    Action("make a NodeClaim there", "POST", f"{MINE}/apis/karpenter.sh/v1/nodeclaims?{_DRY}", _of(HOSTED, BUYS), {}),
    Action("give itself more there", "POST", f"{MINE}{RBAC}/clusterrolebindings?{_DRY}", _of(HOSTED), _BINDING),
    Action("scrape what is of the hosted cluster", "GET", f"{MINE}/metrics", _of(HOSTED)),
    Action("anything in another hosted cluster", "GET", f"{OTHER}/api/v1/namespaces", _of()),
)


class Credentials:
    def __init__(self, server: Server) -> None:
        self.world = World(server)
        self.hub = self.world.hub
        self.mine, self.other = fresh_cluster(server, "cluster"), fresh_cluster(server, "cluster")
        self.cluster = f"{self.world.namespace}-secured"
        authenticator = server.shoal.server.core.authenticator
        authenticator.add_static_token(f"token-of-{WORKER}", worker_user(WORKER))
        self.hub.post("/api/v1/namespaces", {"metadata": {"name": "shoal-system"}})
        worker = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Worker", "spec": {}}
        self.hub.post(FLEET, {**worker, "metadata": {"name": WORKER}})
        self.tokens = {
            ADMIN: server.token,
            JOIN: server.call(self._join_token(server)),
            WORKS: f"token-of-{WORKER}",
            SYNCS: identity(self.world, self.cluster),
            HOSTED: administrator(self.mine),
            ENTERS: self._viewer(),
            BUYS: account_of(self.mine, "provisioner/provisioner.yaml"),
            COPIES: account_of(self.mine, "syncer/syncer.yaml"),
            SCRAPES: self._scraper(),
            NOBODY: "",
        }

    @staticmethod
    async def _join_token(server: Server) -> str:
        client = Client(server.shoal.server.transport(), server.token, cluster="root")
        return await create_token(client, SystemClock().now(), 3600.0)

    def _viewer(self) -> str:
        """A user of the hub whom `spec.access` gives the role view, with the token of a worker."""
        managed = {"metadata": {}, "spec": {"access": [{"role": "view", "users": ["alice"]}]}}
        for binding in access.access_bindings(managed):
            self.mine.post(f"{RBAC}/clusterrolebindings", binding).ok()
        core, name = self.mine.server.shoal.server.core, self.mine.name
        self.mine.server.call(core.keys.ensure_signing_key(name))
        cluster = core.clusters.get(name)
        assert cluster is not None
        user = access.HubUser("alice")
        return hub_user_token.issue(core.tokens, name, cluster.uid, user, seconds=3600, now=core.clock.now())[0]

    def _scraper(self) -> str:
        """As docs/observability.md makes it."""
        rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
        self.hub.post(f"{RBAC}/clusterroles", {"metadata": {"name": "metrics"}, "rules": rules})
        self.hub.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "scraper"}})
        subject = {"kind": "ServiceAccount", "name": "scraper", "namespace": "default"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics"}
        binding = {"metadata": {"name": "metrics"}, "roleRef": role, "subjects": [subject]}
        self.hub.post(f"{RBAC}/clusterrolebindings", binding)
        return token_for(self.hub, "scraper")

    def ask(self, who: str, action: Action) -> Answer:
        """The path is a whole one: it says which logical cluster is asked."""
        path = action.path.format(mine=self.mine.name, other=self.other.name, cluster=self.cluster)
        asking = Cluster(self.hub.server, "root")
        asking.prefix = ""
        try:
            headers = {name.replace("-", "_"): value for name, value in action.headers.items()}
            return asking.request(action.method, path, action.body, token=self.tokens[who], **headers)
        finally:
            asking.close()

    def close(self) -> None:
        self.mine.close()
        self.other.close()
        self.world.close()


def account_of(cluster: Cluster, manifests: str) -> str:
    """A token of the ServiceAccount that a file of deploy/ brings, with the roles it brings."""
    paths = {
        "Namespace": "/api/v1/namespaces",
        "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
        "ClusterRole": f"{RBAC}/clusterroles",
        "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
        "Role": f"{RBAC}/namespaces/{{namespace}}/roles",
        "RoleBinding": f"{RBAC}/namespaces/{{namespace}}/rolebindings",
    }
    account: Object = {}
    for obj in yaml.safe_load_all((ROOT / "deploy" / manifests).read_text()):
        if obj["kind"] in paths:
            metadata = obj["metadata"]
            cluster.post(paths[obj["kind"]].format(namespace=metadata.get("namespace", "")), obj).ok()
            account = metadata if obj["kind"] == "ServiceAccount" else account
    path = f"/api/v1/namespaces/{account['namespace']}/serviceaccounts/{account['name']}/token"
    return str(cluster.post(path, {"spec": {}}).ok()["status"]["token"])


def table() -> str:
    """As docs/security.md has it."""
    lines = [f"| | {' | '.join(CREDENTIALS)} |", f"|---|{'---|' * len(CREDENTIALS)}"]
    for action in ACTIONS:
        cells = ["yes" if who in action.allowed else "–" for who in CREDENTIALS]
        lines.append(f"| {action.what} | {' | '.join(cells)} |")
    return "\n".join(lines)
