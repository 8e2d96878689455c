"""What a page may take for granted, by the words of its mark `<!-- begins with: … -->`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import yaml

from tests.docs.scenario import HANG, Scenario
from tests.real.infrastructure import Infrastructure
from tests.real.kubernetes import Kubernetes, missing

KUBECONFIG = Path(".local/share/shoal/kubeconfig")
KARPENTER = ("karpenter.sh", "karpenter.cluster.x-k8s.io")


@contextmanager
def shoal_up(scenario: Scenario) -> Iterator[None]:
    """A hub with two workers, and kubectl at its address."""
    scenario.terminal("shoal", "shoal up", "...\nShoal is ready at ...")
    scenario.environment["KUBECONFIG"] = str(scenario.home / KUBECONFIG)
    yield


@contextmanager
def cluster_api(scenario: Scenario) -> Iterator[None]:
    """A Kubernetes cluster without nodes that is its own management cluster; its Cluster is `default/east`.

    The control plane and its scheduler are upstream's. Cluster API's controllers are played by Shoal's loops, its
    provider and the kubelets by stand-ins.
    """
    if missing:
        pytest.skip(f"Kubernetes (no {', no '.join(missing)})")
    place = scenario.notes / "kubernetes"
    with Kubernetes(place) as server:
        server.start()
        scenario.environment["KUBECONFIG"] = str(server.kubeconfig)
        _prepare(scenario, server)
        where = f"--kubeconfig {server.kubeconfig}"
        said = "...until this process ends\n..."
        scenario.terminal("controllers", f"shoal controllers {where} --loops capi --leader-elect=false", f"...\n{said}")
        scenario.terminal("kubelets", f"shoal nodes {where}", f"...\n{said}")
        with Infrastructure(server.kubeconfig, server.kubeconfig):
            yield


def _prepare(scenario: Scenario, server: Kubernetes) -> None:
    definitions = yaml.safe_load_all(call(scenario, "shoal", "crds"))
    wanted = [each for each in definitions if each["spec"]["group"] not in KARPENTER]
    call(scenario, "kubectl", "apply", "-f", "-", given=yaml.safe_dump_all(wanted))
    call(scenario, "kubectl", "wait", "--for=condition=Established", "crd", "--all", f"--timeout={HANG:.0f}s")
    cluster = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "east"}}
    body = {**cluster, "spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": server.port}}}
    call(scenario, "kubectl", "apply", "-f", "-", given=yaml.safe_dump(body))


def call(scenario: Scenario, *words: str, given: str = "") -> str:
    """What a program prints that the page takes for granted."""
    program = scenario.tool(words[0])
    done = subprocess.run(
        [program, *words[1:]],
        input=given,
        env=scenario.environment,
        capture_output=True,
        text=True,
        timeout=scenario.patience,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


BEGINNINGS: dict[str, Callable[[Scenario], AbstractContextManager[None]]] = {
    "shoal up": shoal_up,
    "a Kubernetes cluster with Cluster API": cluster_api,
}
