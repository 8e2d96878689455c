"""A `shoal up` process whose KINDClusters become containers, and what API and engine have of them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from shoal.assemble.commands.top import kind_cluster_row
from shoal.capi.providers.kind.controller import owner_uid_of
from shoal.kinds.clusterapi import kindcluster
from tests.faults.processes import Client, Up
from tests.real.containers.node_image import NAME

Object = dict[str, Any]
PATH = f"/apis/{kindcluster.API_VERSION}/namespaces/default/kindclusters"
EVENTS = "/api/v1/namespaces/default/events"
TEMPORARY = "SHOAL_TEST_TMPDIR"
"""Names the temporary directory of such a process, in its environment."""
PATIENCE = 900.0
"""Seconds in which something has to come on a machine that does much else."""


class KindFleet:
    """KINDClusters and their kind clusters have names with one prefix: an engine may have others."""

    def __init__(self, directory: Path, prefix: str, environment: dict[str, str]) -> None:
        self.directory, self.prefix = directory, prefix
        self.temporary = Path(environment.get(TEMPORARY) or directory / "tmp")
        self.temporary.mkdir(parents=True, exist_ok=True)
        self._environment = environment | {"TMPDIR": str(self.temporary)}
        self._number = 0
        self.start()

    def start(self) -> None:
        self.up = Up(self.directory / "data", environ=self._environment)

    def kill(self) -> None:
        self.up.close()

    def request(self, method: str, path: str, body: object = None) -> Object:
        """Over a connection of its own: a server closes those that are idle for long."""
        client = Client(self.up)
        try:
            return client.request(method, path, body)
        finally:
            client.close()

    def create(self, **spec: Any) -> str:
        self._number += 1
        return self.create_named(f"{self.prefix}-{self._number}", **spec)

    def create_named(self, name: str, **spec: Any) -> str:
        body = {
            "apiVersion": kindcluster.API_VERSION,
            "kind": kindcluster.KIND,
            "metadata": {"name": name},
            "spec": {"clusterName": name, "image": NAME, **spec},
        }
        self.request("POST", PATH, body)
        return name

    def delete(self, name: str) -> None:
        self.request("DELETE", f"{PATH}/{name}")

    def patch(self, name: str, spec: Object) -> None:
        obj = self.get(name)
        self.request("PUT", f"{PATH}/{name}", {**obj, "spec": {**obj["spec"], **spec}})

    def get(self, name: str) -> Object:
        return self.request("GET", f"{PATH}/{name}")

    def objects(self) -> dict[str, Object]:
        items = self.request("GET", PATH)["items"]
        return {obj["metadata"]["name"]: obj for obj in items}

    def ready(self) -> set[str]:
        return {name for name, obj in self.objects().items() if (obj.get("status") or {}).get("ready")}

    def kind_clusters(self) -> set[str]:
        done = subprocess.run(
            ["kind", "get", "clusters"], env=self._environment, check=True, capture_output=True, text=True
        )
        return {name for name in done.stdout.split() if name.startswith(self.prefix)}

    def containers(self) -> list[str]:
        """Of the engine, running or not."""
        names = self.docker("ps", "--all", "--format", "{{.Names}}").split()
        return sorted(name for name in names if name.startswith(self.prefix))

    def docker(self, *arguments: str) -> str:
        done = subprocess.run(["docker", *arguments], env=self._environment, check=True, capture_output=True, text=True)
        return done.stdout

    def creations(self) -> Counter[str]:
        """How often the creation of each was begun, by its Events."""
        begun: Counter[str] = Counter()
        for event in self.request("GET", EVENTS)["items"]:
            if (event["reason"], event["involvedObject"]["kind"]) == ("Creating", kindcluster.KIND):
                count = (event.get("series") or {}).get("count") or event.get("count") or 1
                begun[event["involvedObject"]["name"]] += int(count)
        return begun

    def controller_restarts(self) -> dict[str, float]:
        """Of the server that runs now."""
        client = Client(self.up)
        content = client.text("/metrics")
        client.close()
        lines = [line for line in content.splitlines() if line.startswith("shoal_controller_restarts_total{")]
        assert lines
        return {line.split("}")[0]: float(line.split()[-1]) for line in lines if float(line.split()[-1])}

    def settles(self, declared: Iterable[str]) -> None:
        """Exactly these exist and are ready, in the API and in the engine."""
        names = set(declared)

        def is_settled() -> bool:
            return self.ready() == set(self.objects()) == self.kind_clusters() == names

        self.until(is_settled, lambda: f"declared {sorted(names)}, engine {self.containers()}: {self._states()}")
        for name in names:
            claim = self.get(name)["status"]["cluster"]
            assert (claim["name"], claim["state"]) == (name, "Created")
        assert len(self.containers()) == len(names)

    def until(self, look: Callable[[], bool], story: Callable[[], str]) -> None:
        end = time.monotonic() + PATIENCE
        while not look():
            assert time.monotonic() < end, story()
            time.sleep(0.5)

    def activities(self) -> str:
        """What each is doing, as `shoal top` shows it."""
        rows = map(kind_cluster_row, self.objects().values())
        return ", ".join(f"{row.cluster} {row.phase} {row.activity}".rstrip() for row in rows)

    def failures(self) -> dict[str, str]:
        return {name: (obj.get("status") or {}).get("failureMessage", "") for name, obj in self.objects().items()}

    def answers_for(self, name: str) -> None:
        """The kind cluster of that name, by its kubeconfig in the Secret, is that of the KINDCluster."""
        secret = self.request("GET", f"/api/v1/namespaces/default/secrets/{name}-config")
        text = base64.b64decode(secret["data"]["config"]).decode()
        uid = self.get(name)["metadata"]["uid"]
        self.until(lambda: asyncio.run(owner_uid_of(text)) == uid, lambda: f"{name} is not that of {uid}")

    def _states(self) -> str:
        return json.dumps({name: obj.get("status") for name, obj in self.objects().items()}, indent=1)

    def end(self) -> None:
        """Whatever became of the test, the engine has none of its clusters afterwards."""
        self.up.close()
        for name in {*self.kind_clusters(), *(container.rpartition("-control")[0] for container in self.containers())}:
            subprocess.run(
                ["kind", "delete", "cluster", "--name", name], env=self._environment, check=False, capture_output=True
            )


def own_prefix(word: str) -> str:
    return f"shoal-{word}-{os.getpid()}"
