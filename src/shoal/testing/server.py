"""A Shoal server for the tests of one pytest process: started once, in a process that ends with it."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from shoal.testing.cluster import AdminEndpoint, Cluster, kubeconfig_json

STOP_SECONDS = 20.0
LOGICAL_CLUSTERS_PATH = "/apis/core.shoal.dev/v1alpha1/logicalclusters"


class ServerProcess:
    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="shoal-testing-", ignore_cleanup_errors=True)
        self._log = Path(self._directory.name) / "log"
        with self._log.open("wb") as log:
            # This process holds its standard input open: when this process ends, however it ends, so does the server.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "shoal.testing.process", str(Path(self._directory.name) / "data")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise RuntimeError(f"shoal did not start: {self._log.read_text(errors='replace')[-2000:]}")
        self.root = AdminEndpoint(**json.loads(line))
        self._sequence = itertools.count(1)

    def make_cluster(self, file: Path, *, profile: str = "cluster", nodes: int = 0) -> Cluster:
        """Creates a logical cluster and writes its kubeconfig to the file."""
        name = f"test-{os.getpid()}-{next(self._sequence)}"
        body = {
            "apiVersion": "core.shoal.dev/v1alpha1",
            "kind": "LogicalCluster",
            "metadata": {"name": name},
            "spec": {"profile": profile},
        }
        self.root.request("POST", LOGICAL_CLUSTERS_PATH, body)
        cluster = Cluster(f"{self.root.url}/clusters/{name}", self.root.token, self.root.authority, name, file)
        file.write_text(kubeconfig_json(cluster, name))
        file.chmod(0o600)
        if nodes:
            cluster.add_nodes(nodes)
        return cluster

    def remove_cluster(self, cluster: Cluster) -> None:
        self.root.request("DELETE", f"{LOGICAL_CLUSTERS_PATH}/{cluster.name}")

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._directory.cleanup()
