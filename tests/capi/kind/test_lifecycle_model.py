"""Life cycles of a KINDCluster in a model, with crashes, failures and changes by others.

In every case the end state is the requested one, and clusters of others are unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.capi.providers.kind.decide import decide
from shoal.capi.providers.kind.errors import KindError
from shoal.capi.providers.kind.kubeconfig_secrets import KubeconfigAccess
from shoal.capi.providers.kind.steps import (
    CancelJob,
    CreateCluster,
    DeleteCluster,
    DeleteSecret,
    FetchedKubeconfig,
    FetchKubeconfig,
    ForgetJob,
    JobState,
    KindClusterList,
    KindClusterSnapshot,
    ListClusters,
    OwnerMarker,
    PatchObject,
    ReadOwner,
    WaitForChange,
    WriteSecret,
    WriteStatus,
)
from shoal.kinds.clusterapi import kindcluster
from tests.capi.kind.kind_environment import kind_cluster
from tests.capi.kind.test_decide import DOWN, NOW

Object = dict[str, Any]

PASSES = 60


@dataclass
class World:
    obj: Object | None
    clusters: dict[str, str] = field(default_factory=dict)
    """Name -> whose: "u" is ours, anything else somebody's."""
    secrets: dict[str, Object] = field(default_factory=dict)
    down: bool = False
    work: JobState | None = None
    doing: tuple[str, str] = ("", "")
    listing: frozenset[str] | None = None
    made: int = 0

    def look(self, fresh: bool, fetched: FetchedKubeconfig | None, marked: OwnerMarker | None) -> KindClusterSnapshot:
        assert self.obj is not None
        listing = None
        if self.listing is not None or self.down:
            listing = KindClusterList(self.listing or frozenset(), DOWN if self.down else None, fresh)
        return KindClusterSnapshot(
            obj=self.obj,
            cluster=None,
            holder="",
            listing=listing,
            job=self.work,
            kubeconfig=fetched,
            owner_marker=marked,
            secrets=list(self.secrets.values()),
            foreign_secrets=frozenset(),
            now=NOW,
        )

    def pass_(self, steps: int) -> None:
        """Looks at the object and takes at most so many steps."""
        fresh, fetched, marked = False, None, None
        for _ in range(steps):
            if self.obj is None:
                return
            step = decide(self.look(fresh, fetched, marked))
            match step:
                case WaitForChange():
                    return
                case ListClusters():
                    assert not fresh
                    self.listing, fresh = frozenset(self.clusters), True
                case FetchKubeconfig(name):
                    assert fetched is None
                    found = self.clusters.get(name)
                    access = KubeconfigAccess("text", f"{name}-{found}", "127.0.0.1", 1) if found else None
                    fetched = FetchedKubeconfig(
                        access, None if found else KindError("CommandFailed", "gone"), fresh=True
                    )
                case ReadOwner(name):
                    assert marked is None
                    marked = OwnerMarker(None if self.clusters.get(name) == "u" else "")
                case CreateCluster(name, _):
                    self.doing, self.work = ("create", name), JobState("Create", False, None, "")
                    fetched = marked = None
                case DeleteCluster(name):
                    assert self.clusters.get(name, "u") == "u", "somebody else's cluster is deleted"
                    self.doing, self.work = ("delete", name), JobState("Delete", False, None, "")
                case CancelJob():
                    self.work, fresh = None, False
                case ForgetJob():
                    self.work = None
                case _:
                    self._write(step)

    def _write(self, step: object) -> None:
        assert self.obj is not None
        match step:
            case WriteStatus(new, settles):
                self.obj = new
                if settles:
                    self.work = None
            case PatchObject(body):
                metadata = {**self.obj["metadata"], **body.get("metadata", {})}
                self.obj = {**self.obj, "metadata": metadata, "spec": {**self.obj["spec"], **body.get("spec", {})}}
                if "deletionTimestamp" in metadata and not metadata["finalizers"]:
                    self.obj = None
            case WriteSecret(secret):
                self.secrets[secret["metadata"]["name"]] = secret
            case DeleteSecret(secret):
                del self.secrets[secret["metadata"]["name"]]

    def finish(self, fails: bool) -> None:
        """kind ends, well or not; a creation that fails may leave something."""
        if self.work is None or self.work.done:
            return
        verb, name = self.doing
        if verb == "create" and name in self.clusters:
            problem: KindError | None = KindError("AlreadyExists", "it is there")
        elif fails or self.down:
            problem = DOWN
            if verb == "create" and not self.down:
                self.clusters[name] = "u"
        else:
            problem = None
            if verb == "create":
                self.clusters[name] = "u"
            elif self.clusters.get(name) == "u":
                del self.clusters[name]
        self.work = JobState(self.work.action, True, problem, "")

    def crash(self) -> None:
        """Of what is not written down, nothing is left; what kind had begun may be there."""
        if self.work is not None and not self.work.done and self.doing[0] == "create":
            self.clusters.setdefault(self.doing[1], "u")
        self.work, self.listing = None, None


