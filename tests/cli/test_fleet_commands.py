"""Commands that read a fleet: tree, top, logs, status. Each on a hub with two clusters and a split Deployment."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
import yaml

from shoal.assemble.commands.top import ClusterRow, FleetSummary, WorkerRow
from shoal.assemble.commands.tree import Tree
from shoal.assemble.commands.tree_model import TypedObject, build_tree, by_owner, readiness_of
from shoal.cli import top, tree
from shoal.cli.options.hub import CommandError
from shoal.cli.status import _cluster_row, _deployment_row, _managed_cluster_row, _worker_row
from shoal.cli.timeline import (
    EVENTS,
    TimelineEntry,
    TimelineRequest,
    event_entry,
    format_entry,
    object_entries,
    print_timeline,
)
from shoal.client.rest import GroupVersionResource
from tests.cli.conftest import Run, found, said
from tests.serving import Cluster, Server

Object = dict[str, Any]
MAPS = GroupVersionResource("", "v1", "configmaps")


def lines(text: str) -> list[str]:
    """The first column."""
    return [re.split(r"(?<=\S)  ", row)[0] for row in text.splitlines()[1:]]


# --- tree ---


def test_a_tree_goes_through_leaves_into_clusters(run: Run) -> None:
    text = said(run("tree", "deploy", "web"))
    assert text.splitlines()[0].split() == ["OBJECT", "WHERE", "READY", "AGE"]
    rows = [row.split() for row in text.splitlines()[1:]]
    assert "Deployment/web*" in rows[0]
    copies = {(row[-3], row[-2]) for row in rows if "copy" in row}
    assert copies == {("east", "1/1"), ("west", "1/1")}
    pods = [row for row in rows if any("Pod/" in cell for cell in row)]
    assert [(row[-3], row[-2]) for row in pods] == [("east", "Running"), ("west", "Running")]


def test_a_tree_goes_upwards(run: Run) -> None:
    text = said(run("tree", "deployments.apps", "web--east"))
    assert lines(text)[:2] == ["Deployment/web", "└─ Deployment/web--east*"]
    assert "web--west" not in text, "only the way to the one that was asked for"
    above = said(run("tree", "mc", "east"))
    assert lines(above)[:2] == ["Worker/worker-1", "└─ hosted ManagedCluster/east*"]
    assert "registered Cluster/east" in above
    registered = said(run("tree", "clusters.workload.kcp.dev", "east"))
    assert lines(registered)[:2] == ["Worker/worker-1", "└─ hosted ManagedCluster/east"]


def test_a_tree_from_below(run: Run) -> None:
    text = said(run("tree", "deploy", "web"))
    pod = next(word for word in text.split() if word.startswith("Pod/web--west-"))
    climbed = lines(said(run("tree", "pod", pod.removeprefix("Pod/"), "--cluster", "west")))
    assert climbed[:3] == ["Deployment/web", "└─ Deployment/web--west", "   └─ copy Deployment/web--west"]
    assert climbed[-1].endswith(f"└─ {pod}*")
    missing = run("tree", "pod", "x", "--cluster", "nobody").exception
    assert str(missing) == 'clusters.workload.kcp.dev "nobody" not found'


def test_a_tree_for_programs(run: Run) -> None:
    whole = found(run("tree", "worker", "worker-1", "-o", "json"))
    assert isinstance(whole, dict)
    assert whole["notes"] == []
    assert [(child["how"], child["name"]) for child in whole["top"]["children"]] == [
        ("hosted", "east"),
        ("hosted", "west"),
    ]
    assert yaml.safe_load(said(run("tree", "worker", "worker-1", "-o", "yaml")))["top"]["asked"] is True


WAITING = ("RunContainerError", "CreateContainerConfigError", "ImagePullBackOff", "ErrImagePull", "CrashLoopBackOff")


@pytest.mark.parametrize("reason", WAITING)
@pytest.mark.parametrize(("field", "before"), [("containerStatuses", ""), ("initContainerStatuses", "Init:")])
def test_a_tree_shows_why_containers_do_not_start(reason: str, field: str, before: str) -> None:
    """As `kubectl get pods` does."""
    metadata = {"name": "a", "uid": "u", "namespace": "default"}
    status = {"phase": "Pending", field: [{"name": "c", "state": {"waiting": {"reason": reason}}}]}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}, "status": status}
    top_, _ = build_tree(TypedObject("Pod", pod), {})
    assert top_.ready == f"{before}{reason}"
    pod["status"] = {"phase": "Running", "containerStatuses": [{"name": "c", "ready": True, "state": {"running": {}}}]}
    top_, _ = build_tree(TypedObject("Pod", pod), {})
    assert top_.ready == "Running"


@pytest.mark.parametrize(
    ("kind", "name", "complaint"),
    [
        ("nothing", "x", "the server has no kind 'nothing'"),
        ("deploy", "nobody", 'deployments.apps "nobody" not found'),
    ],
)
def test_no_tree(run: Run, kind: str, name: str, complaint: str) -> None:
    for command in ("tree", "logs"):
        result = run(command, kind, name)
        assert isinstance(result.exception, CommandError)
        assert str(result.exception) == complaint
        assert result.exception.hint


def obj(name: str, *owners: str, **more: Any) -> TypedObject:
    references = [{"uid": f"u-{owner}", "name": owner} for owner in owners]
    return TypedObject("Thing", {"metadata": {"name": name, "uid": f"u-{name}", "ownerReferences": references}, **more})


def test_two_owners_and_circles() -> None:
    things = [obj("a", "c"), obj("b", "a"), obj("c", "a", "b")]
    top_, grown = build_tree(things[0], by_owner(things))
    assert [row.removesuffix("hub    -      -").rstrip() for row in tree.tree_lines(Tree(top_), 0.0)[1:]] == [
        "Thing/a",
        "├─ Thing/b",
        "│  └─ Thing/c",
        "│     └─ Thing/a",
        "└─ Thing/c",
        "   └─ Thing/a",
    ]
    assert len(grown) == 6


@pytest.mark.parametrize(
    ("more", "ready"),
    [
        ({"spec": {"replicas": 3}, "status": {"readyReplicas": 1}}, ("1/3", "")),
        ({"status": {"phase": "Running"}}, ("Running", "")),
        (
            {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Waits"}]}},
            ("False", "Waits"),
        ),
        ({}, ("", "")),
        ({"spec": "text"}, ("", "")),
    ],
)
def test_how_an_object_is(more: Object, ready: tuple[str, str]) -> None:
    assert readiness_of(obj("a", **more).obj) == ready
    going = obj("a", **more).obj
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert readiness_of(going)[0] in ("Terminating", "")


# --- top ---


def test_top_counts_the_fleet(run: Run) -> None:
    text = said(run("top", "--once"))
    assert text.splitlines()[0] == "1/1 workers, 2/2 clusters, 2/2 replicas, 2 nodes, 0.16 per hour"
    rows = [row.split() for row in text.splitlines()]
    assert ["worker-1", "Running", "2/10", "-"] in rows
    east = next(row for row in rows if row[:1] == ["east"])
    assert (east[1:5], east[-1]) == (["Ready", "worker-1", "1/1", "1/1"], "0.08")
    whole = found(run("top", "-o", "json"))
    assert isinstance(whole, dict)
    assert (whole["nodes"], whole["cost"], [row["problem"] for row in whole["clusters"]]) == (2, 0.16, ["", ""])


def test_top_of_what_is_not_known() -> None:
    fleet = FleetSummary(
        [WorkerRow("w", "Lost", 1, 4, "eu")], [ClusterRow("c", phase="Ready", problem="gone")], waiting=2
    )
    assert top.summary_lines(fleet) == [
        "0/1 workers, 1/1 clusters, 2 waiting for a worker, 0/0 replicas, 0 nodes, 0.00 per hour",
        "",
        "WORKER  PHASE  CLUSTERS  LOCATION",
        "w       Lost   1/4       eu",
        "",
        "CLUSTER  STATE        WORKER  REPLICAS  NODES  CPU  COST/HR",
        "c        Unreachable  -       0/0       -      -    -",
    ]
    assert top.summary_lines(FleetSummary()) == ["0/0 workers, 0/0 clusters, 0/0 replicas, 0 nodes, 0.00 per hour"]


# --- logs of an object ---


def test_a_timeline_is_of_events_and_status(run: Run, fleet: Server) -> None:
    root = Cluster(fleet, "root")
    uid = root.get("/apis/apps/v1/namespaces/default/deployments/web").ok()["metadata"]["uid"]
    about = {"kind": "Deployment", "name": "web", "namespace": "default", "uid": uid}
    event = {"involvedObject": about, "type": "Warning", "reason": "Test", "message": "told\nhere", "count": 3}
    event |= {"metadata": {"name": "web.told"}, "lastTimestamp": "2040-01-01T00:00:00Z"}
    root.post("/api/v1/namespaces/default/events", event | {"source": {"component": "tester"}}).ok()
    root.close()
    text = said(run("logs", "deploy", "web"))
    assert text.splitlines()[0].endswith("Normal   Created")
    assert text.splitlines()[-1].endswith("Warning  Test: told here (3 times)  [tester]")
    assert "Available is True" in text
    last = found(run("logs", "deploy", "web", "--tail", "1", "-o", "json"))
    assert last == [
        {"at": 2208988800.0, "type": "Warning", "reason": "Test", "message": "told here", "by": "tester", "count": 3}
    ]


def test_a_timeline_goes_on(fleet: Server) -> None:
    client = fleet.shoal.client("test")

    async def follow() -> list[str]:
        told = asyncio.Queue[str]()
        asked = TimelineRequest("cm", "followed", "default", follow=True)
        await client.create(MAPS, {"metadata": {"name": "followed"}}, "default")
        following = asyncio.create_task(print_timeline(client, asked, lambda entry: told.put_nowait(entry.message)))
        said = [await told.get()]
        for number in ("one", "two"):
            about = {"kind": "ConfigMap", "name": "followed", "namespace": "default"}
            body = {"metadata": {"name": f"followed.{number}"}, "involvedObject": about, "message": number}
            await client.create(EVENTS, body, "default")
            said.append(await told.get())
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return said

    assert fleet.call(follow()) == ["", "one", "two"]


def test_entries() -> None:
    status = {
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "No", "message": "why", "lastTransitionTime": "never"},
            {"type": "Done", "status": "True", "lastTransitionTime": "1970-01-01T00:00:09Z"},
        ],
        "errors": [{"time": "1970-01-01T00:00:05Z", "reason": "Broke", "message": "it"}],
    }
    metadata = {"name": "a", "creationTimestamp": "1970-01-01T00:00:01Z", "deletionTimestamp": "1970-01-01T00:00:10Z"}
    assert object_entries({"metadata": metadata | {"finalizers": ["f"]}, "status": status}) == [
        TimelineEntry(1.0, "Normal", "Created", ""),
        TimelineEntry(10.0, "Normal", "Deleted", "waiting for finalizers f"),
        TimelineEntry(9.0, "Normal", "Done", "Done is True", "status"),
        TimelineEntry(5.0, "Warning", "Broke", "it", "status"),
    ]
    series = {"count": 7, "lastObservedTime": "1970-01-01T00:00:03.500000Z"}
    one = event_entry({"metadata": {}, "series": series, "note": "x", "reportingComponent": "me"})
    assert one == TimelineEntry(3.5, "Normal", "-", "", "me", 7)
    assert format_entry(one).endswith("  Normal   - (7 times)  [me]")


# --- status ---


def ageless(tables: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """A second may pass between two commands."""
    return {title: [{**row, "age": ""} for row in rows] for title, rows in tables.items()}


def test_status_in_every_form(run: Run) -> None:
    text = said(run("status"))
    assert text.splitlines()[0] == "workers:"
    assert ["default/web", "2/2"] in [row.split() for row in text.splitlines()]
    whole = json.loads(said(run("status", "-o", "json")))
    assert ageless(whole) == ageless(yaml.safe_load(said(run("status", "-o", "yaml"))))
    assert set(whole["managed clusters"][0]) >= {"name", "phase", "worker", "problem", "version", "nodes", "age"}
    assert "FREE CPU" in said(run("status", "-o", "wide"))


def test_status_says_what_is_wrong() -> None:
    def obj(kind: str, message: str, status: str = "Unknown", **more: Any) -> dict[str, Any]:
        condition = {"type": kind, "status": status, "reason": "Silent", "message": message}
        return {"metadata": {"namespace": "default", "name": "x"}, "status": {"conditions": [condition], **more}}

    assert _worker_row(obj("Ready", "no heartbeat"))["problem"] == "no heartbeat"
    assert _worker_row(obj("Ready", "", "True"))["problem"] == ""
    lost = obj("WorkerReady", "worker b: no heartbeat", phase="Unknown", errors=[{"message": "an old one"}])
    assert _managed_cluster_row(lost)["problem"] == "worker b: no heartbeat"
    assert _managed_cluster_row(obj("WorkerReady", "", "True", errors=[{"message": "a"}]))["problem"] == "a"
    assert _cluster_row(obj("Ready", ""))["problem"] == "Silent"
    assert _deployment_row(obj("ClustersReporting", "west does not report", "False"))["problem"] == (
        "west does not report"
    )
