"""A hub with two logical clusters, a worker with two more, and every credential the tests use."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import os
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from shoal.apiserver.authn.es256 import generate_secret
from shoal.apiserver.authn.serviceaccount_token import TokenSigner
from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.kinds.fleet.endpoint import PortRange
from tests.certificates import issue_client, signer_of
from tests.isolation.attempts import ALPHA, BETA, LOGICAL, SECRET, SECRETS, TREASURE
from tests.serving import HANG, Answer, Cluster, Server

Object = dict[str, Any]

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
MANAGED = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/default/managedclusters"
TREASURES = {"metadata": {"name": "treasure", "labels": {"of": TREASURE}}, "stringData": {"where": TREASURE}}


def own_ports() -> PortRange:
    """Ports that no other test process takes."""
    first = 10_000 + os.getpid() % 300 * 16
    return PortRange(first, first + 15)


class Hub(Server):
    """`shoal up --workers 1` in a thread."""

    def __init__(self, directory: Path) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="shoal", daemon=True)
        self._thread.start()
        settings = ShoalServerSettings(directory, port=0, cluster_ports=own_ports())
        self.up = self.call(HubWithWorkers.start(settings, InProcessWorkers(1)))
        self.shoal = self.up.hub
        self.port = self.shoal.server.port
        self.token = (directory / "admin-token").read_text().strip()
        self.authority = self.shoal.server.authority.certificate
        self.context = ssl.create_default_context(cadata=self.authority.decode())

    def stop(self) -> None:
        self.call(self.up.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(HANG)
        self.loop.close()


def eventually(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + HANG
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come to pass")


class People:
    """All clusters made and filled, all credentials collected; `ask` tries one."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._directory = tempfile.TemporaryDirectory(prefix="shoal-people-")
        self.root, self.alpha, self.beta = (Cluster(hub, name) for name in ("root", ALPHA, BETA))
        self.root.post(LOGICAL, declared(BETA)).ok()
        self._tokens: dict[str, str] = {"nobody": "", "root-admin": hub.token}
        self._contexts: dict[str, ssl.SSLContext] = {}
        earlier = self.root.get(f"{LOGICAL}/{BETA}").ok()["metadata"]["uid"]
        self.root.delete(f"{LOGICAL}/{BETA}").ok()
        eventually(lambda: self.root.get(f"{LOGICAL}/{BETA}").status == 404)
        for name in (ALPHA, BETA):
            self.root.post(LOGICAL, declared(name)).ok()
        for cluster in (self.alpha, self.beta):
            cluster.post(ACCOUNTS, {"metadata": {"name": "robot"}}).ok()
        self.beta.post(SECRETS, TREASURES).ok()
        self._certificates(earlier)
        self._tokens["alpha-admin"] = administrator(self.alpha)
        self._tokens["root-account"] = administrator(self.root)
        self._managed()
        self._tokens |= forged(self)

    def uid(self, name: str) -> str:
        return str(self.root.get(f"{LOGICAL}/{name}").ok()["metadata"]["uid"])

    def _certificates(self, earlier: str) -> None:
        """The authority of root, whose certificates the server accepts, has signed what it never would."""
        keys = self.hub.shoal.server.core.keys
        self.hub.call(keys.ensure_root_ca("root"))
        self._root_signer = signer_of(keys, "root")
        masters, people = ["system:masters"], ["devs"]
        self._certified("alpha-certificate", masters, ALPHA, self.uid(ALPHA))
        self._certified("root-certificate", people, "root", "")
        self._certified("earlier-certificate", masters, BETA, earlier)
        self._certified("bare-certificate", masters, BETA, "")
        self._certified("certificate-of-nowhere", masters, "", "")
        self._certified("certificate-of-two-clusters", masters, f"{BETA}/{ALPHA}", self.uid(BETA))

    def _certified(self, who: str, groups: list[str], cluster: str, uid: str) -> None:
        issued = issue_client(self._root_signer, "thief", groups, cluster=cluster, uid=uid)
        self._wear(who, issued.key + issued.certificate)

    def wears(self, who: str, certificate: bytes, key: ec.EllipticCurvePrivateKey) -> None:
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self._wear(who, pem + certificate)

    def _wear(self, who: str, chain: bytes) -> None:
        file = Path(self._directory.name) / f"{who}.pem"
        file.write_bytes(chain)
        context = ssl.create_default_context(cadata=self.hub.authority.decode())
        context.load_cert_chain(file)
        self._contexts[who] = context
        self._tokens[who] = ""

    def _managed(self) -> None:
        for name in ("east", "west"):
            body = {"metadata": {"name": name}, "spec": {"nodes": 0}}
            kind = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "ManagedCluster"}
            self.root.post(MANAGED, {**kind, **body}).ok()
        for name in ("east", "west"):
            eventually(lambda name=name: phase(self.root.get(f"{MANAGED}/{name}").ok()) == "Running")  # type: ignore[misc]
        for name in ("east", "west"):
            self._tokens[f"{name}-admin"] = self._kubeconfig_token(name)
        path = f"/managedclusters/default/west{SECRETS}"
        assert self.ask("west-admin", "POST", path, TREASURES).status == 201
        assert TREASURE.encode() in self.ask("west-admin", "GET", f"/managedclusters/default/west{SECRET}").body

    def _kubeconfig_token(self, name: str) -> str:
        secret = self.root.get(f"{SECRETS}/{name}-kubeconfig").ok()
        config = yaml.safe_load(base64.b64decode(secret["data"]["value"]))
        return str(config["users"][0]["user"]["token"])

    def token(self, who: str) -> str:
        return self._tokens[who]

    def ask(
        self, who: str, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """One connection each: a client certificate is shown when it is opened."""
        context = self._contexts.get(who, self.hub.context)
        connection = http.client.HTTPSConnection("127.0.0.1", self.hub.port, context=context, timeout=HANG)
        sent = {"Content-Type": "application/json", **(headers or {})}
        if self._tokens[who]:
            sent["Authorization"] = f"Bearer {self._tokens[who]}"
        data = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            # A watch would never end; its beginning tells enough.
            read = answer.read(4096) if answer.status < 300 and "watch" in path else answer.read()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, read)
        finally:
            connection.close()

    def state(self) -> dict[str, int]:
        """What is stored in the clusters that are attacked, and about them: by key, at which revision."""
        found: dict[str, int] = {}
        for up, clusters in ((self.hub.up.hub, (BETA,)), (self.hub.up.workers[0].shoal, ("default.west",))):
            for key, kind in up.server.core.cache.resource_caches.items():
                for cluster in clusters:
                    entries = kind.tables[cluster].entries if cluster in kind.tables else {}
                    found |= {f"{key}/{cluster}/{at}": e.revision for at, e in entries.items() if not e.virtual}
            clustered = up.server.core.cache.resource_caches["core.shoal.dev/logicalclusters"].tables["root"].entries
            found |= {f"{at}": entry.revision for at, entry in clustered.items()}
        return found

    def settled(self) -> dict[str, int]:
        """The state, once no loop has anything left to do about it."""

        def same() -> dict[str, int]:
            before = self.state()
            time.sleep(0.3)
            return before if self.state() == before else {}

        found: dict[str, int] = eventually(same)
        return found

    def close(self) -> None:
        for cluster in (self.root, self.alpha, self.beta):
            cluster.close()
        self._directory.cleanup()


