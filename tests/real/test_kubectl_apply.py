"""Writing with kubectl: apply in both ways, create, replace, edit, patch, scale, label, diff, delete."""

from __future__ import annotations

from typing import Any

import pytest

from tests.real.programs import Kubectl, definition
from tests.serving import Cluster, config_map, widget

Object = dict[str, Any]
CRD = "customresourcedefinition.apiextensions.k8s.io/widgets.example.com"


def test_apply(kubectl: Kubectl) -> None:
    """A definition and its objects, from the client; the second time nothing changes."""
    assert kubectl("apply", "-f", "-", given=definition()) == f"{CRD} created\n"
    assert kubectl("wait", "--for=condition=established", "crd/widgets.example.com") == f"{CRD} condition met\n"
    assert kubectl("apply", "-f", "-", given=definition()) == f"{CRD} unchanged\n"
    both: list[Object] = [widget("one", 1), config_map("settings", {"a": "1", "b": "2"})]
    assert kubectl("apply", "-f", "-", given=both) == "widget.example.com/one created\nconfigmap/settings created\n"
    assert kubectl("apply", "-f", "-", given=both) == "widget.example.com/one unchanged\nconfigmap/settings unchanged\n"
    both = [widget("one", 2), config_map("settings", {"a": "3"})]
    said = "widget.example.com/one configured\nconfigmap/settings configured\n"
    assert kubectl("apply", "-f", "-", given=both) == said
    assert kubectl("get", "widget/one", "-o", "jsonpath={.spec.size}") == "2"
    assert kubectl.json("get", "configmap", "settings")["data"] == {"a": "3"}, "what is no longer applied goes"
    assert kubectl("apply", "view-last-applied", "widget/one", "-o", "json").count('"size": 2') == 1


def test_apply_server_side(kubectl: Kubectl) -> None:
    server_side = ("apply", "--server-side", "-f", "-")
    assert kubectl(*server_side, given=definition()) == f"{CRD} serverside-applied\n"
    kubectl("wait", "--for=condition=established", "crd/widgets.example.com")
    one = widget("one", 1)
    one["spec"]["parts"] = [{"name": "wheel", "count": 4}]
    assert kubectl(*server_side, given=one) == "widget.example.com/one serverside-applied\n"
    before = kubectl.json("get", "widget", "one", "--show-managed-fields")
    kubectl(*server_side, given=one)
    assert kubectl.json("get", "widget", "one", "--show-managed-fields") == before, "applying the same is no write"
    assert [(m["manager"], m["operation"]) for m in before["metadata"]["managedFields"]] == [("kubectl", "Apply")]

    other = widget("one", 7)
    other["spec"]["parts"] = [{"name": "door", "count": 2}]
    complaint = kubectl.fails(*server_side, "--field-manager=other", given=other)
    assert complaint.startswith('error: Apply failed with 1 conflict: conflict with "kubectl": .spec.size\n')
    assert "--force-conflicts" in complaint
    kubectl(*server_side, "--field-manager=other", "--force-conflicts", given=other)
    spec = kubectl.json("get", "widget", "one")["spec"]
    assert (spec["size"], spec["parts"]) == (7, [{"name": "wheel", "count": 4}, {"name": "door", "count": 2}])
    kubectl(*server_side, "--force-conflicts", given=widget("one", 1))
    assert kubectl.json("get", "widget", "one")["spec"]["parts"] == [{"name": "door", "count": 2}]


def test_apply_migrates_to_server_side(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=config_map("settings", {"a": "1", "b": "2"}))
    kubectl("apply", "--server-side", "-f", "-", given=config_map("settings", {"a": "1"}))
    found = kubectl.json("get", "configmap", "settings", "--show-managed-fields")
    assert found["data"] == {"a": "1"}, "fields of the client-side apply belong to kubectl still"
    managers = {m["manager"] for m in found["metadata"]["managedFields"]}
    assert managers == {"kubectl", "kubectl-last-applied"}


