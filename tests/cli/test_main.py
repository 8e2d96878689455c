"""The program around the commands: imports of help, completion, and the form of every failure."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from shoal.assemble.commands import provisioner as planning
from shoal.assemble.server import loops
from shoal.cli import main, provisioner
from shoal.cli.main import COMMANDS, shoal
from shoal.kinds.rbac.loop_accounts import LOOPS
from tests.faults.processes import HANG, command
from tests.serving import Cluster, Server

ROOT_GROUP = "rbac.authorization.k8s.io"

# --- what help loads ---

HEAVY = (
    "aiohttp",
    "asyncio",
    "grpc",
    "highspy",
    "nats",
    "numpy",
    "shoal.apiserver.server",
    "shoal.controlplane",
    "ssl",
    "uvloop",
)
LOOK = f"""
import importlib, sys
from shoal.cli.main import COMMANDS
for name in sys.argv[1:]:
    importlib.import_module("shoal.cli." + name.replace("-", ""))
    print(name, [module for module in {HEAVY} if module in sys.modules])
"""


def test_help_loads_nothing_that_takes_long() -> None:
    """All in one process: what any of them loads shows from there on."""
    looked = subprocess.run([sys.executable, "-c", LOOK, *COMMANDS], capture_output=True, text=True, timeout=HANG)
    assert looked.stderr == ""
    assert looked.stdout.splitlines() == [f"{name} []" for name in COMMANDS]


def test_what_help_says_without_loading_is_true() -> None:
    assert loops.DESCRIPTORS.keys() == LOOPS.keys()
    assert provisioner.PLANNERS == planning.PLANNERS
    assert planning.ProvisionerSettings().planner == provisioner.PLANNERS[-1]
    gates = provisioner.parse_feature_gates(None, None, "NodeRepair=true,SpotToSpotConsolidation=true")  # type: ignore[arg-type]
    settings = planning.ProvisionerSettings(**gates)  # type: ignore[arg-type]
    assert settings.node_repair
    assert settings.spot_to_spot_consolidation
    assert (planning.RESPECT, planning.IGNORE) == provisioner.PREFERENCE_POLICIES
    assert (planning.STRICT, planning.BEST_EFFORT) == provisioner.MIN_VALUES_POLICIES


# --- completion ---


def complete(words: str, number: int, shell: str = "bash") -> list[str]:
    environ = {
        **os.environ,
        main.COMPLETE_VARIABLE: f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(number),
    }
    done = subprocess.run(command(), capture_output=True, text=True, timeout=HANG, env=environ)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_commands_and_options_are_completed() -> None:
    assert complete("shoal to", 1) == ["plain,top"]
    assert "plain,--interval" in complete("shoal top --", 2)
    assert complete("shoal status -o ", 3)[:2] == ["plain,text", "plain,wide"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_own_words(shell: str, run_main: Main) -> None:
    code, out, err = run_main("completion", shell)
    assert (code, err) == (0, "")
    assert f"_SHOAL_COMPLETE={shell}_complete" in out
    assert "%(" not in out


# --- how it fails ---

Main = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_main(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Main:
    """The whole program, in this process: exit code, standard output, standard error."""
    monkeypatch.delenv("SHOAL_KUBECONFIG", raising=False)
    monkeypatch.setenv("SHOAL_DATA_DIR", "/nonexistent/shoal")

    def run(*arguments: str, program: str = "shoal") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [program, *arguments])
        with pytest.raises(SystemExit) as ended:
            main.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


@dataclass(frozen=True)
class Files:
    """Kubeconfigs, good and bad."""

    good: str
    powerless: str
    unknown: str
    """Of nobody that the hub knows."""
    silent: str
    """Of a hub that is not there."""
    distrusted: str
    """Of a hub with another authority."""
    no_context: str
    no_yaml: str
    executing: str


@pytest.fixture(scope="module")
def files(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("kubeconfigs")
    root = Cluster(server, "root")
    good = root.kubeconfig(folder / "good").read_text()
    unknown = root.kubeconfig(folder / "unknown", "not-a-token").read_text()
    path = "/api/v1/namespaces/default/serviceaccounts"
    root.post(path, {"metadata": {"name": "powerless"}}).ok()
    token = root.post(f"{path}/powerless/token", {"kind": "TokenRequest", "spec": {}}).ok()["status"]["token"]
    root.kubeconfig(folder / "powerless", token)
    root.close()
    authority = next(line for line in good.splitlines() if "certificate-authority-data" in line)
    texts = {
        "unknown": unknown,
        "silent": good.replace(f":{server.port}/", ":1/"),
        "distrusted": good.replace(authority + "\n", ""),
        "no_context": good.replace("current-context: shoal", "current-context: other"),
        "no_yaml": "a: [",
        "executing": good.replace("    token: ", "    exec: "),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return Files(*(str(folder / name) for name in Files.__dataclass_fields__))


def asking(file: str, *arguments: str) -> list[str]:
    return [*arguments, "--kubeconfig", file]


CASES: dict[str, tuple[Callable[[Files], list[str]], int, str, str]] = {
    "no command": (lambda _: ["nope"], 2, "No such command 'nope'.", "shoal --help"),
    "nearly": (lambda _: ["staus"], 2, "No such command 'staus'.", "shoal status --help"),
    "no option": (lambda _: ["apply"], 2, "Missing option '-f' / '--filename'.", "shoal apply --help"),
    "deep": (lambda _: ["join-token", "delete"], 2, "Missing argument 'TOKEN'.", "shoal join-token delete --help"),
    "no hub ever": (lambda _: ["status"], 1, "there is no kubeconfig in /nonexistent/shoal", "start Shoal once"),
    "no hub now": (
        lambda f: asking(f.silent, "status"),
        3,
        "the hub does not answer: https://127.0.0.1:1 cannot be reached",
        "start it",
    ),
    "another hub": (
        lambda f: asking(f.distrusted, "top", "--once"),
        3,
        "the hub does not answer: ",
        "belongs to another hub",
    ),
    "no file": (
        lambda _: asking("/nonexistent/file", "status"),
        1,
        "/nonexistent/file cannot be read",
        "shoal kubeconfig",
    ),
    "no yaml": (lambda f: asking(f.no_yaml, "tree", "pod", "x"), 1, "{no_yaml} cannot be read", "shoal kubeconfig"),
    "no context": (
        lambda f: asking(f.no_context, "status"),
        1,
        "{no_context} has no context named 'other'",
        "shoal kube",
    ),
    "a plugin": (lambda f: asking(f.executing, "status"), 1, "{executing}: users with exec are not supported", "shoal"),
    "unknown": (lambda f: asking(f.unknown, "status"), 4, "Unauthorized", "check the credentials in {unknown}"),
    "no rights": (
        lambda f: asking(f.powerless, "status"),
        4,
        "workers.infrastructure.cluster.x-k8s.io is forbidden",
        "the",
    ),
    "no rights to apply": (
        lambda f: asking(f.powerless, "apply", "-f", "examples/rbac.yaml"),
        4,
        "",
        "shoal kubeconfig prints the administrator's kubeconfig",
    ),
    "wrong kind": (
        lambda f: asking(f.good, "tree", "nothing", "x"),
        1,
        "the server has no kind 'nothing'",
        "as for kubectl",
    ),
    "no object": (lambda f: asking(f.good, "tree", "cm", "nobody"), 1, 'configmaps "nobody" not found', "-n selects"),
    "no cluster": (lambda f: asking(f.good, "kubeconfig", "nobody"), 1, "there is no managed cluster", "is it"),
    "no manifest": (
        lambda f: asking(f.good, "apply", "-f", "none.yaml"),
        1,
        "none.yaml cannot be read: no such file",
        "give a file",
    ),
    "no folder": (lambda _: ["reset", "--data-dir", "/nonexistent/x"], 1, "there is no data directory", "shoal reset"),
    "no log": (lambda _: ["logs", "worker-9"], 1, "there is no log worker-9", "the data directory has no"),
    "no duration": (
        lambda _: ["hub", "--shutdown-delay-duration", "soon"],
        2,
        "Invalid value for '--shutdown-delay-duration': soon: give a duration such as 10s or 1m30s",
        "shoal hub --help",
    ),
    "no network": (
        lambda _: ["worker", "--allow-egress", "10.0.0.1/8"],
        2,
        "Invalid value for '--allow-egress': 10.0.0.1/8 has host bits set: give networks such as 10.0.0.0/8,fd00::/8",
        "shoal worker --help",
    ),
    "no ports": (
        lambda _: ["up", "--cluster-ports", "80-90"],
        2,
        "Invalid value for '--cluster-ports': 80-90: give the first and the last port, from 1024 to 65535",
        "shoal up --help",
    ),
    "no place": (
        lambda _: ["up", "--listen", "here"],
        2,
        "--listen here: give an address and a port",
        "shoal up --help",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_and_a_hint(case: str, files: Files, run_main: Main) -> None:
    arguments, exit_code, sentence, hint = CASES[case]
    known = {name: getattr(files, name) for name in Files.__dataclass_fields__}
    code, out, err = run_main(*arguments(files))
    assert (code, out) == (exit_code, ""), err
    said = err.splitlines()
    assert said[-2 if hint else -1].startswith(f"error: {sentence.format_map(known)}")
    assert not hint or said[-1].startswith("hint: ")
    assert hint.format_map(known) in said[-1]
    assert all(line.startswith(("error: ", "hint: ")) for line in said), "nothing of Python's own"


def test_as_a_plugin_of_kubectl(run_main: Main) -> None:
    code, _, err = run_main("nope", program="/usr/bin/kubectl-shoal")
    assert (code, err.splitlines()[-1]) == (2, "hint: kubectl shoal --help")
    assert run_main(program="shoal")[0] == 0, "help, where nothing is asked"


def test_interrupted(run_main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shoal, "main", stop)
    assert run_main("top") == (130, "", "")


# --- in processes of their own ---


def tight() -> None:
    """No file may be larger than this: what a full disk says, without one."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))


def test_no_disk(tmp_path: Path) -> None:
    arguments = command("up", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    full = subprocess.run(arguments, capture_output=True, text=True, timeout=HANG, preexec_fn=tight)
    assert (full.returncode, full.stdout) == (1, "")
    assert full.stderr.splitlines() == [
        f"error: {tmp_path}/data/shoal.db cannot be opened: disk I/O error",
        f"hint: {main.NO_SPACE_HINT}",
    ]


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = subprocess.run(
        command("up", "--data-dir", str(tmp_path / "file" / "data")), capture_output=True, text=True, timeout=HANG
    )
    assert refused.returncode == 1
    assert refused.stderr == f"error: {tmp_path}/file/data: not a directory\n"


def test_who_reads_may_stop(files: Files) -> None:
    """As in `shoal … | head -0`."""
    process = subprocess.Popen(
        command("crds"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(HANG) == 1


def test_json_is_json_also_where_something_fails(files: Files, run_main: Main) -> None:
    code, out, _ = run_main(*asking(files.good, "status", "-o", "json"))
    assert json.loads(out).get("hub") is None
    assert (code, set(json.loads(out))) == (0, {"workers", "managed clusters", "workload clusters", "deployments"})
