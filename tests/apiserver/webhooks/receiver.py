"""A webhook in the test process: HTTPS on loopback, responses by path, all requests recorded."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from shoal.apiserver.pki.ca import CertificateAuthority, server_tls_context
from tests.serving import HANG, Cluster

Object = dict[str, Any]
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SERVICE = "hooks.default.svc"

Reply = Callable[[Object], bytes | Object]
"""From the review that came to the answer: bytes as they are, a dict as JSON."""


class Receiver:
    def __init__(self, directory: Path) -> None:
        authority = CertificateAuthority(directory)
        authority.ensure_serving_certificate(["127.0.0.1", SERVICE])
        self.bundle = base64.b64encode(authority.certificate).decode()
        self.replies: dict[str, Reply] = {}
        self.statuses: dict[str, int] = {}
        self.asked: list[tuple[str, Object]] = []
        """Path and request, in the order they came."""
        self.hosts: list[str] = []
        self.dropping: set[str] = set()
        """Paths at which a connection that was used before is cut."""
        self.freed = threading.Event()
        """Ends the waiting of those that hang."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.socket = server_tls_context(directory).wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="webhooks", daemon=True)
        self._thread.start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            used = False

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                path = self.path.partition("?")[0]
                if path in receiver.dropping and self.used:
                    self.close_connection = True
                    return
                self.used = True
                receiver.hosts.append(self.headers["Host"])
                receiver.asked.append((path, body["request"]))
                answer = receiver.replies[path](body)
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(receiver.statuses.get(path, 200))
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def stop(self) -> None:
        self.freed.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(HANG)

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.port}{path}"

    def requests(self, path: str = "") -> list[Object]:
        """What was asked at that path, or of anybody."""
        return [request for at, request in self.asked if not path or at == path]

    def hang(self, review: Object) -> Object:
        self.freed.wait(HANG)
        return allow(review)


def reviewed(review: Object, **response: object) -> Object:
    answer = {"uid": review["request"]["uid"], "allowed": True, **response}
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}


def allow(review: Object) -> Object:
    return reviewed(review)


def deny(**status: object) -> Reply:
    return lambda review: reviewed(review, allowed=False, **({"status": status} if status else {}))


def patch(*operations: Object, **more: object) -> Reply:
    encoded = base64.b64encode(json.dumps(list(operations)).encode()).decode()
    return lambda review: reviewed(review, patchType="JSONPatch", patch=encoded, **more)


def add(path: str, value: object) -> Object:
    return {"op": "add", "path": path, "value": value}


def rule(*resources: str, operations: tuple[str, ...] = ("*",), **more: object) -> Object:
    return {
        "operations": list(operations),
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": list(resources),
    } | more


class Hooks:
    """A cluster, and a webhook that can be registered there."""

    def __init__(self, cluster: Cluster, receiver: Receiver) -> None:
        self.cluster, self.receiver = cluster, receiver

    def hook(self, name: str, reply: Reply, *resources: str, **more: object) -> Object:
        """One webhook `NAME.example.com` that answers so."""
        path = f"/{self.cluster.name}/{name}"
        self.receiver.replies[path] = reply
        return {
            "name": f"{name}.example.com",
            "clientConfig": {"url": self.receiver.url(path), "caBundle": self.receiver.bundle},
            "rules": [rule(*(resources or ("configmaps",)))],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }

    def register(self, sort: str, *hooks: Object, name: str = "hooks") -> None:
        """`sort`: mutating or validating."""
        kind = f"{sort.title()}WebhookConfiguration"
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": list(hooks),
        }
        self.cluster.post(f"{REGISTRATION}/{kind.lower()}s", body).ok()

    def asked(self, name: str) -> list[Object]:
        return self.receiver.requests(f"/{self.cluster.name}/{name}")

    def order(self) -> list[str]:
        """Who was asked, one after the other."""
        mine = f"/{self.cluster.name}/"
        return [path.removeprefix(mine) for path, _ in self.receiver.asked if path.startswith(mine)]


@contextmanager
def receiving(directory: Path) -> Iterator[Receiver]:
    receiver = Receiver(directory)
    try:
        yield receiver
    finally:
        receiver.stop()
