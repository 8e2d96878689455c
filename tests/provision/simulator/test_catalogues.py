"""The catalogues equal upstream's, and files are parsed as by KWOK."""

from __future__ import annotations

import orjson
import pytest

from shoal.fit.resources import parse_amounts
from shoal.kinds.karpenter.karpenter import CAPACITY_TYPE, ZONE
from shoal.provision.cloudprovider.types import InstanceType
from shoal.provision.simulator import catalogues, fake
from shoal.provision.simulator.catalogues import CATALOGUES, parse_catalogue


def prices(kind: InstanceType) -> dict[tuple[str, str], float]:
    return {(each.labels[ZONE], each.labels[CAPACITY_TYPE]): each.price for each in kind.offerings}


def test_kwok() -> None:
    types = {each.name: each for each in catalogues.kwok_types()}
    assert len(types) == 144
    smallest, largest = types["c-1x-amd64-linux"], types["m-256x-arm64-windows"]
    assert len(smallest.offerings) == 8
    assert prices(smallest)["test-zone-a", "on-demand"] == pytest.approx(0.027147, abs=1e-6)
    assert prices(smallest)["test-zone-d", "spot"] == pytest.approx(0.019003, abs=1e-6)
    assert max(each.price for kind in types.values() for each in kind.offerings) == pytest.approx(8.599, abs=1e-3)
    assert smallest.allocatable == parse_amounts(
        {"cpu": "900m", "memory": "2038Mi", "pods": "16", "ephemeral-storage": "20Gi"}
    )
    assert largest.capacity["pods"] == 1024
    assert largest.requirements["karpenter.kwok.sh/instance-family"].values == {"m"}
    assert largest.requirements["karpenter.kwok.sh/instance-memory"].values == {"2Ti"}, "as quantities are written"
    assert len(catalogues.kwok_linux_amd64_types()) == 36
    assert max(each.capacity["cpu"] for each in catalogues.kwok_small_types()) == 16_000


def test_those_of_karpenters_tests() -> None:
    small = next(each for each in fake.fake_types() if each.name == "small-instance-type")
    assert set(prices(small)) == {
        *((f"test-zone-{number}", "spot") for number in (1, 2)),
        *((f"test-zone-{number}", "on-demand") for number in (1, 2, 3)),
    }
    assert list(prices(small).values()) == pytest.approx([0.2 + 0.1 * 2 * 2**30 / 1e9] * 5)
    assert small.requirements["kubernetes.io/os"].values == {"linux", "windows", "darwin"}
    assert small.requirements["special"].allows_absent
    gpu = next(each for each in fake.fake_types() if each.name == "gpu-vendor-instance-type")
    assert gpu.offerings[0].price == pytest.approx(1.4 + 0.1 * 4 * 2**30 / 1e9)
    last = fake.increasing_fake_types(400)[-1]
    assert (last.name, last.capacity["cpu"], last.capacity["pods"]) == ("fake-it-399", 400_000, 4_000)
    assert len(fake.assorted_fake_types()) == 1344
    assert all(len(each.offerings) == 1 for each in fake.assorted_fake_types())


def test_one_like_a_clouds_list() -> None:
    types = {each.name: each for each in catalogues.public_cloud_types()}
    assert len(types) == 24
    general = prices(types["general-8"])
    assert general["cloud-a", "on-demand"] == pytest.approx(0.384)
    assert general["cloud-a", "spot"] < general["cloud-b", "spot"] < general["cloud-c", "spot"]
    share = {name: types[name].allocatable["memory"] / types[name].capacity["memory"] for name in types}
    assert share["compute-2"] < share["compute-16"]
    assert types["compute-2"].allocatable["cpu"] == 1930


@pytest.mark.parametrize("name", CATALOGUES)
def test_every_type_says_what_the_contract_wants(name: str) -> None:
    types = CATALOGUES[name]()
    assert len({each.name for each in types}) == len(types)
    for kind in types:
        assert kind.requirements["node.kubernetes.io/instance-type"].values == {kind.name}
        assert all({ZONE, CAPACITY_TYPE} <= set(each.labels) and each.price > 0 for each in kind.offerings)
    assert len({each.name for kind in types for each in kind.offerings}) == sum(len(kind.offerings) for kind in types)


def test_a_file() -> None:
    where = [
        {"key": CAPACITY_TYPE, "operator": "In", "values": ["spot"]},
        {"key": ZONE, "operator": "In", "values": ["z"]},
    ]
    said = {
        "name": "m.large",
        "architecture": "arm64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": "2", "memory": "8Gi"},
        "offerings": [{"Price": 0.1, "Available": True, "Requirements": where}],
    }
    (found,) = parse_catalogue(orjson.dumps([said]))
    assert (found.name, found.capacity["pods"], prices(found)) == ("m.large", 110, {("z", "spot"): 0.1})
    assert found.requirements["kubernetes.io/arch"].values == {"arm64"}
    about = {
        key: found.requirements[f"karpenter.kwok.sh/instance-{key}"].any_value() for key in ("family", "size", "cpu")
    }
    assert about == {"family": "m", "size": "large", "cpu": "2"}
    with pytest.raises(ValueError, match="of the catalogue lacks 'offerings'"):
        parse_catalogue(orjson.dumps([{key: value for key, value in said.items() if key != "offerings"}]))
    with pytest.raises(ValueError, match="a catalogue must be a list"):
        parse_catalogue(b"{}")
