"""Machine assignment of one MachineDeployment: replicas, Machines and NodeClaims in every state."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shoal.clock import rfc3339
from shoal.provision.clusterapi.decide import (
    MARKED_DELETE_SECONDS,
    UNCLAIMED_SECONDS,
    MachineAssignment,
    assign_machines,
    unowned_claimed_machines,
)
from tests.provision.clusterapi.test_offerings import deployment

Object = dict[str, Any]

NOW = 1_700_000_000.0
LONG_AGO = rfc3339(NOW - 600)
MARK = "cluster.x-k8s.io/delete-machine"


def machine(
    name: str, owner: str = "", *, going: bool = False, marked: str = "", age: float = 1.0, of: str = ""
) -> Object:
    annotations = {MARK: marked} if marked else {}
    if owner:
        annotations |= {"karpenter.sh/nodeclaim": owner, "karpenter.sh/nodeclaim-uid": f"uid-{owner}"}
    metadata: Object = {"namespace": "default", "name": name, "annotations": annotations}
    metadata["creationTimestamp"] = rfc3339(NOW - age)
    if of:
        metadata["labels"] = {"cluster.x-k8s.io/set-name": of}
    return {"metadata": {**metadata, "deletionTimestamp": "x"} if going else metadata}


def claim(name: str, has: str = "", *, going: bool = False) -> Object:
    annotations = {"cluster.x-k8s.io/machine": f"default/{has}"} if has else {}
    metadata: Object = {"name": name, "uid": f"uid-{name}", "annotations": annotations}
    return {"metadata": {**metadata, "deletionTimestamp": "x"} if going else metadata}


def look(replicas: int, machines: list[Object], claims: list[Object], **annotations: str) -> MachineAssignment:
    one = deployment(**annotations)
    one["spec"]["replicas"] = replicas
    return assign_machines(one, machines, claims, NOW)


def bound(found: MachineAssignment) -> list[tuple[str, str]]:
    return [(each["metadata"]["name"], owner["metadata"]["name"]) for each, owner in found.bind]


def names(found: tuple[Object, ...]) -> list[str]:
    return [each["metadata"]["name"] for each in found]


def test_wanting_claims_raise_the_replicas_once_for_all() -> None:
    assert look(0, [], [claim("a"), claim("b"), claim("c")]).replicas == 3
    assert look(3, [], [claim("a"), claim("b"), claim("c")]).replicas is None, "they are on their way"
    assert look(3, [machine("m1", "a")], [claim("a", "m1"), claim("b"), claim("c")]).replicas is None


def test_unclaimed_machines_are_used_first() -> None:
    found = look(2, [machine("m1"), machine("m2")], [claim("a"), claim("b"), claim("c")])
    assert bound(found) == [("m1", "a"), ("m2", "b")]
    assert found.replicas == 3


def test_a_half_made_binding_is_finished() -> None:
    found = look(1, [machine("m1", "a")], [claim("a"), claim("b")])
    assert bound(found) == [("m1", "a")]
    assert found.replicas == 2
    stolen = look(2, [machine("m1", "a"), machine("m2")], [claim("a", "m1"), claim("b", "m1"), claim("c", "m2")])
    assert bound(stolen) == [], "a Machine is whose it says, not whose somebody says"


def test_a_marked_machine_is_scaled_away_exactly_once() -> None:
    machines = [machine("m1", "a"), machine("m2", "b", marked=LONG_AGO)]
    claims = [claim("a", "m1"), claim("b", "m2", going=True)]
    found = look(2, machines, claims)
    assert (found.replicas, found.mark, found.delete) == (1, (), ())
    again = look(1, machines, claims)
    assert (again.replicas, again.mark, again.delete) == (None, (), ()), "the second look finds it done"
    assert look(1, [machines[0], machine("m2", "b", going=True)], claims).replicas is None


def test_replicas_stay_while_a_machine_is_on_its_way() -> None:
    """It may be made before the lower number is seen, and would then be one too many, unmarked."""
    young = [machine("m1", "a"), machine("m2", "b", marked=rfc3339(NOW - 10))]
    claims = [claim("a", "m1"), claim("b", "m2", going=True)]
    found = look(3, young, claims)
    assert (found.replicas, found.delete, found.requeue_after) == (None, (), MARKED_DELETE_SECONDS - 10)
    late = look(3, [machine("m1", "a"), machine("m2", "b", marked=rfc3339(NOW - MARKED_DELETE_SECONDS))], claims)
    assert (late.replicas, names(late.delete)) == (None, ["m2"]), "the end of a NodeClaim does not wait for ever"
    arrived = look(3, [*young, machine("m3")], claims)
    assert (arrived.replicas, arrived.mark) == (2, ())


def test_a_drained_claim_that_is_still_going_keeps_its_machine() -> None:
    assert look(1, [machine("m1", "a")], [claim("a", "m1", going=True)]) == MachineAssignment()


def test_the_machine_of_a_claim_that_is_gone_is_marked_and_scaled_away() -> None:
    found = look(2, [machine("m1", "a"), machine("m2", "gone")], [claim("a", "m1")])
    assert (found.replicas, names(found.mark), names(found.orphans)) == (1, ["m2"], ["m2"])


def test_a_claim_that_went_before_its_machine_came_leaves_a_spare() -> None:
    young = look(1, [machine("m1", age=10)], [claim("a", going=True)])
    assert (young.replicas, young.mark, young.requeue_after) == (None, (), UNCLAIMED_SECONDS - 10)
    assert look(1, [], [claim("a", going=True)]).replicas is None, "what is about to be made cannot be marked"
    old = look(1, [machine("m1", age=UNCLAIMED_SECONDS)], [])
    assert (old.replicas, names(old.mark)) == (0, ["m1"])
    taken = look(1, [machine("m1", age=UNCLAIMED_SECONDS)], [claim("b")])
    assert (taken.replicas, bound(taken)) == (None, [("m1", "b")])


def test_a_machine_somebody_deleted_is_not_replaced_for_good() -> None:
    claims = [claim("a", "m1")]
    assert look(1, [machine("m1", "a", going=True)], claims).replicas is None
    replaced = look(1, [machine("m1", "a", going=True), machine("m2", age=UNCLAIMED_SECONDS)], claims)
    assert (replaced.replicas, names(replaced.mark), bound(replaced)) == (0, ["m2"], [])


def test_the_largest_size_refuses_and_the_smallest_keeps() -> None:
    most = {"cluster_api_autoscaler_node_group_max_size": "2"}
    found = look(1, [machine("m1", "a")], [claim("a", "m1"), claim("b"), claim("c")], **most)
    assert (found.replicas, names(found.reject)) == (2, ["c"])
    least = {"cluster_api_autoscaler_node_group_min_size": "2"}
    assert look(0, [], [], **least).replicas == 2
    machines = [machine("m1", "a", marked=LONG_AGO), machine("m2", age=600)]
    kept = look(2, machines, [claim("a", "m1", going=True)], **least)
    assert (kept.replicas, names(kept.delete), kept.mark) == (None, ["m1"], ()), "another takes its place"


def test_replicas_somebody_lowered_are_raised_again() -> None:
    assert look(0, [machine("m1", "a")], [claim("a", "m1")]).replicas == 1


def test_the_machine_of_a_gone_claim_does_not_keep_others_waiting() -> None:
    """It holds the replica that the next NodeClaim wants, and is not the one to give it."""
    found = look(1, [machine("m1", "gone")], [claim("a")])
    assert (found.replicas, names(found.mark), names(found.orphans), bound(found)) == (None, ["m1"], ["m1"], [])
    marked = look(1, [machine("m1", "gone", marked=rfc3339(NOW))], [claim("a")])
    assert (marked.replicas, names(marked.delete)) == (None, ["m1"]), "another comes in its place"


def test_replicas_stay_while_machines_are_in_two_sets() -> None:
    """It is the old set that would shrink, and the one that goes is of the new one."""
    machines = [
        machine("m1", "a", of="old", age=100),
        machine("m2", "b", of="new", age=10, marked=rfc3339(NOW)),
    ]
    claims = [claim("a", "m1"), claim("b", "m2", going=True)]
    found = look(2, machines, claims)
    assert (found.replicas, names(found.delete)) == (None, ["m2"])
    spare = [machines[0], machine("m3", of="new", age=UNCLAIMED_SECONDS)]
    assert look(2, spare, [claim("a", "m1")]) == MachineAssignment(), "it waits for whoever replaces m1"
    taken = look(2, spare, [claim("a", "m1"), claim("c")])
    assert (taken.replicas, bound(taken)) == (None, [("m3", "c")])
    outdated = [machine("m1", of="old", age=UNCLAIMED_SECONDS), machine("m3", "c", of="new", age=10)]
    assert names(look(2, outdated, [claim("c", "m3")]).mark) == ["m1"], "nobody will want it"


def test_an_outdated_spare_is_taken_last() -> None:
    old, new = machine("m1", of="old", age=50), machine("m2", of="new", age=10)
    assert bound(look(2, [old, new], [claim("a")])) == [("m2", "a")]


def test_strays_end_with_their_claims_and_nobody_elses_do() -> None:
    machines = [
        machine("lives", "a"),
        machine("marked", "b", marked=LONG_AGO),
        machine("left", "gone"),
        machine("going", "gone", going=True),
        machine("foreign"),
        machine("theirs", marked=LONG_AGO),
    ]
    delete, unclaimed = unowned_claimed_machines(machines, [claim("a", "lives"), claim("b", "marked")])
    assert names(tuple(delete)) == ["marked"]
    assert names(tuple(unclaimed)) == ["left"]


@st.composite
def states(draw: st.DrawFn) -> tuple[int, list[Object], list[Object]]:
    """Anything: Machines of any owner and state, NodeClaims that have one, had one or want one."""
    machines, claims = [], []
    for number in range(draw(st.integers(0, 6))):
        owner = draw(st.sampled_from(["", f"c{number}", "gone"]))
        age, marked = draw(st.sampled_from([1.0, 100.0])), draw(st.sampled_from(["", LONG_AGO, rfc3339(NOW)]))
        of = draw(st.sampled_from(["", "", "", "old"]))
        machines.append(machine(f"m{number}", owner, age=age, going=draw(st.booleans()), marked=marked, of=of))
        if owner.startswith("c"):
            has = draw(st.sampled_from([f"m{number}", ""]))
            claims.append(claim(owner, has, going=draw(st.booleans())))
    for number in range(draw(st.integers(0, 3))):
        claims.append(claim(f"w{number}", draw(st.sampled_from(["", "vanished"])), going=draw(st.booleans())))
    return draw(st.integers(0, 8)), machines, claims


@given(states())
def test_no_machine_of_a_living_claim_is_ever_marked_or_scaled_away(
    state: tuple[int, list[Object], list[Object]],
) -> None:
    replicas, machines, claims = state
    found = look(replicas, machines, claims)
    wanted = replicas if found.replicas is None else found.replicas
    living = {each["metadata"]["uid"] for each in claims}
    for each in (*found.mark, *found.delete):
        annotations = each["metadata"]["annotations"]
        assert MARK in annotations or annotations.get("karpenter.sh/nodeclaim-uid") not in living
    doomed = {id(each) for each in (*found.mark, *found.delete)}
    kept = [
        each
        for each in machines
        if "deletionTimestamp" not in each["metadata"]
        and MARK not in each["metadata"]["annotations"]
        and id(each) not in doomed
    ]
    owned = [each for each in kept if each["metadata"]["annotations"].get("karpenter.sh/nodeclaim-uid") in living]
    assert wanted >= len(owned), "enough replicas for every Machine somebody lives on"
    assert len({each["metadata"]["name"] for each, _ in found.bind}) == len(found.bind)
    assert len({each["metadata"]["name"] for _, each in found.bind}) == len(found.bind)


@given(states())
def test_a_second_look_at_what_was_done_changes_no_replicas(state: tuple[int, list[Object], list[Object]]) -> None:
    replicas, machines, claims = state
    found = look(replicas, machines, claims)
    for each in found.mark:
        each["metadata"]["annotations"][MARK] = "true"
    for each, owner in found.bind:
        uid = owner["metadata"]["uid"]
        each["metadata"]["annotations"] |= {
            "karpenter.sh/nodeclaim": owner["metadata"]["name"],
            "karpenter.sh/nodeclaim-uid": uid,
        }
        owner["metadata"]["annotations"]["cluster.x-k8s.io/machine"] = f"default/{each['metadata']['name']}"
    for each in found.delete:
        each["metadata"]["deletionTimestamp"] = "x"
    again = look(replicas if found.replicas is None else found.replicas, machines, claims)
    assert again.replicas is None
    in_one_set = len({str(each["metadata"].get("labels")) for each in machines}) < 2
    assert not again.mark or (found.delete and not in_one_set), "another set may be the newest after a deletion"
