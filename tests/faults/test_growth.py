"""A sample of the cases of tests/faults/growth: no turn of the loop holds the CPU, and nothing breaks.

The other cases, and the times and the memory of all of them, are of `make soak` (test_growth_full.py).
"""

from __future__ import annotations

import http.client

import pytest

from tests.faults.growth.cases import Case, Step
from tests.faults.growth.everything import everything
from tests.faults.growth.results import ALLOWED_5XX
from tests.faults.growth.run import MOST_HEADERS, account
from tests.faults.stalls import STALL, stalls
from tests.serving import Answer, Cluster, Server, fresh_cluster

SAMPLE = """
bodies YAML block list 1M create
bodies YAML aliases 14K create
bodies JSON unknown fields 28K create
bodies JSON numbers limit create
bodies protobuf owners 28K create
bodies gzip spaces 300M create
patches json move last to first
patches json copy an element
patches json double small
patches strategic env in order
patches apply 3000 by one
patches apply 3000 less
queries labelSelector commas
queries continue base64
queries Accept quotes repeated
queries Impersonate-Group letters
queries path name dots
queries token claims labels
rights role 70x70x70 by limited
rights role 300x300 bound
rights 5000 groups
policy-5 matches 5000 life
rules contains bounded life
definitions schema deep life
credentials kubernetes.io/tls tls.crt pem-lines 18K
credentials request pem-lines 18K
credentials token labels 18K
custom-format-lists spec.f-email 25 spaces dry-run
custom-formats spec.f-hostname labels 28K dry-run
custom-formats spec.p0 letters-end 28K dry-run
custom-shapes spec.set distinct 600K life
custom-shapes spec.map distinct 28K applies
custom-column-2 ..a..a..a deep life
configmaps metadata.ownerReferences empty 28K life
configmaps metadata.finalizers empty 28K life
configmaps metadata.labels{} labels 28K dry-run
pods spec.containers[].env distinct 28K strategic
persistentvolumes spec.iscsi.iqn iqn-again 28K dry-run
clusterroles.rbac.authorization.k8s.io rules product 70 life
validatingadmissionpolicies.admissionregistration.k8s.io spec.validations[].expression astral 28K dry-run
""".strip().splitlines()


GROUPS = list(dict.fromkeys(name.split()[0] for name in SAMPLE))


@pytest.fixture(scope="module")
def sample() -> dict[str, Case]:
    """By name. Not at import: every test process imports this module, and one of them runs it."""
    names = [case.name for case in everything()]
    assert len(names) == len(set(names))
    found = {case.name: case for case in everything() if case.name in SAMPLE}
    assert found.keys() == set(SAMPLE)
    return found


@pytest.mark.parametrize("group", GROUPS)
def test_no_case_stalls_the_loop(
    server: Server,
    sample: dict[str, Case],
    group: str,
    quiet: None,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setattr(http.client, "_MAXHEADERS", MOST_HEADERS)
    cases = [case for name, case in sample.items() if name.split()[0] == group]
    cluster = fresh_cluster(server, "cluster")
    request.addfinalizer(cluster.close)
    token = account(lambda method, path, body: cluster.request(method, path, body).ok(), "attacker")
    for step in cases[0].group.setup():
        assert sent(cluster, token, step).status < 300, step.name
    for case in cases:
        first = 0
        for step in case.steps():
            if step.follows and first >= 300:
                continue
            with stalls(server) as found:
                answer = sent(cluster, token, step)
            first = first or answer.status
            what = f"{case.name}, {step.name}: {answer.body[:500]!r}"
            assert answer.status < 500 or answer.status in ALLOWED_5XX, what
            assert found.longest < STALL, what


def sent(cluster: Cluster, token: str, step: Step) -> Answer:
    headers = {"Authorization": f"Bearer {token}", **step.headers}
    return cluster.request(step.method, step.path, step.body, token="", **headers)