def test_apply_prune(kubectl: Kubectl) -> None:
    labels = {"app": "pruned"}
    both = [config_map("keep", {"a": "b"}, labels=labels), config_map("drop", {"a": "b"}, labels=labels)]
    prune = ("apply", "-f", "-", "--prune", "-l", "app=pruned", "--prune-allowlist=core/v1/ConfigMap")
    kubectl(*prune, given=both)
    assert kubectl(*prune, given=both[:1]).splitlines() == ["configmap/keep unchanged", "configmap/drop pruned"]
    assert kubectl("get", "configmap", "-o", "name") == "configmap/keep\n"


def test_validation(kubectl: Kubectl, widgets: Cluster) -> None:
    """Unknown fields, broken values and unknown kinds, in the words kubectl prints."""
    wrong = widget("one", 1)
    wrong["spec"]["sise"] = 2
    strict = (
        'Error from server (BadRequest): error when creating "STDIN": Widget in version "v1" cannot be handled as a '
        'Widget: strict decoding error: unknown field "spec.sise"\n'
    )
    assert kubectl.fails("apply", "-f", "-", given=wrong) == strict
    assert kubectl.fails("create", "-f", "-", given=wrong) == strict
    warned = kubectl.run("create", "--validate=warn", "-f", "-", given=wrong)
    assert (warned.returncode, warned.stderr) == (0, 'Warning: unknown field "spec.sise"\n')
    assert kubectl("create", "--validate=ignore", "-f", "-", given=wrong | {"metadata": {"name": "two"}})
    assert "sise" not in kubectl.json("get", "widget", "two")["spec"]
    small = kubectl.fails("apply", "-f", "-", given=widget("small", 0))
    assert small == (
        'The Widget "small" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or '
        "equal to 1\n"
    )
    unknown = kubectl.fails("apply", "-f", "-", given=config_map("x") | {"date": {}})
    assert unknown == (
        'Error from server (BadRequest): error when creating "STDIN": ConfigMap in version "v1" cannot be handled as a '
        'ConfigMap: strict decoding error: unknown field "date"\n'
    )
    gadget = kubectl.fails("apply", "-f", "-", given=widget("x") | {"kind": "Gadget"})
    assert 'no matches for kind "Gadget" in version "example.com/v1"' in gadget
    assert kubectl.fails("create", "-f", "-", given=widget("one")) == (
        'Error from server (AlreadyExists): error when creating "STDIN": widgets.example.com "one" already exists\n'
    )


def test_dry_run_and_diff(kubectl: Kubectl, widgets: Cluster) -> None:
    said = kubectl("apply", "--dry-run=server", "-f", "-", given=widget("one", 1))
    assert said == "widget.example.com/one created (server dry run)\n"
    assert kubectl("get", "widgets", "-o", "name") == ""
    for name, flags in (("one", []), ("two", ["--server-side"])):
        kubectl("apply", *flags, "-f", "-", given=widget(name, 1))
        same = kubectl.run("diff", *flags, "-f", "-", given=widget(name, 1))
        assert (same.returncode, same.stdout) == (0, ""), same.stdout + same.stderr
        differs = kubectl.run("diff", *flags, "-f", "-", given=widget(name, 2))
        assert differs.returncode == 1, differs.stderr
        lines = differs.stdout.splitlines()
        assert {"-  size: 1", "+  size: 2", "-  generation: 1", "+  generation: 2"} <= set(lines)
    new = kubectl.run("diff", "-f", "-", given=widget("new", 1))
    assert new.returncode == 1
    assert "+  name: new" in new.stdout.splitlines()
    deleted = kubectl("delete", "--dry-run=server", "widget", "one")
    assert deleted.startswith('widget.example.com "one" deleted')
    assert kubectl("get", "widgets", "-o", "jsonpath={.items[*].spec.size}") == "1 1"


