"""Patches of few bytes and much work: long lists that are moved, values that double, paths that are deep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tests.faults.growth.cases import PATCHES, Case, Group, Step, Steps, compact, send
from tests.faults.growth.customs import ANYTHING, GROWERS, defined, grower
from tests.faults.growth.fields import Object
from tests.faults.growth.texts import KB, MB

OPERATIONS = 9990
LENGTH = 600_000
PODS = "/api/v1/namespaces/default/pods"


def deep(depth: int) -> Object:
    found: Object = {}
    for _ in range(depth):
        found = {"a": found}
    return found


def nested(depth: int) -> str:
    """The same as JSON text, deeper than Python encodes it."""
    return '{"a":' * depth + "{}" + "}" * depth


def long_object() -> Object:
    spec = {
        "l": [0] * LENGTH,
        "m": {f"k{number}": "a" for number in range(5000)},
        "o": [{"name": f"a{number}", "value": "a"} for number in range(3000)],
        "t": "a" * (50 * KB),
        "d": deep(90),
    }
    return grower("long", **spec)


def _moves(source: str, target: str) -> list[Object]:
    return [{"op": "move", "from": source, "path": target}] * OPERATIONS


JSON_PATCHES: dict[str, Callable[[], list[Object]]] = {
    "move first to last": lambda: _moves("/spec/l/0", "/spec/l/-"),
    "move last to first": lambda: _moves(f"/spec/l/{LENGTH - 1}", "/spec/l/0"),
    "move a map": lambda: _moves("/spec/m/k1", "/spec/m/k1"),
    "move the list": lambda: [
        {"op": "move", "from": f"/spec/{'lx'[n % 2]}", "path": f"/spec/{'xl'[n % 2]}"} for n in range(OPERATIONS)
    ],
    "add first": lambda: [{"op": "add", "path": "/spec/l/0", "value": 1}] * OPERATIONS,
    "add last": lambda: [{"op": "add", "path": "/spec/l/-", "value": 1}] * OPERATIONS,
    "remove first": lambda: [{"op": "remove", "path": "/spec/l/0"}] * OPERATIONS,
    "replace": lambda: [{"op": "replace", "path": "/spec/l/100000", "value": 1}] * OPERATIONS,
    "copy an element": lambda: [{"op": "copy", "from": "/spec/l/0", "path": "/spec/l/-"}] * OPERATIONS,
    "copy a list": lambda: [{"op": "copy", "from": "/spec/l", "path": "/spec/x"}] * OPERATIONS,
    "copy a map": lambda: [{"op": "copy", "from": "/spec/m", "path": "/spec/x"}] * OPERATIONS,
    "copy a text": lambda: [
        {"op": "copy", "from": "/spec/t", "path": f"/spec/x{number}"} for number in range(OPERATIONS)
    ],
    "copy deep": lambda: [{"op": "copy", "from": "/spec/d", "path": "/spec/x"}] * OPERATIONS,
    "copy small lists": lambda: [{"op": "copy", "from": "/spec/o/0", "path": "/spec/o/0"}] * OPERATIONS,
    "double": lambda: [{"op": "copy", "from": "/spec", "path": f"/spec/x{number}"} for number in range(30)],
    "double small": lambda: [
        {"op": "replace", "path": "/spec", "value": {"a": 1}},
        *({"op": "copy", "from": "/spec", "path": f"/spec/x{number}"} for number in range(60)),
    ],
    "test a list": lambda: [{"op": "test", "path": "/spec/l", "value": [1]}] * OPERATIONS,
    "test the whole": lambda: [{"op": "test", "path": "", "value": {}}] * OPERATIONS,
    "test deep": lambda: [{"op": "test", "path": "/spec/d", "value": deep(100)}] * 1000,
    "deep paths": lambda: [{"op": "add", "path": "/spec/d" + "/a" * 80, "value": 1}] * 3000,
    "long path": lambda: [{"op": "add", "path": "/spec" + "/a" * MB, "value": 1}],
    "escapes": lambda: [{"op": "add", "path": "/spec/" + "~1" * MB, "value": 1}],
    "tildes": lambda: [{"op": "add", "path": "/spec/" + "~" * MB, "value": 1}],
    "digits": lambda: [{"op": "add", "path": "/spec/l/" + "1" * MB, "value": 1}],
    "replace the whole": lambda: [{"op": "replace", "path": "", "value": grower("long", a=1)}] * OPERATIONS,
}


def pod(count: int) -> Object:
    env = [{"name": f"a{number}", "value": "a"} for number in range(count)]
    container = {"name": "main", "image": "a", "env": env, "args": [f"a{number}" for number in range(count)]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "base"}, "spec": {"containers": [container]}}


MERGES: dict[str, Callable[[], Object | str]] = {
    "deep": lambda: nested(5000),
    "nulls": lambda: {"spec": {f"k{number}": None for number in range(200_000)}},
    "list": lambda: {"spec": {"l": list(range(300_000))}},
}
STRATEGICS: dict[str, Callable[[], Object | str]] = {
    "env": lambda: _container(env=_env()),
    "env in order": lambda: _container(**{"env": _env(9000), "$setElementOrder/env": _keys(9000)}),
    "env in another order": lambda: _container(**{"env": _env(9000), "$setElementOrder/env": _keys(9000)[::-1]}),
    "env deleted": lambda: _container(env=[{**key, "$patch": "delete"} for key in _keys()]),
    "env replaced": lambda: _container(env=[*_env(), {"$patch": "replace"}]),
    "keys retained": lambda: _container(**{"$retainKeys": _names()}),
    "finalizers": lambda: {"metadata": {"finalizers": _names(), "$setElementOrder/finalizers": _names()}},
    "finalizers deleted": lambda: {"metadata": {"$deleteFromPrimitiveList/finalizers": _names()}},
    "containers": lambda: {"spec": {"containers": [{**key, "image": "a"} for key in _keys()]}},
    "directives": lambda: {"spec": {f"$setElementOrder/{name}": [] for name in _names()}},
    "deep": lambda: nested(3000),
}


def patch_cases() -> Iterator[Case]:
    group = Group("patches", _setup)
    for name, patch in JSON_PATCHES.items():
        yield Case(group, f"json {name}", _patch(f"{GROWERS}/long", "json", patch))
    for name, merge in MERGES.items():
        yield Case(group, f"merge {name}", _patch(f"{GROWERS}/long", "merge", merge))
    for name, strategic in STRATEGICS.items():
        yield Case(group, f"strategic {name}", _patch(f"{PODS}/base", "strategic", strategic))
    for count in (3000, 30_000):
        path = f"{GROWERS}/applied{count}"
        for manager in ("one", "two"):
            query = f"fieldManager={manager}&force=true"
            yield Case(
                group, f"apply {count} by {manager}", _patch(path, "apply", partial(_applied, count, count), query)
            )
        less = _patch(path, "apply", partial(_applied, count, 10), "fieldManager=one")
        yield Case(group, f"apply {count} less", less)


def _setup() -> Iterator[Step]:
    yield from defined("", {"type": "object", **ANYTHING}).setup()
    yield send("long", "POST", GROWERS, compact(long_object()))
    yield send("pod", "POST", PODS, compact(pod(3000)))


def _names(count: int = 30_000) -> list[str]:
    return [f"example.com/a{number}" for number in range(count)]


def _keys(count: int = 30_000) -> list[Object]:
    return [{"name": f"a{number}"} for number in range(count)]


def _env(count: int = 30_000) -> list[Object]:
    return [{**key, "value": "b"} for key in _keys(count)]


def _container(**more: object) -> Object:
    return {"spec": {"containers": [{"name": "main", **more}]}}


def _applied(name: int, count: int) -> Object:
    keys = {f"k{number}": {"a": number} for number in range(count)}
    return grower(f"applied{name}", l=list(range(count)), m=keys)


def _patch(path: str, kind: str, patch: Callable[[], object], query: str = "dryRun=All") -> Steps:
    def steps() -> Iterator[Step]:
        made = patch()
        body = made if isinstance(made, str) else compact(made)
        yield send(kind, "PATCH", f"{path}?{query}", body, PATCHES[kind])

    return steps
