"""A controller made of client-go and controller-runtime (peers/clientgo), under churn and with broken connections.

SHOAL_CHURN=SECONDS makes it write for longer than it does by default.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.kinds.catalogue import BuiltinResource
from tests.apiserver.test_every_kind import KINDS, paths, sample
from tests.real.building import built
from tests.real.cutting import cutting
from tests.serving import (
    DEFINITIONS,
    HANG,
    WIDGETS,
    Cluster,
    Server,
    config_map,
    fresh_cluster,
    widget,
    widget_definition,
)

SECONDS = float(os.environ.get("SHOAL_CHURN", "8"))
MAPS = "/api/v1/namespaces/default/configmaps"
Object = dict[str, Any]


@contextmanager
def running(*args: str) -> Iterator[subprocess.Popen[str]]:
    """The program, ended with the block; what it logs comes with a failure."""
    path = built("clientgo")
    if path is None:
        pytest.skip("clientgo (not built)")
    process = subprocess.Popen([str(path), *args], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    guard = threading.Timer(SECONDS + 2 * HANG, process.kill)
    guard.start()
    try:
        yield process
    finally:
        guard.cancel()
        process.kill()
        process.communicate()


def churn(cluster: Cluster, config: Path, *flags: str) -> Object:
    """Runs it with a writer of ours beside its own; what it reports."""
    cluster.post(DEFINITIONS, widget_definition()).ok()
    over = threading.Event()
    with running("churn", f"--kubeconfig={config}", f"--duration={SECONDS}s", *flags) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "synced\n"
        failures: list[BaseException] = []
        writer = threading.Thread(target=write, args=(Cluster(cluster.server, cluster.name), over, failures))
        writer.start()
        try:
            line = process.stdout.readline()
        finally:
            over.set()
            writer.join(HANG)
        assert failures == []
        assert line == "settled\n"
        process.stdin.write("done\n")
        process.stdin.flush()
        report: Object = json.loads(process.stdout.readline())
        return report


def write(cluster: Cluster, over: threading.Event, failures: list[BaseException]) -> None:
    """Objects come, change and go, until it is over."""
    number = 0
    try:
        while not over.is_set():
            name = f"outside-{number % 30}"
            if number >= 30:
                cluster.delete(f"{MAPS}/{name}").ok()
            made = cluster.post(MAPS, config_map(name, {"number": str(number)})).ok()
            cluster.put(f"{MAPS}/{name}", made | {"data": {"changed": str(number)}}).ok()
            cluster.patch(f"{WIDGETS}/{name}?fieldManager=test&force=true", widget(name, number + 1), "apply").ok()
            number += 1
    except BaseException as error:
        failures.append(error)
    finally:
        cluster.close()


def check(report: Object) -> None:
    assert report["errors"] == []
    assert report["differences"] == []
    objects, counts = report["objects"], report["counts"]
    assert objects["configmaps"] >= 50
    assert objects["widgets"] >= 30
    assert objects["metadata of widgets"] == objects["widgets"]
    assert objects["leases"] >= 2
    assert objects["namespaces"] >= 5
    assert objects["events"] >= 1, "leaders tell of it"
    done = {"create", "update", "patch", "apply", "conflict", "delete", "deletecollection", "reconciled", "resyncs"}
    assert done <= counts.keys()
    assert report["leaders"][0] == "candidate-0"


def test_churn(cluster: Cluster, tmp_path: Path) -> None:
    report = churn(cluster, cluster.kubeconfig(tmp_path / "kubeconfig"))
    check(report)
    assert report["leaders"][1] == "candidate-1", "who stops leading lets go of the Lease"
    counts = report["counts"]
    assert counts["watchlists"] == 7, "one for each informer, and no second try"
    assert counts.get("lists", 0) == 0
    assert counts["protobuf"] >= 5
    assert "broken" not in counts


def test_churn_over_broken_connections(cluster: Cluster, tmp_path: Path) -> None:
    with cutting(cluster.server.port) as proxy:
        file = cluster.kubeconfig(tmp_path / "kubeconfig")
        config = yaml.safe_load(file.read_text())
        config["clusters"][0]["cluster"] |= {
            "server": f"https://127.0.0.1:{proxy.port}{cluster.prefix}",
            "tls-server-name": "kubernetes.default.svc",
        }
        file.write_text(yaml.safe_dump(config))
        report = churn(cluster, file, "--cut")
        check(report)
        assert proxy.cuts > 10
        assert report["counts"]["broken"] > 0
        assert report["counts"]["watches"] > 7, "watches go on where they were cut"


@pytest.fixture(params=["hub", "cluster"])
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def profiled(server: Server, profile: str) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile)
    yield cluster
    cluster.close()


def test_survey(profiled: Cluster, tmp_path: Path, profile: str) -> None:
    """Argo CD's cluster cache: everything served is listed in pages, watched, and fits its OpenAPI v2 type.

    Go reads the same of each built-in kind from JSON and from protobuf, and knows every field it is sent.
    """
    cluster = profiled
    cluster.post(DEFINITIONS, widget_definition()).ok()
    for number in range(5):
        cluster.post(WIDGETS, widget(f"w{number}")).ok()
        cluster.post(MAPS, config_map(f"c{number}")).ok()
    kinds = [builtin for builtin in KINDS if profile == "cluster"]
    # Some are served in two groups or versions.
    for builtin in {builtin.plural: builtin for builtin in kinds}.values():
        cluster.post(paths(builtin)[0], sample(builtin)).ok()
    config = cluster.kubeconfig(tmp_path / "kubeconfig")
    with running("survey", f"--kubeconfig={config}") as process:
        said, _ = process.communicate(timeout=HANG)
    report = json.loads(said)
    assert report["errors"] == []
    assert report["objects"]["widgets.example.com"] == 5
    assert report["objects"]["configmaps"] >= 5
    assert report["counts"]["watched"] == len(report["objects"])
    assert ("deployments.apps" in report["objects"]) == (profile == "cluster")
    assert all(report["objects"][group_resource(builtin)] for builtin in kinds)
    defined = cluster.get(DEFINITIONS).ok()["items"]
    # client-go has its own module for each of these two.
    elsewhere = {"apiservices.apiregistration.k8s.io", "customresourcedefinitions.apiextensions.k8s.io"}
    assert report["counts"]["forms"] == len(report["objects"].keys() - elsewhere) - len(defined)
    assert report["counts"]["definitions"] > 20


def group_resource(builtin: BuiltinResource) -> str:
    return f"{builtin.plural}.{builtin.group}" if builtin.group else builtin.plural
