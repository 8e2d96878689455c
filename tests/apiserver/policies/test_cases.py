"""Every case gives the recorded response; `tests/real/test_policies.py` sends the same cases to kube-apiserver."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.apiserver.policies import cases, invalid_specs
from tests.serving import Cluster

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
CASES = {**cases.VALIDATING, **cases.MUTATING}


def test_every_case_is_recorded() -> None:
    assert GOLDEN.keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_answers(ruled: Cluster, name: str) -> None:
    case = CASES[name]
    answer = cases.write(ruled, name, case)
    body = answer.json
    if answer.status != 201:
        assert [answer.status, body["reason"], body["message"]] == GOLDEN[name]
        return
    made = body.get("data")
    if case.deployment:
        spec = body["spec"]
        made = {
            "replicas": spec["replicas"],
            "containers": [each["name"] for each in spec["template"]["spec"]["containers"]],
        }
    assert [answer.status, made, answer.headers.get("warning", "")] == GOLDEN[name]


def test_what_is_wrong_is_refused(ruled: Cluster) -> None:
    """In which words, `tests/real/test_policies.py` compares."""
    kinds = {
        "validatingadmissionpolicies": invalid_specs.VALIDATING,
        "mutatingadmissionpolicies": invalid_specs.MUTATING,
    }
    kinds["validatingadmissionpolicybindings"] = invalid_specs.BINDINGS
    for plural, table in kinds.items():
        for name, spec in table.items():
            given = spec if plural.endswith("bindings") else {**invalid_specs.MATCH, **spec}
            answer = ruled.post(f"{cases.REGISTRATION}/{plural}", {"metadata": {"name": name}, "spec": given})
            assert (name, answer.status) == (name, 201 if name in invalid_specs.FINE else 422)