def test_edit_and_replace(kubectl: Kubectl, widgets: Cluster) -> None:
    kubectl("create", "-f", "-", given=widget("one", 1))
    editor = {"EDITOR": "sed -i 's/size: 1/size: 5/'"}
    assert kubectl("edit", "widget", "one", env=editor) == "widget.example.com/one edited\n"
    again = kubectl.run("edit", "widget", "one", env=editor)
    assert (again.returncode, again.stderr) == (0, "Edit cancelled, no changes made.\n")
    kubectl("create", "-f", "-", given=config_map("settings", {"a": "before"}))
    assert kubectl("edit", "cm", "settings", env={"EDITOR": "sed -i s/before/after/"}) == "configmap/settings edited\n"
    assert kubectl.json("get", "cm", "settings")["data"] == {"a": "after"}
    replaced = kubectl.json("get", "widget", "one")
    assert replaced["spec"]["size"] == 5
    replaced["spec"]["size"] = 6
    assert kubectl("replace", "-f", "-", given=replaced) == "widget.example.com/one replaced\n"
    assert kubectl.fails("replace", "-f", "-", given=replaced) == (
        'Error from server (Conflict): error when replacing "STDIN": Operation cannot be fulfilled on '
        'widgets.example.com "one": the object has been modified; please apply your changes to the latest version and '
        "try again\n"
    )
    kubectl("replace", "--force", "-f", "-", given=widget("one", 9))
    found = kubectl.json("get", "widget", "one")
    assert (found["spec"]["size"], found["metadata"]["uid"] != replaced["metadata"]["uid"]) == (9, True)


def test_patch(kubectl: Kubectl, widgets: Cluster) -> None:
    kubectl("create", "-f", "-", given=widget("one", 1))
    merged = kubectl("patch", "widget", "one", "--type=merge", "-p", '{"spec":{"color":"red"}}')
    assert merged == "widget.example.com/one patched\n"
    assert kubectl("patch", "widget", "one", "--type=merge", "-p", '{"spec":{"color":"red"}}') == (
        "widget.example.com/one patched (no change)\n"
    )
    kubectl("patch", "widget", "one", "--type=json", "-p", '[{"op":"replace","path":"/spec/size","value":8}]')
    kubectl(
        "patch",
        "widget",
        "one",
        "--subresource=status",
        "--type=merge",
        "-p",
        '{"status":{"ok":true},"spec":{"size":99}}',
    )
    found = kubectl.json("get", "widget", "one")
    assert (found["spec"], found["status"]) == ({"size": 8, "color": "red", "replicas": 1}, {"ok": True})
    assert found["metadata"]["generation"] == 3, "status is no new generation"
    strategic = kubectl.fails("patch", "widget", "one", "-p", "{}")
    assert strategic == (
        "error: application/strategic-merge-patch+json is not supported by example.com/v1, Kind=Widget: the body of "
        "the request was in an unknown format - accepted media types include: application/json-patch+json, "
        "application/merge-patch+json, application/apply-patch+yaml\n"
    )
    kubectl("create", "configmap", "settings", "--from-literal=a=1", "--from-literal=b=2")
    kubectl("patch", "configmap", "settings", "--type=strategic", "-p", '{"data":{"a":null,"c":"3"}}')
    assert kubectl.json("get", "cm", "settings")["data"] == {"b": "2", "c": "3"}
    kubectl("patch", "namespace", "default", "-p", '{"metadata":{"labels":{"team":"blue"}}}')
    assert kubectl("get", "ns", "-l", "team=blue", "-o", "name") == "namespace/default\n"
    gone = kubectl.fails("patch", "widget", "gone", "--type=merge", "-p", "{}")
    assert gone == 'Error from server (NotFound): widgets.example.com "gone" not found\n'


