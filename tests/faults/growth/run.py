"""The run itself: a server in a process, an attacker in a logical cluster of its own, a bystander in another.

The attacker is a ServiceAccount that may do everything in its cluster: the administrator's requests are exempt and take
another way.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.faults.growth.bystander import Bystander
from tests.faults.growth.cases import Case, Group, Step
from tests.faults.growth.procfs import Meter
from tests.faults.growth.results import Result, Results
from tests.faults.processes import Refused, Up

Object = dict[str, Any]
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
CLUSTERS = "/clusters/root/apis/core.shoal.dev/v1alpha1/logicalclusters"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PATIENCE = 60.0
"""Seconds until a case has failed."""
SETTLE = 0.05
"""Seconds in which controllers see what was written."""
MOST_HEADERS = 10_000
"""Of an answer: a warning each for a hundred fields is upstream's limit, and more than http.client reads."""
LOST = (OSError, http.client.HTTPException)


def account(ask: Callable[[str, str, Object], Object], name: str) -> str:
    """The token of a ServiceAccount that may do everything in the cluster that is asked."""
    ask("POST", ACCOUNTS, {"metadata": {"name": name}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "namespace": "default", "name": name}
    ask("POST", BINDINGS, {"metadata": {"name": f"{name}-admin"}, "roleRef": role, "subjects": [subject]})
    token = ask("POST", f"{ACCOUNTS}/{name}/token", {"spec": {"expirationSeconds": 86400}})
    return str(token["status"]["token"])


class Run:
    """Cases one at a time. The server is started anew when it has died."""

    def __init__(self, directory: Path, results: Results) -> None:
        self._directory, self._results = directory, results
        http.client._MAXHEADERS = MOST_HEADERS  # type: ignore[attr-defined]
        self._starts = self._clusters = 0
        self._said = 0
        self._start()

    def _start(self) -> None:
        self._starts += 1
        self._up = Up(self._directory / f"data{self._starts}", verb="hub", ready="ready")
        self._admin = self._up.client()
        self._meter = Meter(self._up.pid)
        self._said = len(self._up.said)
        self._bystander = self._another()
        self._connection: http.client.HTTPSConnection | None = None

    def _another(self) -> Bystander:
        name, token = self._tenant("hub")
        self._in(name)("POST", CONFIG_MAPS, {"metadata": {"name": "kept"}, "data": {"a": "b"}})
        authority = str(self._up.data / "pki" / "ca.crt")
        return Bystander(self._up.port, authority, f"/clusters/{name}{CONFIG_MAPS}/kept", token)

    def _tenant(self, profile: str) -> tuple[str, str]:
        self._clusters += 1
        name = f"tenant{self._clusters}"
        body = {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster"}
        self._admin.request("POST", CLUSTERS, {**body, "metadata": {"name": name}, "spec": {"profile": profile}})
        return name, account(self._in(name), "tenant")

    def _in(self, cluster: str) -> Callable[[str, str, Object], Object]:
        return lambda method, path, body: self._admin.request(method, f"/clusters/{cluster}{path}", body)

    def cases(self, cases: Iterable[Case]) -> None:
        """Those that have a result are not sent again."""
        todo = (case for case in cases if case.name not in self._results.all)
        for group, those in groupby(todo, key=lambda case: case.group):
            self._group(group, those)

    def _group(self, group: Group, cases: Iterable[Case]) -> None:
        name, self._token = self._tenant("cluster")
        self._prefix = f"/clusters/{name}"
        result = Result(f"{group.name} setup")
        for step in group.setup():
            result.statuses[step.name] = max(self._send(step)[0], result.statuses.get(step.name, 0))
        self._results.add(result)
        for case in cases:
            result = Result(case.name)
            try:
                self._case(case, result)
            except LOST as error:
                result.wrong = f"{type(error).__name__}: {error}"
                self._results.add(result)
                self._again()
                return self._group(group, cases)
            self._results.add(result)
        try:
            self._admin.request("DELETE", f"{CLUSTERS}/{name}")
        except (Refused, *LOST):
            self._again()
        return None

    def _case(self, case: Case, result: Result) -> None:
        meter, began = self._meter, time.monotonic()
        result.before, cpu = meter.memory(), meter.cpu_seconds()
        meter.forget_peak()
        kept = False
        for step in case.steps():
            if step.follows and (not result.statuses or next(iter(result.statuses.values())) >= 300):
                continue
            kept = kept or (step.method != "GET" and "dryRun" not in step.path)
            self._measured(step, result)
        if kept:
            self._measured(None, result)
        result.peak, result.after = meter.peak(), meter.memory()
        result.cpu, result.children = meter.cpu_seconds() - cpu, meter.children_memory()
        result.seconds = time.monotonic() - began
        said = self._up.said[self._said :]
        self._said += len(said)
        result.wrong = "\n".join(line for line in said.splitlines() if "ERROR" in line or "Traceback" in line)[:2000]
        for name in ("cpu", "loop", "stall", "held", "seconds", "before", "peak", "after", "children"):
            setattr(result, name, round(getattr(result, name), 4))

    def _measured(self, step: Step | None, result: Result) -> None:
        """Without a step, what the server does afterwards."""
        loop = self._meter.loop_seconds()
        self._bystander.begin()
        if step is None:
            time.sleep(SETTLE)
        else:
            status, length = self._send(step)
            result.statuses[step.name] = status
            result.sent += len(step.body or b"")
            result.answered += length
        stall = self._bystander.worst()
        result.add(step.name if step else "afterwards", stall, self._meter.loop_seconds() - loop)

    def _send(self, step: Step) -> tuple[int, int]:
        if self._connection is None:
            context = self._up.context
            self._connection = http.client.HTTPSConnection(
                "127.0.0.1", self._up.port, context=context, timeout=PATIENCE
            )
        headers = {"Authorization": f"Bearer {self._token}", **step.headers}
        path = step.path.removeprefix("!") if step.path.startswith("!") else self._prefix + step.path
        try:
            self._connection.request(step.method, path, step.body, headers)
            answer = self._connection.getresponse()
            body = answer.read()
        except LOST:
            self._connection.close()
            raise
        self.answer = body
        return answer.status, len(body)

    def _again(self) -> None:
        self.close()
        self._start()

    def close(self) -> None:
        self._bystander.close()
        if self._connection is not None:
            self._connection.close()
        self._up.close()
