"""A worker's certificate in the hands of whoever has its files: what it opens at a hub."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from typing import Any

from shoal.fleet.worker.identity.keys import csr_name, new_csr, new_key
from shoal.kinds.fleet import worker_join
from tests.serving import HANG

Object = dict[str, Any]

FLEET, LEASES = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1", "/apis/coordination.k8s.io/v1"
WORKERS, THEIR_LEASES = f"{FLEET}/namespaces/shoal-system/workers", f"{LEASES}/namespaces/shoal-system/leases"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def named(api: str, kind: str, name: str, **fields: Any) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **fields.pop("metadata", {})}, **fields}


def registered_worker(name: str, store: str = "store") -> Object:
    """As a worker registers itself."""
    annotations = {"shoal.dev/store": store}
    spec = {"infrastructure": "external", "capacity": 3, "version": "v1.36.4"}
    api = "infrastructure.cluster.x-k8s.io/v1alpha1"
    return named(api, "Worker", name, metadata={"annotations": annotations}, spec=spec)


def signing_request(name: str) -> Object:
    key = new_key()
    spec = {
        "signerName": worker_join.SIGNER_NAME,
        "usages": list(worker_join.KEY_USAGES),
        "request": base64.b64encode(new_csr(key, name)).decode(),
    }
    return named("certificates.k8s.io/v1", "CertificateSigningRequest", csr_name(key, name), spec=spec)


class CertificateHolder:
    def __init__(self, host: str, port: int, context: ssl.SSLContext, name: str) -> None:
        self._host, self._port, self._context, self.name = host, port, context, name

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> int:
        connection = http.client.HTTPSConnection(self._host, self._port, context=self._context, timeout=HANG)
        sent = {"Content-Type": "application/json", **{key.replace("_", "-"): value for key, value in headers.items()}}
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, sent)
            return connection.getresponse().status
        finally:
            connection.close()

    def statuses(self) -> dict[str, int]:
        """The answers to everything a worker does, and to what every authenticated user may do."""
        name, mine = self.name, f"fieldSelector=status.assignedWorker%3D{self.name}"
        lease = named("coordination.k8s.io/v1", "Lease", f"worker-{name}", spec={"holderIdentity": "store"})
        patch = {"Content_Type": "application/merge-patch+json"}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "get", "resource": "secrets"}},
        }
        return {
            "create its Worker": self.ask("POST", WORKERS, registered_worker(name)),
            "get its Worker": self.ask("GET", f"{WORKERS}/{name}"),
            "change its Worker": self.ask("PATCH", f"{WORKERS}/{name}", {"spec": {"capacity": 9}}, **patch),
            "create its Lease": self.ask("POST", THEIR_LEASES, lease),
            "renew its Lease": self.ask("PATCH", f"{THEIR_LEASES}/worker-{name}", {"spec": {}}, **patch),
            "list its clusters": self.ask("GET", f"{FLEET}/managedclusters?{mine}"),
            "watch its clusters": self.ask("GET", f"{FLEET}/managedclusters?{mine}&watch=true&timeoutSeconds=1"),
            "renew its certificate": self.ask("POST", REQUESTS, signing_request(name)),
            "identify the hub": self.ask("GET", "/apis/core.shoal.dev/v1alpha1/logicalclusters/root"),
            "dial its tunnel": self.ask("GET", f"/workers/{name}/tunnel", Connection="Upgrade", Upgrade="shoal-tunnel"),
            "review its rights": self.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review),
            "discover": self.ask("GET", "/apis"),
        }


WORKING = {
    "create its Worker": 409,
    "get its Worker": 200,
    "change its Worker": 200,
    "create its Lease": 201,
    "renew its Lease": 200,
    "list its clusters": 200,
    "watch its clusters": 200,
    "renew its certificate": 201,
    "identify the hub": 200,
    "dial its tunnel": 101,
    "review its rights": 201,
    "discover": 200,
}
"""The answers to a worker that has joined and not created its Lease yet."""
NOTHING = dict.fromkeys(WORKING, 401)
