"""A hub and clusters to sync to: root of this process's server, and logical clusters of profile `cluster` beside it."""

from __future__ import annotations

import base64
import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shoal.assemble.storage.datadir import render_kubeconfig
from tests.serving import Cluster, Server, fresh_cluster

Object = dict[str, Any]

WORKLOAD_CLUSTERS = "/apis/workload.kcp.dev/v1alpha1/clusters"
IMPORTS = "/apis/apiresource.kcp.dev/v1alpha1/apiresourceimports"
NEGOTIATED = "/apis/apiresource.kcp.dev/v1alpha1/negotiatedapiresources"
SCHEMAS = "/apis/apiresource.kcp.dev/v1alpha1/apiresourceschemas"
NAMESPACES = "/api/v1/namespaces"
_numbers = itertools.count(1)


def condition(obj: Object, kind: str) -> Object:
    found = [c for c in (obj.get("status") or {}).get("conditions") or () if c["type"] == kind]
    return found[0] if found else {}


def workload_cluster(name: str, spec: Object) -> Object:
    return {"apiVersion": "workload.kcp.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec}


def deployment(name: str, cluster: str = "", replicas: int = 1) -> Object:
    labels = {"app": name, **({"workloads.kcp.dev/cluster": cluster} if cluster else {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    }


class World:
    """What a test made on the hub goes with it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.hub = Cluster(server, "root")
        self.namespace = f"sync-{next(_numbers)}"
        self._members: list[Cluster] = []
        self._names: list[str] = []
        self.hub.post(NAMESPACES, {"metadata": {"name": self.namespace}}).ok()

    def path(self, plural: str = "deployments") -> str:
        """Of the test's namespace, the same on both sides."""
        group = "/apis/apps/v1" if plural == "deployments" else "/api/v1"
        return f"{group}/namespaces/{self.namespace}/{plural}"

    def member(self) -> Cluster:
        found = fresh_cluster(self.server, profile="cluster")
        self._members.append(found)
        return found

    def register(self, member: Cluster, name: str = "", port: int = 0, ready: bool = True) -> str:
        """A workload Cluster for the member, by a Secret."""
        name = name or f"{self.namespace}-{len(self._names)}"
        self.put_kubeconfig(member, name, port)
        reference = {"namespace": self.namespace, "name": f"{name}-kubeconfig"}
        self.add_cluster(name, {"kubeconfigSecretRef": reference})
        if ready:
            self.ready(name)
        return name

    def put_kubeconfig(self, member: Cluster, name: str, port: int = 0) -> None:
        url = f"https://127.0.0.1:{port or self.server.port}{member.prefix}"
        text = render_kubeconfig(url, self.server.authority, self.server.token)
        data = {"value": base64.b64encode(text.encode()).decode()}
        secret = {"metadata": {"name": f"{name}-kubeconfig"}, "data": data}
        if self.hub.post(self.path("secrets"), secret).status == 409:
            self.hub.put(f"{self.path('secrets')}/{name}-kubeconfig", secret).ok()

    def add_cluster(self, name: str, spec: Object) -> Object:
        self._names.append(name)
        made: Object = self.hub.post(WORKLOAD_CLUSTERS, workload_cluster(name, spec)).ok()
        return made

    def adopt(self, name: str) -> None:
        """A workload Cluster that somebody else registers goes with the world, too."""
        self._names.append(name)

    def remove_cluster(self, name: str) -> None:
        self.hub.delete(f"{WORKLOAD_CLUSTERS}/{name}").ok()
        self._names.remove(name)

    def cluster(self, name: str) -> Object:
        found: Object = self.hub.get(f"{WORKLOAD_CLUSTERS}/{name}").ok()
        return found

    def ready(self, name: str, status: str = "True") -> Object:
        def look() -> Object | None:
            found = self.cluster(name)
            return found if condition(found, "Ready").get("status") == status else None

        found = self.hub.eventually(look)
        assert found is not None
        return found

    def told(self, name: str, kind: str) -> Object:
        """A condition of a workload Cluster, once it has it."""
        return self.hub.eventually(lambda: condition(self.cluster(name), kind))

    def close(self) -> None:
        for name in self._names:
            self.hub.delete(f"{WORKLOAD_CLUSTERS}/{name}")
        self.hub.delete(f"{NAMESPACES}/{self.namespace}").ok()
        self.hub.eventually(lambda: self.hub.get(f"{NAMESPACES}/{self.namespace}").status == 404)
        for member in self._members:
            self.hub.delete(f"/apis/core.shoal.dev/v1alpha1/logicalclusters/{member.name}")
            member.close()
        self.hub.close()


class Proxy:
    """A way to the server that can be cut: connections die, new ones are refused."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._pairs: list[socket.socket] = []
        self._open()
        self.port: int = self._listener.getsockname()[1]

    def _open(self, port: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                incoming, _ = listener.accept()
            except OSError:
                return
            outgoing = socket.create_connection(("127.0.0.1", self._to))
            self._pairs += [incoming, outgoing]
            for one, other in ((incoming, outgoing), (outgoing, incoming)):
                threading.Thread(target=_pump, args=(one, other), daemon=True).start()

    def cut(self) -> None:
        # Closing alone does not wake a thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for found in self._pairs:
            with _ignored():
                found.shutdown(socket.SHUT_RDWR)
            found.close()
        self._pairs.clear()

    def mend(self) -> None:
        self._open(self.port)


def _pump(one: socket.socket, other: socket.socket) -> None:
    with _ignored():
        while data := one.recv(65536):
            other.sendall(data)
    with _ignored():
        other.shutdown(socket.SHUT_RDWR)


@contextmanager
def _ignored() -> Iterator[None]:
    try:
        yield
    except OSError:
        return
