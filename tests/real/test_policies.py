"""The same admission policies at kube-apiserver and at Shoal: the same answers, messages and objects, and the same
words about policies that are wrong.

All policies are registered at once, each for objects with its label, so that kube-apiserver is waited for once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.apiserver.policies import cases, invalid_specs, scenarios
from tests.real.beside import PROGRAMS, beside
from tests.real.building import program
from tests.serving import Answer, Cluster, Server

Object = dict[str, Any]
Both = tuple[Cluster, Cluster]
missing = [name for name in PROGRAMS if program(name) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"kube-apiserver (no {', no '.join(missing)})")

SORTS = {"validating": cases.VALIDATING, "mutating": cases.MUTATING}
READY = cases.Case(cases.check("false"))


@pytest.fixture(scope="module")
def both(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with beside(server, tmp_path_factory.mktemp("peer")) as found:
        yield found


@pytest.fixture(scope="module")
def ruled(both: Both) -> Both:
    """With all policies in force."""
    for cluster in both:
        cases.surroundings(cluster)
        for sort, table in SORTS.items():
            for name, case in table.items():
                cases.register(cluster, name, case, sort)
        cases.register(cluster, "ready", READY, "validating")
    for cluster in both:
        cluster.eventually(partial(_in_force, cluster))
    return both


def _in_force(cluster: Cluster) -> bool:
    """kube-apiserver looks for new policies every second, and begins to watch a kind when a policy wants parameters."""

    def dry(name: str) -> Object:
        body = {"metadata": {"name": "dry", "labels": {"case": name}}, "data": {"k": "v"}}
        found: Object = cluster.post(f"{cases.CONFIG_MAPS}?dryRun=All", body).json
        return found

    if dry("ready").get("code") != 422 or "added" not in dry("applies").get("data", {}):
        return False
    return "must be p" in dry("params")["message"] and "added" in dry("params-mutating").get("data", {})


def told(answer: Answer) -> Object:
    """What a client sees of it, without what differs from one server and moment to the next."""
    body = answer.json
    warnings = sorted(answer.headers.get("warning", "").replace(", 299 - ", "|").split("|"))
    metadata = body.get("metadata") or {}
    kept = {key: body.get(key) for key in ("kind", "status", "reason", "code", "details", "message", "data", "spec")}
    kept = {key: value for key, value in kept.items() if not (key == "status" and isinstance(value, dict))}
    meta = {key: metadata.get(key) for key in ("labels", "annotations", "generation")}
    return {"http": answer.status, "warnings": warnings, **kept, **meta}


@pytest.mark.parametrize("name", cases.VALIDATING)
def test_validated_alike(ruled: Both, name: str) -> None:
    real, ours = (told(cases.write(cluster, name, cases.VALIDATING[name])) for cluster in ruled)
    assert ours == real


@pytest.mark.parametrize("name", cases.MUTATING)
def test_mutated_alike(ruled: Both, name: str) -> None:
    real, ours = (told(cases.write(cluster, name, cases.MUTATING[name])) for cluster in ruled)
    assert ours == real


WRONG = [
    *(
        ("validatingadmissionpolicies", name, {**invalid_specs.MATCH, **spec})
        for name, spec in invalid_specs.VALIDATING.items()
    ),
    *(
        ("mutatingadmissionpolicies", name, {**invalid_specs.MATCH, **spec})
        for name, spec in invalid_specs.MUTATING.items()
    ),
    *(("validatingadmissionpolicybindings", name, spec) for name, spec in invalid_specs.BINDINGS.items()),
    *(("mutatingadmissionpolicybindings", name, spec) for name, spec in invalid_specs.BINDINGS.items()),
]


@pytest.mark.parametrize(("plural", "name", "spec"), WRONG, ids=[f"{plural}-{name}" for plural, name, _ in WRONG])
def test_refused_alike(both: Both, plural: str, name: str, spec: Object) -> None:
    body = {"metadata": {"name": f"wrong-{name}"}, "spec": spec}
    real, ours = (told(cluster.post(f"{cases.REGISTRATION}/{plural}?dryRun=All", body)) for cluster in both)
    for each in (real, ours):
        each["message"] = re.sub(r"\s+", " ", each["message"] or "")
    assert ours == real


@pytest.fixture(scope="module")
def staged(both: Both) -> Both:
    for cluster in both:
        scenarios.set_up(cluster)
    for cluster in both:
        cluster.eventually(partial(scenarios.ready, cluster))
    return both


@pytest.mark.parametrize("scene", scenarios.SCENES)
def test_asked_and_answered_alike(staged: Both, scene: str) -> None:
    real, ours = ([told(answer) for answer in scenarios.SCENES[scene](cluster)] for cluster in staged)
    assert ours == real
