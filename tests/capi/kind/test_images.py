"""Images of the container engine in the nodes of kind clusters: loaded, loaded again, missing, and failures."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from shoal.capi.providers.kind.command import KindCommand
from shoal.capi.providers.kind.errors import KindError
from shoal.runtime.event_recorder import EVENTS
from tests.capi.kind.fake_kind import Standin
from tests.capi.kind.kind_environment import Place, condition, kind_cluster

Object = dict[str, Any]
IMAGES = "ImagesLoaded"

pytestmark = pytest.mark.anyio


async def images_say(place: Place, message: str) -> Object:
    async def look() -> Object | None:
        obj = await place.get("a")
        return obj if condition(obj, IMAGES).get("message") == message else None

    found = await place.eventually(look)
    assert found is not None
    return found


async def test_images_are_loaded_and_the_missing_ones_named(place: Place) -> None:
    place.standin.image("app:1", "sha256:1")
    place.standin.image("registry.example/team/db:2", "sha256:2")
    await place.create(kind_cluster("a", images=["app:1", "registry.example/team/db:2", "late:3"]))
    obj = await images_say(
        place,
        "missing in the container engine: late:3; loaded into all nodes: app:1, registry.example/team/db:2",
    )
    assert (condition(obj, IMAGES)["status"], condition(obj, IMAGES)["reason"]) == ("False", "ImagesMissing")
    assert condition(obj)["status"] == "True"
    assert "progress" not in obj["status"]
    assert sorted(place.standin.loaded("a")) == ["app:1=sha256:1", "registry.example/team/db:2=sha256:2"]
    assert obj["status"]["cluster"]["images"] == [
        {"name": "app:1", "id": "sha256:1"},
        {"name": "registry.example/team/db:2", "id": "sha256:2"},
    ]
    # It comes, and is the only one that is loaded.
    place.standin.image("late:3", "sha256:3")
    await place.step(60)
    obj = await images_say(place, "loaded into all nodes: app:1, registry.example/team/db:2, late:3")
    assert (condition(obj, IMAGES)["status"], condition(obj, IMAGES)["reason"]) == ("True", "Loaded")
    assert place.standin.loaded("a")[2:] == ["late:3=sha256:3"]

    async def all_told() -> bool:
        events, _ = await place.client.list_all(EVENTS, "default")
        told = {(each["type"], each["message"]) for each in events}
        return told >= {
            ("Normal", "Loading late:3 into cluster a"),
            ("Normal", "Loaded late:3 into cluster a"),
        }

    await place.eventually(all_told)


async def test_an_image_that_changes_is_loaded_again(place: Place) -> None:
    place.standin.image("app:1", "sha256:1")
    await place.create(kind_cluster("a", images=["app:1"]))
    await images_say(place, "loaded into all nodes: app:1")
    for _ in range(2):
        await place.step(60)
        await place.until(lambda: place.standin.calls()[-1] == "get clusters")
    assert place.standin.loaded("a") == ["app:1=sha256:1"]
    place.standin.image("app:1", "sha256:other")
    await place.step(60)
    await place.until(lambda: place.standin.loaded("a") == ["app:1=sha256:1", "app:1=sha256:other"])

    async def recorded() -> bool:
        images = (await place.get("a"))["status"]["cluster"]["images"]
        return bool(images == [{"name": "app:1", "id": "sha256:other"}])

    await place.eventually(recorded)
    # One that the engine no longer has stays in the nodes.
    place.standin.remove_image("app:1")
    await place.step(60)
    obj = await images_say(place, "loaded into all nodes: app:1; no longer in the container engine: app:1")
    assert condition(obj, IMAGES)["status"] == "True"
    # One that is no longer asked for is not looked at.
    await place.merge("a", {"spec": {"images": None}})

    async def forgotten() -> bool:
        return condition(await place.get("a"), IMAGES) == {}

    await place.eventually(forgotten)


async def test_other_nodes_get_the_images_anew(place: Place) -> None:
    place.standin.image("app:1", "sha256:1")
    await place.create(kind_cluster("a", images=["app:1"], replacePolicy="Replace"))
    await images_say(place, "loaded into all nodes: app:1")
    place.standin.write("hold-create")
    await place.merge("a", {"spec": {"kubernetesVersion": "1.22"}})
    obj = await place.says("a", "Creating")
    assert condition(obj, IMAGES) == {}
    assert place.standin.loaded("a") == []
    place.standin.unlink("hold-create")
    await images_say(place, "loaded into all nodes: app:1")
    assert place.standin.loaded("a") == ["app:1=sha256:1"]


async def test_a_load_that_fails_is_told_and_tried_again(place: Place) -> None:
    place.standin.image("app:1", "sha256:1")
    place.standin.write("fail-load", "ctr: write /var/lib/containerd/x: no space left on device")
    await place.create(kind_cluster("a", images=["app:1"]))
    obj = await place.says("a", "NoSpaceLeft", IMAGES)
    assert condition(obj, IMAGES)["message"] == (
        "app:1 cannot be loaded: a disk is full, make room on it: kind load docker-image: failed to load image: "
        "ctr: write /var/lib/containerd/x: no space left on device"
    )
    assert condition(obj)["status"] == "True"
    place.standin.write("fail-load", "broken pipe")
    await place.step(10)
    obj = await place.says("a", "LoadFailed", IMAGES)
    assert obj["status"]["retry"]["attempts"] == 2
    assert [entry["reason"] for entry in obj["status"]["history"]][-2:] == ["NoSpaceLeft", "LoadFailed"]

    async def warned() -> bool:
        events, _ = await place.client.list_all(EVENTS, "default")
        return ("Warning", "LoadFailed") in {(each["type"], each["reason"]) for each in events}

    await place.eventually(warned)
    calls = len(place.standin.calls("load"))
    await place.step(19)
    assert len(place.standin.calls("load")) == calls
    place.standin.unlink("fail-load")
    await place.step(1)
    obj = await images_say(place, "loaded into all nodes: app:1")
    assert "retry" not in obj["status"]


async def test_deleted_while_images_are_loaded(place: Place) -> None:
    place.standin.image("app:1", "sha256:1")
    place.standin.write("hold-load")
    await place.create(kind_cluster("a", images=["app:1"]))
    obj = await place.says("a", "Loading", IMAGES)
    assert condition(obj, IMAGES)["message"] == "loading app:1"
    assert condition(obj)["status"] == "True"
    await place.delete("a")
    await place.gone("a")
    assert place.standin.clusters() == []


async def test_a_load_that_was_interrupted_is_done_again(still: Place) -> None:
    still.standin.image("app:1", "sha256:1")
    still.standin.write("hold-load")
    still.start()
    await still.create(kind_cluster("a", images=["app:1"]))
    await still.says("a", "Loading", IMAGES)
    await still.stop()
    still.standin.unlink("hold-load")
    still.start()
    await images_say(still, "loaded into all nodes: app:1")
    assert still.standin.calls("create") == ["create cluster a"]


async def test_nothing_is_loaded_into_a_cluster_of_others(place: Place) -> None:
    await place.create(kind_cluster("a"))
    await place.ready("a")
    place.standin.remove("a")
    place.standin.make("a")
    place.standin.image("app:1", "sha256:1")
    await place.merge("a", {"spec": {"images": ["app:1"]}})
    await place.says("a", "ForeignCluster")
    assert place.standin.calls("load") == []


async def test_an_engine_that_is_down_loses_no_image(place: Place) -> None:
    place.standin.image("app:1", "sha256:1")
    await place.create(kind_cluster("a", images=["app:1"]))
    await images_say(place, "loaded into all nodes: app:1")
    place.standin.write("down")
    await place.step(60)
    await place.says("a", "EngineUnavailable")
    place.standin.unlink("down")
    await place.step(60)
    await place.ready("a")
    await images_say(place, "loaded into all nodes: app:1")
    assert place.standin.loaded("a") == ["app:1=sha256:1"]


def directories(parent: Path) -> list[str]:
    return [path.name for path in parent.iterdir() if "shoal-kind" in path.name]


async def test_images_of_an_engine_that_kind_does_not_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kind asks docker alone, so images of podman take the way of an archive."""
    standin = Standin(tmp_path)
    podman, calls = standin.program.with_name("podman"), tmp_path / "podman-calls"
    podman.write_text(
        f"#!{sys.executable} -SE\nimport sys\n"
        f"open({str(calls)!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))\n"
        "if sys.argv[-1] == 'nowhere:1': sys.exit('Error: nowhere:1: image not known')\n"
        "if sys.argv[-1] == 'broken:1': sys.exit('Error: storage: input/output error')\n"
        "if sys.argv[1] == 'save': open(sys.argv[3], 'w').write('archive of ' + sys.argv[-1])\n"
        "else: print('sha256:9')\n"
    )
    podman.chmod(0o755)
    seen = tmp_path / "seen"
    standin.program.write_text(f'#!/bin/sh\necho "$@" >> {seen}; cat "$5" >> {seen}\n')
    environment = {**standin.environment, "PATH": f"{standin.path}:{os.environ['PATH']}"}
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    command = KindCommand(engine="podman", environment=environment)
    assert await command.image_ids(["app:1", "nowhere:1"]) == {"app:1": "sha256:9"}
    with pytest.raises(KindError) as raised:
        await command.image_ids(["broken:1"])
    assert raised.value.message == "podman image inspect: Error: storage: input/output error"
    await command.load_images("a", ["app:1"], print)
    line, _, content = seen.read_text().partition("\n")
    assert line.startswith("load image-archive --name a /")
    assert content == "archive of app:1"
    assert directories(tmp_path) == []
    assert "save --output" in calls.read_text()
