"""Mistakes of users and machines: one sentence and a hint on standard error, the right exit code, no traceback.

tests/cli/test_main.py tests how the program fails in general. This is one table of cases that were found by trying:
files, credentials, names, permissions, and locations where a server cannot run.
"""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shoal.apiserver.pki.ca import CertificateAuthority
from shoal.cli import main
from shoal.clock import SystemClock
from tests.faults.processes import HANG, command
from tests.serving import Cluster, Object, Server

DONE, FAILED, USAGE, UNREACHABLE, DENIED = 0, 1, 2, 3, 4
Case = tuple[str, int, str, str]
"""The command line with the names of files in braces, the exit code, how the sentence begins, and what the hint has."""

MINE = "shoal kubeconfig prints the kubeconfig that shoal up wrote"
THEIRS = "check the file: kubectl config view"
KINDS = "kinds are"

KUBECONFIGS: dict[str, Case] = {
    "missing": ("status --kubeconfig {none}", FAILED, "{none} cannot be read: no such file or directory", MINE),
    "a folder": ("status --kubeconfig {folder}", FAILED, "{folder} cannot be read: is a directory", MINE),
    "empty": ("top --kubeconfig {empty}", FAILED, "{empty} is not a kubeconfig", MINE),
    "no text": ("status --kubeconfig {binary}", FAILED, "{binary} cannot be read: it is not text", MINE),
    "no yaml": ("tree cm x --kubeconfig {torn}", FAILED, "{torn} cannot be read: while parsing a flow", MINE),
    "no mapping": ("status --kubeconfig {listed}", FAILED, "{listed} is not a kubeconfig", MINE),
    "no list": ("status --kubeconfig {shapeless}", FAILED, "{shapeless} is not a kubeconfig: contexts is not", MINE),
    "no object": ("status --kubeconfig {wordy}", FAILED, "{wordy} is not a kubeconfig: the user 'shoal-admin'", MINE),
    "no current": ("status --kubeconfig {undecided}", FAILED, "{undecided} has no current context", MINE),
    "no such context": ("status --kubeconfig {astray}", FAILED, "{astray} has no context named 'other'", MINE),
    "no such user": ("status --kubeconfig {nobody}", FAILED, "{nobody} has no user named 'nobody'", MINE),
    "no https": ("status --kubeconfig {plain}", FAILED, "{plain}: the server must be an https URL, not 'http:", MINE),
    "no port": ("status --kubeconfig {portless}", FAILED, "{portless}: the server must be an https URL", MINE),
    "no base64": ("status --kubeconfig {garbled}", FAILED, "{garbled}: a certificate, key or token in it", MINE),
    "no file of CA": ("status --kubeconfig {lost}", FAILED, "{lost} refers to /nonexistent/ca.crt, which cannot", MINE),
    "wrong CA": (
        "status --kubeconfig {distrusted}",
        UNREACHABLE,
        "the hub does not answer: ",
        "belongs to another hub",
    ),
    "no hub": ("status --kubeconfig {silent}", UNREACHABLE, "the hub does not answer: ", "start it: shoal up"),
    "no such host": ("status --kubeconfig {nowhere}", UNREACHABLE, "the hub does not answer: ", "start it: shoal up"),
    "expired token": (
        "status --kubeconfig {expired}",
        DENIED,
        "Unauthorized",
        "check the credentials in {expired}",
    ),
    "worker": ("worker --hub-kubeconfig {torn}", FAILED, "{torn} cannot be read", THEIRS),
    "worker, wrong CA": (
        "worker --hub-kubeconfig {distrusted} --name w --data-dir {fresh}",
        UNREACHABLE,
        "the hub does not answer: ",
        "the kubeconfig belongs to another hub",
    ),
    "syncer": ("syncer --from-kubeconfig {good} --to-kubeconfig {torn} --cluster x", FAILED, "{torn} cannot", THEIRS),
    "syncer of nothing": ("syncer --from-kubeconfig {good} --cluster x", FAILED, "this process does not run", "--to-k"),
    "provisioner": (
        "provisioner --cluster a/b",
        FAILED,
        "this process does not run in a cluster",
        "provisioner --kube",
    ),
    "nodes": ("nodes --kubeconfig {torn}", FAILED, "{torn} cannot be read", THEIRS),
    "nodes, no server": ("nodes --kubeconfig {silent}", UNREACHABLE, "the API server does not answer: ", "{silent}"),
    "controllers": ("controllers --kubeconfig {distrusted}", UNREACHABLE, "the API server does not answer", "address"),
    "join-cluster": ("join-cluster x --kubeconfig-of-cluster {torn} --kubeconfig {good}", FAILED, "{torn} can", THEIRS),
    "backup": ("backup {unmade} --kubeconfig {silent}", UNREACHABLE, "the hub does not answer: ", "start it: shoal up"),
}
NAMES: dict[str, Case] = {
    "command": ("staus", USAGE, "No such command 'staus'.", "shoal status --help"),
    "flag": ("up --data-dri x", USAGE, "No such option '--data-dri'. Did you mean '--data-dir'?", "shoal up --help"),
    "argument": ("status extra", USAGE, "Got unexpected extra argument (extra)", "shoal status --help"),
    "output": (
        "status -o xml",
        USAGE,
        "Invalid value for '-o' / '--output': 'xml' is not one of",
        "shoal status --help",
    ),
    "number": ("up --workers many", USAGE, "Invalid value for '--workers'", "shoal up --help"),
    "deep output": ("join-token list -o xml", USAGE, "Invalid value for '-o'", "shoal join-token list --help"),
    "kind of tree": (
        "tree nothing x --kubeconfig {good}",
        FAILED,
        "the server has no kind 'nothing'",
        "as for kubectl",
    ),
    "kind of logs": (
        "logs nothing x --kubeconfig {good}",
        FAILED,
        "the server has no kind 'nothing'",
        "as for kubectl",
    ),
    "kind of explain": (
        "explain nothing x --kubeconfig {good}",
        FAILED,
        "the server has no kind 'nothing'",
        "as for kubectl",
    ),
    "kind applied": (
        "apply -f {unknown} --kubeconfig {good}",
        FAILED,
        "x: the hub does not serve Nope of v1",
        "register a cluster",
    ),
    "object": ("explain managedcluster x --kubeconfig {good}", FAILED, "managedclusters.infra", "shoal status lists"),
    "manifest": (
        "apply -f {none} --kubeconfig {good}",
        FAILED,
        "{none} cannot be read: no such file",
        "a directory, or -",
    ),
    "manifest, torn": (
        "apply -f {torn} --kubeconfig {good}",
        FAILED,
        "{torn} cannot be read: yaml: line 1: did not find",
        "YAML or",
    ),
    "manifest, binary": ("plan -f {binary} --kubeconfig {good}", FAILED, "{binary} cannot be read", "YAML or JSON"),
    "manifest, list": (
        "apply -f {listed} --kubeconfig {good}",
        FAILED,
        "{listed} contains a document that is not",
        "kind and",
    ),
    "manifest, empty": ("apply -f {empty} --kubeconfig {good}", FAILED, "there is nothing to apply", "no objects"),
    "folder of none": ("apply -f {folder} --kubeconfig {good}", FAILED, "{folder} has no manifests", ".yaml"),
    "backup over": ("backup {empty} --kubeconfig {good}", FAILED, "{empty} exists already", "another name"),
    "backup into": (
        "backup /nonexistent/x --kubeconfig {good}",
        FAILED,
        "/nonexistent is not a directory",
        "create it",
    ),
    "no backup": ("restore {binary} --data-dir {fresh}", FAILED, "{binary} is not a Shoal backup", "shoal backup FILE"),
    "no store": ("fsck --data-dir {folder}", FAILED, "{folder} contains no store", "--data-dir"),
    "no key": (
        "encrypt --data-dir {folder} --encryption-key-file {none}",
        FAILED,
        "--encryption-key-file {none} c",
        "keys",
    ),
    "not ours": ("reset --data-dir {folder} --yes", FAILED, "{folder} is not a Shoal data directory", "nothing was"),
    "no hub ever": ("status --data-dir {folder}", FAILED, "there is no kubeconfig in {folder}", "shoal up"),
    "token": ("join-token delete nope --kubeconfig {good}", USAGE, "give the id of a join token", "join-token delete"),
    "hash": ("worker --hub https://127.0.0.1:1", USAGE, "--hub requires --ca-hash", "shoal worker --help"),
}
ASKING = ("status", "top --once", "tree cm x", "logs cm x", "kubeconfig x", "explain managedcluster x")
MORE = ("plan -f examples/deployment.yaml", "apply -f examples/rbac.yaml", "backup {unmade}", "join-token create")
RIGHTS: dict[str, Case] = {
    words: (f"{words} --kubeconfig {{weak}}", DENIED, "", "") for words in (*ASKING, *MORE, "nodes --count 1")
}
CASES = {**KUBECONFIGS, **NAMES, **RIGHTS}


