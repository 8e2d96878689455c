"""Data of earlier releases, opened by this one; and data of a newer one, refused (docs/upgrading.md).

Each archive in `data/` was written by the release it is named after (scripts/release_data.py), the first of them by
this one: a data directory with a worker's in it, the key its Secrets are encrypted with, and what was in it.
"""

from __future__ import annotations

import json
import sqlite3
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.assemble.commands.fsck import fsck
from shoal.assemble.server.hub import HubWithWorkers, ShoalServer, ShoalServerSettings, StoreSettings
from shoal.client.rest import GroupVersionResource
from shoal.objects.errors import ShoalError
from shoal.store.sqlite.file import FILE_NAME, FORMAT_VERSION
from tests.serving import Cluster, Server

ARCHIVES = sorted((Path(__file__).parent / "data").glob("*.tar.gz"))
MAPS = "/api/v1/namespaces/shop/configmaps"
MANAGED = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/default/managedclusters/east"
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
LARGEST = 200_000
Object = dict[str, Any]


@pytest.fixture(params=ARCHIVES, ids=lambda archive: archive.name.removesuffix(".tar.gz"))
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder it left, with `expected.json` in it."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    for path in (tmp_path / "data", tmp_path / "keys"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return tmp_path


@pytest.fixture
def expected(release: Path) -> Object:
    found: Object = json.loads((release / "expected.json").read_text())
    return found


def sealed(release: Path) -> StoreSettings:
    return StoreSettings(encryption_key_file=str(release / "keys"))


@pytest.fixture
def served(release: Path) -> Iterator[Server]:
    server = Server(release / "data", store=sealed(release))
    yield server
    server.stop()


def test_archives_are_small_and_there_is_one_of_this_format() -> None:
    assert ARCHIVES
    assert all(archive.stat().st_size < LARGEST for archive in ARCHIVES)


def test_its_files_are_sound(release: Path, expected: Object) -> None:
    for name, revision in expected["revisions"].items():
        checked = fsck(release / name, sealed(release))
        assert checked.is_sound, checked.findings
        assert (checked.revision, checked.encrypted > 0) == (revision, True), name
        assert checked.records > len(expected["objects"])


def test_every_object_reads_and_revisions_go_on(served: Server, expected: Object) -> None:
    anywhere = Cluster(served, "root")
    anywhere.prefix = ""
    kinds = set()
    for each in (each for each in expected["objects"] if each["server"] == "hub"):
        before, now = each["object"], anywhere.get(each["path"]).ok()
        kinds.add(before["kind"])
        assert now["metadata"]["uid"] == before["metadata"]["uid"], each["path"]
        part = before if each["still"] else {"spec": before["spec"]}
        assert lacking(part, now) == [], each["path"]
    assert kinds >= {"Secret", "Lease", "Widget", "CustomResourceDefinition", "ManagedCluster", "Worker", "Deployment"}

    # A client that was cut off by the upgrade goes on where it was.
    root, revision = Cluster(served, "root"), expected["revisions"]["data"]
    with root.watch(f"{MAPS}?resourceVersion={revision}&fieldSelector=metadata.name%3Dlater") as watch:
        made = root.post(MAPS, {"metadata": {"name": "later"}}).ok()
        event = watch.next()
    assert (event["type"], event["object"]["metadata"]["uid"]) == ("ADDED", made["metadata"]["uid"])
    assert int(made["metadata"]["resourceVersion"]) > revision
    changed = root.patch(f"{MAPS}/settings", {"data": {"greeting": "changed"}}).ok()
    assert int(changed["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    for cluster in (anywhere, root):
        cluster.close()


def lacking(before: object, now: object, path: str = "") -> list[str]:
    """What was there and is not any more: a newer release may add fields, and changes none."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [line for name in before for line in lacking(before[name], now.get(name), f"{path}.{name}")]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [line for number, each in enumerate(before) for line in lacking(each, now[number], f"{path}[{number}]")]
    return [] if before == now else [f"{path}: {before!r} is {now!r}"]


def test_the_fleet_goes_on(release: Path, expected: Object, served: Server) -> None:
    """With its worker: the hosted cluster is the same one, and its controllers and nodes work on what they find."""
    up = HubWithWorkers(served.shoal, [])
    settings = ShoalServerSettings(release / "data", port=served.port, store=sealed(release))
    worker = served.call(up.start_worker("worker-1", settings, 10))
    root, inside = Cluster(served, "root"), worker.shoal.client("test")
    hosted = inside.in_cluster("default.east")
    try:
        (known,) = (each for each in expected["objects"] if each["server"] == "worker-1")
        own = served.call(inside.in_cluster("").get_path(known["path"]))
        assert own["metadata"]["uid"] == known["object"]["metadata"]["uid"]
        web = served.call(hosted.get(DEPLOYMENTS, "web--east", "default"))
        assert web["status"]["readyReplicas"] == 2
        more = {"metadata": {"name": "more"}, "spec": {**web["spec"], "replicas": 1}}
        served.call(hosted.create(DEPLOYMENTS, more, "default"))
        root.eventually(lambda: ready(served.call(hosted.get(DEPLOYMENTS, "more", "default"))) == 1)
        root.eventually(lambda: root.get(MANAGED)["status"].get("phase") == "Running")
    finally:
        root.close()
        served.call(worker.stop())


def ready(deployment: Object) -> int:
    return int((deployment.get("status") or {}).get("readyReplicas", 0))


# --- what a newer release left ---


def newer_directory(release: Path) -> str:
    (release / "data" / "format").write_text("2\n")
    return f"{release}/data has data format '2', this shoal supports up to 1"


def newer_store(release: Path) -> str:
    connection = sqlite3.connect(release / "data" / FILE_NAME)
    connection.execute("UPDATE meta SET value = ? WHERE name = 'format'", (FORMAT_VERSION + 1,))
    connection.commit()
    connection.close()
    return f"{release}/data/shoal.db has format {FORMAT_VERSION + 1}, this Shoal reads format {FORMAT_VERSION}"


@pytest.mark.parametrize("age", [newer_directory, newer_store])
@pytest.mark.anyio
async def test_newer_data_is_refused_and_left_alone(release: Path, age: Callable[[Path], str]) -> None:
    sentence = age(release)
    before = (release / "data" / FILE_NAME).read_bytes()
    with pytest.raises(ShoalError) as refused:
        await ShoalServer.start(ShoalServerSettings(release / "data", port=0, store=sealed(release)))
    assert str(refused.value) == sentence
    assert getattr(refused.value, "hint", "") == "use the newer shoal that wrote it"
    assert (release / "data" / FILE_NAME).read_bytes() == before


@pytest.mark.anyio
async def test_a_key_that_is_missing_is_asked_for(release: Path) -> None:
    with pytest.raises(ShoalError, match="encrypt"):
        await ShoalServer.start(ShoalServerSettings(release / "data", port=0))
