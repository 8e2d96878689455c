"""Reading with kubectl: get in every form, watch, wait, describe, explain, discovery."""

from __future__ import annotations

import json
import select
from typing import IO

from tests.real.programs import Kubectl
from tests.serving import WIDGETS, Cluster, config_map, widget


def _five(cluster: Cluster) -> None:
    for number, name in enumerate(("a", "b", "c", "d", "e"), 1):
        color = "red" if number % 2 else "blue"
        made = widget(name, number, labels={"tier": color, "name": name})
        made["spec"]["color"] = color
        cluster.post(WIDGETS, made).ok()


def test_forms(kubectl: Kubectl, widgets: Cluster) -> None:
    _five(widgets)
    table = kubectl.rows("get", "widgets")
    assert table[0] == ["NAME", "SIZE", "AGE"]
    assert [row[:2] for row in table[1:]] == [["a", "1"], ["b", "2"], ["c", "3"], ["d", "4"], ["e", "5"]]
    assert kubectl.rows("get", "wd", "a", "-o", "wide")[0] == ["NAME", "SIZE", "COLOR", "AGE"]
    assert kubectl.rows("get", "widget.v1.example.com/a", "-o", "wide")[1][:3] == ["a", "1", "red"]
    assert kubectl.rows("get", "widgets", "-A", "--no-headers")[0][:3] == ["default", "a", "1"]
    labels = kubectl.rows("get", "widget", "b", "--show-labels", "-L", "tier")
    assert labels[0] == ["NAME", "SIZE", "AGE", "TIER", "LABELS"]
    assert labels[1][3:] == ["blue", "name=b,tier=blue"]
    one = kubectl.json("get", "widget", "a")
    assert one["spec"] == {"size": 1, "color": "red", "replicas": 1}
    assert "managedFields" not in one["metadata"]
    assert kubectl("get", "widget", "a", "-o", "yaml").startswith(
        "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n"
    )
    assert kubectl.json("get", "widgets")["kind"] == "List"
    assert kubectl("get", "widgets", "-o", "jsonpath={.items[?(@.spec.size>3)].metadata.name}") == "d e"
    columns = "-o=custom-columns=N:.metadata.name,C:.spec.color,X:.spec.none"
    assert kubectl.rows("get", "widget", "a", columns) == [["N", "C", "X"], ["a", "red", "<none>"]]
    assert kubectl("get", "widgets,configmaps", "-o", "name").split()[0] == "widget.example.com/a"
    assert kubectl.fails("get", "widget", "z") == 'Error from server (NotFound): widgets.example.com "z" not found\n'


def test_selection(kubectl: Kubectl, widgets: Cluster) -> None:
    _five(widgets)

    def names(*args: str) -> list[str]:
        return [row[0] for row in kubectl.rows("get", "widgets", "--no-headers", *args)]

    assert names("--chunk-size=2") == ["a", "b", "c", "d", "e"]
    assert names("-l", "tier=blue") == ["b", "d"]
    assert names("-l", "name in (a, b),tier!=red") == ["b"]
    assert names("-l", "!missing") == ["a", "b", "c", "d", "e"]
    assert names("--field-selector", "metadata.name=c") == ["c"]
    assert names("--field-selector", "spec.color=red,metadata.name!=a") == ["c", "e"]
    assert names("--sort-by", "{.spec.color}")[:2] == ["b", "d"]
    assert "field label not supported: spec.size" in kubectl.fails("get", "widgets", "--field-selector=spec.size=1")
    paged = kubectl.run("get", "widgets", "--chunk-size=2", "-v=6")
    assert paged.stderr.count("limit=2") == 3, paged.stderr


def test_categories(kubectl: Kubectl, widgets: Cluster) -> None:
    widgets.post("/api/v1/namespaces", {"metadata": {"name": "x"}}).ok()
    widgets.post(WIDGETS.replace("default", "x"), widget("one", 1)).ok()
    for category in ("all", "toys"):
        assert kubectl.rows("get", category, "-n", "x")[1][:2] == ["one", "1"]
    assert kubectl.run("get", "all").stderr == "No resources found in default namespace.\n"
    assert kubectl.rows("api-resources", "--categories=toys", "--no-headers") == [
        ["widgets", "wd", "example.com/v1", "true", "Widget"]
    ]


