"""Model test of machine assignment: NodeClaims come and go, the MachineSet acts at any time, the cache is stale, the
controller crashes anywhere.

No Machine that a NodeClaim needs is scaled away, and in the end there are as many Machines as NodeClaims.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from shoal.clock import rfc3339
from shoal.provision.clusterapi.decide import UNCLAIMED_SECONDS, assign_machines
from tests.provision.clusterapi.test_offerings import deployment

Object = dict[str, Any]

MARK, OWNER, OWNER_UID = "cluster.x-k8s.io/delete-machine", "karpenter.sh/nodeclaim", "karpenter.sh/nodeclaim-uid"
MACHINE, SET = "cluster.x-k8s.io/machine", "cluster.x-k8s.io/set-name"


class Fleet(RuleBasedStateMachine):
    """One MachineDeployment. `seen` is what the loop has of it, which may be any state it was in since."""

    @initialize()
    def begin(self) -> None:
        self.now = 1_700_000_000.0
        self.replicas = 0
        self.desired = 0
        self.machines: dict[str, Object] = {}
        self.claims: dict[str, Object] = {}
        self.number = 0
        self.revision = 0
        self.look()

    def look(self) -> None:
        self.seen = copy.deepcopy((self.replicas, self.machines, self.claims))

    @rule(count=st.integers(1, 3))
    def claims_come(self, count: int) -> None:
        for _ in range(count):
            name = self._name("c")
            self.claims[name] = {"metadata": {"name": name, "uid": f"uid-{name}", "annotations": {}}}

    @rule(data=st.data())
    def a_claim_is_deleted(self, data: st.DataObject) -> None:
        if not self.claims:
            return
        name = data.draw(st.sampled_from(sorted(self.claims)))
        self.claims[name]["metadata"]["deletionTimestamp"] = "x"
        machine = self._machine_of(self.claims[name])
        if machine is None:
            del self.claims[name]
        else:
            machine["metadata"]["annotations"].setdefault(MARK, rfc3339(self.now))
            self._touch(machine)

    @rule(looks=st.booleans(), steps=st.integers(1, 3), data=st.data())
    def the_machine_set_acts(self, looks: bool, steps: int, data: st.DataObject) -> None:
        """It learns of the replicas when it likes."""
        if looks:
            self.desired = self.replicas
        for _ in range(steps):
            if len(self.machines) < self.desired:
                self._grow()
            elif len(self.machines) > self.desired:
                self._shrink(data)

    @rule(data=st.data())
    def somebody_deletes_a_machine(self, data: st.DataObject) -> None:
        if self.machines:
            self._remove(data.draw(st.sampled_from(sorted(self.machines))))

    @rule()
    def the_template_changes(self) -> None:
        """Machines to come are of another set; those there are stay, until somebody deletes them."""
        self.revision += 1

    @rule()
    def time_passes(self) -> None:
        self.now += UNCLAIMED_SECONDS + 1

    @rule(looks=st.booleans(), writes=st.sampled_from([100, 100, 1, 2, 3]))
    def the_loop_acts(self, looks: bool, writes: int) -> None:
        """As `Settling` does, and may die after some writes; a compare-and-swap that fails ends the pass too."""
        if looks:
            self.look()
        replicas, machines, claims = self.seen
        one = deployment()
        one["spec"]["replicas"] = replicas
        found = assign_machines(one, machines.values(), claims.values(), self.now)
        if any(each["metadata"]["annotations"][OWNER] in self.claims for each in found.orphans):
            return
        steps: list[Any] = [lambda each=each: self._mark(each) for each in found.mark]
        if found.replicas is not None:
            steps.append(lambda: self._scale(replicas, found.replicas))
        steps += [lambda each=each: self._remove(each["metadata"]["name"]) for each in found.delete]
        steps += [lambda each=each, owner=owner: self._bind(each, owner) for each, owner in found.bind]
        for step in steps[:writes]:
            if step() is False:
                return

    def _mark(self, old: Object) -> bool:
        machine = self.machines.get(old["metadata"]["name"])
        if machine is None or machine["revision"] != old["revision"]:
            return False
        machine["metadata"]["annotations"][MARK] = rfc3339(self.now)
        self._touch(machine)
        return True

    def _scale(self, seen: int, wanted: int | None) -> bool:
        if self.replicas != seen or wanted is None:
            return False
        self.replicas = wanted
        return True

    def _bind(self, old: Object, owner: Object) -> bool:
        machine, claim = self.machines.get(old["metadata"]["name"]), self.claims.get(owner["metadata"]["name"])
        if machine is None or machine["revision"] != old["revision"]:
            return False
        annotations = machine["metadata"]["annotations"]
        annotations |= {OWNER: owner["metadata"]["name"], OWNER_UID: owner["metadata"]["uid"]}
        self._touch(machine)
        if claim is not None:
            claim["metadata"]["annotations"][MACHINE] = f"default/{machine['metadata']['name']}"
        return True

    def _machine_of(self, claim: Object) -> Object | None:
        named = self.machines.get(claim["metadata"]["annotations"].get(MACHINE, "").partition("/")[2])
        if named is not None:
            return named
        uid = claim["metadata"]["uid"]
        return next((m for m in self.machines.values() if m["metadata"]["annotations"].get(OWNER_UID) == uid), None)

    def _is_nobodys(self, machine: Object) -> None:
        annotations = machine["metadata"]["annotations"]
        if MARK not in annotations:
            assert annotations.get(OWNER) not in self.claims, "a Machine somebody lives on was scaled away"

    def _remove(self, name: str) -> None:
        """With its Machine a NodeClaim ends too."""
        machine = self.machines.pop(name, None)
        if machine is not None:
            self.claims.pop(machine["metadata"]["annotations"].get(OWNER, ""), None)

    def _touch(self, machine: Object) -> None:
        machine["revision"] += 1

    def _name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number:04}"

    def teardown(self) -> None:
        """Left alone, everything finds its end."""
        if not hasattr(self, "claims"):
            return
        self._roll_out()
        for _ in range(16):
            self.the_loop_acts(looks=True, writes=100)
            self.desired = self.replicas
            while len(self.machines) < self.desired:
                self._grow()
            while len(self.machines) > self.desired:
                self._shrink()
            self.time_passes()
        bound = {self._machine_of(claim)["metadata"]["name"] for claim in self.claims.values()}  # type: ignore[index]
        assert bound == set(self.machines), "every NodeClaim has a Machine, and no Machine is left over"
        assert self.replicas == len(self.claims)

    def _grow(self) -> None:
        name = self._name("m")
        created = {"namespace": "default", "name": name, "annotations": {}, "creationTimestamp": rfc3339(self.now)}
        labels = {SET: f"{self.revision:04}"}
        self.machines[name] = {"metadata": {**created, "labels": labels}, "revision": 0}

    def _roll_out(self) -> None:
        """As drift does: whatever is of an old set goes with its NodeClaim."""
        for claim in list(self.claims.values()):
            machine = self._machine_of(claim)
            if machine is not None and machine["metadata"]["labels"][SET] != f"{self.revision:04}":
                claim["metadata"]["deletionTimestamp"] = "x"
                machine["metadata"]["annotations"].setdefault(MARK, rfc3339(self.now))
                self._touch(machine)

    def _shrink(self, data: st.DataObject | None = None) -> None:
        """Of the oldest set, marked ones first; which of the others is anybody's guess."""
        oldest = min(each["metadata"]["labels"][SET] for each in self.machines.values())
        here = {name: each for name, each in self.machines.items() if each["metadata"]["labels"][SET] == oldest}
        marked = [name for name, each in here.items() if MARK in each["metadata"]["annotations"]]
        choice = marked or sorted(here)
        chosen = data.draw(st.sampled_from(choice)) if data is not None else choice[0]
        self._is_nobodys(self.machines[chosen])
        self._remove(chosen)


TestFleet = Fleet.TestCase
TestFleet.settings = settings(max_examples=100, stateful_step_count=40, derandomize=True, deadline=None)
