"""The commands beside real servers: backups while they serve, restored stores served, Secrets encrypted on disk."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from shoal.assemble.commands.backup import BackupOptions, backup
from shoal.assemble.commands.encrypt import encrypt
from shoal.assemble.commands.restore import RestoreOptions, restore
from shoal.assemble.storage.config import StoreSettings
from shoal.assemble.storage.datadir import render_kubeconfig, write_private_file
from shoal.cli.main import shoal
from shoal.objects.errors import ShoalError, StoreError, Unauthorized
from shoal.store.encrypted.keys import EncryptionError, key_name
from tests.etcd import Etcd
from tests.serving import Cluster, Server, config_map, fresh_cluster

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
PLAIN = "a-word-nobody-may-find-on-disk"
SEALED_WORD = base64.b64encode(PLAIN.encode()).decode()


def secret(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"word": SEALED_WORD}}


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(shoal, [str(argument) for argument in arguments])
    if isinstance(result.exception, ShoalError):
        return 1, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.exit_code, result.output


def objects(cluster: Cluster, path: str) -> list[Any]:
    items = cluster.get(path).ok()["items"]
    for item in items:
        del item["metadata"]["resourceVersion"]
    return items  # type: ignore[no-any-return]


def on_disk(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(directory.glob("shoal.db*")))


def write_keys(file: Path, *keys: bytes) -> StoreSettings:
    file.write_text("".join(base64.b64encode(key).decode() + "\n" for key in keys))
    return StoreSettings(encryption_key_file=str(file))


def test_a_running_server_is_backed_up_and_another_goes_on_with_it(tmp_path: Path, etcd: Etcd) -> None:
    old, files = tmp_path / "old", [tmp_path / "by-directory", tmp_path / "by-server"]
    server = Server(old)
    try:
        team = fresh_cluster(server)
        for n in range(20):
            team.post(MAPS, config_map(f"m{n}", {"n": str(n)})).ok()
        team.post(SECRETS, secret("s")).ok()
        team.delete(f"{ROLES}/view").ok()
        seen = team.get(MAPS).ok()["metadata"]["resourceVersion"]
        server.call(server.shoal._controllers.stop())
        server.call(server.shoal.store.flush())  # what they had begun to write
        taken = [
            backup(BackupOptions(files[0], old, StoreSettings(), with_keys=True)),
            backup(BackupOptions(files[1], tmp_path, StoreSettings(), old / "kubeconfig", with_keys=True)),
        ]
        assert taken[0].header.store == taken[1].header.store == server.shoal.store.id
        assert (taken[0].records, taken[0].header.revision) == (taken[1].records, taken[1].header.revision)
        wrong = tmp_path / "wrong"
        write_private_file(wrong, render_kubeconfig(server.shoal.server.url, server.authority, "no-token"))
        assert outsiders_are_refused(team)
        with pytest.raises(Unauthorized):
            backup(BackupOptions(tmp_path / "none", tmp_path, StoreSettings(), wrong))
        ahead = BackupOptions(tmp_path / "none", tmp_path, StoreSettings(), old / "kubeconfig", revision=10**15)
        with pytest.raises(StoreError, match="is in the future"):
            backup(ahead)
        maps, token = objects(team, MAPS), server.token
        team.close()
    finally:
        server.stop()
    into_etcd = StoreSettings("etcd", (etcd.endpoint,), "/served")
    for file, store in zip(files, (StoreSettings(), into_etcd), strict=True):
        new = tmp_path / f"new-{store.kind}"
        assert restore(RestoreOptions(file, new, store)).restored_keys
        server = Server(new, store=store)
        try:
            assert server.token == token, "the keys came with the backup"
            again = Cluster(server, team.name)
            assert objects(again, MAPS) == maps
            assert again.get(f"{SECRETS}/s").ok()["data"] == {"word": SEALED_WORD}
            assert again.get(f"{ROLES}/view").status == 404
            assert again.get(f"{ROLES}/edit").status == 200
            with again.watch(f"{MAPS}?resourceVersion={seen}") as watch:
                event = watch.next()
            assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
            again.post(MAPS, config_map("after")).ok()
            again.close()
        finally:
            server.stop()
    code, output = run("fsck", "--data-dir", tmp_path / "new-sqlite")
    assert (code, "; sound" in output) == (0, True), output


def outsiders_are_refused(team: Cluster) -> bool:
    """The administrator of one logical cluster may not read all of them."""
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": "all"}, "roleRef": role, "subjects": [subject]}
    team.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).ok()
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    if team.get(f"{accounts}/default").status == 404:
        team.post(accounts, {"metadata": {"name": "default"}}).ok()
    token = team.post(f"{accounts}/default/token", {"spec": {}}).ok()["status"]["token"]
    assert team.request("GET", SECRETS, token=token).status == 200
    whole = Cluster(team.server, "root")
    whole.prefix = ""
    answers = [whole.request("GET", "/backup", token=token).status, whole.request("GET", "/backup", token="").status]
    answers += [whole.request("POST", "/backup").status, whole.request("GET", "/backup?revision=x").status]
    whole.close()
    assert answers == [401, 403, 405, 400]
    return True


def test_secrets_are_encrypted_and_keys_rotate(tmp_path: Path) -> None:
    directory, keys = tmp_path / "data", tmp_path / "keys"
    first, second = b"1" * 32, b"2" * 32

    def serve(settings: StoreSettings, name: str = "") -> list[str]:
        """Starts, makes that Secret, says which it can read, stops."""
        server = Server(directory, store=settings)
        try:
            root = Cluster(server, "root")
            if name:
                root.post(SECRETS, secret(name)).ok()
            items = root.get(SECRETS).ok()["items"]
            root.close()
            return [item["metadata"]["name"] for item in items if item["data"] == {"word": SEALED_WORD}]
        finally:
            server.stop()

    assert serve(StoreSettings(), "plain") == ["plain"]
    assert SEALED_WORD.encode() in on_disk(directory)
    assert serve(write_keys(keys, first), "sealed") == ["plain", "sealed"]
    code, output = run("fsck", "--data-dir", directory, "--encryption-key-file", keys)
    assert (code, "unencrypted values of encrypted kinds" in output) == (0, True), output
    assert run("encrypt", "--data-dir", directory, "--encryption-key-file", keys)[0] == 0
    assert SEALED_WORD.encode() not in on_disk(directory)
    with pytest.raises(
        EncryptionError, match=f"encrypted with the key {key_name(first)}, but no --encryption-key-file"
    ):
        Server(directory)
    with pytest.raises(
        EncryptionError, match=f"encrypted with the key {key_name(first)}, but .* holds only {key_name(second)}"
    ):
        Server(directory, store=write_keys(keys, second))
    assert serve(write_keys(keys, second, first), "third") == ["plain", "sealed", "third"]
    done = encrypt(directory, write_keys(keys, second, first))
    assert done.rewritten >= 2
    assert encrypt(directory, write_keys(keys, second, first)).rewritten == 0
    assert serve(write_keys(keys, second)) == ["plain", "sealed", "third"]
    copied = tmp_path / "file"
    backup(BackupOptions(copied, directory, StoreSettings()))
    with pytest.raises(EncryptionError, match=f"encrypted with the key {key_name(second)}"):
        restore(RestoreOptions(copied, tmp_path / "elsewhere", write_keys(keys, first)))
    assert not (tmp_path / "elsewhere").exists()
    restore(RestoreOptions(copied, tmp_path / "elsewhere", write_keys(keys, second)))
    assert SEALED_WORD.encode() not in on_disk(tmp_path / "elsewhere")
    code, output = run("fsck", "--data-dir", tmp_path / "elsewhere")
    assert (code, f"values not checked, encrypted with key {key_name(second)}: " in output) == (0, True), output
    encrypt(directory, write_keys(keys, second), decrypt=True)
    assert serve(StoreSettings()) == ["plain", "sealed", "third"]


def test_a_damaged_database_is_refused_with_what_to_do(tmp_path: Path) -> None:
    directory, file = tmp_path / "data", tmp_path / "file"
    Server(directory).stop()
    run("backup", file, "--data-dir", directory)
    database = directory / "shoal.db"
    whole = database.read_bytes()
    assert len(whole) > 2 * 8192
    for wrong in (whole[: len(whole) - 8192], whole[:8192] + b"\x55" * (len(whole) - 8192), b"not a database" * 900):
        database.write_bytes(wrong)
        with pytest.raises(StoreError) as refused:
            Server(directory)
        assert str(refused.value).startswith(f"{database} is ")
        code, output = run("fsck", "--data-dir", directory)
        assert code == 1
        assert "problem: " in output
        assert "shoal restore FILE --force-replace" in output
    database.unlink()
    with pytest.raises(StoreError, match=r"but shoal\.db is missing"):
        Server(directory)
    code, output = run("restore", file, "--data-dir", directory)
    assert (code, "contains a store already" in output) == (1, True), output
    code, output = run("restore", file, "--data-dir", directory, "--force-replace")
    assert code == 0, output
    Server(directory).stop()


def test_a_restore_that_did_not_end_is_not_taken_for_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, file = tmp_path / "data", tmp_path / "file"
    Server(directory).stop()
    run("backup", file, "--data-dir", directory)
    before = on_disk(directory)

    (directory / ".restoring").mkdir()
    (directory / ".restoring" / "shoal.db").write_bytes(b"half of one that was killed")

    def cut(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("shoal.assemble.commands.restore.create_restored_file", cut)
        with pytest.raises(OSError, match="No space left"):
            restore(RestoreOptions(file, directory, StoreSettings(), replace=True))
    assert on_disk(directory) == before
    assert not (directory / ".restoring").exists()
    restore(RestoreOptions(file, directory, StoreSettings(), replace=True))
    assert on_disk(directory / "replaced-1") == before
    Server(directory).stop()
