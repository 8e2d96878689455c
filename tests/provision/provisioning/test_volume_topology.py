"""Node requirements of volumes, and unusable volumes."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.provision.provisioning.volume_topology import UnusableVolumeError, volume_requirements

Object = dict[str, Any]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def claim(name: str, volume: str = "", storage_class: str = "", **metadata: Any) -> Object:
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}} if volume else {}
    spec = {
        **({"volumeName": volume} if volume else {}),
        **({"storageClassName": storage_class} if storage_class else {}),
    }
    return {"metadata": {"name": name, "namespace": "default", **bound, **metadata}, "spec": spec}


def volume(name: str, *terms: Object, **spec: Any) -> Object:
    listed = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": values} for key, values in each.items()]}
        for each in terms
    ]
    return {"metadata": {"name": name}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": listed}}, **spec}}


def storage_class(name: str, *zones: list[str], mode: str = "WaitForFirstConsumer") -> Object:
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": each}]} for each in zones]
    return {"metadata": {"name": name}, "volumeBindingMode": mode, "allowedTopologies": topologies}


CLAIMS = [
    claim("in-a", "v-a"),
    claim("a-or-b", "v-ab"),
    claim("local", "v-local"),
    claim("later", storage_class="zonal"),
    claim("anywhere", storage_class="plain"),
    claim("at-once", storage_class="at-once"),
    claim("unknown-class", storage_class="nope"),
    claim("no-class"),
    claim("lost-volume", "nope"),
    claim("unbound", "v-a", annotations={}),
    claim("going", "v-a", deletionTimestamp="x"),
    claim("web-data", "v-a"),
]
VOLUMES = [
    volume("v-a", {ZONE: ["a"]}),
    volume("v-ab", {ZONE: ["a"]}, {ZONE: ["b"]}),
    volume("v-local", {HOST: ["h"]}, local={}),
]
CLASSES = [storage_class("zonal", ["b", "c"]), storage_class("plain"), storage_class("at-once", mode="Immediate")]


def found(*names: str, **more: Any) -> list[str]:
    def of(many: list[Object]) -> Any:
        return lambda name, _: next((each for each in many if each["metadata"]["name"] == name), None)

    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    pod = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"volumes": [*volumes, *more.get("also", ())]}}
    return [str(each) for each in volume_requirements(pod, of(CLAIMS), of(VOLUMES), of(CLASSES))]


def test_a_volume_is_where_it_is_or_where_its_class_allows() -> None:
    assert found() == found("anywhere") == []
    assert found("in-a") == [f"{ZONE} In [a]"]
    assert found("a-or-b") == [f"{ZONE} In [a]", f"{ZONE} In [b]"]
    assert found("later") == [f"{ZONE} In [b, c]"]
    assert found("local") == [""], "its host will be another one"
    assert found(also=[{"name": "data", "ephemeral": {}}, {"name": "tmp", "emptyDir": {}}]) == [f"{ZONE} In [a]"]


def test_several_volumes_are_combined() -> None:
    assert found("a-or-b", "later") == [f"{ZONE} In [b]"]
    assert found("in-a", "later") == [f"{ZONE} In []"], "no node is in both: the pod will say so"
    assert found("in-a", "anywhere") == [f"{ZONE} In [a]"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nobody", 'persistentvolumeclaim "nobody" not found'),
        ("going", 'persistentvolumeclaim "going" is being deleted'),
        ("lost-volume", 'persistentvolumeclaim "lost-volume": persistentvolume "nope" not found'),
        ("unbound", 'persistentvolumeclaim "unbound" is not bound yet'),
        ("no-class", 'persistentvolumeclaim "no-class" is unbound and has no storage class'),
        ("unknown-class", 'persistentvolumeclaim "unknown-class": storage class "nope" not found'),
        (
            "at-once",
            'persistentvolumeclaim "at-once" is unbound, and its storage class has volumeBindingMode Immediate',
        ),
    ],
)
def test_what_nothing_can_be_done_about_is_said(name: str, said: str) -> None:
    with pytest.raises(UnusableVolumeError) as error:
        found(name)
    assert str(error.value) == said
