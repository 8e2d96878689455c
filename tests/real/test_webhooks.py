"""The same webhooks at kube-apiserver and at Shoal: they are asked the same, and the client is told the same.

All cases are registered at once, each for objects with its label, so that kube-apiserver's caches are waited for once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from tests.apiserver.webhooks import test_conversion as conversion
from tests.apiserver.webhooks.receiver import (
    CONFIG_MAPS,
    Hooks,
    Receiver,
    Reply,
    add,
    allow,
    deny,
    patch,
    receiving,
    reviewed,
    rule,
)
from tests.real.beside import PROGRAMS, beside
from tests.real.building import program
from tests.serving import Answer, Cluster, Server, config_map

Object = dict[str, Any]
missing = [name for name in PROGRAMS if program(name) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"kube-apiserver (no {', no '.join(missing)})")


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with receiving(tmp_path_factory.mktemp("webhooks")) as found:
        yield found


@pytest.fixture(scope="module")
def both(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Cluster]]:
    """Kubernetes, and Shoal."""
    with beside(server, tmp_path_factory.mktemp("peer")) as found:
        yield found


def with_status(status: object) -> Reply:
    return lambda review: reviewed(review, allowed=False, status=status)


def old(review: Object) -> Object:
    return {"response": {"allowed": True, "uid": "another"}}


FIRST = [{"name": "c", "expression": "object.data.missing == 'x'"}]
SECOND = [{"name": "c", "expression": "false"}]
VALIDATING: dict[str, tuple[Reply, Object]] = {
    "allows": (allow, {}),
    "denies": (deny(message="no", reason="Teapot", code=418), {}),
    "denies-in-detail": (deny(message="no", code=409, details={"causes": [{"message": "m", "field": "f"}]}), {}),
    "denies-without-a-word": (deny(), {}),
    "denies-with-success": (deny(code=200, status="Success"), {}),
    "warns": (lambda review: reviewed(review, warnings=["mind", "the gap"]), {}),
    "warns-and-denies": (lambda review: reviewed(review, allowed=False, warnings=["mind"]), {}),
    "wrong-uid": (lambda review: reviewed(review, uid="another"), {}),
    "absent": (lambda review: {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}, {}),
    "patches": (patch(add("/data", {})), {}),
    "patch-type-alone": (lambda review: reviewed(review, patchType="JSONPatch"), {}),
    "empty": (lambda review: b"", {}),
    "empty-ignored": (lambda review: b"", {"failurePolicy": "Ignore"}),
    "v1beta1": (old, {"admissionReviewVersions": ["v1beta1", "v1"]}),
    "status-500": (lambda review: b"oh no", {}),
    "status-404": (lambda review: b"oh no", {}),
    "status-302": (lambda review: b"oh no", {}),
    "undecided": (allow, {"matchConditions": FIRST}),
    "undecided-ignored": (allow, {"matchConditions": FIRST, "failurePolicy": "Ignore"}),
    "unconditional": (deny(), {"matchConditions": SECOND}),
}
MUTATING: dict[str, tuple[Reply, Object]] = {
    "adds": (patch(add("/data/added", "yes"), add("/metadata/annotations", {"a": "b"})), {}),
    "breaks-a-label": (patch(add("/metadata/labels/bad", "not a label!")), {}),
    "moves": (patch(add("/metadata/namespace", "elsewhere")), {}),
    "tests": (patch({"op": "test", "path": "/data/k", "value": "x"}), {}),
    "patch-alone": (lambda review: reviewed(review, patch="W10="), {}),
}


def register(hooks: Hooks) -> None:
    made: dict[str, list[Object]] = {"validating": [], "mutating": []}
    cases = [("validating", VALIDATING), ("mutating", MUTATING)]
    for sort, table in cases:
        for name, (reply, more) in table.items():
            chosen = {"objectSelector": {"matchLabels": {"case": name}}, "rules": [rule("configmaps")]}
            made[sort].append(hooks.hook(name, reply, **chosen, **more))
            if name.startswith("status-"):
                hooks.receiver.statuses[f"/{hooks.cluster.name}/{name}"] = int(name[-3:])
        hooks.register(sort, *made[sort])
    # The last of both sorts: when it is asked, all are known.
    hooks.register(
        "validating", hooks.hook("ready", deny(), objectSelector={"matchLabels": {"case": "ready"}}), name="z"
    )
    hooks.cluster.eventually(
        lambda: hooks.cluster.post(CONFIG_MAPS, config_map("r", labels={"case": "ready"})).status == 400
    )
    adds = config_map("r2", {"k": "v"}, labels={"case": "adds"})
    hooks.cluster.eventually(
        lambda: "added" in (hooks.cluster.post(f"{CONFIG_MAPS}?dryRun=All", adds).json.get("data") or {})
    )
    hooks.receiver.asked.clear()


@pytest.fixture(scope="module")
def hooked(both: tuple[Cluster, Cluster], receiver: Receiver) -> tuple[Hooks, Hooks]:
    found = Hooks(both[0], receiver), Hooks(both[1], receiver)
    for each in found:
        register(each)
    return found


def told(hooks: Hooks, answer: Answer) -> Object:
    """What a client sees of it, without what differs from one server and moment to the next."""
    body = answer.json
    text = str(body.get("message", "")).replace(f"/{hooks.cluster.name}/", "/CLUSTER/")
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", text)
    warnings = sorted(answer.headers.get("warning", "").replace(", 299 - ", "|").split("|"))
    kept = {key: body.get(key) for key in ("kind", "status", "reason", "code", "details", "data")}
    if kept["details"]:
        kept["details"] = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", str(kept["details"])).replace(
            hooks.cluster.name, ""
        )
    return {"http": answer.status, "message": text, "warnings": warnings, **kept}


@pytest.mark.parametrize("case", [*VALIDATING, *MUTATING])
def test_the_client_is_told_the_same(hooked: tuple[Hooks, Hooks], case: str) -> None:
    body = config_map(case, {"k": "v"}, labels={"case": case})
    real, ours = (told(hooks, hooks.cluster.post(CONFIG_MAPS, body)) for hooks in hooked)
    assert ours == real
    assert len(hooked[0].asked(case)) == len(hooked[1].asked(case))


def shape(value: object) -> object:
    """Of a request: its fields and plain values, without those of one server and moment."""
    if isinstance(value, dict):
        own = ("uid", "creationTimestamp", "resourceVersion", "managedFields", "userInfo", "fieldManager")
        return {key: shape(each) for key, each in value.items() if key not in own}
    return [shape(each) for each in value] if isinstance(value, list) else value


def once_each(requests: list[Object]) -> list[Object]:
    """Kubernetes begins a change with what it has cached, and asks again where that was not the newest."""
    last = {}
    for request in requests:
        data = (request["object"] or {}).get("data")
        last[request["operation"], str(data), request.get("name", "")] = request
    return list(last.values())


def test_the_webhook_is_asked_the_same(hooked: tuple[Hooks, Hooks]) -> None:
    def write(hooks: Hooks) -> None:
        path, body = f"{CONFIG_MAPS}/asked", config_map("asked", {"k": "1"}, labels={"case": "allows"})
        cluster = hooks.cluster
        cluster.post(f"{CONFIG_MAPS}?fieldValidation=Strict", body).ok()
        cluster.patch(path, {"data": {"k": "2"}}).ok()
        cluster.put(path, {**body, "data": {"k": "3"}}).ok()
        cluster.patch(f"{path}?fieldManager=me&force=true", {**body, "data": {"k": "4"}}, "apply").ok()
        cluster.patch(f"{path}?dryRun=All", {"data": {"k": "5"}}).ok()
        cluster.delete(path, {"propagationPolicy": "Background", "gracePeriodSeconds": 0}).ok()
        generated = {**body, "metadata": {"generateName": "g-", "labels": {"case": "allows"}}}
        cluster.patch(
            f"{CONFIG_MAPS}/made?fieldManager=me",
            {**body, "metadata": {"name": "made", "labels": {"case": "allows"}}},
            "apply",
        ).ok()
        assert cluster.post(f"{CONFIG_MAPS}?dryRun=All", generated).ok()

    seen: list[list[object]] = []
    for hooks in hooked:
        before = len(hooks.asked("allows"))
        write(hooks)
        asked = once_each([cast(Object, shape(request)) for request in hooks.asked("allows")[before:]])
        for request in asked[-1:]:
            request["name"] = request["object"]["metadata"]["name"] = "g-xxxxx"
        seen.append(list(asked))
    assert [request["operation"] for request in cast(list[Object], seen[0])] == [
        "CREATE", "UPDATE", "UPDATE", "UPDATE", "UPDATE", "DELETE", "CREATE", "CREATE",
    ]  # fmt: skip
    for real, ours in zip(*seen, strict=True):
        assert ours == real


WRONG = [name for name in conversion.WRONG if name != "text"]


def test_conversion_is_told_the_same(both: tuple[Cluster, Cluster], receiver: Receiver) -> None:
    def answers(cluster: Cluster) -> list[tuple[int, object, object]]:
        hosts = conversion.Hosts(cluster, receiver)
        cluster.eventually(
            lambda: cluster.get(conversion.V2).status == 200 and cluster.get(conversion.V1).status == 200
        )
        cluster.eventually(lambda: cluster.post(conversion.V1, conversion.v1("a", "x:1")).status in (201, 409))
        found: list[tuple[int, object, object]] = []

        def note(answer: Answer) -> None:
            body = answer.json
            said = re.sub(r'uid="[0-9a-f-]{36}"', 'uid="UID"', str(body.get("message", "")))
            found.append((answer.status, body.get("spec") or [i["spec"] for i in body.get("items") or ()], said))

        for ask in _conversions(cluster):
            note(ask())
        for name in WRONG:
            hosts.reply(conversion.WRONG[name][0])
            # Another object each time: what Kubernetes has converted once it may know.
            cluster.patch(f"{conversion.V1}/a", {"spec": {"hostPort": f"{name.replace(' ', '')}:7"}}).ok()
            note(cluster.get(f"{conversion.V2}/a"))
        hosts.reply(conversion.answer)
        return found

    real, ours = (answers(cluster) for cluster in both)
    assert ours == real


def _conversions(cluster: Cluster) -> list[Callable[[], Answer]]:
    first, second = conversion.V1, conversion.V2
    return [
        lambda: cluster.get(f"{second}/a"),
        lambda: cluster.post(second, conversion.v2("b", "h", 2)),
        lambda: cluster.get(f"{first}/b"),
        lambda: cluster.get(second),
        lambda: cluster.patch(f"{second}/b", {"spec": {"port": 3}}),
        lambda: cluster.patch(f"{second}/b?fieldManager=me&force=true", conversion.v2("b", "z", 4), "apply"),
        lambda: cluster.patch(f"{second}/b/status", {"status": {"phase": "Up"}}),
        lambda: cluster.get(f"{first}/b"),
        lambda: cluster.get(f"{second}?fieldSelector=spec.host%3Dz"),
        lambda: cluster.delete(f"{second}/b"),
        lambda: cluster.get(f"{first}/b"),
    ]
