"""200 scenarios before two judges: the real kube-scheduler, at our API server, and our own decisions.

Always the same: whether a pod fits anywhere, the words why not, and whom it preempts. Where several nodes will do the
real one's choice is among ours; where only one will, both choose it.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from zlib import crc32

import pytest

from shoal.controlplane.scheduler.cluster_scheduler import ClusterScheduler
from shoal.controlplane.scheduler.decide import SCHEDULER, decide, fit_filter, static_filter
from shoal.controlplane.scheduler.equivalence import EquivalenceClasses
from shoal.controlplane.scheduler.interpod import InterPodState
from shoal.controlplane.scheduler.preemption import Preemptor, find_preemption, is_unresolvable
from tests.real.building import program
from tests.real.scheduling import PRIORITIES, REAL, Object, Scenario, scenario
from tests.serving import HANG, Cluster, Server, fresh_cluster

SCENARIOS = 200
CONFIG = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: "{kubeconfig}", qps: 2000, burst: 4000}}
leaderElection: {{leaderElect: false}}
percentageOfNodesToScore: 100
podInitialBackoffSeconds: 1
profiles: [{{schedulerName: {name}}}]
"""


@contextmanager
def real_scheduler(cluster: Cluster, home: Path) -> Iterator[None]:
    file = program("kube-scheduler")
    if file is None:
        pytest.skip("kube-scheduler")
    config = home / "config.yaml"
    config.write_text(CONFIG.format(kubeconfig=cluster.kubeconfig(home / "kubeconfig"), name=REAL))
    with (home / "log").open("wb") as log:
        process = subprocess.Popen([file, f"--config={config}", "--secure-port=0", "-v=2"], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(HANG)


@dataclass
class Verdict:
    nodes: set[str]
    """Where the pod fits as things are."""
    message: str
    """Why not, if nowhere."""
    victims: dict[str, set[str]]
    """Whom it would preempt, by node, if nowhere."""
    chosen: str = ""
    """What the scheduler as a whole says: the node, or the one where room is to be made."""


class Ours:
    """The same cluster, decided about by our functions."""

    def __init__(self) -> None:
        self._shapes = EquivalenceClasses()
        self.home = ClusterScheduler(self._shapes, _dice)

    def verdict(self, pod: Object) -> Verdict:
        ours = {**pod, "spec": {**pod["spec"], "schedulerName": SCHEDULER}}
        shape, peer, snapshot = self._shapes.classify(ours), self._shapes.peer(ours), self.home.snapshot
        company = InterPodState(shape, peer)
        company.update(snapshot)
        nodes = [node for node in snapshot.nodes.values() if node.exists]
        allowed = [node for node in nodes if not static_filter(shape, node)]
        fit = {node.name for node in allowed if not fit_filter(shape, node) and not company.reject_reason(node.labels)}
        victims: dict[str, set[str]] = {}
        if not fit and not shape.never_preempts:
            claimant = Preemptor(shape, ours["spec"].get("priority") or 0, company)
            for node in allowed:
                found = (
                    None
                    if is_unresolvable(node, claimant)
                    else find_preemption(snapshot, [node.name], claimant, [], _dice)
                )
                if found is not None:
                    victims[node.name] = {f"{each.key[0]}/{each.key[1]}" for each in found.victims}
        message = getattr(decide(nodes, shape, _dice, company), "message", "")
        return Verdict(fit, message, victims, self._as_a_whole(ours))

    def _as_a_whole(self, pod: Object) -> str:
        key = pod["metadata"]["namespace"], pod["metadata"]["name"]
        self.home.on_pod(key, pod)
        binds, evictions = self.home.schedule_pending(10), self.home.take_preemptions()
        self.home.on_pod(key, None)
        for evict in evictions:
            for victim in evict.plan.victims:
                self.home.eviction_failed(victim)
        return next((each.node for each in binds), "") or next((each.plan.node for each in evictions), "")


def _dice(name: str) -> int:
    return crc32(name.encode())


class Bench:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.ours = cluster, Ours()
        self.disagreements: list[str] = []
        self.kinds: Counter[str] = Counter()

    def prepare(self, scenarios: list[Scenario]) -> None:
        for name, value in PRIORITIES.items():
            body: Object = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            body |= {"value": value, "preemptionPolicy": "Never" if name == "meek" else "PreemptLowerPriority"}
            self.cluster.post("/apis/scheduling.k8s.io/v1/priorityclasses", body).ok()
        for each in scenarios:
            for namespace in each.namespaces:
                made = self.cluster.post("/api/v1/namespaces", namespace).ok()
                self.ours.home.on_namespace(made["metadata"]["name"], made)
            for node in each.nodes:
                made = self.cluster.post("/api/v1/nodes", node).ok()
                self.ours.home.on_node(made["metadata"]["name"], made)
            for index, pod in enumerate(each.existing):
                namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
                self.cluster.post(f"/api/v1/namespaces/{namespace}/pods", pod).ok()
                # Of equals the younger goes first; who has not started is as old as the moment it is asked.
                started = {"status": {"startTime": f"2024-01-01T00:00:{index:02}Z"}}
                self.cluster.patch(f"{_path(namespace, name)}/status", started).ok()
                if (namespace, name) in each.leaving:
                    self.cluster.delete(_path(namespace, name)).ok()
                made = self.cluster.get(_path(namespace, name)).ok()
                self.ours.home.on_pod((namespace, name), made)

    def compare(self, each: Scenario) -> None:
        for pod in each.pending:
            namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            before = self._pods(each)
            made = self.cluster.post(f"/api/v1/namespaces/{namespace}/pods", pod).ok()
            verdict = self.ours.verdict(made)
            real = self.cluster.eventually(partial(self._outcome, _path(namespace, name)))
            assert real is not None
            node = real["spec"].get("nodeName", "")
            gone = before - self._pods(each)
            self._judge(f"{each.number} {name}", verdict, real, gone)
            for key in gone:
                self.ours.home.on_pod((key.split("/")[0], key.split("/")[1]), None)
            if node:
                self.ours.home.on_pod((namespace, name), real)
            else:
                self.cluster.delete(_path(namespace, name)).ok()

    def _judge(self, title: str, verdict: Verdict, real: Object, gone: set[str]) -> None:
        node, words = real["spec"].get("nodeName", ""), _message(real)
        self.kinds["fits" if verdict.nodes else "preempts" if verdict.victims else "refused"] += 1
        self.kinds["one node"] += len(verdict.nodes) == 1
        if verdict.nodes:
            fine = node in verdict.nodes and verdict.chosen in verdict.nodes and not gone
        elif verdict.victims:
            fine = node in verdict.victims and verdict.victims[node] == gone and verdict.chosen in verdict.victims
        else:
            fine = not node and not gone and not verdict.chosen and _counts(words) == _counts(verdict.message)
        if not fine:
            self.disagreements.append(f"{title}: real {node or words!r}, gone {gone}; ours {verdict}")

    def _outcome(self, path: str) -> Object | None:
        pod: Object = self.cluster.get(path).ok()
        if pod["spec"].get("nodeName"):
            return pod
        return pod if _message(pod) and not pod["status"].get("nominatedNodeName") else None

    def _pods(self, each: Scenario) -> set[str]:
        """All that were there at the beginning and still are."""
        found: set[str] = set()
        for namespace in each.namespaces:
            name = namespace["metadata"]["name"]
            items = self.cluster.get(f"/api/v1/namespaces/{name}/pods").ok()["items"]
            found |= {f"{name}/{one['metadata']['name']}" for one in items}
        return found


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _message(pod: Object) -> str:
    """Without what the real one says of preemption."""
    for each in pod["status"].get("conditions") or ():
        if each["type"] == "PodScheduled" and each["status"] == "False":
            return str(each.get("message", "")).partition(" no new claims to deallocate")[0]
    return ""


def _counts(message: str) -> dict[str, int]:
    """How many nodes say what; we name the taints."""
    total, _, reasons = message.partition(" nodes are available: ")
    found: dict[str, int] = {total: 0}
    for each in reasons.rstrip(".").split(", "):
        number, _, reason = each.partition(" ")
        reason = "node(s) had untolerated taint(s)" if "untolerated taint {" in reason else reason
        found[reason] = found.get(reason, 0) + int(number)
    return found


def test_the_real_scheduler_and_ours_agree(server: Server, tmp_path: Path) -> None:
    cluster = fresh_cluster(server, profile="cluster")
    scenarios = [scenario(number) for number in range(SCENARIOS)]
    bench = Bench(cluster)
    bench.prepare(scenarios)
    with real_scheduler(cluster, tmp_path):
        for each in scenarios:
            bench.compare(each)
    cluster.close()
    assert not bench.disagreements, "\n".join(bench.disagreements)
    # What is compared is worth comparing.
    assert len(bench.kinds) == 4, bench.kinds
    assert min(bench.kinds.values()) >= 10, bench.kinds
