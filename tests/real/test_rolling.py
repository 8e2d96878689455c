"""Three hubs on three members of etcd, restarted one by one and paused: nobody's request fails, and nobody writes who
has lost the lease.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from tests.serving import config_map
from tests.soak.clients import LEAKED, Client
from tests.soak.load import Load, said
from tests.soak.machines import Machine, Machines, eventually

pytestmark = pytest.mark.filterwarnings(LEAKED)
Object = dict[str, Any]
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/shoal-loops"
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts:kube-system"]}, {"level": "None"}],
}
WRITES = ("create", "update", "patch", "delete", "deletecollection")


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    directory = tmp_path_factory.mktemp("machines")
    policy = directory / "policy.json"
    policy.write_text(json.dumps(POLICY))
    with Machines(directory, namespaces=False, audit=policy) as machines:
        yield machines


class Asking(Client):
    """One that the test itself asks by; at a hub that can be reached."""

    def __init__(self, machines: Machines, machine: Machine) -> None:
        super().__init__(1, machines.at(machine), machines.never)


def test_a_rolling_restart_without_a_failed_request(machines: Machines) -> None:
    load = Load(machines.place, workers=16, followers=8, keys=16, pause=0.02)
    load.start()
    for machine in machines.all:
        load.more(200)
        machine.hub.signal(signal.SIGTERM)
        eventually(partial(machines.is_not_ready, machine), "a hub that stops calls itself ready")
        assert machine.hub.ended() == 0, machine.hub.said()
        load.more(200)
        machine.hub.start()
        machines.wait_for_hub(machine)
    # Each of them was at one of the hubs.
    assert all(follower.record.ends for follower in load.followers)
    found = load.end()
    assert found == [], said(found)
    # Neither a request nor a watch was cut, and nobody was refused.
    assert load.unanswered == {}
    assert set(load.statuses) <= {200, 201, 404, 409}, load.statuses


def test_the_lease_goes_on_at_once(machines: Machines) -> None:
    leader, before = leading(machines), holder(machines)
    other = next(each for each in machines.all if each is not leader)
    leader.hub.signal(signal.SIGTERM)
    # While the one that stops still serves, and long before the lease would have ended.
    eventually(lambda: holder(machines, other) not in ("", before), "nobody goes on with the loops")
    assert leader.hub.ended() == 0
    leader.hub.start()
    machines.wait_for_hub(leader)


def test_a_leader_that_was_paused_writes_nothing_when_it_wakes(machines: Machines) -> None:
    leader, before = leading(machines), holder(machines)
    other = next(each for each in machines.all if each is not leader)
    asking = Asking(machines, other)
    names = [f"room-{number}" for number in range(40)]
    for name in names:
        room = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert asking.ask("POST", "/api/v1/namespaces", room)[0] == 201
        asking.ask("POST", f"/api/v1/namespaces/{name}/configmaps", config_map("full"))
    # In the midst of its work.
    for name in names:
        asking.ask("DELETE", f"/api/v1/namespaces/{name}")
    leader.hub.signal(signal.SIGSTOP)
    paused = datetime.now(UTC).isoformat()
    eventually(lambda: holder(machines, other) not in ("", before), "nobody takes over")
    eventually(lambda: not remaining(asking, names), "the work is not done by the next one")
    leader.hub.signal(signal.SIGCONT)
    eventually(lambda: "lost lease shoal-loops" in leader.hub.log.read_text(), leader.hub.said)
    machines.wait_for_hub(leader)
    # What had begun before may have been done before.
    late = [each for each in audited(machines, leader) if each["requestReceivedTimestamp"] > paused and fenced(each)]
    print(f"{len(late)} writes were tried")
    done = [each for each in late if each["responseStatus"]["code"] < 300]
    assert done == [], f"{len(done)} of {len(late)}: {done[:3]}"
    asking.leave()


def holder(machines: Machines, machine: Machine | None = None) -> str:
    asking = Asking(machines, machine) if machine else Asking(machines, machines.all[0])
    try:
        status, found = asking.ask("GET", LEASE)
        return str(found["spec"].get("holderIdentity") or "") if status == 200 else ""
    finally:
        asking.leave()


def remaining(asking: Asking, names: list[str]) -> list[str]:
    return [name for name in names if asking.ask("GET", f"/api/v1/namespaces/{name}")[0] != 404]


def audited(machines: Machines, machine: Machine) -> list[Object]:
    """Writes of the loops of that hub, tried ones too, in their order."""
    log = machines.audit_log(machine.name)
    lines = log.read_text().splitlines() if log.exists() else []
    return [each for line in lines if (each := json.loads(line))["verb"] in WRITES]


def of_the_lease(record: Object) -> bool:
    return bool(record["objectRef"].get("name") == "shoal-loops")


def fenced(record: Object) -> bool:
    """Not of the leases of the process itself: that of the loops, and that of the worker processes it runs."""
    return bool(record["objectRef"]["resource"] != "leases")


def leading(machines: Machines) -> Machine:
    """Where the lease is renewed."""

    def renewals(machine: Machine) -> int:
        return sum(map(of_the_lease, audited(machines, machine)))

    def look() -> Machine | None:
        before = {each.name: renewals(each) for each in machines.all}
        time.sleep(2.5)
        return next((each for each in machines.all if renewals(each) > before[each.name]), None)

    return eventually(look, "nobody leads")
