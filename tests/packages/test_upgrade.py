"""Data of earlier releases, opened by this one; and data of a newer one, refused (docs/upgrading.md).

Each archive in `data/` was written by the release it is named after (scripts/release_data.py), the first of them by
this one: a data directory with a worker's in it, the key its Secrets are encrypted with, and what was in it.
"""

from __future__ import annotations

import base64
import json
import socket
import sqlite3
import ssl
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.apiserver.pki.ca import CertificateAuthority
from shoal.assemble.commands import rotate_ca
from shoal.assemble.commands.fsck import fsck
from shoal.assemble.server.hub import HubWithWorkers, ShoalServer, ShoalServerSettings, StoreSettings
from shoal.assemble.workers.join import HubMembership
from shoal.client.kubeconfig import load_rest_config, new_client
from shoal.client.rest import GroupVersionResource
from shoal.client.tls import client_context
from shoal.client.transport import RESTConfig
from shoal.objects.errors import ShoalError
from shoal.store.sqlite.file import FILE_NAME, FORMAT_VERSION
from tests.certificates import issue_client, signer_of
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
    """Its clients have kubeconfigs from before the upgrade."""
    authority = (release / "data" / "pki" / "ca.crt").read_text()
    server = Server(release / "data", store=sealed(release))
    server.context = ssl.create_default_context(cadata=authority)
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


def test_the_authority_that_signed_for_tenants_is_retired(release: Path, served: Server) -> None:
    pki = release / "data" / "pki"
    former, current = (pki / "former-ca.crt").read_text(), (pki / "ca.crt").read_text()
    assert former != current
    assert not (pki / "service-account.key").exists()
    CertificateAuthority(pki).check_usable()  # the key is that of the new one
    # What Shoal writes now trusts the new authority alone, and asks for its certificate.
    config = yaml.safe_load((release / "data" / "kubeconfig").read_text())["clusters"][0]["cluster"]
    assert base64.b64decode(config["certificate-authority-data"]).decode() == current
    assert names(served, client_context(current, config["tls-server-name"]))
    with pytest.raises(ssl.SSLCertVerificationError):
        names(served, client_context(current))
    with pytest.raises(ssl.SSLCertVerificationError):
        names(served, client_context(former, config["tls-server-name"]))
    # A worker from before learns of it by the connection it has.
    assert names(served, client_context(former))
    (release / "worker").mkdir()
    served.call(_learns(served, release / "worker", former, current))

    assert rotate_ca.finish(release / "data") == ["former-serving.pem", "former-ca.crt"]
    reload = served.shoal.server.reload_serving_certificate
    assert reload is not None
    served.call(reload())
    assert names(served, client_context(current))
    with pytest.raises(ssl.SSLCertVerificationError):
        names(served, client_context(former))


async def _learns(served: Server, directory: Path, former: str, current: str) -> None:
    url = f"https://127.0.0.1:{served.port}"
    membership = HubMembership(
        directory / "hub.kubeconfig", "w", RESTConfig(url, client_context(former), "", former), ""
    )
    await served.shoal.server.core.keys.ensure_root_ca("root")
    issued = issue_client(signer_of(served.shoal.server.core.keys, "root"), "worker", cluster="root")
    membership.save_certificate(issued.certificate.decode(), issued.key)
    await membership.refresh_hub_ca()
    assert (membership.endpoint.ca_pem, membership.endpoint.server_name) == (current, "shoal-server")
    found = load_rest_config(directory / "hub.kubeconfig")
    assert (found.ca_pem, found.server_name) == (current, "shoal-server")
    client = new_client(found, "test")
    try:
        await client.get_path("/version")
    finally:
        await client.close()


def names(served: Server, context: ssl.SSLContext) -> bool:
    """Opens a connection as a client with that trust does."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    end = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        while True:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                incoming.write(connection.recv(65536))
            else:
                return True


def ready(deployment: Object) -> int:
    return int((deployment.get("status") or {}).get("readyReplicas", 0))


# --- what a newer release left ---


def newer_directory(release: Path) -> str:
    (release / "data" / "format").write_text("3\n")
    return f"{release}/data has data format '3', this shoal supports up to 2"


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