@dataclass
class Files:
    folder: Path
    server: Server

    def __post_init__(self) -> None:
        root = Cluster(self.server, "root")
        good = root.kubeconfig(self.folder / "good").read_text()
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        if root.get(f"{accounts}/weak").status == 404:
            root.post(accounts, {"metadata": {"name": "weak"}}).ok()
        token = root.post(f"{accounts}/weak/token", {"kind": "TokenRequest", "spec": {}}).ok()["status"]["token"]
        root.kubeconfig(self.folder / "weak", token)
        root.kubeconfig(self.folder / "expired", self._expired(root.get(f"{accounts}/weak").ok()))
        root.close()
        for name, text in self._spoilt(good).items():
            (self.folder / name).write_text(text)
        (self.folder / "binary").write_bytes(bytes(range(256)))
        (self.folder / "folder").mkdir()

    def _expired(self, account: Object) -> str:
        core = self.server.shoal.server.core
        return core.tokens.issue("root", account, (), 600, {}, core.clock.now() - 3600)[0]

    def _spoilt(self, good: str) -> dict[str, str]:
        (self.folder / "pki").mkdir()
        other = base64.b64encode(CertificateAuthority(self.folder / "pki", SystemClock()).certificate).decode()
        authority = next(line for line in good.splitlines() if "certificate-authority-data" in line)
        data, users = "    certificate-authority-data: ", good.partition("users:")[0]
        return {
            "empty": "",
            "torn": "a: [",
            "listed": "- a\n",
            "shapeless": "current-context: a\ncontexts: a\n",
            "wordy": f"{users}users: [{{name: shoal-admin, user: me}}]\n",
            "undecided": good.replace("current-context: shoal\n", ""),
            "astray": good.replace("current-context: shoal", "current-context: other"),
            "nobody": good.replace("user: shoal-admin", "user: nobody"),
            "plain": good.replace("https://", "http://"),
            "portless": good.replace(f":{self.server.port}/", ":port/"),
            "garbled": good.replace(authority, f"{data}'%%%'"),
            "lost": good.replace(authority, "    certificate-authority: /nonexistent/ca.crt"),
            "distrusted": good.replace(authority, f"{data}{other}"),
            "silent": good.replace(f":{self.server.port}/", ":1/"),
            "nowhere": good.replace("127.0.0.1", "no-such-host.invalid"),
            "unknown": "apiVersion: v1\nkind: Nope\nmetadata: {name: x}\n",
        }

    def __getitem__(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture(scope="module")
def files(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("bad"), server)


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_and_a_hint(
    case: str, files: Files, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, exit_code, sentence, hint = (part if isinstance(part, int) else filled(part, files) for part in CASES[case])
    monkeypatch.delenv("SHOAL_KUBECONFIG", raising=False)
    monkeypatch.setenv("SHOAL_DATA_DIR", "/nonexistent/shoal")
    monkeypatch.setattr(sys, "argv", ["shoal", *str(words).split()])
    with pytest.raises(SystemExit) as ended:
        main.main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (exit_code, ""), err
    told = err.splitlines()
    assert all(line.startswith(("error: ", "hint: ", "note: ")) for line in told), "nothing of Python's own"
    assert told[-2].startswith(f"error: {sentence}")
    assert told[-1].startswith("hint: ")
    assert str(hint) in told[-1]
    assert not files["unmade"].exists(), "nothing is left of what failed"


def filled(text: str, files: Files) -> str:
    names = {path.name: str(path) for path in files.folder.iterdir()}
    return text.format_map(names | {name: str(files[name]) for name in ("none", "fresh", "unmade")})


# --- places where a server cannot be ---


@dataclass
class ServerLocation:
    """Flags of `shoal up` for that location, and the expected message."""

    flags: list[str]
    sentence: str
    hint: str


def taken(folder: Path) -> Iterator[ServerLocation]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        flags = ["--data-dir", str(folder), "--listen", f"127.0.0.1:{port}"]
        yield ServerLocation(flags, f"cannot listen on 127.0.0.1:{port}: address already in use", "--listen HOST:PORT")


def no_such_address(folder: Path) -> Iterator[ServerLocation]:
    flags = ["--data-dir", str(folder), "--listen", "no-such-host.invalid:6443"]
    yield ServerLocation(flags, "cannot listen on no-such-host.invalid:6443: ", "--listen HOST:PORT")


def newer_data_dir(folder: Path) -> Iterator[ServerLocation]:
    (folder / "format").write_text("99\n")
    sentence = f"{folder} has data format '99', this shoal supports up to 2"
    yield ServerLocation(["--data-dir", str(folder)], sentence, "use the newer shoal that wrote it")


def full(folder: Path) -> Iterator[ServerLocation]:
    """A disk with no room for a store, where this user may mount one; else files may not grow."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a full disk (no right to mount one)")
    try:
        yield ServerLocation(
            ["--data-dir", str(folder)], "the store cannot be used now: ", "shoal doctor shows the free space"
        )
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def forbidden(folder: Path) -> Iterator[ServerLocation]:
    inside = folder / "data"
    if os.geteuid() != 0:
        folder.chmod(0o500)
    elif Path("/sys/kernel").is_dir():
        inside = Path("/sys/kernel/shoal")  # where root may not write either
    else:
        pytest.skip("a directory that root cannot write")
    yield ServerLocation(["--data-dir", str(inside)], f"{inside}: ", "give a directory that you may write to")
    folder.chmod(0o700)


def no_key(folder: Path) -> Iterator[ServerLocation]:
    flags = ["--data-dir", str(folder), "--encryption-key-file", "/nonexistent/keys"]
    yield ServerLocation(
        flags, "--encryption-key-file /nonexistent/keys cannot be read: no such file", "give a file of keys"
    )


PLACES: list[Callable[[Path], Iterator[ServerLocation]]] = [
    taken,
    no_such_address,
    newer_data_dir,
    full,
    forbidden,
    no_key,
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_server_says_why_it_cannot_be_there(
    place: Callable[[Path], Iterator[ServerLocation]], tmp_path: Path
) -> None:
    holding = place(tmp_path)
    wanted = next(holding)
    try:
        arguments = command("up", "--listen", "127.0.0.1:0", *wanted.flags)
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=HANG, check=False)
    finally:
        next(holding, None)
    assert (done.returncode, done.stdout) == (FAILED, ""), done.stderr
    sentence, hint = done.stderr.splitlines()
    assert sentence.startswith(f"error: {wanted.sentence}")
    assert hint.startswith("hint: ")
    assert wanted.hint in hint