def declared(name: str) -> Object:
    kind = {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster"}
    return {**kind, "metadata": {"name": name}, "spec": {"profile": "cluster"}}


def phase(obj: Object) -> str:
    return str((obj.get("status") or {}).get("phase"))


def administrator(cluster: Cluster) -> str:
    """A ServiceAccount that may do everything in its own cluster."""
    cluster.post(ACCOUNTS, {"metadata": {"name": "chief"}}).ok()
    subject = {"kind": "ServiceAccount", "name": "chief", "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    cluster.post(BINDINGS, {"metadata": {"name": "chief"}, "roleRef": role, "subjects": [subject]}).ok()
    return token_for(cluster, "chief")


def token_for(cluster: Cluster, account: str) -> str:
    return str(cluster.post(f"{ACCOUNTS}/{account}/token", {"spec": {}}).ok()["status"]["token"])


# --- forgery ---


def _encode(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def forged(people: People) -> dict[str, str]:
    """Some by somebody without the key, some as if the server had signed what it never would."""
    core = people.hub.shoal.server.core
    real: TokenSigner = core.tokens
    with_betas_key = TokenSigner(lambda cluster: core.keys.signing_keys(BETA), real.issuer)
    with_another_key = TokenSigner(lambda cluster: (generate_secret(),), real.issuer)
    with_alphas_key = TokenSigner(lambda cluster: core.keys.signing_keys(ALPHA), real.issuer)
    now = time.time()
    alphas, betas = (cluster.get(f"{ACCOUNTS}/robot").ok() for cluster in (people.alpha, people.beta))
    good = token_for(people.beta, "robot")
    head, claims, signature = good.split(".")
    mine = token_for(people.alpha, "robot")
    my_head, my_claims, my_signature = mine.split(".")
    said, theirs = _decode(my_claims), real.issuer(BETA)

    def resaid(**changed: object) -> str:
        return f"{my_head}.{_encode({**said, **changed})}.{my_signature}"

    def signed(account: Object, cluster: str = BETA, at: float = now, audiences: tuple[str, ...] = ()) -> str:
        return with_betas_key.issue(cluster, account, audiences, 3600, {}, at)[0]

    gone = people.beta.post(ACCOUNTS, {"metadata": {"name": "gone"}}).ok()
    orphan = token_for(people.beta, "gone")
    people.beta.delete(f"{ACCOUNTS}/gone").ok()
    unnamed = {"metadata": {**betas["metadata"], "uid": gone["metadata"]["uid"]}}
    public = real._private_keys(BETA)[0]._public
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    symmetric = f"{_encode({**_decode(head), 'alg': 'HS256'})}.{claims}"
    return {
        "of-another-key": with_another_key.issue(BETA, betas, (), 3600, {}, now)[0],
        "of-the-key-of-alpha": with_alphas_key.issue(BETA, betas, (), 3600, {}, now)[0],
        "unsigned": f"{_encode({**_decode(head), 'alg': 'none'})}.{claims}.",
        "with-the-public-key-as-secret": f"{symmetric}.{_encode(hmac.digest(pem, symmetric.encode(), hashlib.sha256))}",
        "with-another-algorithm": f"{_encode({**_decode(head), 'alg': 'ES384'})}.{claims}.{signature}",
        "without-a-signature": f"{head}.{claims}",
        "with-the-issuer-of-beta": resaid(iss=theirs),
        "with-the-audience-of-beta": resaid(aud=[theirs]),
        "with-issuer-and-audience-of-beta": resaid(iss=theirs, aud=[theirs]),
        "signed-for-beta-with-an-account-of-alpha": signed(alphas),
        "signed-for-beta-with-no-uid": signed(unnamed),
        "signed-for-beta-and-expired": signed(betas, at=now - 7200),
        "signed-for-beta-and-not-yet-valid": signed(betas, at=now + 7200),
        "signed-for-beta-for-another-audience": signed(betas, audiences=("https://elsewhere",)),
        "signed-for-the-wildcard": signed(betas, cluster="*"),
        "signed-for-root-with-an-account-of-beta": signed(betas, cluster="root"),
        "of-an-account-that-is-gone": orphan,
        "of-a-secret-that-is-gone": real.issue(BETA, betas, (), 3600, {"secret": ("gone", "0")}, now)[0],
    }


def alternatives(pem: bytes) -> list[str]:
    certificate = x509.load_pem_x509_certificate(pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return list(names.get_values_for_type(x509.UniformResourceIdentifier))
