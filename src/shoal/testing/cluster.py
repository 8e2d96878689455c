"""The object a test gets: one logical cluster, its URL and credentials for any client, and a plain HTTP request.

Uses only the standard library; a test brings its own client.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Object = dict[str, Any]

CRDS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WAIT_SECONDS = 60.0
"""The limit for waiting on the server; guards against hangs."""


class RequestFailed(Exception):
    """The server refused the request; `status` is its Status object."""

    def __init__(self, code: int, status: Any) -> None:
        message = status.get("message") if isinstance(status, dict) else status
        super().__init__(f"{code}: {message}")
        self.code, self.status = code, status


@dataclass(frozen=True)
class AdminEndpoint:
    """A server and its administrator's credentials."""

    url: str
    token: str
    authority: str
    """PEM."""

    def request(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
        """Sends one request and returns the decoded response. Raises RequestFailed for 400 and above."""
        url = urlsplit(self.url)
        context = ssl.create_default_context(cadata=self.authority)
        connection = http.client.HTTPSConnection(url.hostname or "", url.port, context=context, timeout=WAIT_SECONDS)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        try:
            connection.request(method, url.path + path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        decoded = json.loads(text) if answer.headers.get_content_type() == "application/json" else text.decode()
        if answer.status >= 400:
            raise RequestFailed(answer.status, decoded)
        return decoded


@dataclass(frozen=True)
class Cluster(AdminEndpoint):
    name: str = ""
    kubeconfig: Path = field(default=Path())
    """A kubeconfig file for any client."""

    def as_dict(self) -> dict[str, str]:
        """For clients that take their settings one by one."""
        settings = {"url": self.url, "token": self.token, "ca": self.authority, "kubeconfig": str(self.kubeconfig)}
        return {**settings, "name": self.name}

    def add_nodes(self, count: int) -> list[str]:
        """Creates simulated nodes, which run pods as far as a simulated node does, and returns their names."""
        names = [f"node-{number}" for number in range(1, count + 1)]
        for name in names:
            labels = {"shoal.dev/simulated": "true", "kubernetes.io/hostname": name}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
            self.request("POST", "/api/v1/nodes", node)
        return names

    def add_crds(self, definitions: Iterable[Object]) -> list[str]:
        """Applies CustomResourceDefinitions, waits until they are served, and returns their names."""
        names = []
        for body in definitions:
            name = body["metadata"]["name"]
            query = "fieldManager=shoal-testing&force=true"
            self.request("PATCH", f"{CRDS_PATH}/{name}?{query}", body, "application/apply-patch+yaml")
            names.append(name)
        for name in names:
            self._wait_established(name)
        return names

    def _wait_established(self, name: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            crd = self.request("GET", f"{CRDS_PATH}/{name}")
            conditions = (crd.get("status") or {}).get("conditions") or ()
            if any((each["type"], each["status"]) == ("Established", "True") for each in conditions):
                return
            time.sleep(0.01)
        raise TimeoutError(f"CustomResourceDefinition {name} is not established: {conditions}")


def kubeconfig_json(endpoint: AdminEndpoint, name: str) -> str:
    """Returns JSON, which every kubeconfig reader accepts."""
    authority = base64.b64encode(endpoint.authority.encode()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": endpoint.url, "certificate-authority-data": authority}}],
        "users": [{"name": "admin", "user": {"token": endpoint.token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}}],
        "current-context": name,
    }
    return json.dumps(config, indent=1)
