"""`shoal explain managedcluster`: the result for each Worker, and which single changes help."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from shoal.cli.explain import command, explanation_lines
from shoal.cli.options.hub import CommandError
from shoal.fleet.explain.decide import ManagedClusterExplanation, explain
from shoal.fleet.explain.suggestions import cluster_suggestions, worker_suggestions
from shoal.fleet.scheduler.candidate import WorkerUsage
from shoal.kinds.fleet import infrav1
from tests.fleet.fleets import managed as wire
from tests.serving import Cluster, Server

Object = dict[str, Any]


def cluster(name: str = "east", worker: str = "", **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": f"u-{name}"}
    status = {"assignedWorker": worker, "lastWorker": worker} if worker else {}
    return {"metadata": metadata, "spec": {"infrastructure": "embedded", "nodes": 1, **spec}, "status": status}


def worker(name: str, capacity: int = 10, ready: bool = True, labels: Object | None = None, **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": infrav1.NAMESPACE, "labels": labels or {}},
        "spec": {"capacity": capacity, "provides": ["embedded"], **spec},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]},
    }


def changes(managed: Object, *workers: Object, others: int = 0, config: Object | None = None) -> list[str]:
    """`others` are on each of the Workers."""
    there = [cluster(f"{w['metadata']['name']}{n}", w["metadata"]["name"]) for w in workers for n in range(others)]
    return explain(managed, workers, there, config).changes


UNCORDON = "(spec.unschedulable and spec.drain: false)"
MAKE = "let a Worker be created: set max to 1 in ConfigMap shoal-system/auto-workers"
TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("managed", "workers", "others", "helps"),
    [
        (cluster(), [worker("w", 2)], 2, ["add a slot to w (capacity 2 -> 3)", MAKE]),
        (cluster(), [worker("w", 1)], 3, ["add 3 slots to w (capacity 1 -> 4)", MAKE]),
        (cluster(), [worker("w", 0)], 0, ["add a slot to w (capacity 0 -> 1)", MAKE]),
        (
            cluster(),
            [worker("w", taints=[TAINT])],
            0,
            ["tolerate taint gpu=yes:NoSchedule", "remove taint gpu=yes:NoSchedule from w", MAKE],
        ),
        (
            cluster(location="eu"),
            [worker("w", location="us")],
            0,
            ["remove location eu", "request location us instead of eu", MAKE],
        ),
        (
            cluster(workerSelector={"matchLabels": {"disk": "ssd"}}),
            [worker("w")],
            0,
            ["remove workerSelector", "label w with disk=ssd", MAKE],
        ),
        (
            cluster(workerSelector={"matchLabels": {"disk": "ssd", "zone": "a"}}),
            [worker("w", labels={"zone": "a"})],
            0,
            ["remove disk=ssd from workerSelector", "remove workerSelector", "label w with disk=ssd", MAKE],
        ),
        (
            cluster(version="v1.20.3"),
            [worker("w", versions=["v1.36"])],
            0,
            ["remove version v1.20.3", "add version v1.20 to w"],
        ),
        (
            cluster(nodes=5),
            [worker("w", allocatable={"nodes": 4, "cpu": "64"})],
            2,
            ["request 2 nodes instead of 5", "raise allocatable nodes of w (4 -> 7)", MAKE],
        ),
        (
            cluster(nodePools=[{"name": "gpu", "nodes": 5}]),
            [worker("w", allocatable={"nodes": 4})],
            1,
            ["request 2 nodes of pool gpu instead of 5", "raise allocatable nodes of w (4 -> 7)", MAKE],
        ),
        (
            cluster(nodes=3, nodePools=[{"name": "gpu", "nodes": 1}, {"name": "cpu", "nodes": 2}]),
            [worker("w", allocatable={"nodes": 5})],
            0,
            [
                *("request 2 nodes instead of 3", "request 0 nodes of pool gpu instead of 1"),
                *("request 1 node of pool cpu instead of 2", "raise allocatable nodes of w (5 -> 6)", MAKE),
            ],
        ),
        (cluster(), [worker("w", 9, capacityLimit=2)], 2, ["raise capacityLimit of w (2 -> 3)", MAKE]),
        (cluster(), [worker("w", 2, capacityLimit=2)], 2, [MAKE]),
        (cluster(), [worker("w", ready=False)], 0, ["make w ready", MAKE]),
        (cluster(), [worker("w", drain=True)], 0, [f"uncordon w {UNCORDON}", MAKE]),
        (cluster(), [worker("w", unschedulable=True)], 0, [f"uncordon w {UNCORDON}", MAKE]),
        (cluster(infrastructure="kind"), [worker("w")], 0, ["request infrastructure embedded"]),
        (cluster(), [worker("w", 1, ready=False)], 1, [MAKE]),
        (cluster(workerSelector={"matchLabels": {"not a label!": ""}}), [worker("w")], 0, ["remove workerSelector"]),
        (cluster(), [], 0, [MAKE]),
    ],
    ids=[
        *("slot", "slots", "capacity-0", "taint", "location", "selector", "one-of-two-labels", "version", "nodes"),
        *("pool", "pools", "capacity-limit", "capacity-and-limit"),
        *("not-ready", "drained", "cordoned", "infrastructure", "two-things-at-once", "no-selector", "no-workers"),
    ],
)
def test_what_single_change_helps(managed: Object, workers: list[Object], others: int, helps: list[str]) -> None:
    assert changes(managed, *workers, others=others) == helps


def test_a_worker_may_be_made_one_more_time() -> None:
    config = {"data": {"max": "1", "capacity": "1"}}
    made = worker("auto-x-1", 1, labels={infrav1.AUTO_WORKER_LABEL: "x"})
    assert changes(cluster(), made, others=1, config=config) == [
        "add a slot to auto-x-1 (capacity 1 -> 2)",
        "let a Worker be created: set max to 2 in ConfigMap shoal-system/auto-workers",
    ]
    assert MAKE not in changes(cluster(), config=config), "it is on its way"
    assert changes(cluster(), config={"data": {"max": "x"}}) == []


def test_the_table_is_the_schedulers_own() -> None:
    found = explain(cluster(), [worker("a", 2), worker("b"), worker("c", ready=False)], [cluster("o", "a")], None)
    assert (found.worker, found.best, found.message, found.changes) == ("", "b", "", [])
    assert [each.worker for each in found.verdicts] == ["b", "a", "c"]
    assert [each.fits for each in found.verdicts] == [True, True, False]
    assert found.verdicts[0].total > found.verdicts[1].total
    assert {name: said for name, said in found.verdicts[2].refused.items() if said} == {"ready": "is not ready"}


def test_one_that_has_a_worker_is_looked_at_without_itself() -> None:
    found = explain(cluster(worker="w"), [worker("w", 1)], [], None)
    assert (found.worker, found.best) == ("w", "w")
    assert (
        explanation_lines("default/east", found)[0]
        == "default/east is on worker w; the scheduler would choose it again"
    )
    moved = explain(cluster(worker="w"), [worker("w", 1, ready=False), worker("v")], [], None)
    assert (
        explanation_lines("default/east", moved)[0] == "default/east is on worker w; the scheduler would now choose v"
    )
    stuck = explain(cluster(worker="w"), [worker("w", 1, ready=False)], [], None)
    said = "default/east is on worker w; it would now be pending: 0 of 1 worker fits: 1 is not ready"
    assert explanation_lines("default/east", stuck)[0] == said


def test_two_things_in_the_way_are_said() -> None:
    away = cluster(version="v1.20.3", location="eu")
    found = explain(away, [worker("w", versions=["v1.36"], location="us")], [], None)
    assert explanation_lines("default/east", found)[-1] == "no single change would allow it to be hosted"


def test_a_long_answer_is_cut() -> None:
    found = explain(cluster(), [worker(f"w{number:02d}", 0) for number in range(25)], [], None)
    lines = explanation_lines("default/east", found)
    assert "  and 5 more workers (-o json shows all)" in lines
    assert lines[-1] == "  and 6 more changes (-o json shows all)"


workers_ = st.lists(
    st.builds(
        worker,
        name=st.sampled_from("abc"),
        capacity=st.integers(0, 2),
        ready=st.booleans(),
        location=st.sampled_from(["", "eu"]),
        taints=st.sampled_from([[], [TAINT]]),
        versions=st.sampled_from([[], ["v1.36"]]),
    ),
    max_size=3,
    unique_by=lambda each: str(each["metadata"]["name"]),
)
specs = st.fixed_dictionaries(
    {"location": st.sampled_from(["", "eu", "us"]), "version": st.sampled_from(["", "v1.35.1"])}
)


@given(workers_, specs, st.integers(0, 2))
def test_every_change_that_is_told_helps_when_it_is_made(workers: list[Object], spec: Object, others: int) -> None:
    managed = cluster(**spec)
    there = [cluster(f"o{n}", w["metadata"]["name"]) for w in workers for n in range(others)]
    found = explain(managed, workers, there, None)
    used = WorkerUsage(others)
    for change in [
        *cluster_suggestions(managed, workers),
        *(c for w in workers for c in worker_suggestions(managed, w, used)),
    ]:
        if change.text in found.changes:
            rest = [w for w in workers if w["metadata"]["name"] != change.worker]
            after = explain(managed, [*rest, change.result], there, None) if change.worker else None
            after = after or explain(change.result, workers, there, None)
            assert after.best


# --- the command ---

GROUP = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1"
NAMES = ("explain-a", "explain-b")


@pytest.fixture
def kubeconfig(server: Server, tmp_path: Path) -> Iterator[str]:
    """Two Workers nobody else gets, and a ManagedCluster that waits."""
    root = Cluster(server, "root")
    root.post("/api/v1/namespaces", {"metadata": {"name": "shoal-system"}})
    for name, location in zip(NAMES, ("eu", "us"), strict=True):
        body = {"apiVersion": infrav1.API_VERSION, "kind": "Worker", "metadata": {"name": name}}
        spec = {"capacity": 0, "location": location, "taints": [{"key": "only", "effect": "NoSchedule"}]}
        root.post(f"{GROUP}/namespaces/shoal-system/workers", {**body, "spec": spec}).ok()
    body = wire("explained", tolerations=[{"key": "only", "operator": "Exists"}], location="eu")
    root.post(f"{GROUP}/namespaces/default/managedclusters", body).ok()
    yield str(root.kubeconfig(tmp_path / "kubeconfig"))
    root.delete(f"{GROUP}/namespaces/default/managedclusters/explained").ok()
    for name in NAMES:
        path = f"{GROUP}/namespaces/shoal-system/workers/{name}"
        root.delete(path).ok()
        root.eventually(lambda path=path: root.get(path).status == 404)  # type: ignore[misc]
    root.close()


def test_the_command(kubeconfig: str) -> None:
    run = CliRunner().invoke(command, ["managedcluster", "explained", "--kubeconfig", kubeconfig])
    assert run.exit_code == 0, run.output
    lines = run.output.splitlines()
    assert lines[0].startswith("default/explained is pending (")
    assert lines[2].split() == ["WORKER", "POINTS", "WHY"]
    said = "explain-b - is not ready; is not in location eu; takes no clusters (capacity 0)"
    assert said in [" ".join(line.split()) for line in lines]
    run = CliRunner().invoke(command, ["mc", "explained", "-o", "json", "--kubeconfig", kubeconfig])
    found = json.loads(run.output)
    assert set(found) == set(ManagedClusterExplanation.__dataclass_fields__)
    ours = {each["worker"]: each["refused"] for each in found["verdicts"]}
    assert ours["explain-a"]["location"] == ""
    assert ours["explain-b"]["location"] == "is not in location eu"


def test_what_is_not_there_is_said(kubeconfig: str) -> None:
    run = CliRunner().invoke(command, ["mc", "nobody", "-n", "elsewhere", "--kubeconfig", kubeconfig])
    assert isinstance(run.exception, CommandError)
    assert (run.exception.exit_code, run.exception.hint) == (1, "shoal status lists them")
    assert '"nobody" not found' in str(run.exception)
    run = CliRunner().invoke(command, ["Pod", "x", "--kubeconfig", kubeconfig])
    assert str(run.exception) == "the server has no kind 'Pod'"


def test_a_hub_that_does_not_answer(tmp_path: Path) -> None:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "x"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(config))
    run = CliRunner().invoke(command, ["mc", "x", "--kubeconfig", str(file)])
    assert isinstance(run.exception, CommandError)
    assert run.exception.exit_code == 3
