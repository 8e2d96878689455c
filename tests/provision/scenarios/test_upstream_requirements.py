"""Requirements, selectors and preferences, as in Karpenter's scheduling suite: custom and well-known labels."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.provision.simulator import fake
from tests.provision.scenarios.conftest import Make
from tests.provision.scenarios.words import (
    ARCH,
    ARM,
    CAPACITY,
    DEFAULT,
    HOST,
    ON_DEMAND,
    POOL,
    SMALL,
    SPOT,
    SYSTEM,
    TYPE,
    Z1,
    Z2,
    Z3,
    ZONE,
    absent,
    expression,
    outside,
    pod,
    pool,
    preference,
    term,
    there,
    within,
)

Object = dict[str, Any]

CUSTOM = {"test-key": "test-value"}
INTEGER = "integer"
BETA_TYPE = "beta.kubernetes.io/instance-type"


DEVICE = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}


def claiming(name: str) -> Object:
    """A container that wants a device: dynamic allocation is left to others."""
    return {"name": name, "image": "registry.example/main:1", "resources": {"claims": [{"name": "gpu"}]}}


# (what it says, requirements of the pool, labels of the pool, the pod, labels of its node or None: it gets none)
CASES: list[tuple[str, list[Object], Object, Object, Object | None]] = [
    ("pool labels are put on", [], CUSTOM, {}, CUSTOM),
    ("selector against pool labels", [], CUSTOM, {"select": {"test-key": "different"}}, None),
    ("selector of an undefined key", [], {}, {"select": CUSTOM}, None),
    ("In that includes the pool's label", [], CUSTOM, {"required": [within("test-key", "test-value", "b")]}, CUSTOM),
    ("In that excludes the pool's label", [], CUSTOM, {"required": [within("test-key", "b")]}, None),
    ("zone of the pool", [within(ZONE, Z2)], {}, {}, {ZONE: Z2}),
    ("zone of the selector", [within(ZONE, Z1, Z2)], {}, {"select": {ZONE: Z2}}, {ZONE: Z2}),
    ("hostname selector", [], {}, {"select": {HOST: "red-node"}}, None),
    ("unknown zone", [within(ZONE, Z1)], {}, {"select": {ZONE: "unknown"}}, None),
    ("zone outside of the pool's", [within(ZONE, Z1)], {}, {"select": {ZONE: Z2}}, None),
    ("In of a zone", [], {}, {"required": [within(ZONE, Z3)]}, {ZONE: Z3}),
    ("Gt of the pool", [expression(INTEGER, "Gt", "8")], {}, {}, {INTEGER: "16"}),
    ("Lt of the pool", [expression(INTEGER, "Lt", "8")], {}, {}, {INTEGER: "2"}),
    ("Gte of the pool", [expression(INTEGER, "Gte", "16")], {}, {}, {INTEGER: "16"}),
    ("Lte of the pool", [expression(INTEGER, "Lte", "2")], {}, {}, {INTEGER: "2"}),
    ("Gt of the pod", [], {}, {"required": [expression(INTEGER, "Gt", "8")]}, {INTEGER: "16"}),
    ("Lt of the pod", [], {}, {"required": [expression(INTEGER, "Lt", "4")]}, {INTEGER: "2"}),
    ("Gt that nothing satisfies", [], {}, {"required": [expression(INTEGER, "Gt", "16")]}, None),
    ("In of an unknown zone", [], {}, {"required": [within(ZONE, "unknown")]}, None),
    ("NotIn leaves one zone", [], {}, {"required": [outside(ZONE, Z1, Z2, "unknown")]}, {ZONE: Z3}),
    ("NotIn leaves no zone", [], {}, {"required": [outside(ZONE, Z1, Z2, Z3, "unknown")]}, None),
    (
        "preference within the requirement",
        [],
        {},
        {"required": [within(ZONE, Z1, Z2, Z3, "u")], "preferred": [preference(1, within(ZONE, Z2, "u"))]},
        {ZONE: Z2},
    ),
    (
        "preference that cannot be had",
        [],
        {},
        {"required": [within(ZONE, Z1, Z2, Z3, "u")], "preferred": [preference(1, within(ZONE, "u"))]},
        {},
    ),
    (
        "NotIn preference",
        [],
        {},
        {"required": [within(ZONE, Z1, Z2, Z3, "u")], "preferred": [preference(1, outside(ZONE, Z1, Z3))]},
        {ZONE: Z2},
    ),
    (
        "NotIn preference that leaves nothing",
        [],
        {},
        {"required": [within(ZONE, Z1, Z2, Z3, "u")], "preferred": [preference(1, outside(ZONE, Z1, Z2, Z3))]},
        {},
    ),
    (
        "selector, requirement and preference",
        [],
        {},
        {
            "select": {ZONE: Z3},
            "required": [within(ZONE, Z1, Z2, Z3)],
            "preferred": [preference(1, within(ZONE, Z1, Z2, Z3))],
        },
        {ZONE: Z3},
    ),
    (
        "several keys at once",
        [],
        {},
        {
            "select": {ZONE: Z3, TYPE: ARM},
            "required": [within(ZONE, Z1, Z3), within(TYPE, DEFAULT, ARM)],
            "preferred": [preference(1, outside(ZONE, "unknown"), outside(TYPE, "unknown"))],
        },
        {ZONE: Z3, TYPE: ARM},
    ),
    ("restricted label", [], {}, {"required": [within(HOST, "test")]}, None),
    ("restricted domain", [], {}, {"required": [within("karpenter.sh/test", "test")]}, None),
    ("label of kubernetes.io in the pool", [within("kubernetes.io/test", "v")], {}, {}, {"kubernetes.io/test": "v"}),
    ("label of a subdomain in the pool", [within("sub.k8s.io/test", "v")], {}, {}, {"sub.k8s.io/test": "v"}),
    ("arch", [], {}, {"select": {ARCH: "arm64"}}, {ARCH: "arm64", TYPE: ARM}),
    ("operating system", [], {}, {"select": {SYSTEM: "windows"}}, {SYSTEM: "windows"}),
    ("spot", [], {}, {"select": {CAPACITY: SPOT}}, {CAPACITY: SPOT}),
    ("on demand", [], {}, {"select": {CAPACITY: ON_DEMAND}}, {CAPACITY: ON_DEMAND}),
    ("type", [], {}, {"select": {TYPE: DEFAULT}}, {TYPE: DEFAULT}),
    ("type by the old label", [], {}, {"select": {BETA_TYPE: DEFAULT}}, {TYPE: DEFAULT}),
    ("NotIn of a defined key", [], CUSTOM, {"required": [outside("test-key", "test-value")]}, None),
    ("Exists of a defined key", [], CUSTOM, {"required": [there("test-key")]}, CUSTOM),
    ("DoesNotExist of a defined key", [], CUSTOM, {"required": [absent("test-key")]}, None),
    ("NotIn of another value", [], CUSTOM, {"required": [outside("test-key", "another")]}, CUSTOM),
    ("Exists does not widen", [], {}, {"required": [within(ZONE, "nowhere"), there(ZONE)]}, None),
    ("spot is not sold in that zone", [], {}, {"select": {CAPACITY: SPOT, ZONE: Z3}}, None),
    ("the last term stays", [within(ZONE, Z1), within(TYPE, DEFAULT)], {}, {"terms": [term(within(ZONE, "x"))]}, None),
    (
        "terms fall one after the other",
        [],
        {},
        {"terms": [term(within(ZONE, zone)) for zone in ("invalid", "invalid", Z1, Z2)]},
        {ZONE: Z1},
    ),
    (
        "all preferences fall",
        [],
        {},
        {"preferred": [preference(1, within(ZONE, "invalid")), preference(1, within(TYPE, "invalid"))]},
        {},
    ),
    (
        "preference against the requirement",
        [],
        {},
        {"preferred": [preference(1, outside(ZONE, Z3))], "required": [within(ZONE, Z3)]},
        {ZONE: Z3},
    ),
    (
        "preference against itself",
        [],
        {},
        {"preferred": [preference(1, within(ZONE, "invalid"), outside(ZONE, "invalid"))]},
        {},
    ),
    ("more than any type has", [], {}, {"cpu": "512"}, None),
    ("a type that the pool's arch excludes", [within(ARCH, "amd64")], {}, {"required": [within(TYPE, ARM)]}, None),
    (
        "a system that the pool's arch excludes",
        [within(ARCH, "amd64")],
        {},
        {"required": [within(SYSTEM, "ios")]},
        None,
    ),
    ("a size that the pool's arch excludes", [within(ARCH, "amd64")], {}, {"cpu": "14"}, None),
    ("a size for one arch only", [], {}, {"cpu": "14"}, {TYPE: ARM}),
    ("the provider's label", [], {}, {"select": {"size": "large"}}, {TYPE: ARM}),
    ("the provider's label, small", [], {}, {"select": {"size": "small"}}, {TYPE: SMALL}),
    ("labels of the provider that disagree", [], {}, {"select": {"size": "large", TYPE: SMALL}}, None),
    ("an optional label", [], {}, {"required": [there("special")]}, {TYPE: ARM, "special": "optional"}),
    ("without an optional label", [], {}, {"required": [absent("special")]}, {TYPE: SMALL}),
    ("a pod that wants a node of no pool", [], {}, {"required": [absent(POOL)]}, None),
    ("a pool by Exists", [], {}, {"required": [there(POOL)]}, {POOL: "default"}),
    ("a pool whose types do not exist", [within(TYPE, "none")], {}, {}, None),
    ("a pool whose requirements disagree", [within(ARCH, "arm64"), within(TYPE, DEFAULT)], {}, {}, None),
    ("a pool whose zones do not exist", [within(ZONE, "nowhere")], {}, {}, None),
    ("a custom key of the pool by Exists", [there("team")], {}, {"required": [there("team")]}, {"team": "0"}),
    ("a value of a custom key by Exists", [there("team")], {}, {"required": [within("team", "a")]}, {"team": "a"}),
    ("a value that the pool leaves out", [outside("team", "b")], {}, {"required": [within("team", "b")]}, None),
    (
        "another value than the pool leaves out",
        [outside("team", "b")],
        {},
        {"required": [within("team", "a")]},
        {"team": "a"},
    ),
    ("Gt of a custom key", [expression("gen", "Gt", "4")], {}, {"required": [within("gen", "5")]}, {"gen": "5"}),
    ("Gt of a custom key, below", [expression("gen", "Gt", "4")], {}, {"required": [within("gen", "4")]}, None),
    ("claims of devices", [], {}, {**DEVICE, "containers": [claiming("main")]}, None),
    ("claims of devices of an init container", [], {}, {**DEVICE, "initContainers": [claiming("init")]}, None),
    ("matchFields", [], {}, {"terms": [{"matchFields": [within("metadata.name", "n")]}]}, None),
]


@pytest.mark.parametrize(
    ("requirements", "labels", "asked", "found"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_one_pod(make: Make, requirements: list[Object], labels: Object, asked: Object, found: Object | None) -> None:
    world = make(pool("default", *requirements, **({"labels": labels} if labels else {})))
    wanted = pod(**asked)
    world.provision(wanted)
    if found is None:
        assert world.where(wanted) is None
        assert world.reason(wanted)
    else:
        has = world.labels_of(wanted)
        assert {key: has.get(key) for key in found} == found


BOTH_VALUES = pool("default", within("test-key", "test-value", "another-value"))


def test_compatible_pods_share_a_node(make: Make) -> None:
    world = make(BOTH_VALUES)
    one, two = pod(required=[within("test-key", "test-value")]), pod(required=[outside("test-key", "another-value")])
    world.provision(one, two)
    assert world.name_of(one) == world.name_of(two)
    assert world.labels_of(one)["test-key"] == "test-value"


def test_incompatible_pods_do_not(make: Make) -> None:
    world = make(BOTH_VALUES)
    one, two = (pod(required=[within("test-key", value)]) for value in ("test-value", "another-value"))
    world.provision(one, two)
    assert world.name_of(one) != world.name_of(two)
    assert (world.labels_of(one)["test-key"], world.labels_of(two)["test-key"]) == ("test-value", "another-value")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({ARCH: "amd64"}, {ARCH: "arm64"}),
        ({SYSTEM: "linux"}, {SYSTEM: "windows"}),
        ({TYPE: SMALL}, {TYPE: DEFAULT}),
        ({ZONE: Z1}, {ZONE: Z2}),
        ({CAPACITY: SPOT}, {CAPACITY: ON_DEMAND}),
    ],
    ids=["arch", "system", "type", "zone", "capacity type"],
)
def test_what_cannot_be_one_node(make: Make, one: dict[str, str], two: dict[str, str]) -> None:
    world = make(pool("default", within(ARCH, "arm64", "amd64")))
    first, second = pod(select=one), pod(select=two)
    world.provision(first, second)
    assert world.name_of(first) != world.name_of(second)


def test_labels_of_the_provider_choose_the_type(make: Make) -> None:
    world = make(types=fake.increasing_fake_types(5))
    large, small = pod(select={"size": "large"}), pod(select={"size": "small"})
    world.provision(large, small)
    assert (world.labels_of(large)[TYPE], world.labels_of(small)[TYPE]) == ("fake-it-4", "fake-it-0")
