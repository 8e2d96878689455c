"""The scheduler agrees with the reference implementation: the same pods on the same nodes, with the same types left."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.fit.requirements import from_expressions
from shoal.fit.resources import parse_amounts
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.simulation.model import ExistingNode, NodePoolInput, SchedulingInput
from shoal.provision.simulation.simulate import simulate
from tests.provision.catalogue import kind, pool
from tests.provision.simulation.reference_scheduler import Plain

Object = dict[str, Any]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
TEAM = "example.com/team"

zones = st.sampled_from(("a", "b", "c"))
keys = st.sampled_from((ZONE, ZONE, HOST, HOST, TEAM))
labels = st.fixed_dictionaries({}, optional={"app": st.sampled_from("xy"), "tier": st.sampled_from("12")})
selectors = st.one_of(
    st.builds(lambda chosen: {"matchLabels": chosen}, labels),
    st.builds(
        lambda v: {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [v]}]}, st.sampled_from("xy")
    ),
)


@st.composite
def expressions(draw: st.DrawFn) -> Object:
    key = draw(st.sampled_from((ZONE, ZONE, TEAM, "size", "other")))
    operator = draw(st.sampled_from(("In", "In", "NotIn", "Exists", "DoesNotExist")))
    values = {ZONE: "abc", TEAM: "rg", "size": "sml", "other": "o"}[key]
    chosen = draw(st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True))
    return {"key": key, "operator": operator, **({"values": chosen} if operator in ("In", "NotIn") else {})}


terms = st.builds(lambda some: {"matchExpressions": some}, st.lists(expressions(), min_size=1, max_size=2))


def peers() -> st.SearchStrategy[Object]:
    return st.builds(
        lambda key, selector, more: {"topologyKey": key, "labelSelector": selector, **more},
        keys,
        selectors,
        st.one_of(
            st.just({}),
            st.just({"namespaces": ["one"]}),
            st.just({"namespaceSelector": {"matchLabels": {"kind": "shared"}}}),
        ),
    )


def _weighted(name: str, of: st.SearchStrategy[Object]) -> st.SearchStrategy[list[Object]]:
    return st.lists(st.builds(lambda weight, term: {"weight": weight, name: term}, st.integers(1, 3), of), max_size=2)


rules = st.fixed_dictionaries(
    {}, optional={REQUIRED: st.lists(peers(), min_size=1, max_size=2), PREFERRED: _weighted("podAffinityTerm", peers())}
)
affinities = st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": st.fixed_dictionaries(
            {},
            optional={
                REQUIRED: st.builds(lambda some: {"nodeSelectorTerms": some}, st.lists(terms, min_size=1, max_size=3)),
                PREFERRED: _weighted("preference", terms),
            },
        ),
        "podAffinity": rules,
        "podAntiAffinity": rules,
    },
)
spreads = st.builds(
    lambda key, skew, action, selector, more: {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": action,
        "labelSelector": selector,
        **more,
    },
    keys,
    st.integers(1, 2),
    st.sampled_from(("DoNotSchedule", "ScheduleAnyway")),
    selectors,
    st.fixed_dictionaries(
        {},
        optional={
            "minDomains": st.integers(1, 4),
            "nodeTaintsPolicy": st.sampled_from(("Honor", "Ignore")),
            "nodeAffinityPolicy": st.sampled_from(("Honor", "Ignore")),
        },
    ),
)
tolerations = st.sampled_from(({"key": "hard", "operator": "Exists"}, {"key": "soft", "operator": "Exists"}))
taints = st.lists(
    st.sampled_from(({"key": "hard", "effect": "NoSchedule"}, {"key": "soft", "effect": "PreferNoSchedule"})),
    max_size=1,
)


@st.composite
def specs(draw: st.DrawFn) -> tuple[str, Object, Object]:
    requests = {
        "cpu": draw(st.sampled_from(("250m", "500m", "1", "3"))),
        "memory": draw(st.sampled_from(("1Gi", "4Gi"))),
    }
    container: Object = {"name": "main", "resources": {"requests": requests}}
    if draw(st.integers(0, 7)) == 0:
        container["ports"] = [{"containerPort": 80, "hostPort": 80}]
    spec: Object = {"containers": [container]}
    if draw(st.booleans()):
        spec["affinity"] = draw(affinities)
    if draw(st.integers(0, 2)) == 0:
        spec["topologySpreadConstraints"] = draw(st.lists(spreads, min_size=1, max_size=2))
    if draw(st.integers(0, 3)) == 0:
        spec["nodeSelector"] = {ZONE: draw(zones)}
    if draw(st.integers(0, 2)) == 0:
        spec["tolerations"] = [draw(tolerations)]
    return draw(st.sampled_from(("one", "two"))), draw(labels), spec


TYPES = (
    kind("s", 2, "8Gi", 0.04, zones=("a", "b"), pods=4, labels={"size": "s"}),
    kind("m", 4, "16Gi", 0.07, zones=("b", "c"), pods=5, labels={"size": "m"}),
    kind("l", 8, "16Gi", 0.3, zones=("a", "b", "c"), pods=6, labels={"size": "l"}),
)


@st.composite
def pools(draw: st.DrawFn, name: str) -> NodePoolInput:
    requirements = draw(st.lists(expressions().filter(lambda each: each["operator"] in ("In", "NotIn")), max_size=1))
    if draw(st.integers(0, 3)) == 0:
        least = {"key": "size", "operator": "Exists", "minValues": draw(st.integers(2, 3))}
        requirements = [*requirements, least]
    types: tuple[InstanceType, ...] = draw(st.sampled_from((TYPES, TYPES[:2], TYPES[1:])))
    more: Object = {"weight": draw(st.integers(1, 2)), "template": {"taints": draw(taints)}}
    if draw(st.integers(0, 2)) == 0:
        more["limits"] = draw(st.sampled_from(({"cpu": "9"}, {"nodes": "2"}, {"memory": "40Gi", "cpu": "20"})))
    if draw(st.booleans()):
        more["labels"] = {TEAM: draw(st.sampled_from("rg"))}
    return pool(name, types, requirements=requirements, **more)


@st.composite
def questions(draw: st.DrawFn) -> SchedulingInput:
    shapes = draw(st.lists(specs(), min_size=1, max_size=4))
    number = 0

    def made(shape: tuple[str, Object, Object]) -> Object:
        nonlocal number
        number += 1
        namespace, marks, spec = shape
        metadata = {"name": f"p{number}", "namespace": namespace, "labels": marks, "uid": f"u{number:03}"}
        return {"metadata": {**metadata, "creationTimestamp": ""}, "spec": copy.deepcopy(spec)}

    pods = [made(draw(st.sampled_from(shapes))) for _ in range(draw(st.integers(1, 14)))]
    places = []
    for name in draw(st.sampled_from(((), ("n1",), ("n2", "n1", "n3")))):
        marks = {ZONE: draw(zones), **draw(st.sampled_from(({}, {HOST: f"host-{name}"}, {TEAM: "r"})))}
        free = parse_amounts({"cpu": draw(st.sampled_from(("1", "2"))), "memory": "8Gi", "pods": "3"})
        place = ExistingNode(name, "Node", marks, draw(taints), free, initialized=draw(st.booleans()))
        place.pods = [made(draw(st.sampled_from(shapes))) for _ in range(draw(st.integers(0, 2)))]
        places.append(place)
    volumes = {}
    if draw(st.integers(0, 3)) == 0:
        found = [term["matchExpressions"] for term in draw(st.lists(terms, min_size=1, max_size=2))]
        volumes = {pods[0]["metadata"]["uid"]: [from_expressions(each) for each in found]}
    offered = [draw(pools(name)) for name in draw(st.sampled_from((("p",), ("p", "q"))))]
    namespaces = {"one": {"kind": "shared"}, "two": {}}
    return SchedulingInput(pods, places, offered, namespaces=namespaces, volume_requirements=volumes)


def agree(question: SchedulingInput) -> None:
    before = copy.deepcopy(question)
    claims, placed, failed = Plain(copy.deepcopy(question)).run()
    found = simulate(question)
    assert {pod["metadata"]["uid"]: name for pod, _, name in found.nominations} == placed
    assert [(each.pool, sorted(pod["metadata"]["uid"] for pod in each.pods)) for each in found.new_node_claims] == [
        (name, pods) for name, _, pods in claims
    ]
    assert [sorted(each.types) for each in found.new_node_claims] == [types for _, types, _ in claims]
    assert {pod["metadata"]["uid"] for pod, _ in found.failures} == failed
    assert question.existing_nodes == before.existing_nodes, "it only reads"


@settings(derandomize=True, deadline=None, max_examples=60)
@given(questions())
def test_it_decides_as_the_plain_reading_does(question: SchedulingInput) -> None:
    agree(question)


@pytest.mark.soak
@settings(deadline=None, max_examples=2000)
@given(questions())
def test_it_decides_as_the_plain_reading_does_for_long(question: SchedulingInput) -> None:
    agree(question)
