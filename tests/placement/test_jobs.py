"""Jobs on many clusters: divided once, the work of a lost cluster is created again, one aggregated status."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.client.rest import GroupVersionResource
from shoal.kinds.workload import workloadcluster
from shoal.kinds.workload.leaf import EVACUATED_ANNOTATION, SHARE_ANNOTATION
from shoal.kinds.workload.workloadcluster import assigned_cluster
from shoal.objects.errors import BadRequest, NotFound
from shoal.placement.cluster_info import ClusterInfo
from shoal.placement.explain import explain
from shoal.placement.interpreter import JOB
from shoal.placement.policy import DEFAULT_POLICY, ClusterSelector, PlacementPolicy, ReplicaLimit
from shoal.placement.snapshot import PlacementSnapshot, plan_changes
from shoal.placement.splitter.decide import compute_changes
from shoal.placement.splitter.job_status import job_status
from shoal.placement.splitter.jobs import job_leaf_name
from shoal.placement.splitter.leaf_changes import LeafChanges
from tests.placement.hub import CLUSTERS, Hub
from tests.placement.test_placements import placed, says

Object = dict[str, Any]
NOW, STAMP = 1_700_000_000.0, "2023-11-14T22:13:20Z"
JOBS = GroupVersionResource("batch", "v1", "jobs")
EAST, NORTH, WEST = ClusterInfo("east"), ClusterInfo("north"), ClusterInfo("west")
DARK = ClusterInfo("west", ready=False, since=NOW - 301)
COMPLETE = {"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "done"}
FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}
SUSPENDED = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
GIVEN = {"controller-uid": "r", "batch.kubernetes.io/controller-uid": "r", "job-name": "sums"}


def job(completions: int | None = 10, parallelism: int = 4, /, **spec: Any) -> Object:
    """As a server has it."""
    template = {"metadata": {"labels": {"app": "sums", **GIVEN}}, "spec": {"containers": [], "restartPolicy": "Never"}}
    made = {
        "parallelism": parallelism,
        "completionMode": "NonIndexed",
        "suspend": False,
        "ttlSecondsAfterFinished": 60,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "r"}},
        "template": template,
        **({"completions": completions} if completions is not None else {}),
        **spec,
    }
    metadata = {"name": "sums", "namespace": "default", "uid": "r", "labels": {"team": "a", **GIVEN}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": made}


def stored(leaf: Object) -> Object:
    """As the server has a leaf that was made: with a uid, and what it gives to a Job."""
    metadata = {**leaf["metadata"], "uid": leaf["metadata"]["name"]}
    template = leaf["spec"]["template"]
    labels = {**template["metadata"]["labels"], "controller-uid": metadata["uid"], "job-name": metadata["name"]}
    template = {**template, "metadata": {**template["metadata"], "labels": labels}}
    selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}}
    return {**leaf, "metadata": metadata, "spec": {"selector": selector, **leaf["spec"], "template": template}}


class World:
    """Leaves as they are carried out."""

    def __init__(self, root: Object, *sites: ClusterInfo, policy: PlacementPolicy = DEFAULT_POLICY) -> None:
        self.root, self.sites, self.policy = root, list(sites), policy
        self.leaves: dict[str, Object] = {}

    def look(self) -> LeafChanges:
        found = compute_changes(self.root, self.leaves.values(), (), self.sites, NOW, self.policy, JOB)
        for leaf in found.create:
            self.leaves[leaf["metadata"]["name"]] = stored(leaf)
        for leaf in found.update:
            self.leaves[leaf["metadata"]["name"]] = leaf
        assert found.delete + found.orphaned == ()
        return found

    def settle(self) -> dict[str, tuple[int | None, int]]:
        """Completions and parallelism by leaf, when nothing is left to do."""
        self.look()
        again = self.look()
        assert again.is_done, "a second look changes nothing"
        status = job_status(self.root, again, len(self.sites), STAMP)
        self.root["status"] = self.root["status"] if status is None else status
        return {
            name: (leaf["spec"].get("completions"), leaf["spec"]["parallelism"]) for name, leaf in self.leaves.items()
        }

    def report(self, name: str, *conditions: Object, **status: Any) -> None:
        times = {"startTime": STAMP, **({"completionTime": STAMP} if COMPLETE in conditions else {})}
        self.leaves[name]["status"] = {**times, **status, "conditions": list(conditions)}

    def conditions(self) -> dict[str, str]:
        return {one["type"]: one["status"] for one in self.root["status"].get("conditions") or ()}


@pytest.mark.parametrize(
    ("completions", "parallelism", "wanted"),
    [
        (10, 4, {"east": (5, 2), "west": (5, 2)}),
        (11, 3, {"east": (7, 2), "west": (4, 1)}),
        (10, 1, {"east": (10, 1)}),
        (1, 8, {"east": (1, 1)}),
        (3, 8, {"east": (2, 2), "west": (1, 1)}),
        (0, 2, {"east": (0, 0)}),
        (None, 5, {"east": (None, 3), "west": (None, 2)}),
        (10, 0, {}),
    ],
)
def test_parallelism_and_completions_are_divided_together(
    completions: int | None, parallelism: int, wanted: dict[str, tuple[int | None, int]]
) -> None:
    world = World(job(completions, parallelism), EAST, WEST)
    assert world.settle() == {f"sums--{cluster}": one for cluster, one in wanted.items()}


def test_a_leaf_is_a_job_of_its_own() -> None:
    [leaf] = World(job(4, 2), EAST).look().create
    assert leaf["metadata"]["labels"] == {
        "team": "a",
        "workloads.kcp.dev/cluster": "east",
        "kcp.dev/owned-by": "sums",
    }
    assert leaf["metadata"]["annotations"] == {SHARE_ANNOTATION: "2"}
    assert leaf["spec"]["template"]["metadata"]["labels"] == {"app": "sums"}
    assert not {"selector", "ttlSecondsAfterFinished"} & leaf["spec"].keys()
    chosen = job(4, 2, manualSelector=True)
    [leaf] = World(chosen, EAST).look().create
    assert leaf["spec"]["selector"] == chosen["spec"]["selector"]
    assert leaf["spec"]["template"] == chosen["spec"]["template"]


def test_indexed_jobs_are_refused_unless_they_are_copied() -> None:
    root = job(4, 2, completionMode="Indexed")
    with pytest.raises(BadRequest, match="completionMode Indexed"):
        World(root, EAST, WEST).look()
    copied = World(root, EAST, WEST, policy=PlacementPolicy(is_duplicate=True))
    assert copied.settle() == {"sums--east": (4, 2), "sums--west": (4, 2)}


def test_completions_stay_and_parallelism_follows_the_root() -> None:
    world = World(job(10, 4), EAST, WEST)
    world.settle()
    world.sites.append(NORTH)
    assert world.settle() == {"sums--east": (5, 2), "sums--west": (5, 2)}, "a new cluster is not used"
    world.root["spec"]["parallelism"] = 6
    assert world.settle() == {"sums--east": (5, 3), "sums--west": (5, 3)}
    world.root["spec"]["parallelism"] = 1
    assert world.settle() == {"sums--east": (5, 1), "sums--west": (5, 0)}
    world.report("sums--east", COMPLETE, succeeded=5)
    assert world.settle() == {"sums--east": (5, 1), "sums--west": (5, 1)}, "who is done gives way"
    world.root["spec"]["suspend"] = True
    world.settle()
    assert world.leaves["sums--west"]["spec"]["suspend"] is True
    assert world.leaves["sums--east"]["spec"]["suspend"] is False, "what is done is left alone"


def test_what_a_lost_cluster_had_not_done_is_made_anew() -> None:
    world = World(job(10, 4), EAST, WEST)
    world.settle()
    world.report("sums--east", active=2, succeeded=1)
    world.report("sums--west", active=2, succeeded=3)
    world.sites = [EAST, ClusterInfo("west", ready=False, since=NOW - 10)]
    assert world.settle() == {"sums--east": (5, 2), "sums--west": (5, 2)}, "there is a grace"
    assert world.look().requeue_after == 290
    world.sites = [EAST, DARK]
    assert world.settle() == {"sums--east": (5, 3), "sums--east-2": (2, 1), "sums--west": (5, 0)}
    assert world.leaves["sums--west"]["metadata"]["annotations"][EVACUATED_ANNOTATION] == "true"
    assert world.root["status"]["succeeded"] == 4
    # It comes back, and has done one more; it gets nothing, and takes nothing back.
    world.report("sums--west", succeeded=4)
    world.sites = [EAST, WEST]
    assert world.settle() == {"sums--east": (5, 3), "sums--east-2": (2, 1), "sums--west": (5, 0)}
    world.report("sums--east", COMPLETE, succeeded=5)
    assert world.settle()["sums--east-2"] == (2, 2)
    assert "Complete" not in world.conditions()
    world.report("sums--east-2", COMPLETE, succeeded=2)
    world.settle()
    assert world.conditions() == {"SuccessCriteriaMet": "True", "Complete": "True"}
    assert world.root["status"]["succeeded"] == 11
    assert (world.look().requeue_after, world.look().is_expired) == (60, False)
    # What is finished is finished, whatever becomes of the leaves.
    world.sites, world.leaves = [EAST], {}
    assert world.settle() == {}
    assert world.root["status"]["succeeded"] == 11


def test_a_cluster_that_is_gone_is_not_asked_to_do_it_again() -> None:
    world = World(job(10, 4), EAST, WEST)
    world.settle()
    world.report("sums--west", COMPLETE, succeeded=5)
    world.sites = [EAST]
    assert world.settle() == {"sums--east": (5, 4), "sums--west": (5, 0)}, "if it came again it would run again"


def test_of_a_queue_the_others_do_the_rest() -> None:
    world = World(job(None, 5), EAST, WEST)
    world.settle()
    world.sites = [EAST, DARK]
    assert world.settle() == {"sums--east": (None, 5), "sums--west": (None, 0)}
    world.sites = [ClusterInfo("east", until=NOW), DARK, NORTH]
    assert world.settle() == {"sums--east": (None, 0), "sums--north": (None, 5), "sums--west": (None, 0)}


def test_limits_and_names_that_are_taken() -> None:
    few = PlacementPolicy(limits=(ReplicaLimit(ClusterSelector(frozenset({"east"})), 0, 1),))
    assert World(job(10, 4), EAST, WEST, policy=few).settle() == {"sums--east": (3, 1), "sums--west": (7, 3)}
    found = compute_changes(job(10, 4), [], ["sums--east"], [EAST, WEST], NOW, DEFAULT_POLICY, JOB)
    assert [leaf["metadata"]["name"] for leaf in found.create] == ["sums--east-2", "sums--west"]
    long = [job_leaf_name("j" * 60, "east", number) for number in (1, 2)]
    assert [len(name) for name in long] == [63, 63]
    assert long[0] != long[1]


def test_without_a_cluster_the_status_says_so() -> None:
    world = World(job(10, 4))
    assert world.settle() == {}
    [said] = world.root["status"]["conditions"]
    assert (said["type"], said["reason"]) == ("Placed", "NoRegisteredClusters")
    world.sites = [ClusterInfo("east", ready=False)]
    world.settle()
    [said] = world.root["status"]["conditions"]
    assert said["message"] == "4 parallel pods are unassigned: none of 1 registered clusters can take them."
    world.sites = [EAST]
    assert world.settle() == {"sums--east": (10, 4)}
    assert world.conditions() == {}


def test_one_that_fails_stops_the_others_first() -> None:
    world = World(job(10, 4), EAST, WEST)
    world.settle()
    world.report("sums--east", active=2, ready=1, failed=1)
    world.report("sums--west", FAILED, failed=7, succeeded=1)
    assert world.settle() == {"sums--east": (5, 0), "sums--west": (5, 2)}
    assert world.conditions() == {"FailureTarget": "True"}
    assert {name: world.root["status"][name] for name in ("active", "ready", "failed", "succeeded")} == {
        "active": 2,
        "ready": 1,
        "failed": 8,
        "succeeded": 1,
    }
    world.report("sums--east", failed=1)
    world.settle()
    assert world.conditions() == {"FailureTarget": "True", "Failed": "True"}
    said = world.root["status"]["conditions"][1]
    assert (said["reason"], said["message"]) == ("BackoffLimitExceeded", "sums--west: too often")


def test_a_suspended_job_starts_anew() -> None:
    world = World(job(10, 4), EAST, WEST)
    world.settle()
    for name in world.leaves:
        world.report(name, active=2)
    world.settle()
    assert world.root["status"]["startTime"] == STAMP
    world.root["spec"]["suspend"] = True
    world.settle()
    world.leaves["sums--east"]["status"] = {"conditions": [SUSPENDED]}
    world.settle()
    assert "Suspended" not in world.conditions(), "one still runs"
    world.leaves["sums--west"]["status"] = {"conditions": [SUSPENDED]}
    world.settle()
    assert world.conditions() == {"Suspended": "True"}
    assert "startTime" not in world.root["status"]
    world.root["spec"]["suspend"] = False
    world.settle()
    assert world.conditions() == {"Suspended": "False"}


def _is_lost(leaf: Object) -> bool:
    return EVACUATED_ANNOTATION in leaf["metadata"]["annotations"]


names = st.sampled_from(["a", "b", "c", "d"])


@given(st.integers(1, 30), st.integers(1, 12), st.lists(st.tuples(names, st.integers(0, 40))))
def test_all_completions_are_asked_for_whatever_clusters_do(
    completions: int, parallelism: int, turns: list[tuple[str, int]]
) -> None:
    world = World(job(completions, parallelism), *(ClusterInfo(name) for name in "abcd"))
    world.settle()
    for name, done in turns:
        for leaf in [one for one in world.leaves.values() if assigned_cluster(one) == name and not _is_lost(one)]:
            world.report(leaf["metadata"]["name"], succeeded=min(done, leaf["spec"]["completions"]))
        world.sites = [site if site.name != name else ClusterInfo(name, ready=False) for site in world.sites]
        if not any(site.ready for site in world.sites):
            world.sites = [ClusterInfo(name) for name in "abcd"]
        world.settle()
        leaves = world.leaves.values()
        lost = [leaf for leaf in leaves if _is_lost(leaf)]
        live = [leaf for leaf in leaves if leaf not in lost]
        asked = sum(leaf["spec"]["completions"] for leaf in live)
        assert asked + sum((leaf.get("status") or {}).get("succeeded", 0) for leaf in lost) == completions
        assert sum(leaf["spec"]["parallelism"] for leaf in leaves) <= parallelism
        assert not live or any(leaf["spec"]["parallelism"] for leaf in live)


def test_plan_and_explain_know_that_it_is_divided_once() -> None:
    rule = {"metadata": {"name": "rule", "namespace": "default"}, "spec": {"selects": [{"kind": "Job"}]}}
    world = World(job(10, 4), EAST, WEST)
    fleet = PlacementSnapshot(
        {"east": EAST, "west": WEST}, [rule], {("Job", "default", "sums"): world.root}, {"Job": JOB}
    )
    [change] = plan_changes(fleet, [], NOW)
    assert (change.before, change.after) == ({}, {"east": 2, "west": 2})
    world.settle()
    objects = {("Job", "default", name): leaf for name, leaf in world.leaves.items()}
    for leaf in objects.values():
        leaf["metadata"]["ownerReferences"] = [{"uid": "r", "controller": True}]
    sites = {"east": EAST, "north": NORTH, "west": WEST}
    fleet = PlacementSnapshot(sites, [rule], {**objects, ("Job", "default", "sums"): world.root}, {"Job": JOB})
    assert plan_changes(fleet, [], NOW) == []
    said = {one.cluster: (one.now, one.then, one.why, one.change) for one in explain_job(fleet)}
    assert said["east"] == (2, 2, "is selected", "")
    assert said["north"] == (0, 0, "had no share when the Job was divided", "")


def explain_job(fleet: PlacementSnapshot) -> Any:
    return explain(fleet, "Job", "default", "sums", NOW).verdicts


# --- on a server ---


@pytest.fixture
async def fleet(hub: Hub) -> Hub:
    await hub.learn()
    await hub.learn("Job", "batch")
    await hub.cluster("east")
    await hub.cluster("west")
    return hub


async def start(hub: Hub, **spec: Any) -> Object:
    template = {"spec": {"containers": [{"name": "c", "image": "sums:1"}], "restartPolicy": "Never"}}
    given = {"completions": 10, "parallelism": 4, "template": template, **spec}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sums"}, "spec": given}

    async def create() -> bool:
        try:
            await hub.client.create(JOBS, body, "default")
        except NotFound:
            return False
        return True

    await hub.eventually(create)
    return await hub.client.get(JOBS, "sums", "default")


async def become(hub: Hub, **wanted: tuple[int, int]) -> None:
    leaves = {f"sums--{cluster.replace('_', '-')}": one for cluster, one in wanted.items()}

    async def sizes() -> dict[str, tuple[int, int]]:
        found, _ = await hub.client.list_all(JOBS, "default", labels=workloadcluster.CLUSTER_LABEL)
        return {one["metadata"]["name"]: (one["spec"]["completions"], one["spec"]["parallelism"]) for one in found}

    async def look() -> bool:
        return await sizes() == leaves

    try:
        await hub.eventually(look)
    except AssertionError:
        raise AssertionError(f"wanted {leaves}, found {await sizes()}") from None


async def report(hub: Hub, name: str, *conditions: Object, **status: Any) -> None:
    times = {"startTime": STAMP, **({"completionTime": STAMP} if COMPLETE in conditions else {})}
    met = {**COMPLETE, "type": "SuccessCriteriaMet"}
    said = [each for one in conditions for each in ([met, one] if one is COMPLETE else [one])]
    body = {"status": {"active": 0, "ready": 0, **times, **status, "conditions": said}}
    await hub.client.merge_patch(JOBS, name, body, "default", subresource="status")


async def status_says(hub: Hub, **wanted: Any) -> Object:
    async def look() -> Object | None:
        status: Object = (await hub.client.get(JOBS, "sums", "default")).get("status") or {}
        return status if {name: status.get(name) for name in wanted} == wanted else None

    found: Object = await hub.eventually(look)
    return found


@pytest.mark.anyio
async def test_a_job_runs_on_two_clusters_one_is_lost_and_it_completes(fleet: Hub) -> None:
    await placed(fleet, selects=[{"kind": "Job"}], disruption={"gracePeriod": "2m"})
    root = await start(fleet, ttlSecondsAfterFinished=3600)
    await become(fleet, east=(5, 2), west=(5, 2))
    leaf = await fleet.client.get(JOBS, "sums--east", "default")
    labels = leaf["spec"]["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/controller-uid"] == leaf["metadata"]["uid"] != root["metadata"]["uid"]
    assert labels["job-name"] == "sums--east"
    assert "ttlSecondsAfterFinished" not in leaf["spec"]
    await report(fleet, "sums--east", active=2, ready=2, succeeded=1)
    await report(fleet, "sums--west", active=2, ready=1, succeeded=3)
    await status_says(fleet, active=4, ready=3, succeeded=4, startTime=STAMP)
    await fleet.client.merge_patch(JOBS, "sums", {"spec": {"suspend": True}}, "default")

    async def suspended() -> bool:
        found = [await fleet.client.get(JOBS, f"sums--{name}", "default") for name in ("east", "west")]
        return all(one["spec"]["suspend"] for one in found)

    await fleet.eventually(suspended)
    await fleet.client.merge_patch(JOBS, "sums", {"spec": {"suspend": False, "parallelism": 6}}, "default")
    await become(fleet, east=(5, 3), west=(5, 3))
    await fleet.client.merge_patch(JOBS, "sums--east", {"spec": {"parallelism": 1}}, "default")
    await become(fleet, east=(5, 3), west=(5, 3))
    await fleet.ready("west", "Unknown")
    fleet.world.clock.step(121)
    await become(fleet, east=(5, 4), east_2=(2, 2), west=(5, 0))
    await report(fleet, "sums--east", COMPLETE, succeeded=5)
    await report(fleet, "sums--east-2", COMPLETE, succeeded=2)
    done = await status_says(fleet, succeeded=10, completionTime=STAMP, active=None)
    assert [one["type"] for one in done["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    await fleet.client.delete(CLUSTERS, "west")
    await fleet.client.delete(JOBS, "sums--east", "default")
    await fleet.client.merge_patch(CLUSTERS, "east", {"metadata": {"labels": {"looked": "again"}}})
    await status_says(fleet, **done)
    fleet.world.clock.step(3601)

    async def gone() -> bool:
        return not (await fleet.client.list_all(JOBS, "default"))[0]

    await fleet.eventually(gone)


@pytest.mark.anyio
async def test_an_indexed_job_is_refused_by_name(fleet: Hub) -> None:
    await placed(fleet, selects=[{"apiVersion": "batch/v1", "kind": "Job"}])
    await start(fleet, completionMode="Indexed")
    said = await says(fleet, "rule", "Valid", "CannotBePlaced")
    assert said.startswith("Job sums: a Job with completionMode Indexed")
    found, _ = await fleet.client.list_all(JOBS, "default", labels=workloadcluster.CLUSTER_LABEL)
    assert found == []
