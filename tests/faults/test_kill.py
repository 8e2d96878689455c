"""kill -9 under load: nothing acknowledged is lost, no revision is given twice, watches go on where they were."""

from __future__ import annotations

import http.client
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import Client, Refused, Up
from tests.serving import WIDGETS, config_map, widget, widget_definition

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATHS = (CONFIG_MAPS, WIDGETS)
LOST = (OSError, http.client.HTTPException)

Object = dict[str, Any]
Place = tuple[str, str]
"""Collection path and name."""


def value_of(obj: Object) -> str:
    return str(obj["data"]["v"]) if obj["kind"] == "ConfigMap" else str(obj["spec"]["size"])


def object_with(place: Place, value: str) -> Object:
    path, name = place
    return config_map(name, {"v": value}) if path == CONFIG_MAPS else widget(name, int(value))


class Model:
    """What is known to be true of the store, and every state that anybody has seen."""

    def __init__(self) -> None:
        self.states: dict[int, tuple[Place, str]] = {}
        self.highest = 0
        self._lock = threading.Lock()

    def saw(self, place: Place, obj: Object, *, deleted: bool = False) -> int:
        revision = int(obj["metadata"]["resourceVersion"])
        state = place, "deleted" if deleted else value_of(obj)
        with self._lock:
            assert self.states.setdefault(revision, state) == state, "two states share a revision"
            self.highest = max(self.highest, revision)
        return revision


class Writer:
    """The only writer of its objects, so that it knows what they must be."""

    def __init__(self, number: int, model: Model) -> None:
        self._dice = random.Random(number)
        self._model = model
        self._places = [(path, f"w{number}-{each}") for path in PATHS for each in range(4)]
        self._count = number * 1_000_000
        self.known: dict[Place, tuple[int, str]] = {}
        self.open: tuple[Place, str] | None = None
        """Sent, and not answered."""
        self.acknowledged = 0

    def run(self, client: Client) -> None:
        try:
            while True:
                self._write(client)
        except LOST:
            client.close()

    def _write(self, client: Client) -> None:
        place = self._dice.choice(self._places)
        path, name = place
        before = self.known.get(place)
        self._count += 1
        value = str(self._count)
        if before is not None and self._dice.random() < 0.2:
            self.open = place, ""
            client.request("DELETE", f"{path}/{name}")
            del self.known[place]
        else:
            self.open = place, value
            obj = object_with(place, value)
            if before is None:
                made = client.request("POST", path, obj)
            else:
                obj["metadata"]["resourceVersion"] = str(before[0])
                made = client.request("PUT", f"{path}/{name}", obj)
            self.known[place] = self._model.saw(place, made), value
        self.open = None
        self.acknowledged += 1

    def check(self, client: Client) -> None:
        """After a restart: each object is as last acknowledged, or as the one open request would have made it."""
        for place in self._places:
            found = self._look(client, place)
            if self.open is not None and self.open[0] == place and (found[1] if found else "") == self.open[1]:
                if found:
                    self.known[place] = found
                else:
                    self.known.pop(place, None)
            assert found == self.known.get(place)
        self.open = None

    def _look(self, client: Client, place: Place) -> tuple[int, str] | None:
        try:
            obj = client.request("GET", "/".join(place))
        except Refused as refused:
            if refused.status == 404:
                return None
            raise
        return self._model.saw(place, obj), value_of(obj)


class Watcher:
    """One watch, resumed after each restart from the last revision it saw."""

    def __init__(self, path: str, model: Model) -> None:
        self._path = path
        self._model = model
        self.revision = 0
        self.objects: dict[Place, tuple[int, str]] = {}

    def list(self, client: Client) -> dict[Place, tuple[int, str]]:
        found = client.request("GET", self._path)
        self._listed = int(found["metadata"]["resourceVersion"])
        kind = "ConfigMap" if self._path == CONFIG_MAPS else "Widget"
        objects = {}
        for item in found["items"]:
            place = self._path, item["metadata"]["name"]
            objects[place] = self._model.saw(place, {"kind": kind, **item}), value_of({"kind": kind, **item})
        return objects

    def begin(self, client: Client) -> None:
        self.objects = self.list(client)
        self.revision = self._listed

    def run(self, client: Client, until: str = "") -> None:
        """Until the connection breaks, or the object `until` is seen."""
        try:
            for event in client.watch(f"{self._path}?watch=1&resourceVersion={self.revision}"):
                if event["type"] == "BROKEN" or self._take(event) == until:
                    break
        except LOST:
            pass
        client.close()

    def _take(self, event: Object) -> str:
        obj, deleted = event["object"], event["type"] == "DELETED"
        place = self._path, obj["metadata"]["name"]
        revision = self._model.saw(place, obj, deleted=deleted)
        assert revision > self.revision, "an event came twice, or late"
        self.revision = revision
        assert (event["type"] == "ADDED") == (place not in self.objects), "an event is missing"
        if deleted:
            del self.objects[place]
        else:
            self.objects[place] = revision, value_of(obj)
        return str(place[1])


def load(up: Up, writers: list[Writer], watchers: list[Watcher], seconds: float) -> None:
    """Writes and watches until the process is killed in the midst of it."""
    runs = [watcher.run for watcher in watchers] + [writer.run for writer in writers]
    threads = [threading.Thread(target=run, args=(up.client(),)) for run in runs]
    for thread in threads:
        thread.start()
    enough = sum(writer.acknowledged for writer in writers) + 30
    time.sleep(seconds)
    while sum(writer.acknowledged for writer in writers) < enough:
        time.sleep(0.01)
    up.kill()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def check(up: Up, writers: list[Writer], watchers: list[Watcher], model: Model, number: int) -> None:
    client = up.client()
    for writer in writers:
        writer.check(client)
    highest = model.highest
    for watcher, path in zip(watchers, PATHS, strict=True):
        place = path, f"marker-{number}"
        made = client.request("POST", path, object_with(place, str(number + 1)))
        assert model.saw(place, made) > highest, "a revision came back"
        watcher.run(up.client(), until=place[1])
        assert watcher.objects == watcher.list(client), "the watch missed something"
    client.close()


def kill_often(data: Path, rounds: int, seed: int) -> None:
    dice = random.Random(seed)
    model = Model()
    writers = [Writer(number, model) for number in range(1, 5)]
    watchers = [Watcher(path, model) for path in PATHS]
    up = Up(data)
    client = up.client()
    client.request("POST", DEFINITIONS, widget_definition())
    for watcher in watchers:
        watcher.begin(client)
    client.close()
    port = up.port
    try:
        for number in range(rounds):
            load(up, writers, watchers, dice.uniform(0.05, 0.6))
            up = Up(data)
            assert up.port == port
            check(up, writers, watchers, model, number)
    finally:
        up.close()
    assert sum(writer.acknowledged for writer in writers) >= 30 * rounds


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    kill_often(tmp_path / "data", rounds=3, seed=1)


@pytest.mark.soak
def test_nothing_acknowledged_is_lost_in_fifty_rounds(tmp_path: Path) -> None:
    kill_often(tmp_path / "data", rounds=50, seed=2)