EVENTS = (
    "pass",
    "pass",
    "step",
    "finish",
    "fail",
    "crash",
    "down",
    "up",
    "foreign",
    "lose",
    "steal",
    "rename",
    "secret",
)


@settings(max_examples=300)
@given(st.lists(st.sampled_from(EVENTS), max_size=30), st.booleans(), st.booleans(), st.booleans())
def test_every_life_ends_well(events: list[str], begun: bool, deleted: bool, replaces: bool) -> None:
    obj = kind_cluster("a", replacePolicy="Replace" if replaces else "Refuse")
    obj["metadata"] |= {"namespace": "default", "uid": "u", "generation": 1}
    world = World(obj)
    for event in [*(("pass", "finish", "pass") if begun else ()), *events]:
        happen(world, event)
    foreign = {name for name, whose in world.clusters.items() if whose != "u"}
    world.down = False
    if deleted and world.obj is not None:
        world.obj = {**world.obj, "metadata": {**world.obj["metadata"], "deletionTimestamp": NOW}}
        if not world.obj["metadata"].get("finalizers"):
            world.obj = None
    for _ in range(PASSES):
        rest(world)
        world.listing = frozenset(world.clusters)
        world.pass_(100)
        world.finish(fails=False)
    assert {name for name, whose in world.clusters.items() if whose != "u"} == foreign
    ours = {name for name, whose in world.clusters.items() if whose == "u"}
    if world.obj is None:
        assert (ours, world.secrets) == (set(), {})
        return
    claim = world.obj["status"].get("cluster")
    wanted = kindcluster.kind_cluster_name(world.obj)
    if claim is None:
        assert (ours, wanted in foreign) == (set(), True)
        return
    assert claim["state"] == "Created"
    assert world.obj["status"]["ready"]
    assert ours == {claim["name"]}
    assert set(world.secrets) == {f"{claim['name']}-config"}
    assert claim["name"] == wanted or not replaces or wanted in foreign


def happen(world: World, event: str) -> None:
    if event == "pass":
        world.pass_(100)
    elif event == "step":
        world.pass_(2)
    elif event in ("finish", "fail"):
        world.finish(fails=event == "fail")
    elif event == "crash":
        world.crash()
    elif event in ("down", "up"):
        world.down = event == "down"
    elif event == "foreign":
        # Not while kind makes one of that name: then kind itself would refuse.
        if world.work is None:
            world.clusters.setdefault("a", "somebody")
    elif event == "lose":
        world.clusters = {name: whose for name, whose in world.clusters.items() if whose != "u"}
    elif event == "steal":
        # Not between the end of a creation and the first read of its kubeconfig: that cluster would count as ours.
        if world.work is not None:
            return
        world.clusters = dict.fromkeys(world.clusters, "somebody")
    elif event == "secret":
        world.secrets = {}
    elif world.obj is not None:
        metadata = {**world.obj["metadata"], "generation": world.obj["metadata"]["generation"] + 1}
        name = "b" if kindcluster.kind_cluster_name(world.obj) == "a" else "a"
        world.obj = {**world.obj, "metadata": metadata, "spec": {**world.obj["spec"], "clusterName": name}}


def rest(world: World) -> None:
    """Pauses are over."""
    if world.obj is not None and "retry" in (world.obj.get("status") or {}):
        retry = {**world.obj["status"]["retry"], "after": NOW}
        world.obj = {**world.obj, "status": {**world.obj["status"], "retry": retry}}