def _line(stream: IO[str] | None) -> list[str]:
    assert stream is not None
    return stream.readline().split()


def test_watch(kubectl: Kubectl, widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("one", 1)).ok()
    with kubectl.running("get", "widgets", "-w", "--output-watch-events") as watching:
        assert _line(watching.stdout) == ["EVENT", "NAME", "SIZE", "AGE"]
        assert _line(watching.stdout)[:3] == ["ADDED", "one", "1"]
        widgets.post(WIDGETS, widget("two", 2)).ok()
        widgets.patch(f"{WIDGETS}/one", {"spec": {"size": 3}}).ok()
        widgets.delete(f"{WIDGETS}/two").ok()
        assert [_line(watching.stdout)[:3] for _ in range(3)] == [
            ["ADDED", "two", "2"],
            ["MODIFIED", "one", "3"],
            ["DELETED", "two", "2"],
        ]
    with kubectl.running("get", "widget", "one", "-w", "-o", "jsonpath={.spec.size}{'\\n'}") as watching:
        assert _line(watching.stdout) == ["3"]
        assert watching.stdout is not None
        # kubectl prints, watches from "now" and drops the first event: a write before its watch is never printed.
        size = 3
        while not select.select([watching.stdout], [], [], 1)[0]:
            size += 1
            widgets.patch(f"{WIDGETS}/one", {"spec": {"size": size}}).ok()
        assert 3 < int(_line(watching.stdout)[0]) <= size


def test_wait(kubectl: Kubectl, widgets: Cluster) -> None:
    widgets.post(WIDGETS, widget("one", 1)).ok()
    with kubectl.running("wait", "--for=jsonpath={.status.phase}=Ready", "widget/one", "--timeout=50s") as waiting:
        for phase in ("Starting", "Ready"):
            widgets.patch(f"{WIDGETS}/one/status", {"status": {"phase": phase}}).ok()
        assert _line(waiting.stdout) == ["widget.example.com/one", "condition", "met"]
        assert waiting.wait(60) == 0
    with kubectl.running("wait", "--for=condition=Ready", "widget", "--all", "--timeout=50s") as waiting:
        conditions = [{"type": "Ready", "status": "True"}]
        widgets.patch(f"{WIDGETS}/one/status", {"status": {"conditions": conditions}}).ok()
        assert waiting.wait(60) == 0
    late = kubectl.fails("wait", "--for=jsonpath={.status.phase}=Gone", "widget/one", "--timeout=100ms")
    assert late == "error: timed out waiting for the condition on widgets/one\n"


def _built(cluster: Cluster) -> None:
    """A Widget and an Event about it."""
    metadata = cluster.post(WIDGETS, widget("one", 1)).ok()["metadata"]
    about = {key: metadata[key] for key in ("name", "namespace", "uid")}
    event = {
        "metadata": {"name": "one.1"},
        "involvedObject": {"kind": "Widget", "apiVersion": "example.com/v1", **about},
        "reason": "Built",
        "message": "the widget is built",
        "type": "Normal",
        "firstTimestamp": metadata["creationTimestamp"],
        "lastTimestamp": metadata["creationTimestamp"],
        "count": 1,
        "source": {"component": "builder"},
    }
    cluster.post("/api/v1/namespaces/default/events", event).ok()