def test_scale_label_annotate(kubectl: Kubectl, widgets: Cluster) -> None:
    kubectl("create", "-f", "-", given=widget("one", 1))
    assert kubectl("scale", "widget", "one", "--replicas=5") == "widget.example.com/one scaled\n"
    assert kubectl("get", "widget", "one", "-o", "jsonpath={.spec.replicas}") == "5"
    wrong = kubectl.fails("scale", "widget", "one", "--current-replicas=2", "--replicas=3")
    assert wrong == "error: Expected replicas to be 2, was 5\n"
    scale = kubectl.json("get", "widget", "one", "--subresource=scale")
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 5})
    assert kubectl("label", "widget", "one", "a=b") == "widget.example.com/one labeled\n"
    assert kubectl("label", "widget", "one", "a=b") == "widget.example.com/one not labeled\n"
    assert "--overwrite is false" in kubectl.fails("label", "widget", "one", "a=c")
    assert kubectl("label", "widget", "one", "a=c", "--overwrite", "-o", "jsonpath={.metadata.labels.a}") == "c"
    assert kubectl("label", "widgets", "--all", "a-") == "widget.example.com/one unlabeled\n"
    past = "" if kubectl.minor < 28 else "d"
    assert kubectl("annotate", "widget", "one", "note=a long one") == f"widget.example.com/one annotate{past}\n"
    annotations = kubectl.json("get", "widget", "one")["metadata"]["annotations"]
    assert annotations == {"note": "a long one"}
    bad = kubectl.fails("label", "widget", "one", "a=b/c")
    assert "a valid label must be an empty string or consist of alphanumeric characters" in bad


def test_delete(kubectl: Kubectl, widgets: Cluster) -> None:
    kubectl("create", "-f", "-", given=[widget(name, labels={"l": name[0]}) for name in ("a1", "a2", "b1", "held")])
    assert kubectl("delete", "widget", "b1").startswith('widget.example.com "b1" deleted')
    assert kubectl.fails("delete", "widget", "b1") == (
        'Error from server (NotFound): widgets.example.com "b1" not found\n'
    )
    assert kubectl("delete", "widget", "b1", "--ignore-not-found") == ""
    assert len(kubectl("delete", "widgets", "-l", "l=a").splitlines()) == 2
    kubectl("patch", "widget", "held", "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/hold"]}}')
    kubectl("delete", "widget", "held", "--wait=false")
    with kubectl.running("wait", "--for=delete", "widget/held") as waiting:
        kubectl("patch", "widget", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert waiting.wait(60) == 0
    assert kubectl("get", "widgets", "-o", "name") == ""


def test_delete_definition(kubectl: Kubectl, widgets: Cluster) -> None:
    kubectl("create", "-f", "-", given=[widget("one"), widget("two")])
    said = kubectl("delete", "crd", "widgets.example.com", "--timeout=50s")
    assert said.startswith('customresourcedefinition.apiextensions.k8s.io "widgets.example.com" deleted')
    assert 'the server doesn\'t have a resource type "widgets"' in Kubectl.fails(
        kubectl, "get", "widgets", f"--cache-dir={kubectl.home / 'second'}"
    )
    kubectl("apply", "-f", "-", given=definition())
    kubectl("wait", "--for=condition=established", "crd/widgets.example.com")
    assert kubectl("get", "widgets", "-o", "name") == "", "its objects went with it"


def test_delete_namespace(kubectl: Kubectl, widgets: Cluster) -> None:
    kubectl("create", "namespace", "room")
    kubectl("apply", "-n", "room", "-f", "-", given=[widget("one"), config_map("settings")])
    assert kubectl("delete", "namespace", "room", "--timeout=50s") == 'namespace "room" deleted\n'
    assert kubectl.fails("get", "ns", "room") == 'Error from server (NotFound): namespaces "room" not found\n'
    assert kubectl("get", "widgets,configmaps", "-A", "-o", "name") == ""
    assert kubectl.fails("create", "-n", "room", "-f", "-", given=widget("one")) == (
        'Error from server (NotFound): error when creating "STDIN": namespaces "room" not found\n'
    )


@pytest.mark.parametrize("kind", ["configmap", "secret"])
def test_create_from_literals(kubectl: Kubectl, kind: str) -> None:
    more = ("generic",) if kind == "secret" else ()
    assert kubectl("create", kind, *more, "x", "--from-literal=a=b") == f"{kind}/x created\n"
    found = kubectl.json("get", kind, "x")
    assert found["data"] == ({"a": "Yg=="} if kind == "secret" else {"a": "b"})
    assert found.get("type") == ("Opaque" if kind == "secret" else None)
