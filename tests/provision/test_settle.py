"""Replicas, Machines and NodeClaims of one MachineDeployment: what is done in every state they can be found in."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shoal.clock import rfc3339
from shoal.provision.clusterapi.decide import MARKED_SECONDS, SPARE_SECONDS, Settlement, settle
from tests.provision.test_offers import deployment

Object = dict[str, Any]

NOW = 1_700_000_000.0
LONG_AGO = rfc3339(NOW - 600)
MARK = "cluster.x-k8s.io/delete-machine"


def machine(name: str, owner: str = "", *, going: bool = False, marked: str = "", age: float = 1.0) -> Object:
    annotations = {MARK: marked} if marked else {}
    if owner:
        annotations |= {"karpenter.sh/nodeclaim": owner, "karpenter.sh/nodeclaim-uid": f"uid-{owner}"}
    metadata: Object = {"namespace": "default", "name": name, "annotations": annotations}
    metadata["creationTimestamp"] = rfc3339(NOW - age)
    return {"metadata": {**metadata, "deletionTimestamp": "x"} if going else metadata}


def claim(name: str, has: str = "", *, going: bool = False) -> Object:
    annotations = {"cluster.x-k8s.io/machine": f"default/{has}"} if has else {}
    metadata: Object = {"name": name, "uid": f"uid-{name}", "annotations": annotations}
    return {"metadata": {**metadata, "deletionTimestamp": "x"} if going else metadata}


def look(replicas: int, machines: list[Object], claims: list[Object], **annotations: str) -> Settlement:
    one = deployment(**annotations)
    one["spec"]["replicas"] = replicas
    return settle(one, machines, claims, NOW)


def bound(found: Settlement) -> list[tuple[str, str]]:
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
    assert (found.replicas, found.delete, found.again) == (None, (), MARKED_SECONDS - 10)
    late = look(3, [machine("m1", "a"), machine("m2", "b", marked=rfc3339(NOW - MARKED_SECONDS))], claims)
    assert (late.replicas, names(late.delete)) == (None, ["m2"]), "the end of a NodeClaim does not wait for ever"
    arrived = look(3, [*young, machine("m3")], claims)
    assert (arrived.replicas, arrived.mark) == (2, ())


def test_a_drained_claim_that_is_still_going_keeps_its_machine() -> None:
    assert look(1, [machine("m1", "a")], [claim("a", "m1", going=True)]) == Settlement()


def test_the_machine_of_a_claim_that_is_gone_is_marked_and_scaled_away() -> None:
    found = look(2, [machine("m1", "a"), machine("m2", "gone")], [claim("a", "m1")])
    assert (found.replicas, names(found.mark), names(found.orphans)) == (1, ["m2"], ["m2"])


def test_a_claim_that_went_before_its_machine_came_leaves_a_spare() -> None:
    young = look(1, [machine("m1", age=10)], [claim("a", going=True)])
    assert (young.replicas, young.mark, young.again) == (None, (), SPARE_SECONDS - 10)
    assert look(1, [], [claim("a", going=True)]).replicas is None, "what is about to be made cannot be marked"
    old = look(1, [machine("m1", age=SPARE_SECONDS)], [])
    assert (old.replicas, names(old.mark)) == (0, ["m1"])
    taken = look(1, [machine("m1", age=SPARE_SECONDS)], [claim("b")])
    assert (taken.replicas, bound(taken)) == (None, [("m1", "b")])


def test_a_machine_somebody_deleted_is_not_replaced_for_good() -> None:
    claims = [claim("a", "m1")]
    assert look(1, [machine("m1", "a", going=True)], claims).replicas is None
    replaced = look(1, [machine("m1", "a", going=True), machine("m2", age=SPARE_SECONDS)], claims)
    assert (replaced.replicas, names(replaced.mark), bound(replaced)) == (0, ["m2"], [])


def test_the_largest_size_refuses_and_the_smallest_keeps() -> None:
    most = {"cluster_api_autoscaler_node_group_max_size": "2"}
    found = look(1, [machine("m1", "a")], [claim("a", "m1"), claim("b"), claim("c")], **most)
    assert (found.replicas, names(found.refuse)) == (2, ["c"])
    least = {"cluster_api_autoscaler_node_group_min_size": "2"}
    assert look(0, [], [], **least).replicas == 2
    machines = [machine("m1", "a", marked=LONG_AGO), machine("m2", age=600)]
    kept = look(2, machines, [claim("a", "m1", going=True)], **least)
    assert (kept.replicas, names(kept.delete), kept.mark) == (None, ["m1"], ()), "another takes its place"


def test_replicas_somebody_lowered_are_raised_again() -> None:
    assert look(0, [machine("m1", "a")], [claim("a", "m1")]).replicas == 1


@st.composite
def states(draw: st.DrawFn) -> tuple[int, list[Object], list[Object]]:
    """Anything: Machines of any owner and state, NodeClaims that have one, had one or want one."""
    machines, claims = [], []
    for number in range(draw(st.integers(0, 6))):
        owner = draw(st.sampled_from(["", f"c{number}", "gone"]))
        age, marked = draw(st.sampled_from([1.0, 100.0])), draw(st.sampled_from(["", LONG_AGO, rfc3339(NOW)]))
        machines.append(machine(f"m{number}", owner, age=age, going=draw(st.booleans()), marked=marked))
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
    assert not again.mark