def test_describe_and_events(kubectl: Kubectl, widgets: Cluster) -> None:
    _built(widgets)
    widgets.post("/api/v1/namespaces/default/configmaps", config_map("settings", {"key": "value"})).ok()
    said = kubectl("describe", "widget", "one")
    assert said.startswith("Name:         one\nNamespace:    default\n")
    assert "Spec:\n  Replicas:  1\n  Size:      1\n" in said
    last = said.splitlines()[-1].split()
    assert (last[:2], last[3:]) == (["Normal", "Built"], ["builder", "the", "widget", "is", "built"])
    table = kubectl.rows("get", "events")
    assert table[0] == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert table[1][1:] == ["Normal", "Built", "widget/one", "the", "widget", "is", "built"]
    assert kubectl.rows("events", "--for", "widget/one")[1][1:4] == ["Normal", "Built", "Widget/one"]
    settings = kubectl("describe", "configmap", "settings")
    assert "Data\n====\nkey:\n----\nvalue\n" in settings
    assert "Status:       Active\n" in kubectl("describe", "namespace", "default")
    assert ["Kind:", "Widget"] in kubectl.rows("describe", "crd", "widgets.example.com")
    assert ["configmaps", "[]", "[]", "[get", "list", "watch]"] in kubectl.rows("describe", "clusterrole", "view")


def test_events_are_the_same_in_both_groups(kubectl: Kubectl, widgets: Cluster) -> None:
    _built(widgets)
    table = kubectl.rows("get", "events.v1.events.k8s.io")
    assert table[1][1:] == ["Normal", "Built", "widget/one", "the", "widget", "is", "built"]
    about_others = kubectl.run("get", "events.v1.events.k8s.io", "--field-selector=regarding.name=two")
    assert about_others.stderr == "No resources found in default namespace.\n"


def test_explain(kubectl: Kubectl, widgets: Cluster) -> None:
    widget_said = kubectl("explain", "widget")
    assert "VERSION:    v1\n" in widget_said
    assert "Widget is a thing to build with." in widget_said
    color = kubectl("explain", "widget.spec.color")
    assert "FIELD: color <string>" in color
    assert "Color is what it is painted in." in color
    assert "size\t<integer> -required-" in kubectl("explain", "widgets.spec")
    recursive = kubectl("explain", "widget", "--recursive")
    assert "  spec\t<Object>\n    color\t<string>\n" in recursive
    assert "      count\t<integer>\n      name\t<string> -required-\n" in recursive
    assert "FIELD: data <map[string]string>" in kubectl("explain", "configmap.data")
    assert "uid\t<string> -required-" in kubectl("explain", "configmap.metadata.ownerReferences")
    assert "FIELDS:\n  aggregationRule\t<AggregationRule>\n" in kubectl("explain", "clusterrole", "--recursive")
    assert kubectl.fails("explain", "widget.spec.weight") == 'error: field "weight" does not exist\n'


def test_discovery(kubectl: Kubectl, widgets: Cluster) -> None:
    wide = kubectl.rows("api-resources", "-o", "wide", "--no-headers")
    verbs = "create,delete,deletecollection,get,list,patch,update,watch"
    assert ["configmaps", "cm", "v1", "true", "ConfigMap", verbs] in wide
    found = next(row for row in wide if row[0] == "widgets")
    assert [*found[:5], found[6]] == ["widgets", "wd", "example.com/v1", "true", "Widget", "all,toys"]
    assert sorted(found[5].split(",")) == verbs.split(",")
    assert kubectl("api-resources", "--namespaced=false", "--api-group=apiextensions.k8s.io", "-o", "name") == (
        "customresourcedefinitions.apiextensions.k8s.io\n"
    )
    versions = kubectl("api-versions").split()
    assert {"v1", "example.com/v1", "rbac.authorization.k8s.io/v1"} <= set(versions)
    assert kubectl("get", "--raw", "/healthz") == "ok"
    assert kubectl("get", "--raw", "/readyz?verbose").endswith("readyz check passed\n")
    raw = json.loads(kubectl("get", "--raw", "/api/v1/namespaces/default"))
    assert raw["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}
    version = kubectl.json("version")
    assert version["serverVersion"]["gitVersion"].startswith("v1.")
    assert "Server Version: v1." in kubectl("version", *(("--short",) if kubectl.minor < 28 else ()))
