"""A restarted hub finds everything unchanged, writes nothing, and continues."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from tests.serving import Cluster, Server, config_map
from tests.sync.sync_environment import WORKLOAD_CLUSTERS, Proxy, World, deployment

ASSIGNED = "workloads.kcp.dev/cluster"


def test_a_restart_changes_nothing_and_goes_on(tmp_path: Path) -> None:
    server = Server(tmp_path)
    world = World(server)
    member = world.member()
    name = world.register(member)
    path, settings = f"{world.path()}/web", f"{world.path('configmaps')}/settings"
    world.hub.post(world.path(), deployment("web", name)).ok()
    world.hub.post(world.path("configmaps"), config_map("settings", {"a": "1"}, labels={ASSIGNED: name})).ok()
    member.eventually(lambda: member.get(settings).status == 200)
    world.hub.eventually(lambda: (world.hub.get(path).ok().get("status") or {}).get("unavailableReplicas") == 1)
    cluster_path = f"{WORKLOAD_CLUSTERS}/{name}"
    ready = world.ready(name)
    before = [member.get(path).ok(), member.get(settings).ok(), world.hub.get(settings).ok()]
    server.stop()

    again = Server(tmp_path, port=server.port)
    hub, there = Cluster(again, "root"), Cluster(again, member.name)
    hub.patch(settings, {"metadata": {"annotations": {"seen": "yes"}}}).ok()
    there.eventually(lambda: there.get(settings)["metadata"]["annotations"].get("seen") == "yes")
    assert there.get(path)["metadata"]["uid"] == before[0]["metadata"]["uid"]
    assert there.get(path)["metadata"]["generation"] == before[0]["metadata"]["generation"]
    assert there.get(settings)["metadata"]["uid"] == before[1]["metadata"]["uid"]
    hub.delete(path).ok()
    hub.eventually(lambda: hub.get(path).status == 404)
    assert there.get(path).status == 404
    # Not even for a moment was the cluster anything but Ready: placement would act on it.
    assert hub.get(cluster_path).ok() == ready
    for cluster in (hub, there, world.hub, member):
        cluster.close()
    again.stop()


class Refusing:
    """Ends each connection at once, as the hub does for a worker that has not connected again."""

    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                incoming, _ = self._listener.accept()
            except OSError:
                return
            incoming.close()
            self.connections += 1

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def test_a_cluster_that_answers_a_moment_after_a_restart_was_ready_all_the_time(tmp_path: Path) -> None:
    server = Server(tmp_path)
    world = World(server)
    member, proxy = world.member(), Proxy(server.port)
    name = world.register(member, port=proxy.port)
    path, settings = f"{WORKLOAD_CLUSTERS}/{name}", f"{world.path('configmaps')}/settings"
    world.hub.post(world.path("configmaps"), config_map("settings", {"a": "1"}, labels={ASSIGNED: name})).ok()
    member.eventually(lambda: member.get(settings).status == 200)
    ready = world.cluster(name)["status"]["conditions"]
    server.stop()
    proxy.cut()

    refusing = Refusing(proxy.port)
    again = Server(tmp_path, port=server.port)
    hub, there = Cluster(again, "root"), Cluster(again, member.name)
    hub.eventually(lambda: refusing.connections >= 4)
    assert hub.get(path).ok()["status"]["conditions"] == ready
    refusing.close()
    proxy.mend()
    hub.patch(settings, {"metadata": {"annotations": {"seen": "yes"}}}).ok()
    there.eventually(lambda: there.get(settings)["metadata"]["annotations"].get("seen") == "yes")
    assert hub.get(path).ok()["status"]["conditions"] == ready
    proxy.cut()
    for cluster in (hub, there, world.hub, member):
        cluster.close()
    again.stop()
